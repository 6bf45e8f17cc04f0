"""What people see of running work."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest
from django.test import Client

from farm.core import keys
from farm.core.storage import store
from farm.dispatch.models import Attempt, Pace, Quote
from farm.jobs.models import Job
from tests.api import Api, leave_tenant, raw_rows
from tests.farm import Customer, FakeWorker, attempts_of, dispatch, local_fleet, open_customer, start_worker, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    """Tokens are compared with the clock."""
    return datetime.now(UTC)


@pytest.fixture
def customer() -> Customer:
    local_fleet()
    return open_customer()


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


@pytest.fixture
def job(customer: Customer, now: datetime) -> Job:
    return submit(customer, frames="1-10", now=now)


@pytest.fixture
def worker(job: Job, now: datetime) -> FakeWorker:
    """A worker that has rendered the first frames of the job, two seconds each."""
    worker = start_worker(now=now, slots=3)
    dispatch(now=now)
    worker.sync(now=now)
    worker.finish_all(now=now)
    return worker


def said(attempt: Attempt, *pieces: bytes | None) -> None:
    """Give an attempt a log; None is a piece that never came."""
    for number, piece in enumerate(pieces):
        if piece is not None:
            store().write(keys.log_key(attempt.studio_id, attempt.id, number), piece)
    Attempt.objects.filter(pk=attempt.pk).update(log_chunks=len(pieces))


class TestQuotes:
    def test_reading_one_writes_nothing(self, api: Api, job: Job, worker: FakeWorker) -> None:
        (told,) = api.get(f"jobs/{job.id}/quotes").body

        assert (told["tasks"], told["slots"], told["worker_class"]) == (7, 1, "cpu")
        assert told["p10_micro"] < told["p50_micro"] < told["p90_micro"]
        assert not Quote.objects.exists()

    def test_one_that_is_asked_for_is_kept_and_told_from_then_on(self, api: Api, job: Job, worker: FakeWorker) -> None:
        asked = api.post(f"jobs/{job.id}/quotes", {"slots": 4}).body
        Pace.objects.update(recent_ms=[60_000])

        assert api.get(f"jobs/{job.id}/quotes").body == asked
        assert Quote.objects.get().slots == 4

    def test_for_a_number_of_slots_it_is_told_as_it_would_be(self, api: Api, job: Job, worker: FakeWorker) -> None:
        api.post(f"jobs/{job.id}/quotes")

        (told,) = api.get(f"jobs/{job.id}/quotes?slots=7").body

        assert (told["slots"], told["p50_s"]) == (7, 2)
        assert Quote.objects.count() == 1

    def test_before_the_first_frame_there_is_none(self, api: Api, job: Job) -> None:
        assert api.get(f"jobs/{job.id}/quotes").body == []
        assert api.post(f"jobs/{job.id}/quotes").body == []

    @pytest.mark.parametrize("slots", [0, 10_001, "x"])
    def test_slots_have_a_limit(self, api: Api, job: Job, slots: Any) -> None:
        assert api.get(f"jobs/{job.id}/quotes?slots={slots}").status == 422
        assert api.post(f"jobs/{job.id}/quotes", {"slots": slots}).status == 422


class TestForecasts:
    def test_each_job_comes_with_its_slots_time_and_quotes(
        self, api: Api, customer: Customer, job: Job, worker: FakeWorker, now: datetime
    ) -> None:
        still = submit(customer, suspended=True, now=now)
        api.post(f"jobs/{job.id}/quotes")
        dispatch(now=now)

        answer = api.get(f"forecasts?jobs={still.id},{job.id},{job.id}").body["results"]

        assert [(f["job"], f["slots"], f["eta_s"]) for f in answer] == [(str(still.id), 0, None), (str(job.id), 3, 5)]
        assert answer[0]["quotes"] == []
        assert answer[1]["quotes"] == api.get(f"jobs/{job.id}/quotes").body

    def test_another_studio_s_job_is_as_if_it_were_not_there(self, job: Job) -> None:
        assert Api(open_customer()).get(f"forecasts?jobs={job.id}").body == {"results": []}

    @pytest.mark.parametrize("jobs", ["", "x", ",".join(["01890000-0000-7000-8000-000000000000"] * 201)])
    def test_it_must_be_said_of_which(self, api: Api, jobs: str) -> None:
        assert api.get(f"forecasts?jobs={jobs}").fields == [("jobs", "invalid")]


class TestAttempts:
    def test_each_says_where_it_ran(self, api: Api, job: Job, worker: FakeWorker) -> None:
        rows = api.get(f"jobs/{job.id}/attempts").body["results"]

        assert {row["worker_name"] for row in rows} == {f"local {worker.worker.id.hex[-4:]}"}
        assert sorted(row["slot"] for row in rows) == [0, 1, 2]
        assert {row["step"] for row in rows} == {str(job.steps.get().id)}


class TestLog:
    @pytest.fixture
    def attempt(self, job: Job, worker: FakeWorker) -> Attempt:
        return attempts_of(job)[0]

    def log(self, api: Api, attempt: Attempt, query: str = "") -> tuple[str, str]:
        answer = Client().get(
            f"/api/v1/attempts/{attempt.id}/log{query}", headers={"Authorization": f"Bearer {api.token}"}
        )
        leave_tenant()
        assert answer.status_code == 200, answer.content
        text = b"".join(cast(Any, answer).streaming_content) if answer.streaming else answer.content
        return text.decode(), answer.headers.get("Farm-Log-Next", "")

    def test_it_is_followed_piece_by_piece(self, api: Api, attempt: Attempt) -> None:
        said(attempt, b"one\n", b"two\n", b"three\n")

        assert self.log(api, attempt) == ("one\ntwo\nthree\n", "3")
        assert self.log(api, attempt, "?since=2") == ("three\n", "3")
        assert self.log(api, attempt, "?since=3") == ("", "3")

    @pytest.mark.parametrize(
        ("tail", "text"), [(1, "\n"), (7, "three\n"), (11, "two\nthree\n"), (1000, "one\ntwo\nthree\n")]
    )
    def test_its_end_comes_in_whole_lines(self, api: Api, attempt: Attempt, tail: int, text: str) -> None:
        said(attempt, b"one\n", b"two\n", b"three\n")

        assert self.log(api, attempt, f"?tail={tail}") == (text, "3")

    def test_a_piece_that_never_came_is_told(self, api: Api, attempt: Attempt) -> None:
        said(attempt, b"one\n", None, b"three\n")

        text, _ = self.log(api, attempt)

        assert text.splitlines() == [
            "one",
            "",
            "[a piece of the log is missing here: its worker did not send it]",
            "three",
        ]

    def test_the_whole_is_a_file(self, api: Api, attempt: Attempt) -> None:
        said(attempt, *[b"line %d\n" % n for n in range(300)])
        Job.objects.filter(pk=attempt.job_id).update(name="Beach/night")
        answer = Client().get(
            f"/api/v1/attempts/{attempt.id}/log?download=true", headers={"Authorization": f"Bearer {api.token}"}
        )
        leave_tenant()

        text = b"".join(cast(Any, answer).streaming_content).decode()

        assert text.splitlines() == [f"line {n}" for n in range(300)]
        name = f"Beach-night frame {attempt.task.frame} attempt 1.log"
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"

    @pytest.mark.parametrize("query", ["since=-1", "tail=0", "tail=1000001", "download=yes", "since=0&tail=5"])
    def test_a_question_that_is_none_is_refused(self, api: Api, attempt: Attempt, query: str) -> None:
        assert api.get(f"attempts/{attempt.id}/log?{query}").status == 422

    def test_a_tail_reads_no_more_than_it_needs(self, api: Api, attempt: Attempt) -> None:
        said(attempt, None, None, b"x" * 100 + b"\nlast\n")

        assert self.log(api, attempt, "?tail=20")[0] == "last\n"


class TestNothingIsWritten:
    def test_by_what_is_read(self, api: Api, job: Job, worker: FakeWorker) -> None:
        counted = "SELECT (SELECT count(*) FROM dispatch_quote), (SELECT count(*) FROM dispatch_attempt)"
        before = raw_rows(counted)
        for path in ("why", "quotes", "quotes?slots=3", "attempts", "outputs"):
            assert api.get(f"jobs/{job.id}/{path}").status == 200

        assert raw_rows(counted) == before

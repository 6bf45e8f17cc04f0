"""Several jobs at once: each for itself, and told of each what became of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from farm.jobs.models import Job, Task
from farm.studios.models import AuditRow
from tests.api import Api
from tests.farm import Customer, open_customer, submit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("farm")]

NOBODY_S = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


@pytest.fixture
def jobs(customer: Customer, now: datetime) -> list[str]:
    return [str(submit(customer, name=name, now=now).id) for name in "abc"]


def told(answer: Any) -> list[tuple[bool, str | None, str]]:
    return [(r["is_done"], r["job_status"], (r["problem"] or {"code": ""})["code"]) for r in answer.body["results"]]


class TestBulk:
    def test_what_is_refused_for_one_is_done_for_the_others(self, api: Api, jobs: list[str]) -> None:
        api.post(f"jobs/{jobs[1]}/cancel")

        answer = api.post("jobs/bulk", {"jobs": jobs, "act": "suspend"})

        assert told(answer) == [(True, "suspended", ""), (False, "cancelled", "job-ended"), (True, "suspended", "")]
        assert [r["job"] for r in answer.body["results"]] == jobs
        assert answer.body["results"][1]["problem"]["params"] == {"status": "cancelled"}

    def test_each_act_is_what_it_is_for_one_job(self, api: Api, jobs: list[str]) -> None:
        for act, status in {"suspend": "suspended", "resume": "active", "cancel": "cancelled"}.items():
            answer = api.post("jobs/bulk", {"jobs": jobs[:2], "act": act})

            assert told(answer) == [(True, status, "")] * 2
        acts = AuditRow.objects.filter(subject=jobs[0]).order_by("id").values_list("act", flat=True)
        assert list(acts) == ["job.suspended", "job.resumed", "job.cancelled"]
        statuses = {(str(task.job_id), task.status) for task in Task.objects.all()}
        assert statuses == {(jobs[0], "cancelled"), (jobs[1], "cancelled"), (jobs[2], "ready")}

    def test_a_priority_is_set_for_all(self, api: Api, jobs: list[str]) -> None:
        api.post("jobs/bulk", {"jobs": jobs, "act": "priority", "priority": 7})

        assert {job.priority for job in Job.objects.all()} == {7}

    def test_a_job_that_is_not_there_is_told_so(self, api: Api, jobs: list[str], now: datetime) -> None:
        foreign = str(submit(open_customer(), now=now).id)

        answer = api.post("jobs/bulk", {"jobs": [NOBODY_S, foreign, jobs[0]], "act": "cancel"})

        assert told(answer) == [(False, None, "not-found")] * 2 + [(True, "cancelled", "")]
        assert Job.objects.get(pk=foreign).status == "active"

    def test_what_was_refused_leaves_no_trace(self, api: Api, jobs: list[str]) -> None:
        api.post("jobs/bulk", {"jobs": jobs, "act": "resume"})

        assert not AuditRow.objects.filter(act="job.resumed").exists()

    def test_a_key_does_it_once(self, api: Api, jobs: list[str]) -> None:
        wish = {"jobs": jobs, "act": "suspend"}
        first = api.post("jobs/bulk", wish, **{"Idempotency-Key": "k"})
        api.post("jobs/bulk", {"jobs": jobs, "act": "resume"})

        again = api.post("jobs/bulk", wish, **{"Idempotency-Key": "k"})

        assert again.body == first.body
        assert {job.status for job in Job.objects.all()} == {"active"}

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"jobs": []}, "jobs"),
            ({"jobs": [NOBODY_S] * 201}, "jobs"),
            ({"jobs": ["x"]}, "jobs.0"),
            ({"act": "delete"}, "act"),
            ({"act": "priority"}, "priority"),
            ({"priority": 5}, "priority"),
            ({"act": "priority", "priority": 101}, "priority"),
        ],
    )
    def test_a_wish_that_is_none_is_refused(self, api: Api, jobs: list[str], change: Any, field: str) -> None:
        answer = api.post("jobs/bulk", {"jobs": jobs, "act": "suspend"} | change)

        assert answer.status == 422
        assert [name for name, _ in answer.fields] == [field]


class TestKeys:
    @pytest.mark.parametrize(
        ("verb", "path", "body"),
        [
            ("POST", "suspend", None),
            ("POST", "cancel", None),
            ("POST", "cancel-tasks", {"frames": "1"}),
            ("PATCH", "", {"priority": 3}),
        ],
    )
    def test_an_act_under_one_key_is_one_act(self, api: Api, jobs: list[str], verb: str, path: str, body: Any) -> None:
        address = f"jobs/{jobs[0]}/{path}".rstrip("/")
        answers = [api(verb, address, body, **{"Idempotency-Key": "k"}) for _ in range(2)]

        assert answers[0].body == answers[1].body
        assert answers[1].headers["Idempotent-Replay"] == "true"
        assert AuditRow.objects.filter(subject=jobs[0]).count() == 1

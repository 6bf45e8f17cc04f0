"""What the page of a job asks: all tasks at once, then only what has changed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from farm.jobs.models import Task
from tests.api import Api
from tests.farm import Customer, submit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("farm")]


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


class TestGrid:
    def test_each_step_comes_with_its_frames_and_statuses(self, api: Api, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="5-8", now=now)
        Task.objects.filter(job=job, frame=6).update(status="succeeded")

        answer = api.get(f"jobs/{job.id}/grid").body

        (step,) = answer["steps"]
        assert answer["job"] == str(job.id)
        assert (step["name"], step["status"], step["count"], step["frames"]) == ("Count", "active", 4, [[5, 8, 1]])
        assert step["statuses"] == "rsrr"

    def test_it_travels_packed(self, api: Api, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1-3000", now=now)

        answer = api.get(f"jobs/{job.id}/grid", **{"Accept-Encoding": "gzip"})

        assert answer.headers["Content-Encoding"] == "gzip"
        assert int(answer.headers["Content-Length"]) < 1000
        assert len(answer.body["steps"][0]["statuses"]) == 3000

    def test_it_takes_no_filters(self, api: Api, customer: Customer, now: datetime) -> None:
        job = submit(customer, now=now)

        assert api.get(f"jobs/{job.id}/grid?limit=1").code == "unknown-filter"


class TestChanges:
    def test_the_job_and_its_steps_come_as_they_are(self, api: Api, customer: Customer, now: datetime) -> None:
        job = submit(customer, now=now)

        answer = api.get(f"jobs/{job.id}/changes?since=0").body

        assert answer["job"] == api.get(f"jobs/{job.id}").body
        assert [(s["status"], s["ready"], s["failed"]) for s in answer["steps"]] == [("active", 3, 0)]
        assert answer["changes"] == [{"step": answer["steps"][0]["id"], "indexes": [0, 1, 2], "statuses": "rrr"}]
        assert not answer["is_reload"]
        assert answer["revision"] >= api.get(f"jobs/{job.id}/grid").body["revision"] - 1

    @pytest.mark.parametrize("query", ["", "?since=", "?since=-1", "?since=x"])
    def test_it_must_be_said_since_when(self, api: Api, customer: Customer, now: datetime, query: str) -> None:
        job = submit(customer, now=now)

        assert api.get(f"jobs/{job.id}/changes{query}").fields == [("since", "invalid")]

"""Tasks that a person put back while somebody still worked on them, and leases that run out."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from farm.dispatch.leases import reap
from farm.dispatch.models import Reaper
from farm.dispatch.moves import AttemptStatus
from farm.jobs.models import Job, Task
from farm.jobs.moves import TaskStatus
from farm.jobs.services import Selection, cancel_tasks, retry_tasks
from tests.farm import FakeWorker, attempts_of, dispatch, failure, open_customer, start_worker, submit
from workers.protocol import Cause, Outcome

pytestmark = pytest.mark.django_db

LATER = timedelta(seconds=31)


@pytest.fixture
def job(now: datetime) -> Job:
    return submit(open_customer(), frames="1", now=now)


@pytest.fixture
def task(job: Job) -> Task:
    return Task.objects.get(job=job)


@pytest.fixture
def worker(job: Job, task: Task, now: datetime) -> FakeWorker:
    """A worker whose task was cancelled, and put back, before it heard of it."""
    worker = start_worker(now=now)
    assert dispatch(now=now) == 1
    worker.sync(now=now)
    cancel_tasks(job, [task.id], now=now)
    retry_tasks(job, Selection("list", [task.id]), now=now)
    return worker


class TestATaskThatWasPutBack:
    def test_waits_until_whoever_had_it_has_stopped(
        self, job: Job, task: Task, worker: FakeWorker, now: datetime
    ) -> None:
        start_worker(now=now)
        assert dispatch(now=now) == 0

        (held,) = worker.held
        worker.end(held, failure(Cause.CANCELLED, outcome=Outcome.CANCELLED))
        worker.sync(now=now)

        assert dispatch(now=now) == 1
        assert [a.status for a in attempts_of(job)] == [AttemptStatus.SUPERSEDED, AttemptStatus.ASSIGNED]

    def test_holds_no_other_task_up(self, task: Task, worker: FakeWorker, now: datetime) -> None:
        submit(open_customer(), frames="1", now=now)
        start_worker(now=now, slots=2)

        assert dispatch(now=now) == 1

    def test_that_never_hears_of_it_is_waited_for_until_its_lease_runs_out(
        self, job: Job, task: Task, worker: FakeWorker, now: datetime
    ) -> None:
        start_worker(now=now)
        Reaper.objects.update_or_create(pk=1, defaults={"at": now + LATER - timedelta(seconds=5)})
        reap(now=now + LATER)

        task.refresh_from_db()
        assert (task.status, task.interruptions) == (TaskStatus.READY, 0)
        assert dispatch(now=now + LATER) == 1
        assert [a.status for a in attempts_of(job)] == [AttemptStatus.LOST, AttemptStatus.ASSIGNED]

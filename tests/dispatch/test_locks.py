"""Who locks what in which order: a sync waits for the first of its tasks while it holds none of the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import psycopg
import pytest
from django.db import connection, connections

from farm.billing.services import set_rate
from farm.core.wakeups import listener
from farm.dispatch.leases import lose_workers, reap
from farm.dispatch.models import Attempt
from farm.jobs.models import Job, Task
from tests.farm import FakeWorker, attempts_of, dispatch, local_fleet, open_customer, start_worker, submit, success

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE_S = 30


@pytest.fixture
def job(now: datetime) -> Job:
    local_fleet()
    set_rate(worker_class="cpu", currency="USD", micro_per_gpu_hour=1, valid_from=now, now=now)
    return submit(open_customer(), frames="1-2", now=now)


@pytest.fixture
def worker(job: Job, now: datetime) -> FakeWorker:
    """Holds both tasks of the job."""
    worker = start_worker(now=now, slots=2)
    assert dispatch(now=now) == 2
    worker.sync(now=now)
    return worker


@contextmanager
def somebody() -> Iterator[psycopg.Connection]:
    """A session of somebody else, in a transaction."""
    with psycopg.connect(**listener()) as session:
        yield session


@contextmanager
def meanwhile(act: threading.Thread) -> Iterator[None]:
    """Run `act` until it waits for a lock; at the end it must come through."""
    act.start()
    deadline = time.monotonic() + PATIENCE_S
    while not _somebody_waits():
        assert act.is_alive(), "it waits for nobody"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield
    act.join(PATIENCE_S)
    assert not act.is_alive()


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])


def thread(act: object) -> threading.Thread:
    def run() -> None:
        try:
            act()  # type: ignore[operator]
        finally:
            connections.close_all()

    return threading.Thread(target=run)


def lock(session: psycopg.Connection, task: Task) -> None:
    session.execute("SELECT 1 FROM jobs_task WHERE id = %s FOR NO KEY UPDATE NOWAIT", [task.id])


class TestSync:
    def test_holds_no_later_task_while_it_waits_for_an_earlier_one(
        self, job: Job, worker: FakeWorker, now: datetime
    ) -> None:
        first, second = Task.objects.filter(job=job).order_by("id")
        reap(now=now)
        Attempt.objects.filter(task=second).update(lease_until=now - timedelta(seconds=1))
        reap(now=now)  # the second is lost: it is revived by the sync that ends the first
        worker.end(attempts_of(job)[0].id, success(attempts_of(job)[0].id))

        with somebody() as session:
            lock(session, first)
            with meanwhile(thread(lambda: worker.sync(now=now))):
                lock(session, second)
                session.rollback()

        assert [a.status for a in attempts_of(job)] == ["succeeded", "started"]


class TestLoseWorkers:
    def test_holds_no_attempt_while_it_waits_for_a_task(self, job: Job, worker: FakeWorker, now: datetime) -> None:
        first = Task.objects.filter(job=job).order_by("id")[0]

        with somebody() as session:
            lock(session, first)
            with meanwhile(thread(lambda: lose_workers([worker.worker.id], now=now))):
                session.execute("SELECT 1 FROM dispatch_attempt FOR NO KEY UPDATE NOWAIT")
                session.rollback()

        assert [a.status for a in attempts_of(job)] == ["lost", "lost"]

"""People and workers at once, on connections of their own: nobody waits in a circle, and counters hold."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from django.apps import apps
from django.db import connection

from farm.billing.models import Rate
from farm.billing.seeds import seed_rates
from farm.core.errors import Refusal
from farm.jobs import services
from farm.jobs.models import Job, Step, Task
from farm.jobs.moves import JobStatus
from farm.jobs.services import Selection
from farm.jobs.status import count_tasks
from tests.farm import FakeWorker, dispatch, failure, local_fleet, open_customer, start_worker, submit
from tests.jobs.test_status import DIAMOND
from workers.protocol import Cause

SECONDS = float(os.environ.get("FARM_TEST_SECONDS", "3"))
WIDE = DIAMOND.replace("1-2", "1-12")


@pytest.fixture
def job(transactional_db: None) -> Job:
    if not Rate.objects.exists():  # a transactional test before this one has emptied all tables
        seed_rates(apps, cast(Any, None))
    local_fleet(max_machines=9)
    return submit(open_customer(), template=WIDE, now=datetime.now(UTC))


@pytest.fixture
def worker(job: Job) -> FakeWorker:
    return start_worker(now=datetime.now(UTC), slots=6)


class Crowd:
    """Several who act at once until the time is over, and what went wrong."""

    def __init__(self) -> None:
        self.until = time.monotonic() + SECONDS
        self.did: Counter[str] = Counter()
        self.broken: list[Exception] = []

    def busy(self, name: str, act: Callable[[random.Random], object]) -> None:
        chance = random.Random(name)
        try:
            while time.monotonic() < self.until and not self.broken:
                try:
                    act(chance)
                    self.did[name] += 1
                except Refusal:
                    self.did[f"{name} refused"] += 1
        except Exception as error:  # a deadlock, or whatever else
            self.broken.append(error)
        finally:
            connection.close()


def some_tasks(job: Job, chance: random.Random) -> list[Any]:
    ids = list(Task.objects.filter(job=job).values_list("id", flat=True))
    return chance.sample(ids, 3)


def now() -> datetime:
    return datetime.now(UTC)


def acts(job: Job, worker: FakeWorker) -> Iterator[tuple[str, Callable[[random.Random], object]]]:
    def work(chance: random.Random) -> None:
        dispatch(now=now())
        worker.sync(now=now())
        for attempt in list(worker.held):
            if chance.random() < 0.2:
                worker.end(attempt, failure(Cause.SCENE_ERROR))
        worker.finish_all(now=now())

    yield "work", work
    yield "cancel", lambda chance: services.cancel_tasks(job, some_tasks(job, chance), now=now())
    yield "retry", lambda chance: services.retry_tasks(job, Selection("list", some_tasks(job, chance)), now=now())
    yield "missing", lambda chance: services.retry_tasks(job, Selection("missing"), now=now())
    yield "suspend", lambda chance: services.suspend_job(Job.objects.get(pk=job.pk))
    yield "resume", lambda chance: services.resume_job(Job.objects.get(pk=job.pk), now=now())


class TestEverybodyAtOnce:
    def test_nobody_deadlocks_and_counters_equal_a_fresh_count(self, job: Job, worker: FakeWorker) -> None:
        crowd, everybody = Crowd(), list(acts(job, worker))
        with ThreadPoolExecutor(len(everybody)) as pool:
            for name, act in everybody:
                pool.submit(crowd.busy, name, act)

        assert crowd.broken == []
        assert all(crowd.did[name] for name, _ in everybody), crowd.did
        steps = {s.id: s for s in Step.objects.filter(job=job)}
        assert {i: s.counts for i, s in steps.items()} == count_tasks(steps)

    def test_afterwards_the_job_can_be_finished(self, job: Job, worker: FakeWorker) -> None:
        crowd = Crowd()
        crowd.until = time.monotonic() + 1
        with ThreadPoolExecutor(6) as pool:
            for name, act in acts(job, worker):
                pool.submit(crowd.busy, name, act)
        assert crowd.broken == []

        for _ in range(20):
            try_to(lambda: services.retry_tasks(job, Selection("missing"), now=now()))
            try_to(lambda: services.resume_job(job, now=now()))
            dispatch(now=now())
            worker.sync(now=now())
            worker.finish_all(now=now())
            if Job.objects.get(pk=job.pk).status == JobStatus.SUCCEEDED:
                break

        assert Job.objects.get(pk=job.pk).status == JobStatus.SUCCEEDED


def try_to(act: Callable[[], object]) -> None:
    with suppress(Refusal):
        act()

"""What the end of an attempt does to its task, its outputs and its money."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from farm.billing.models import UsageFact
from farm.dispatch.leases import reap
from farm.dispatch.models import Attempt, Output, Reaper
from farm.dispatch.moves import AttemptStatus
from farm.jobs.models import Job, Task
from farm.jobs.moves import JobStatus, TaskStatus
from farm.jobs.services import Selection, cancel_job, retry_tasks
from tests.farm import FakeWorker, attempts_of, dispatch, failure, open_customer, report, start_worker, submit, success
from workers.protocol import Answer, Cause, End, Order, Outcome, Phase

LATER = timedelta(seconds=31)

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(now: datetime) -> Job:
    return submit(open_customer(), frames="1", now=now)


@pytest.fixture
def worker(now: datetime, job: Job) -> FakeWorker:
    """A worker that holds the job's only task."""
    worker = start_worker(now=now)
    assert dispatch(now=now) == 1
    worker.sync(now=now)
    return worker


def task_of(job: Job) -> Task:
    return Task.objects.get(job=job)


def charged(job: Job) -> list[UsageFact]:
    return list(UsageFact.objects.filter(cost_object=job.cost_object_id, charged_micro__gt=0))


def expire(now: datetime) -> None:
    """Let the reaper find every lease expired, having looked a moment before."""
    Reaper.objects.update_or_create(pk=1, defaults={"at": now - timedelta(seconds=5)})
    reap(now=now)


class TestASuccess:
    def test_ends_the_task_the_job_and_is_charged_by_the_millisecond(
        self, job: Job, worker: FakeWorker, now: datetime
    ) -> None:
        answer = worker.finish_all(now=now + LATER, render_ms=3_600)

        assert [a.answer for a in answer.answers] == [Answer.ACCEPTED]
        assert task_of(job).status == TaskStatus.SUCCEEDED
        job.refresh_from_db()
        assert job.status == JobStatus.SUCCEEDED
        (fact,) = charged(job)
        assert fact.render_ms == 3_600
        assert Output.objects.get(job=job).is_current

    def test_told_twice_is_answered_alike_and_charged_once(self, job: Job, worker: FakeWorker, now: datetime) -> None:
        (attempt,) = attempts_of(job)
        end = success(attempt.id)
        for _ in range(2):
            worker.held[str(attempt.id)] = report(str(attempt.id), attempt.generation, phase=Phase.ENDED, end=end)
            answer = worker.sync(now=now + LATER)
            assert [a.answer for a in answer.answers] == [Answer.ACCEPTED]

        assert len(charged(job)) == 1
        assert Output.objects.filter(job=job).count() == 1

    def test_without_its_file_in_the_store_is_refused_and_changes_nothing(
        self, job: Job, worker: FakeWorker, now: datetime
    ) -> None:
        (attempt,) = attempts_of(job)
        lie = success(attempt.id)
        lie = End(**{**vars(lie), "outputs": [type(lie.outputs[0])(**{**vars(lie.outputs[0]), "digest": "0" * 64})]})
        worker.end(attempt.id, lie)

        answer = worker.sync(now=now + LATER)

        assert [a.answer for a in answer.answers] == [Answer.REFUSED]
        assert task_of(job).status == TaskStatus.LEASED
        assert charged(job) == []


class TestALateEnd:
    def test_that_nobody_overtook_counts(self, job: Job, worker: FakeWorker, now: datetime) -> None:
        expire(now + LATER)
        assert task_of(job).status == TaskStatus.READY

        worker.finish_all(now=now + LATER * 2)

        assert task_of(job).status == TaskStatus.SUCCEEDED
        assert len(charged(job)) == 1

    def test_after_somebody_else_took_the_task_changes_nothing(
        self, job: Job, worker: FakeWorker, now: datetime
    ) -> None:
        expire(now + LATER)
        other = start_worker(now=now + LATER)
        worker.worker.status = "gone"
        worker.worker.save()
        assert dispatch(now=now + LATER) == 1
        worker.worker.status = "ready"
        worker.worker.save()

        answer = worker.finish_all(now=now + LATER * 2)

        assert [a.answer for a in answer.answers] == [Answer.SUPERSEDED]
        assert task_of(job).status == TaskStatus.LEASED
        assert charged(job) == []
        other.sync(now=now + LATER * 2)
        other.finish_all(now=now + LATER * 3)
        assert task_of(job).status == TaskStatus.SUCCEEDED
        assert len(charged(job)) == 1

    def test_after_a_person_asked_for_a_new_one_changes_nothing(
        self, job: Job, worker: FakeWorker, now: datetime
    ) -> None:
        worker.finish_all(now=now)
        task = task_of(job)
        retry_tasks(job, Selection("list", [task.id]), now=now)
        (attempt,) = attempts_of(job)
        Attempt.objects.filter(pk=attempt.pk).update(status="lost", is_settled=True)  # as if it had never told its end
        worker.held[str(attempt.id)] = report(
            str(attempt.id), attempt.generation, phase=Phase.ENDED, end=success(attempt.id)
        )

        answer = worker.sync(now=now + LATER)

        assert [a.answer for a in answer.answers] == [Answer.SUPERSEDED]
        assert task_of(job).status == TaskStatus.READY


class TestAWorkerThatWakesAfterItsLease:
    def test_goes_on_while_nobody_has_taken_the_task(self, job: Job, worker: FakeWorker, now: datetime) -> None:
        expire(now + LATER)

        answer = worker.sync(now=now + LATER * 2)

        assert [a.order for a in answer.attempts] == [Order.RUN]
        assert task_of(job).status == TaskStatus.LEASED
        assert attempts_of(job)[0].status == AttemptStatus.STARTED


class TestTheReaper:
    def test_gives_grace_when_it_was_blind(self, job: Job, worker: FakeWorker, now: datetime) -> None:
        Reaper.objects.update_or_create(pk=1, defaults={"at": now})

        reap(now=now + timedelta(minutes=5))

        assert task_of(job).status == TaskStatus.LEASED
        assert attempts_of(job)[0].lease_until == now + timedelta(minutes=6)

    def test_makes_a_lost_task_ready_and_charges_nothing(self, job: Job, worker: FakeWorker, now: datetime) -> None:
        expire(now + LATER)

        assert task_of(job).status == TaskStatus.READY
        assert task_of(job).interruptions == 1
        assert attempts_of(job)[0].status == AttemptStatus.LOST
        assert charged(job) == []


class TestAFailure:
    def test_of_the_scene_is_tried_again_and_given_up_after_three(
        self, job: Job, worker: FakeWorker, now: datetime
    ) -> None:
        for turn in range(3):
            at = now + LATER * (turn + 1)
            (held,) = worker.held
            worker.end(held, failure(Cause.SCENE_ERROR))
            worker.sync(now=at)
            dispatch(now=at)
            worker.sync(now=at)

        assert task_of(job).status == TaskStatus.FAILED
        job.refresh_from_db()
        assert job.status == JobStatus.FAILED
        assert charged(job) == []

    def test_that_another_try_would_only_repeat_is_final(self, job: Job, worker: FakeWorker, now: datetime) -> None:
        (held,) = worker.held
        worker.end(held, failure(Cause.MISSING_ASSET))
        worker.sync(now=now + LATER)

        assert task_of(job).status == TaskStatus.FAILED

    def test_of_the_farm_does_not_count_against_the_task(self, job: Job, worker: FakeWorker, now: datetime) -> None:
        (held,) = worker.held
        worker.end(held, failure(Cause.DISK_FULL))
        worker.sync(now=now + LATER)

        task = task_of(job)
        assert (task.status, task.failures, task.interruptions) == (TaskStatus.READY, 0, 1)


class TestACancelledJob:
    def test_stops_what_runs_and_charges_until_it_stopped(self, job: Job, worker: FakeWorker, now: datetime) -> None:
        cancel_job(job, now=now + timedelta(seconds=5))

        answer = worker.sync(now=now + timedelta(seconds=6))

        assert [(a.order, a.reason) for a in answer.attempts] == [(Order.STOP, "cancelled")]
        (held,) = worker.held
        worker.end(held, failure(Cause.CANCELLED, outcome=Outcome.CANCELLED, render_ms=6_000))
        told = worker.sync(now=now + timedelta(seconds=7))
        assert [a.answer for a in told.answers] == [Answer.CANCELLED]
        job.refresh_from_db()
        assert job.status == JobStatus.CANCELLED
        (fact,) = charged(job)
        assert fact.render_ms == 6_000


class TestALog:
    def test_that_comes_with_the_end_is_kept(self, job: Job, worker: FakeWorker, now: datetime) -> None:
        (attempt,) = attempts_of(job)
        ended = report(str(attempt.id), attempt.generation, phase=Phase.ENDED, end=success(attempt.id))
        worker.held[str(attempt.id)] = replace(ended, log_chunks=2)

        worker.sync(now=now)

        assert attempts_of(job)[0].log_chunks == 2

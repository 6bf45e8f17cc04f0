"""What becomes true of supply and demand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from farm.billing.models import Credit
from farm.dispatch import reconcilers
from farm.dispatch.models import Quote
from farm.jobs.models import Job, Task
from farm.jobs.moves import Approval, JobStatus, TaskStatus
from farm.jobs.services import cancel_job, resume_job
from tests.farm import dispatch, open_customer, start_worker, submit

pytestmark = pytest.mark.django_db


def render_scouts(now: datetime, **order: Any) -> Job:
    """Submit nine frames with scouts, and render these."""
    job = submit(open_customer(), frames="1-9", scouts="auto", now=now, **order)
    worker = start_worker(now=now, slots=3)
    assert dispatch(now=now) == 3
    worker.sync(now=now)
    worker.finish_all(now=now, render_ms=10_000)
    job.refresh_from_db()
    return job


class TestFollowScouts:
    def test_a_job_waits_with_a_quote_for_the_rest(self, now: datetime) -> None:
        job = render_scouts(now)
        assert (job.status, job.suspended_by, job.approval) == (JobStatus.SUSPENDED, "approval", Approval.WAITING)

        reconcilers.follow_scouts()

        found = Quote.objects.get(job=job)
        assert (found.tasks, found.basis) == (6, "scouts")
        assert found.p10_micro < found.p50_micro == 6_667 < found.p90_micro
        job.refresh_from_db()
        assert job.status == JobStatus.SUSPENDED

    def test_a_job_that_surely_fits_its_budget_goes_on_by_itself(self, now: datetime) -> None:
        job = render_scouts(now, budget_micro=10_000_000)

        reconcilers.follow_scouts()

        job.refresh_from_db()
        assert (job.status, job.approval) == (JobStatus.ACTIVE, Approval.GIVEN)
        assert Task.objects.filter(job=job, status=TaskStatus.READY).count() == 6

    def test_continued_by_a_person_the_rest_is_ready(self, now: datetime) -> None:
        job = render_scouts(now)

        resume_job(job, now=now)

        assert Task.objects.filter(job=job, status=TaskStatus.READY).count() == 6

    def test_declined_its_scouts_are_credited_once(self, now: datetime) -> None:
        job = render_scouts(now)
        cancel_job(job, now=now)

        reconcilers.follow_scouts()
        reconcilers.follow_scouts()

        job.refresh_from_db()
        assert (job.status, job.approval) == (JobStatus.CANCELLED, Approval.CREDITED)
        assert Credit.objects.filter(fact__cost_object=job.cost_object_id).count() == 3

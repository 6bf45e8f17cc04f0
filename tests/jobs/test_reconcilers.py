"""What becomes true of jobs by itself; asked twice, nothing happens the second time."""

from __future__ import annotations

from datetime import datetime
from unittest.mock import patch

import pytest
from django.db import IntegrityError

from farm.jobs import reconcilers, services
from farm.jobs.models import Job, Step
from farm.jobs.moves import JobStatus, StepStatus
from farm.jobs.services import NothingToRetry
from farm.scenes.models import SceneVersion
from tests.farm import Customer, submit
from tests.jobs.conftest import MakeVersion

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("farm")]


class TestInspectVersions:
    def test_each_whole_version_is_inspected_once(self, make_version: MakeVersion) -> None:
        versions = [make_version(is_inspected=False) for _ in range(2)]
        make_version()

        reconcilers.inspect_versions()
        reconcilers.inspect_versions()

        jobs = Job.objects.filter(purpose="inspection")
        assert {job.scene_version_id for job in jobs} == {v.id for v in versions}
        assert len(jobs) == 2

    @pytest.mark.parametrize("trouble", [NothingToRetry(which="x"), IntegrityError("twin")])
    def test_one_version_s_trouble_is_no_other_s(self, make_version: MakeVersion, trouble: Exception) -> None:
        bad, good = make_version(is_inspected=False), make_version(is_inspected=False)
        inspect = services.inspect_version

        def inspected(version: SceneVersion, **more: object) -> object:
            if version.id == bad.id:
                raise trouble
            return inspect(version, **more)  # type: ignore[arg-type]

        with patch.object(reconcilers, "inspect_version", inspected):
            reconcilers.inspect_versions()

        assert [job.scene_version_id for job in Job.objects.all()] == [good.id]


class TestCloseJobs:
    def test_counters_that_are_wrong_are_put_right_and_said(
        self, customer: Customer, now: datetime, caplog: pytest.LogCaptureFixture
    ) -> None:
        job = submit(customer, frames="1-3", now=now)
        Step.objects.filter(job=job).update(ready=0, succeeded=3)

        reconcilers.close_jobs()

        step = Step.objects.get(job=job)
        assert (step.ready, step.succeeded) == (3, 0)
        assert "counters said" in caplog.text

    def test_a_job_that_should_have_moved_moves(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1", now=now)
        job.tasks.update(status="succeeded")

        reconcilers.close_jobs()

        assert Job.objects.get(pk=job.pk).status == JobStatus.SUCCEEDED
        assert Step.objects.get(job=job).status == StepStatus.SUCCEEDED

    def test_a_job_whose_forerunner_ended_unseen_goes_on(self, customer: Customer, now: datetime) -> None:
        first = submit(customer, frames="1", now=now)
        job = submit(customer, frames="1", after=[first.id], now=now)
        Job.objects.filter(pk=first.pk).update(status="succeeded", ended_at=now)

        reconcilers.close_jobs()

        assert Step.objects.get(job=job).ready == 1

    def test_what_is_right_is_left_alone(
        self, customer: Customer, now: datetime, caplog: pytest.LogCaptureFixture
    ) -> None:
        job = submit(customer, frames="1-3", now=now)
        before = list(Step.objects.filter(job=job).values())

        reconcilers.close_jobs()

        assert list(Step.objects.filter(job=job).values()) == before
        assert caplog.text == ""

"""The claim: tasks, attempts and money in one transaction."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from farm.billing.models import Budget, Hold
from farm.dispatch.claims import run_pass
from farm.dispatch.models import Attempt
from farm.dispatch.selectors import why
from farm.fleet.models import Worker
from farm.jobs.models import Job, Step
from farm.jobs.services import suspend_job
from tests.farm import attempts_of, dispatch, failure, local_fleet, open_customer, start_worker, submit

pytestmark = pytest.mark.django_db


class TestAPass:
    def test_leases_one_task_a_free_slot_in_the_order_of_rank(self, now: datetime) -> None:
        job = submit(open_customer(), frames="1-9", now=now)
        start_worker(now=now, slots=3)

        assert dispatch(now=now) == 3

        assert sorted(a.task.frame for a in Attempt.objects.filter(job=job).select_related("task")) == [1, 5, 9]  # type: ignore[type-var]
        step = Step.objects.get(job=job)
        assert (step.ready, step.leased) == (6, 3)

    def test_again_without_a_free_slot_claims_nothing(self, now: datetime) -> None:
        submit(open_customer(), frames="1-9", now=now)
        start_worker(now=now)
        dispatch(now=now)

        assert dispatch(now=now) == 0

    def test_holds_ten_minutes_for_a_frame_it_cannot_predict(self, now: datetime) -> None:
        job = submit(open_customer(), frames="1", now=now)
        start_worker(now=now)
        dispatch(now=now)

        hold = Hold.objects.get(attempt=attempts_of(job)[0].id)
        assert hold.amount_micro == round(hold.micro_per_gpu_hour / 6)

    def test_starts_only_what_the_budget_holds(self, now: datetime) -> None:
        rate = 400_000
        job = submit(open_customer(), frames="1-9", budget_micro=2 * rate // 6 + 100, now=now)
        start_worker(now=now, slots=5)

        done = run_pass(now=now)

        assert done.claimed == 2
        assert list(done.short) == [job.cost_object_id]
        assert Budget.objects.get(subject=job.cost_object_id).held_micro <= 2 * rate // 6 + 100

    def test_leaves_a_suspended_job_alone(self, now: datetime) -> None:
        suspend_job(submit(open_customer(), now=now))
        start_worker(now=now)

        assert dispatch(now=now) == 0

    def test_binds_a_cloud_machine_to_the_studio_it_serves_first(self, now: datetime) -> None:
        local_fleet(sharing="studio")
        job = submit(open_customer(), frames="1", now=now)
        submit(open_customer(), frames="1", now=now)
        worker = start_worker(now=now, slots=2)

        assert dispatch(now=now) == 1

        assert Worker.objects.get(pk=worker.worker.pk).studio_id == job.studio_id


class TestASickWorker:
    def test_on_which_three_jobs_fail_is_quarantined(self, now: datetime) -> None:
        customer = open_customer()
        jobs = [submit(customer, frames="1", now=now) for _ in range(3)]
        sick, well = start_worker(now=now), start_worker(now=now)
        for job in jobs:
            # Each job's frame fails here first.
            well.worker.status = "draining"
            well.worker.save()
            Job.objects.exclude(pk=job.pk).update(status="suspended")
            Job.objects.filter(pk=job.pk).update(status="active")
            dispatch(now=now)
            sick.sync(now=now)
            (held,) = sick.held
            well.worker.status = "ready"
            well.worker.save()
            sick.end(held, failure())
            sick.sync(now=now)

        sick.worker.refresh_from_db()
        assert sick.worker.status == "draining"
        assert sick.worker.quarantined_at == now

    def test_is_never_the_fleets_last(self, now: datetime) -> None:
        customer = open_customer()
        for _ in range(3):
            submit(customer, frames="1", now=now)
        only = start_worker(now=now, slots=3)
        dispatch(now=now)
        only.sync(now=now)
        for held in list(only.held):
            only.end(held, failure())
        only.sync(now=now)

        only.worker.refresh_from_db()
        assert only.worker.status == "ready"


class TestWhy:
    def test_says_how_much_budget_is_missing(self, now: datetime) -> None:
        job = submit(open_customer(), frames="1", budget_micro=100_000, now=now)
        Budget.objects.filter(subject=job.cost_object_id).update(cap_micro=1_000)
        start_worker(now=now)
        dispatch(now=now)

        found = why(job)

        assert (found.code, found.params["missing_micro"]) == ("budget", 400_000 // 6 + 1 - 1_000)

    def test_says_on_how_many_slots_it_renders_and_how_long_it_takes(self, now: datetime) -> None:
        job = submit(open_customer(), frames="1-4", now=now)
        worker = start_worker(now=now)
        dispatch(now=now)
        worker.sync(now=now)
        worker.finish_all(now=now + timedelta(seconds=3), render_ms=2_000)
        dispatch(now=now + timedelta(seconds=3))

        found = why(job)

        assert (found.code, found.params["slots"], found.params["eta_s"]) == ("rendering", 1, 6)

    def test_says_what_no_fleet_has(self, now: datetime) -> None:
        job = submit(open_customer(), frames="1", now=now)
        Step.objects.filter(job=job).update(requirements={"amounts": {"worker.gpu": 1}, "attributes": {}})
        start_worker(now=now)

        assert why(job).code == "no-fleet"

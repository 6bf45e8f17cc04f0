"""The claim: tasks, attempts and money in one transaction."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from farm.billing import services as billing
from farm.billing.models import Budget, Hold
from farm.dispatch import claims
from farm.dispatch.claims import run_pass
from farm.dispatch.models import Allowance, Attempt, Limit, Pace
from farm.dispatch.selectors import why
from farm.fleet.models import Farm, Worker
from farm.fleet.selectors import the_farm
from farm.jobs.models import Job, Step, Task
from farm.jobs.services import suspend_job
from farm.studios.models import Project
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

    def test_starts_nothing_on_a_paused_farm(self, now: datetime) -> None:
        submit(open_customer(), now=now)
        start_worker(now=now)
        the_farm()
        Farm.objects.update(is_paused=True)

        assert dispatch(now=now) == 0

        Farm.objects.update(is_paused=False)
        assert dispatch(now=now) == 1

    def test_leaves_a_fleet_alone_that_is_for_other_studios(self, now: datetime) -> None:
        mine, other = open_customer(), open_customer()
        local_fleet(studios=[other.studio.id])
        submit(mine, now=now)
        start_worker(now=now)

        assert dispatch(now=now) == 0

        local_fleet(studios=[other.studio.id, mine.studio.id])
        assert dispatch(now=now) == 1

    def test_keeps_to_the_regions_of_the_project(self, now: datetime) -> None:
        customer = open_customer()
        Project.objects.filter(pk=customer.project.pk).update(region="eu-west-1")
        submit(customer, now=now)
        start_worker(now=now)

        assert dispatch(now=now) == 0

        Project.objects.filter(pk=customer.project.pk).update(machine_regions=["us-east-1", "local"])
        assert dispatch(now=now) == 1

    def test_never_uses_more_of_a_limit_than_there_is(self, now: datetime) -> None:
        Limit.objects.create(name="nuke", most=3)
        needs = {"amounts": {"farmhand:limit.nuke": 1}, "attributes": {}}
        for _ in range(2):
            Step.objects.filter(job=submit(open_customer(), frames="1-9", now=now)).update(requirements=needs)
        start_worker(now=now, slots=2)
        start_worker(now=now, slots=4)

        assert [dispatch(now=now), dispatch(now=now)] == [3, 0]

    def test_never_gives_a_studio_more_than_its_most(self, now: datetime) -> None:
        customer = open_customer()
        Allowance.objects.create(studio=customer.studio, subject=customer.studio.id, max_slots=2)
        submit(customer, frames="1-9", now=now)
        start_worker(now=now, slots=5)

        assert [dispatch(now=now), dispatch(now=now)] == [2, 0]

    def test_takes_the_longest_first_when_few_are_left(self, now: datetime) -> None:
        job = submit(open_customer(), frames="1-9", now=now)
        step = Step.objects.get(job=job)
        Task.objects.filter(job=job, frame__in=[1, 3, 9]).update(status="succeeded")
        Step.objects.filter(pk=step.pk).update(ready=6, succeeded=3)
        Pace.objects.create(
            studio=job.studio,
            step=step,
            worker_class="cpu",
            recent_ms=[9_000, 90_000, 20_000],
            recent_tasks=[0, 2, 8],
        )
        start_worker(now=now, slots=4)

        dispatch(now=now)

        assert {a.task.frame for a in attempts_of(job)} == {2, 4, 5, 6}

    def test_lets_a_worker_go_that_began_to_leave_meanwhile_and_holds_nothing_for_it(
        self, now: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = submit(open_customer(), frames="1-9", now=now)
        leaving, staying = start_worker(now=now), start_worker(now=now)
        held = billing.hold

        def leave_meanwhile(*args: Any, **kwargs: Any) -> Any:
            Worker.objects.filter(pk=leaving.worker.pk).update(status="draining")
            return held(*args, **kwargs)

        monkeypatch.setattr(claims, "hold", leave_meanwhile)

        assert dispatch(now=now) == 1
        assert [a.worker_id for a in attempts_of(job)] == [staying.worker.pk]
        assert Hold.objects.filter(status="open").count() == 1
        step = Step.objects.get(job=job)
        assert (step.ready, step.leased) == (8, 1)


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

"""What people do with jobs, and what becomes of their tasks."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from farm.billing.models import Budget, CostObject
from farm.core.errors import Invalid, NotFound
from farm.core.models import Event
from farm.dispatch.moves import AttemptStatus
from farm.jobs import services
from farm.jobs.models import Job, JobAfter, Step, Task
from farm.jobs.moves import Approval, JobStatus, StepStatus, SuspendedBy, TaskStatus
from farm.jobs.orders import JobOrder
from farm.jobs.services import Selection
from farm.jobs.status import settle_jobs
from tests.farm import (
    TEMPLATE,
    TWO_STEPS,
    Customer,
    FakeWorker,
    attempts_of,
    dispatch,
    failure,
    open_customer,
    start_worker,
    submit,
)
from tests.jobs.conftest import MakeVersion
from workers.protocol import Cause

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("farm")]

LATER = timedelta(seconds=1)


def statuses(job: Job) -> list[str]:
    return list(Task.objects.filter(job=job).order_by("step__index", "index").values_list("status", flat=True))


def steps(job: Job) -> list[str]:
    return list(Step.objects.filter(job=job).order_by("index").values_list("status", flat=True))


def fresh(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def events(job: Job) -> list[str]:
    return list(Event.objects.filter(subject=job.id).order_by("id").values_list("kind", flat=True))


def render(now: datetime, *, slots: int = 8, fail: int = 0) -> FakeWorker:
    """Let one worker take what is ready and end it: the first `fail` badly, for good."""
    worker = start_worker(now=now, slots=slots)
    dispatch(now=now)
    worker.sync(now=now)
    for attempt in list(worker.held)[:fail]:
        worker.end(attempt, failure(Cause.MISSING_ASSET))
    worker.sync(now=now)
    worker.finish_all(now=now)
    worker.worker.refresh_from_db()
    worker.worker.status = "gone"
    worker.worker.save()
    return worker


class TestSubmitJob:
    def test_its_tasks_are_ready_in_the_order_of_a_movie(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="10-18", now=now)

        tasks = list(Task.objects.filter(job=job).order_by("rank"))
        assert [t.frame for t in tasks] == [10, 14, 18, 12, 16, 11, 13, 15, 17]
        assert {t.status for t in tasks} == {TaskStatus.READY}
        assert tasks[0].parameters == {"Frame": "10"}
        assert (tasks[0].generation, tasks[0].failures, tasks[0].changed_at) == (0, 0, now)
        assert [t.index for t in Task.objects.filter(job=job).order_by("id")] == list(range(9))

    @pytest.mark.parametrize("at_once", [1, 4, 9])
    def test_inserted_in_parts_they_are_the_same(
        self, customer: Customer, now: datetime, monkeypatch: pytest.MonkeyPatch, at_once: int
    ) -> None:
        columns = ("index", "rank", "frame", "parameters", "is_scout", "status")
        whole = submit(customer, frames="10-18", scouts="11,15", now=now)
        monkeypatch.setattr(services, "TASKS_AT_ONCE", at_once)

        parts = submit(customer, frames="10-18", scouts="11,15", now=now)

        wanted, found = (list(Task.objects.filter(job=j).order_by("id").values(*columns)) for j in (whole, parts))
        assert found == wanted
        assert [row["frame"] for row in found if row["is_scout"]] == [11, 15]

    def test_values_of_any_letters_survive(self, customer: Customer, now: datetime) -> None:
        odd = ["a b", "'\"\\", "{}", "NULL", "日本", "🐄", "a,b"]
        text = json.dumps(
            {
                "specificationVersion": "jobtemplate-2023-09",
                "name": "Odd",
                "steps": [
                    {
                        "name": "Only",
                        "parameterSpace": {"taskParameterDefinitions": [{"name": "W", "type": "STRING", "range": odd}]},
                        "script": {"actions": {"onRun": {"command": "true"}}},
                    }
                ],
            }
        )

        job = submit(customer, template=text, now=now)

        assert [t.parameters["W"] for t in Task.objects.filter(job=job).order_by("index")] == odd
        assert {t.frame for t in Task.objects.filter(job=job)} == {None}

    def test_it_keeps_what_it_was_ordered_with(self, customer: Customer, now: datetime) -> None:
        job = submit(
            customer,
            now=now,
            name="Beach",
            priority=70,
            deadline=now + LATER,
            sequence="sq1",
            shot="sh2",
            tags={"client": "x"},
            budget_micro=5_000_000,
            timeout_s=600,
            no_progress_s=60,
        )

        job = fresh(job)
        assert (job.name, job.priority, job.deadline) == ("Beach", 70, now + LATER)
        assert (job.timeout_s, job.no_progress_s) == (600, 60)
        assert job.parameters == {"Frames": {"type": "STRING", "value": "1-3"}}
        assert job.template == TEMPLATE
        cost_object = CostObject.objects.get(pk=job.cost_object_id)
        assert (cost_object.sequence, cost_object.shot, cost_object.tags) == ("sq1", "sh2", {"client": "x"})
        assert Budget.objects.get(subject=cost_object.id).cap_micro == 5_000_000

    def test_what_a_step_depends_on_is_done_first(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, template=TWO_STEPS, now=now)

        assert steps(job) == ["active", "waiting"]
        assert statuses(job) == ["ready", "ready", "pending"]

    def test_suspended_it_starts_nothing(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, now=now, suspended=True)

        start_worker(now=now)
        assert dispatch(now=now) == 0
        assert (job.status, job.suspended_by) == (JobStatus.SUSPENDED, SuspendedBy.PERSON)

    def test_a_paused_project_takes_none(self, customer: Customer, now: datetime) -> None:
        customer.project.is_paused = True

        with pytest.raises(services.ProjectPaused):
            submit(customer, now=now)

    def test_a_deadline_that_is_over_is_refused(self, customer: Customer, now: datetime) -> None:
        with pytest.raises(services.DeadlinePassed) as refusal:
            submit(customer, now=now, deadline=now)

        assert refusal.value.field == "deadline"

    def test_a_refused_order_leaves_nothing(self, customer: Customer, now: datetime) -> None:
        with pytest.raises(NotFound):
            submit(customer, now=now, after=[customer.project.id])

        assert not Job.objects.exists()
        assert not CostObject.objects.exists()
        assert not Event.objects.exists()


class TestAfter:
    def test_a_job_waits_until_the_ones_before_it_have_succeeded(self, customer: Customer, now: datetime) -> None:
        first, second = submit(customer, frames="1", now=now), submit(customer, frames="1", now=now)
        job = submit(customer, frames="1-2", after=[first.id, second.id], now=now)
        assert (steps(job), statuses(job)) == (["waiting"], ["pending"] * 2)

        render(now, slots=1)
        assert steps(job) == ["waiting"]
        render(now, slots=1)

        assert (steps(job), statuses(job)) == (["active"], ["ready"] * 2)

    def test_after_one_that_has_succeeded_it_begins_at_once(self, customer: Customer, now: datetime) -> None:
        first = submit(customer, frames="1", now=now)
        render(now)

        assert statuses(submit(customer, frames="1", after=[first.id, first.id], now=now)) == ["ready"]

    @pytest.mark.parametrize("fail", [True, False])
    def test_after_one_that_failed_or_was_cancelled_it_waits_for_its_retry(
        self, customer: Customer, now: datetime, fail: bool
    ) -> None:
        first = submit(customer, frames="1", now=now)
        job = submit(customer, frames="1", after=[first.id], now=now)
        if fail:
            render(now, fail=1)
        else:
            services.cancel_job(first, now=now)
        assert (statuses(job), fresh(job).status) == (["pending"], JobStatus.ACTIVE)

        services.retry_tasks(first, Selection("missing"), now=now)
        render(now)

        assert statuses(job) == ["ready"]

    def test_a_chain_goes_on_by_itself(self, customer: Customer, now: datetime) -> None:
        jobs = [submit(customer, frames="1", now=now)]
        for _ in range(3):
            jobs.append(submit(customer, frames="1", after=[jobs[-1].id], now=now))

        for _ in jobs:
            render(now)

        assert {fresh(job).status for job in jobs} == {JobStatus.SUCCEEDED}

    def test_a_foreign_job_is_not_there(self, customer: Customer, now: datetime) -> None:
        foreign = submit(open_customer(), frames="1", now=now)

        with pytest.raises(NotFound):
            submit(customer, after=[foreign.id], now=now)
        assert not JobAfter.objects.exists()

    def test_cancelling_one_of_its_steps_does_not_end_a_job_that_still_waits(
        self, customer: Customer, now: datetime
    ) -> None:
        first = submit(customer, frames="1", now=now)
        text = TEMPLATE + TEMPLATE.partition("steps:\n")[2].replace("Count", "Other")
        job = submit(customer, frames="1", template=text, after=[first.id], now=now)

        services.cancel_tasks(job, [Task.objects.filter(job=job)[0].id], now=now)
        assert (fresh(job).status, steps(job)) == (JobStatus.ACTIVE, ["cancelled", "waiting"])
        render(now)

        assert (steps(job), statuses(job)) == (["cancelled", "active"], ["cancelled", "ready"])


class TestSuspendAndResume:
    def test_what_runs_finishes_and_nothing_new_starts(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, now=now)
        worker = start_worker(now=now)
        assert dispatch(now=now) == 1
        worker.sync(now=now)

        services.suspend_job(job)
        worker.finish_all(now=now)

        assert dispatch(now=now) == 0
        assert sorted(statuses(job)) == ["ready", "ready", "succeeded"]
        services.resume_job(job, now=now)
        assert dispatch(now=now) >= 1
        assert events(job) == ["job.submitted", "job.suspended", "job.resumed"]

    def test_suspending_twice_is_suspending(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, now=now)

        services.suspend_job(job)
        services.suspend_job(fresh(job))

        assert events(job).count("job.suspended") == 1

    def test_a_job_whose_last_task_ends_while_it_is_suspended_has_ended(
        self, customer: Customer, now: datetime
    ) -> None:
        job = submit(customer, frames="1", now=now)
        worker = start_worker(now=now)
        dispatch(now=now)
        worker.sync(now=now)
        services.suspend_job(job)

        worker.finish_all(now=now)

        assert (fresh(job).status, fresh(job).suspended_by) == (JobStatus.SUCCEEDED, "")

    def test_what_is_not_suspended_cannot_be_resumed(self, customer: Customer, now: datetime) -> None:
        with pytest.raises(services.NotSuspended, match="it is active"):
            services.resume_job(submit(customer, now=now), now=now)

    def test_what_has_ended_cannot_be_suspended(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1", now=now)
        render(now)

        with pytest.raises(services.JobEnded, match="succeeded"):
            services.suspend_job(job)


class TestCancelJob:
    def test_what_has_not_ended_is_cancelled_and_what_has_stays(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, template=TWO_STEPS, now=now)
        render(now, slots=1)

        assert services.cancel_job(job, now=now + LATER) == 2

        assert sorted(statuses(job)) == ["cancelled", "cancelled", "succeeded"]
        assert (fresh(job).status, fresh(job).ended_at) == (JobStatus.CANCELLED, now + LATER)
        assert events(job)[-1] == "job.cancelled"

    def test_twice_is_refused(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, now=now)
        services.cancel_job(job, now=now)

        with pytest.raises(services.JobEnded):
            services.cancel_job(fresh(job), now=now)


class TestCancelTasks:
    def test_only_those_named_are_cancelled_and_the_rest_may_succeed(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1-3", now=now)
        second = Task.objects.get(job=job, frame=2)

        assert services.cancel_tasks(job, [second.id, job.id], now=now) == 1
        render(now)

        assert statuses(job) == ["succeeded", "cancelled", "succeeded"]
        assert fresh(job).status == JobStatus.SUCCEEDED

    def test_all_of_them_end_the_job(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1-3", now=now)

        services.cancel_tasks(job, list(Task.objects.values_list("id", flat=True)), now=now)

        assert fresh(job).status == JobStatus.CANCELLED

    def test_those_of_a_step_that_another_needs_end_the_job(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, template=TWO_STEPS, now=now)
        first = list(Task.objects.filter(step__name="First").values_list("id", flat=True))

        services.cancel_tasks(job, first, now=now)

        assert fresh(job).status == JobStatus.CANCELLED
        assert (steps(job), statuses(job)) == (["cancelled", "waiting"], ["cancelled", "cancelled", "pending"])

    def test_what_has_ended_stays(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1", now=now)
        render(now)

        assert services.cancel_tasks(job, list(Task.objects.values_list("id", flat=True)), now=now) == 0
        assert statuses(job) == ["succeeded"]


class TestRetryTasks:
    def test_failed_ones_come_again_first_with_a_new_generation_and_a_clean_slate(
        self, customer: Customer, now: datetime
    ) -> None:
        job = submit(customer, frames="1-3", now=now)
        render(now, slots=3, fail=1)
        assert (fresh(job).status, statuses(job)) == (JobStatus.FAILED, ["failed", "succeeded", "succeeded"])

        assert services.retry_tasks(job, Selection("failed"), now=now) == 1

        task = Task.objects.get(job=job, status="ready")
        assert (task.generation, task.failures, task.failed_on, task.rank) == (2, 0, [], -1)
        assert (fresh(job).status, fresh(job).ended_at, steps(job)) == (JobStatus.ACTIVE, None, ["active"])
        render(now)
        assert fresh(job).status == JobStatus.SUCCEEDED

    def test_missing_are_all_that_have_not_succeeded(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1-4", now=now)
        render(now, slots=2, fail=1)
        services.cancel_job(job, now=now)
        assert sorted(statuses(job)) == ["cancelled", "cancelled", "failed", "succeeded"]

        assert services.retry_tasks(job, Selection("missing"), now=now) == 3
        assert sorted(statuses(job)) == ["ready", "ready", "ready", "succeeded"]

    def test_a_list_renders_succeeded_ones_again_too(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1-2", now=now)
        render(now)
        first = Task.objects.get(job=job, frame=1)

        assert services.retry_tasks(job, Selection("list", [first.id]), now=now) == 1

        assert statuses(job) == ["ready", "succeeded"]
        assert fresh(job).status == JobStatus.ACTIVE

    def test_a_task_that_is_still_to_come_is_left_alone(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1", now=now)

        with pytest.raises(services.NothingToRetry):
            services.retry_tasks(job, Selection("list", [Task.objects.get(job=job).id]), now=now)

        assert Task.objects.get(job=job).generation == 0

    def test_steps_that_depend_on_it_are_done_again(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, template=TWO_STEPS, now=now)
        render(now)
        render(now)
        assert fresh(job).status == JobStatus.SUCCEEDED
        again = Task.objects.filter(step__name="First")[0]

        assert services.retry_tasks(job, Selection("list", [again.id]), now=now) == 2

        assert (steps(job), sorted(statuses(job))) == (["active", "waiting"], ["pending", "ready", "succeeded"])
        render(now)
        assert steps(job) == ["succeeded", "active"]
        render(now)
        assert fresh(job).status == JobStatus.SUCCEEDED

    def test_what_runs_of_a_dependent_step_is_overtaken(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, template=TWO_STEPS, now=now)
        render(now)
        worker = start_worker(now=now)
        assert dispatch(now=now) == 1
        worker.sync(now=now)

        services.retry_tasks(job, Selection("list", [Task.objects.filter(step__name="First")[0].id]), now=now)
        worker.finish_all(now=now)

        second = Task.objects.get(step__name="Second")
        assert (second.status, second.generation) == (TaskStatus.PENDING, 2)
        assert attempts_of(job)[-1].status == AttemptStatus.SUPERSEDED

    def test_a_task_of_a_step_that_waits_waits(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, template=TWO_STEPS, now=now)
        second = Task.objects.get(step__name="Second")
        services.cancel_tasks(job, [second.id], now=now)
        assert steps(job) == ["active", "cancelled"]

        services.retry_tasks(job, Selection("missing"), now=now)
        assert steps(job) == ["active", "waiting"]
        assert dispatch(now=now) == 0  # no worker yet
        for _ in range(2):
            render(now)

        assert fresh(job).status == JobStatus.SUCCEEDED
        assert Task.objects.get(pk=second.pk).status == TaskStatus.SUCCEEDED

    @pytest.mark.parametrize("which", ["failed", "missing", "list"])
    def test_nothing_to_retry_is_said(self, customer: Customer, now: datetime, which: str) -> None:
        job = submit(customer, frames="1", now=now)
        render(now)

        with pytest.raises(services.NothingToRetry):
            services.retry_tasks(job, Selection(which), now=now)
        assert fresh(job).status == JobStatus.SUCCEEDED

    def test_an_unknown_selection_is_refused(self, customer: Customer, now: datetime) -> None:
        with pytest.raises(Invalid):
            services.retry_tasks(submit(customer, now=now), Selection("all"), now=now)


class TestStorms:
    def test_a_job_whose_first_three_tasks_fail_asks(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1-10", now=now)

        render(now, slots=3, fail=3)

        assert (fresh(job).status, fresh(job).suspended_by) == (JobStatus.SUSPENDED, SuspendedBy.FAILURES)

    def test_resumed_it_forgives_those_there_are_and_asks_again_for_as_many(
        self, customer: Customer, now: datetime
    ) -> None:
        job = submit(customer, frames="1-10", now=now)
        render(now, slots=3, fail=3)
        services.resume_job(job, now=now)

        render(now, slots=2, fail=2)
        assert fresh(job).status == JobStatus.ACTIVE
        render(now, slots=1, fail=1)

        assert fresh(job).suspended_by == SuspendedBy.FAILURES

    def test_a_retry_of_what_was_forgiven_counts_anew(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1-10", now=now)
        render(now, slots=3, fail=3)
        services.resume_job(job, now=now)
        services.retry_tasks(job, Selection("failed"), now=now)

        render(now, slots=3, fail=3)

        assert fresh(job).suspended_by == SuspendedBy.FAILURES


class TestScouts:
    def scouted(self, customer: Customer, now: datetime, **more: Any) -> Job:
        return submit(customer, frames="1-10", scouts="auto", now=now, **more)

    def test_only_they_are_ready(self, customer: Customer, now: datetime) -> None:
        job = self.scouted(customer, now)

        ready = Task.objects.filter(job=job, status="ready").order_by("frame")
        assert [t.frame for t in ready] == [1, 5, 10]
        assert (job.approval, fresh(job).status) == (Approval.SCOUTING, JobStatus.ACTIVE)

    def test_when_they_are_done_a_person_decides(self, customer: Customer, now: datetime) -> None:
        job = self.scouted(customer, now)

        render(now)

        job = fresh(job)
        assert (job.status, job.suspended_by, job.approval) == ("suspended", "approval", "waiting")
        assert statuses(job).count("pending") == 7

    def test_resuming_is_the_approval_and_releases_the_rest(self, customer: Customer, now: datetime) -> None:
        job = self.scouted(customer, now)
        render(now)

        services.resume_job(job, now=now)

        assert (fresh(job).status, fresh(job).approval) == (JobStatus.ACTIVE, Approval.GIVEN)
        assert statuses(job).count("ready") == 7
        render(now)
        assert fresh(job).status == JobStatus.SUCCEEDED

    def test_later_steps_are_not_held_back_once_it_is_given(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, template=TWO_STEPS.replace("1-2", "1-5"), scouts="auto", now=now)
        render(now)
        services.resume_job(job, now=now)

        render(now)
        assert steps(job) == ["succeeded", "active"]
        render(now)

        assert fresh(job).status == JobStatus.SUCCEEDED

    def test_scouts_that_fail_are_a_storm_and_resuming_goes_on_with_the_rest(
        self, customer: Customer, now: datetime
    ) -> None:
        job = self.scouted(customer, now)

        render(now, fail=3)
        assert (fresh(job).suspended_by, fresh(job).approval) == ("failures", "waiting")
        services.resume_job(job, now=now)

        assert statuses(job).count("ready") == 7

    def test_suspended_meanwhile_it_asks_when_it_is_resumed(self, customer: Customer, now: datetime) -> None:
        job = self.scouted(customer, now)
        worker = start_worker(now=now, slots=3)
        dispatch(now=now)
        worker.sync(now=now)
        services.suspend_job(job)
        worker.finish_all(now=now)

        services.resume_job(job, now=now)

        assert (fresh(job).status, fresh(job).suspended_by) == (JobStatus.SUSPENDED, SuspendedBy.APPROVAL)

    def test_while_they_wait_for_another_job_nobody_is_asked(self, customer: Customer, now: datetime) -> None:
        first = submit(customer, frames="1", now=now)
        job = self.scouted(customer, now, after=[first.id])

        settle_jobs([job.id], now=now)
        assert (fresh(job).status, fresh(job).approval) == (JobStatus.ACTIVE, Approval.SCOUTING)
        render(now)

        assert statuses(job).count("ready") == 3

    def test_cancelled_it_was_declined(self, customer: Customer, now: datetime) -> None:
        job = self.scouted(customer, now)
        render(now)

        services.cancel_job(fresh(job), now=now)

        assert (fresh(job).status, fresh(job).approval) == (JobStatus.CANCELLED, Approval.DECLINED)


class TestChangePriority:
    def test_the_more_important_job_goes_first(self, customer: Customer, now: datetime) -> None:
        old, new = submit(customer, frames="1", now=now), submit(customer, frames="1", now=now)
        services.change_priority(new, 90)
        start_worker(now=now)

        dispatch(now=now)

        assert (statuses(old), statuses(new)) == (["ready"], ["leased"])

    @pytest.mark.parametrize("priority", [-1, 101])
    def test_outside_0_to_100_it_is_refused(self, customer: Customer, now: datetime, priority: int) -> None:
        with pytest.raises(Invalid):
            services.change_priority(submit(customer, now=now), priority)


class TestInspectVersion:
    def test_it_is_ordered_once_and_ahead_of_all(self, make_version: MakeVersion, now: datetime) -> None:
        version = make_version(is_inspected=False)

        job = services.inspect_version(version, renderer="blender", now=now)

        assert job is not None
        assert (job.purpose, job.priority, statuses(job)) == ("inspection", 100, ["ready"])
        assert services.inspect_version(version, renderer="blender", now=now) is None

    def test_nobody_s_upload_is_left_alone(self, make_version: MakeVersion, now: datetime) -> None:
        version = make_version(is_inspected=False)
        version.created_by = None

        assert services.inspect_version(version, renderer="blender", now=now) is None


class TestJobOrder:
    def test_an_order_is_complete_without_a_word(self) -> None:
        assert JobOrder().priority == 50


class TestSteps:
    def test_of_a_chain_each_is_released_by_the_one_before(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, template=TWO_STEPS, now=now)
        render(now)
        assert steps(job) == [StepStatus.SUCCEEDED, StepStatus.ACTIVE]

        render(now, fail=1)

        assert (fresh(job).status, steps(job)) == (JobStatus.FAILED, ["succeeded", "failed"])

    def test_a_failed_step_ends_the_job_though_others_wait_for_it(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, template=TWO_STEPS, now=now)

        render(now, fail=1)

        assert (fresh(job).status, steps(job), statuses(job)[2]) == (JobStatus.FAILED, ["failed", "waiting"], "pending")
        services.retry_tasks(job, Selection("failed"), now=now)
        render(now)
        render(now)
        assert fresh(job).status == JobStatus.SUCCEEDED

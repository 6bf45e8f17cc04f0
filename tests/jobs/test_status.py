"""Whatever people and workers do, in whatever order: counters equal a fresh count, and nothing is stuck."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from farm.billing.models import UsageFact
from farm.core.errors import Refusal
from farm.dispatch.models import Attempt
from farm.jobs import services
from farm.jobs.models import Job, Step, Task
from farm.jobs.moves import LIVE_JOBS, Approval, JobStatus, StepStatus, TaskStatus
from farm.jobs.reconcilers import close_jobs
from farm.jobs.services import Selection
from farm.jobs.status import count_tasks
from tests.farm import (
    TEMPLATE,
    TWO_STEPS,
    Customer,
    FakeWorker,
    dispatch,
    failure,
    local_fleet,
    open_customer,
    start_worker,
    submit,
)
from workers.protocol import Cause, Outcome

WHICH = st.sampled_from(["failed", "missing", "list"])
CAUSES = st.sampled_from([Cause.MISSING_ASSET, Cause.SCENE_ERROR, Cause.DISK_FULL])
DIAMOND = """
specificationVersion: jobtemplate-2023-09
name: Diamond
steps:
- {name: Join, dependencies: [{dependsOn: Left}, {dependsOn: Right}], script: {actions: {onRun: {command: echo}}}}
- {name: Left, dependencies: [{dependsOn: Top}], script: {actions: {onRun: {command: echo}}}}
- {name: Right, dependencies: [{dependsOn: Top}], script: {actions: {onRun: {command: echo}}}}
- name: Top
  parameterSpace: {taskParameterDefinitions: [{name: Frame, type: INT, range: "1-2"}]}
  script: {actions: {onRun: {command: echo}}}
"""


class JobsUnderWay(RuleBasedStateMachine):
    """Jobs of several shapes, workers that succeed, fail and vanish, and people who change their minds."""

    def __init__(self) -> None:
        super().__init__()
        self.undo = ExitStack()
        self.undo.enter_context(_rolled_back())
        self.now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
        self.customer: Customer = open_customer()
        self.workers: list[FakeWorker] = []
        self.jobs: list[Job] = []

    def teardown(self) -> None:
        self.undo.close()

    def tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def pick(self, data: st.DataObject) -> Job:
        return Job.objects.get(pk=data.draw(st.sampled_from([j.pk for j in self.jobs])))

    @initialize()
    def begin(self) -> None:
        local_fleet(max_machines=4)
        self.workers = [start_worker(now=self.now, slots=3) for _ in range(2)]

    @precondition(lambda self: len(self.jobs) < 5)
    @rule(
        data=st.data(),
        template=st.sampled_from([TEMPLATE, TWO_STEPS, DIAMOND]),
        scouts=st.sampled_from(["none", "auto"]),
        suspended=st.booleans(),
    )
    def submit(self, data: st.DataObject, template: str, scouts: str, suspended: bool) -> None:
        after = data.draw(st.lists(st.sampled_from([j.id for j in self.jobs]), max_size=2)) if self.jobs else []
        self.jobs.append(
            submit(
                self.customer,
                frames="1-6",
                template=template,
                scouts=scouts,
                suspended=suspended,
                after=after,
                now=self.tick(),
            )
        )

    @rule()
    def claim(self) -> None:
        dispatch(now=self.tick())
        for worker in self.workers:
            worker.sync(now=self.now)

    @rule(data=st.data(), cause=st.none() | CAUSES)
    def end_one(self, data: st.DataObject, cause: Cause | None) -> None:
        held = [(worker, attempt) for worker in self.workers for attempt in worker.held]
        if not held:
            return
        worker, attempt = held[data.draw(st.integers(0, len(held) - 1))]
        if Attempt.objects.get(pk=attempt).task.status == TaskStatus.CANCELLED:
            worker.end(attempt, failure(Cause.CANCELLED, outcome=Outcome.CANCELLED))
        elif cause is not None:
            worker.end(attempt, failure(cause))
        else:
            worker.finish_all(now=self.tick())
            return
        worker.sync(now=self.tick())

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def suspend(self, data: st.DataObject) -> None:
        self.try_to(services.suspend_job, self.pick(data))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        self.try_to(services.resume_job, self.pick(data), now=self.tick())

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.try_to(services.cancel_job, self.pick(data), now=self.tick())

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel_some(self, data: st.DataObject) -> None:
        job = self.pick(data)
        services.cancel_tasks(job, self.some_tasks(data, job), now=self.tick())

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), which=WHICH)
    def retry(self, data: st.DataObject, which: str) -> None:
        job = self.pick(data)
        self.try_to(services.retry_tasks, job, Selection(which, self.some_tasks(data, job)), now=self.tick())

    def some_tasks(self, data: st.DataObject, job: Job) -> list[UUID]:
        ids = list(Task.objects.filter(job=job).order_by("id").values_list("id", flat=True))
        return data.draw(st.lists(st.sampled_from(ids), max_size=4, unique=True))

    def try_to(self, act: object, *args: object, **more: object) -> None:
        assert callable(act)
        try:
            with transaction.atomic():
                act(*args, **more)
        except Refusal:
            pass

    @invariant()
    def counters_equal_a_fresh_count(self) -> None:
        steps = {s.id: s for s in Step.objects.all()}
        assert {i: s.counts for i, s in steps.items()} == count_tasks(steps)

    @invariant()
    def no_task_is_charged_twice(self) -> None:
        charged = UsageFact.objects.filter(charged_micro__gt=0).values_list("task", "generation")
        assert len(charged) == len(set(charged))

    @invariant()
    def statuses_agree(self) -> None:
        for job in Job.objects.all():
            steps = list(Step.objects.filter(job=job).order_by("index"))
            by_id = {s.id: s for s in steps}
            for step in steps:
                self.check_step(job, step, [by_id[d] for d in step.depends_on])
            has_ended = JobStatus(job.status) not in LIVE_JOBS
            assert has_ended == (job.ended_at is not None)
            assert bool(job.suspended_by) == (job.status == JobStatus.SUSPENDED)
            if job.status == JobStatus.SUCCEEDED:
                assert not any(s.failed or s.ready or s.leased or s.pending for s in steps)
            if has_ended:
                assert not any(s.status == StepStatus.ACTIVE for s in steps)

    def check_step(self, job: Job, step: Step, needed: list[Step]) -> None:
        if step.status == StepStatus.ACTIVE:
            assert step.pending + step.ready + step.leased
            assert all(n.status == StepStatus.SUCCEEDED for n in needed)
            if job.approval not in {Approval.SCOUTING, Approval.WAITING}:
                assert step.pending == 0, "nothing else would release them"
        if step.status == StepStatus.WAITING:
            others = job.waits_for.exclude(after__status=JobStatus.SUCCEEDED).exists()
            assert others or any(n.status != StepStatus.SUCCEEDED for n in needed)
        if step.status in {StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.CANCELLED}:
            assert step.pending + step.ready + step.leased == 0

    @rule()
    def settling_again_changes_nothing(self) -> None:
        before = list(Job.objects.order_by("id").values_list("status", "approval", "suspended_by"))
        steps = list(Step.objects.order_by("id").values())

        close_jobs()

        assert list(Job.objects.order_by("id").values_list("status", "approval", "suspended_by")) == before
        assert list(Step.objects.order_by("id").values()) == steps


@contextmanager
def _rolled_back() -> Iterator[None]:
    """Undo all that an example did."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.mark.django_db
class TestJobsUnderWay:
    def test_counters_and_statuses_hold_whatever_happens(self) -> None:
        examples = int(os.environ.get("FARM_TEST_EXAMPLES", "10"))
        wish = settings(
            max_examples=examples, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        )

        run_state_machine_as_test(JobsUnderWay, settings=wish)

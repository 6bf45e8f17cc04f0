"""What people do with jobs: submit, suspend, resume, cancel, retry, continue, change priority."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from farm.billing.models import CostObject
from farm.billing.pricing import hold_amount
from farm.billing.services import open_cost_object
from farm.core.errors import Invalid, NotFound, Refusal
from farm.core.events import emit
from farm.core.fields import new_ids
from farm.core.moves import move_to
from farm.core.wakeups import wake_dispatcher, wake_reconciler
from farm.jobs.expansion import ExpandedStep, Expansion
from farm.jobs.models import Job, JobAfter, Step
from farm.jobs.moves import (
    JOB_MOVES,
    LIVE_JOBS,
    Approval,
    JobStatus,
    Purpose,
    StepStatus,
    SuspendedBy,
    TaskStatus,
)
from farm.jobs.orders import JobOrder, Plan, PlannedStep, plan
from farm.jobs.status import REVISION, Moved, lock_jobs, move_tasks, ripple, settle_jobs, suspend, waits_for_scouts
from farm.scenes.models import SceneVersion
from farm.studios.models import Project, User

CAPACITY = "farm.dispatch.reconcilers.provide_capacity"


class ProjectPaused(Refusal):
    """The project {name!r} is paused. Resume it, then submit again."""

    code = "project-paused"


class DeadlinePassed(Refusal):
    """The deadline {deadline} is over. Give a later one, or none."""

    code = "deadline-passed"
    status = 422


class JobEnded(Refusal):
    """The job has ended ({status}); only a retry brings it back."""

    code = "job-ended"


class NotSuspended(Refusal):
    """The job is not suspended; it is {status}."""

    code = "not-suspended"


class BudgetTooSmall(Refusal):
    """With a budget of {budget} {currency} not one frame could start: until it is known how long frames take, each sets {least} {currency} aside, ten minutes' worth. Give at least that; what is not used is not charged."""  # noqa: E501

    code = "budget-too-small"
    status = 422


class NothingToRetry(Refusal):
    """There is nothing to retry: no task is {which}. Cancelled tasks are retried with 'missing', any with a list."""

    code = "nothing-to-retry"


@transaction.atomic
def submit_job(
    *,
    project: Project,
    artist: User,
    order: JobOrder,
    version: SceneVersion | None,
    now: datetime,
    purpose: Purpose = Purpose.RENDER,
) -> Job:
    """
    Expand an order into steps and tasks and queue them.

    :raises ProjectPaused: the project takes nothing at the moment
    :raises DeadlinePassed: the deadline is over
    :raises NotFound: a job in `after` is not the studio's
    :raises Refusal: whatever `orders.plan` refuses
    """
    if project.is_paused:
        raise ProjectPaused(name=project.name, field="project")
    if order.deadline is not None and order.deadline <= now:
        raise DeadlinePassed(deadline=order.deadline.isoformat(), field="deadline")
    planned = plan(order, version=version, purpose=purpose)
    name = order.name or planned.expansion.name
    cost_object = open_cost_object(
        studio=project.studio,
        project=project,
        artist=artist,
        name=name,
        sequence=order.sequence,
        shot=order.shot,
        tags=dict(order.tags),
        budget_micro=order.budget_micro,
        worker_classes=planned.worker_classes,
        now=now,
    )
    _require_budget(cost_object, order.budget_micro, purpose)
    scouting = any(step.scouts for step in planned.steps)
    job = Job.objects.create(
        studio=project.studio,
        project=project,
        cost_object=cost_object,
        scene_version=version,
        created_by=artist,
        name=name[:200],
        purpose=purpose,
        renderer=order.renderer,
        template=planned.template,
        parameters=planned.expansion.parameters,
        status=JobStatus.SUSPENDED if order.suspended else JobStatus.ACTIVE,
        suspended_by=SuspendedBy.PERSON if order.suspended else "",
        approval=Approval.SCOUTING if scouting else Approval.NONE,
        priority=order.priority,
        deadline=order.deadline,
        timeout_s=order.timeout_s,
        no_progress_s=order.no_progress_s,
        created_at=now,
    )
    waits = _wait_for(job, order.after)
    _create_steps(job, planned, waits=waits, now=now)
    emit(
        "job.submitted",
        studio=job.studio_id,
        subject=job.id,
        name=job.name,
        purpose=str(purpose),
        tasks=planned.expansion.task_count,
    )
    wake_dispatcher()
    wake_reconciler(CAPACITY)
    return job


def _require_budget(cost_object: CostObject, budget_micro: int | None, purpose: Purpose) -> None:
    """A budget below the first hold would let nothing start, for ever."""
    if budget_micro is None:
        return
    rates = cost_object.quoted_rates.values_list("micro_per_gpu_hour", flat=True)
    least = min((hold_amount(None, gpus=1, rate=rate, purpose=str(purpose)) for rate in rates), default=0)
    if budget_micro < least:
        shown = {"budget": f"{budget_micro / 1e6:.2f}", "least": f"{least / 1e6:.2f}", "currency": cost_object.currency}
        raise BudgetTooSmall(**shown, field="budget_micro")


def _wait_for(job: Job, after: Sequence[UUID]) -> bool:
    """Note which jobs this one comes after; True if one of them has not succeeded yet."""
    # Locked: either their end is seen here, or they see this job when they end.
    found = {j.id: j for j in Job.objects.select_for_update(no_key=True).filter(pk__in=after).order_by("pk")}
    if missing := [i for i in after if i not in found or found[i].studio_id != job.studio_id]:
        raise NotFound(what="job", id=missing[0], field="after")
    JobAfter.objects.bulk_create([JobAfter(studio_id=job.studio_id, job=job, after_id=i) for i in found])
    return any(j.status != JobStatus.SUCCEEDED for j in found.values())


def _create_steps(job: Job, planned: Plan, *, waits: bool, now: datetime) -> None:
    scouting = job.approval == Approval.SCOUTING
    ids = dict(zip((step.name for step in planned.expansion.steps), new_ids(len(planned.steps)), strict=True))
    rows = []
    for index, (step, more) in enumerate(zip(planned.expansion.steps, planned.steps, strict=True)):
        is_active = not waits and not step.depends_on
        ready = 0 if not is_active else len(more.scouts) if scouting else len(step.points)
        rows.append(
            Step(
                id=ids[step.name],
                studio_id=job.studio_id,
                job=job,
                index=index,
                name=step.name[:200],
                status=StepStatus.ACTIVE if is_active else StepStatus.WAITING,
                depends_on=[ids[name] for name in step.depends_on],
                document=_document(planned.expansion, step),
                parameter_types=step.parameter_types,
                requirements=more.requirements.to_json(),
                outputs=more.outputs,
                ready=ready,
                pending=len(step.points) - ready,
            )
        )
    Step.objects.bulk_create(rows)
    for row, step, more in zip(rows, planned.expansion.steps, planned.steps, strict=True):
        _create_tasks(row, step, more, scouts_only=scouting, now=now)


def _document(expansion: Expansion, step: ExpandedStep) -> dict[str, Any]:
    """Give what a worker needs to run a step, the same for all its tasks."""
    return {
        "environments": step.environments,
        "script": step.script,
        "extensions": expansion.extensions,
        "input_paths": expansion.input_paths,
        "output_paths": expansion.output_paths,
    }


# The columns come as texts that the database takes apart: a parameter for each value costs more than the insert.
_INSERT_TASKS = f"""
INSERT INTO jobs_task (studio_id, job_id, step_id, index, rank, parameters, frame, is_scout, status,
                       generation, failures, failed_on, interruptions, changed_at, revision)
SELECT %(studio)s, %(job)s, %(step)s, t.index, t.rank, t.parameters, t.frame, t.is_scout,
       CASE WHEN t.is_scout OR NOT %(scouts_only)s THEN %(status)s ELSE 'pending' END,
       0, 0, '{{}}', 0, %(now)s, {REVISION}
  FROM (SELECT rank, parameters, frame, %(first)s + place - 1 AS index,
               %(first)s + place - 1 = ANY(%(scouts)s::int[]) AS is_scout
          FROM ROWS FROM (unnest(%(ranks)s::int[]), jsonb_array_elements(%(parameters)s::jsonb),
                          unnest(%(frames)s::int[])) WITH ORDINALITY AS r(rank, parameters, frame, place)) t
"""  # noqa: S608  (the revision is this room's own)
TASKS_AT_ONCE = 25_000  # in a statement: a jsonb value has its limits


def _create_tasks(step: Step, expanded: ExpandedStep, more: PlannedStep, *, scouts_only: bool, now: datetime) -> None:
    """Insert a step's tasks in a few statements. (PostgreSQL refuses COPY into tables under row-level security.)"""
    ready = TaskStatus.READY if step.status == StepStatus.ACTIVE else TaskStatus.PENDING
    with connection.cursor() as cursor:
        for first in range(0, len(expanded.points), TASKS_AT_ONCE):
            part = slice(first, first + TASKS_AT_ONCE)
            parameters = [dict(zip(expanded.names, point, strict=True)) for point in expanded.points[part]]
            cursor.execute(
                _INSERT_TASKS,
                {
                    "studio": step.studio_id,
                    "job": step.job_id,
                    "step": step.id,
                    "now": now,
                    "first": first,
                    "scouts": _array(more.scouts),
                    "scouts_only": scouts_only,
                    "status": str(ready),
                    "ranks": _array(more.ranks[part]),
                    "frames": _array(more.frames[part]),
                    "parameters": json.dumps(parameters),
                },
            )


def _array(numbers: Iterable[int | None]) -> str:
    return "{" + ",".join("NULL" if n is None else str(n) for n in numbers) + "}"


@transaction.atomic
def suspend_job(job: Job, *, by: SuspendedBy = SuspendedBy.PERSON) -> None:
    """
    Start nothing new of a job; what runs finishes. One that is suspended already stays so.

    :raises JobEnded: it has ended
    """
    if suspend(job, by):
        return
    job.refresh_from_db(fields=["status"])
    if job.status != JobStatus.SUSPENDED:
        raise JobEnded(status=job.status)


@transaction.atomic
def resume_job(job: Job, *, now: datetime) -> None:
    """
    Let a suspended job go on; after scouts this is the approval, after failures it forgives those there are.

    :raises NotSuspended: it is not suspended
    """
    (job,) = lock_jobs([job.id])
    if job.status != JobStatus.SUSPENDED:
        raise NotSuspended(status=job.status)
    is_approval = job.approval == Approval.WAITING
    move_to(
        job,
        JobStatus.ACTIVE,
        moves=JOB_MOVES,
        suspended_by="",
        storm_forgiven=sum(Step.objects.filter(job=job).values_list("failed", flat=True)),
        approval=Approval.GIVEN if is_approval else job.approval,
    )
    settle_jobs([job.id], now=now)  # releases what waited for the approval
    emit("job.resumed", studio=job.studio_id, subject=job.id, name=job.name)
    wake_dispatcher()
    wake_reconciler(CAPACITY)


@transaction.atomic
def cancel_job(job: Job, *, now: datetime) -> int:
    """
    Cancel what has not ended; running tasks are stopped by their workers within seconds. Gives how many were cancelled.

    :raises JobEnded: it has ended
    """
    if JobStatus(job.status) not in LIVE_JOBS:
        raise JobEnded(status=job.status)
    moved = move_tasks(TaskStatus.CANCELLED, where="job_id = %(job)s", params={"job": job.id}, now=now, only=OPEN_TASKS)
    (job,) = lock_jobs([job.id])
    if waits_for_scouts(job):
        Job.objects.filter(pk=job.pk).update(approval=Approval.DECLINED)
    ripple(moved, now=now, cancelled=job.id)
    settle_jobs([job.id], now=now, cancelled=job.id)
    wake_dispatcher()
    return len(moved)


OPEN_TASKS = [TaskStatus.PENDING, TaskStatus.READY, TaskStatus.LEASED]


@transaction.atomic
def cancel_tasks(job: Job, tasks: Sequence[UUID], *, now: datetime) -> int:
    """Cancel chosen tasks of a job that have not ended; gives how many were."""
    moved = move_tasks(
        TaskStatus.CANCELLED,
        where="job_id = %(job)s AND id = ANY(%(tasks)s)",
        params={"job": job.id, "tasks": list(tasks)},
        now=now,
        only=OPEN_TASKS,
    )
    ripple(moved, now=now)
    wake_dispatcher()
    return len(moved)


@dataclass(frozen=True)
class Selection:
    """Which tasks to retry: "failed", "missing" (all that have not succeeded), or "list" with ids (succeeded ones too)."""  # noqa: E501

    which: str
    tasks: Sequence[UUID] = ()


_RETRIED = {
    "failed": [TaskStatus.FAILED],
    "missing": [TaskStatus.FAILED, TaskStatus.CANCELLED],
    "list": [TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.SUCCEEDED],
}


@transaction.atomic
def retry_tasks(job: Job, selection: Selection, *, now: datetime) -> int:
    """
    Put tasks back, ahead of the rest, with a new generation: whoever still works on one is overtaken. Gives how many.

    All of the steps that depend on a retried one is done again too, what runs of them included.

    :raises NothingToRetry: the selection is empty
    :raises Invalid: an unknown kind of selection
    """
    if selection.which not in _RETRIED:
        raise Invalid("which", f"{selection.which!r} is not failed, missing or list")
    where, params = (
        "job_id = %(job)s AND status = ANY(%(only)s)",
        {
            "job": job.id,
            "only": [str(status) for status in _RETRIED[selection.which]],
            "first": -1,
        },
    )
    if selection.which == "list":
        where, params = where + " AND id = ANY(%(tasks)s)", {**params, "tasks": list(selection.tasks)}
    dependents = _lock_with_dependents(job, where, params)
    moved = _put_back(job, where, params, now=now)
    if not moved:
        which = "in the list and ended" if selection.which == "list" else selection.which
        raise NothingToRetry(which=which)
    moved += move_tasks(
        TaskStatus.PENDING,
        where="step_id = ANY(%(steps)s)",
        params={"steps": dependents, "first": -1},
        now=now,
        **_PUT_BACK,
    )
    ripple(moved, now=now)
    (job,) = lock_jobs([job.id])
    if JobStatus(job.status) not in LIVE_JOBS:
        move_to(job, JobStatus.ACTIVE, moves=JOB_MOVES, ended_at=None, suspended_by="")
    failed = sum(Step.objects.filter(job=job).values_list("failed", flat=True))
    Job.objects.filter(pk=job.pk, storm_forgiven__gt=failed).update(storm_forgiven=failed)
    settle_jobs([job.id], now=now)
    count = len({m.task for m in moved})
    emit("job.retried", studio=job.studio_id, subject=job.id, name=job.name, tasks=count)
    wake_dispatcher()
    wake_reconciler(CAPACITY)
    return count


# What was locked beforehand; what matches only since then, and somebody has, is left to them.
_PUT_BACK: dict[str, Any] = {
    "bump": True,
    "also": "failures = 0, failed_on = '{}', interruptions = 0, rank = %(first)s",
    "skip_locked": True,
}


def _lock_with_dependents(job: Job, where: str, params: dict[str, Any]) -> list[UUID]:
    """
    Lock tasks, and all of the steps that depend on theirs, in the order that all do; give those steps.

    What the dependent steps made, or are making, is of old inputs.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT DISTINCT step_id FROM jobs_task WHERE {where}", params)  # noqa: S608
        changed = {row[0] for row in cursor.fetchall()}
        dependents = []
        for step, depends_on in Step.objects.filter(job=job).order_by("index").values_list("id", "depends_on"):
            if changed & set(depends_on):
                changed.add(step)
                dependents.append(step)
        cursor.execute(
            f"""
            SELECT 1 FROM jobs_task WHERE ({where}) OR step_id = ANY(%(dependents)s) ORDER BY id FOR NO KEY UPDATE
            """,  # noqa: S608  (the conditions are this room's own)
            {**params, "dependents": dependents},
        )
    return dependents


def _put_back(job: Job, where: str, params: dict[str, Any], *, now: datetime) -> list[Moved]:
    """Make tasks of active and ended steps ready, those of waiting steps pending."""
    waiting = list(Step.objects.filter(job=job, status=StepStatus.WAITING).values_list("id", flat=True))
    shared: dict[str, Any] = {"now": now, "params": {**params, "waiting": waiting}, **_PUT_BACK}
    return [
        *move_tasks(TaskStatus.READY, where=where + " AND NOT step_id = ANY(%(waiting)s)", **shared),
        *move_tasks(TaskStatus.PENDING, where=where + " AND step_id = ANY(%(waiting)s)", **shared),
    ]


@transaction.atomic
def change_priority(job: Job, priority: int) -> None:
    """
    Change a job's priority.

    :raises Invalid: not between 0 and 100
    """
    if not 0 <= priority <= 100:
        raise Invalid("priority", f"{priority} is not between 0 and 100")
    Job.objects.filter(pk=job.pk).update(priority=priority)
    job.priority = priority
    emit("job.priority", studio=job.studio_id, subject=job.id, name=job.name, priority=priority)
    wake_dispatcher()


@transaction.atomic
def act_on_jobs(ids: Sequence[UUID], act: Callable[[Job], object], *, stops: bool = False) -> list[Refusal | None]:
    """
    Do one thing to several jobs, each for itself: what is refused changes nothing, and stops none of the others.

    Gives what was refused, in the order of the jobs. `stops`: the act locks tasks; they all are locked first, in the
    order that everybody locks them, and then steps and jobs.
    """
    if stops:
        with connection.cursor() as cursor:
            cursor.execute(
                """
                SELECT 1 FROM jobs_task WHERE job_id = ANY(%s) AND status IN ('pending', 'ready', 'leased')
                 ORDER BY id FOR NO KEY UPDATE
                """,
                [list(ids)],
            )
    found = {job.id: job for job in lock_jobs(list(ids))}
    return [_act_on(found.get(job), act, job) for job in ids]


def _act_on(job: Job | None, act: Callable[[Job], object], asked: UUID) -> Refusal | None:
    try:
        if job is None:
            raise NotFound(what="job", id=asked)
        with transaction.atomic():
            act(job)
    except Refusal as refusal:
        return refusal
    return None


def inspect_version(version: SceneVersion, *, renderer: str, now: datetime) -> Job | None:
    """
    Order the inspection of a whole version; None when it has one already, or nobody uploaded it.

    :raises Refusal: as `submit_job`
    """
    if version.created_by is None or Job.objects.filter(scene_version=version, purpose=Purpose.INSPECTION).exists():
        return None
    order = JobOrder(name=f"Inspection of {version.entry}"[:200], renderer=renderer, priority=100)
    project = Project.objects.select_related("studio").get(pk=version.scene.project_id)
    return submit_job(
        project=project,
        artist=User.objects.get(pk=version.created_by),
        order=order,
        version=version,
        now=now,
        purpose=Purpose.INSPECTION,
    )

"""What people do with jobs: submit, suspend, resume, cancel, retry, continue, change priority."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from farm.billing.services import open_cost_object
from farm.core.errors import Invalid, NotFound, Refusal
from farm.core.events import emit
from farm.core.moves import move_to
from farm.core.wakeups import wake_dispatcher, wake_reconciler
from farm.jobs.models import Job, JobAfter, Step
from farm.jobs.moves import (
    JOB_MOVES,
    LIVE_JOBS,
    STEP_MOVES,
    Approval,
    JobStatus,
    Purpose,
    StepStatus,
    SuspendedBy,
    TaskStatus,
)
from farm.jobs.orders import JobOrder, Plan, PlannedStep, plan
from farm.jobs.status import REVISION, Moved, move_tasks, release_pending, ripple, settle_jobs, suspend
from farm.scenes.models import SceneVersion
from farm.studios.models import Project, User

CAPACITY = "farm.dispatch.reconcilers.provide_capacity"


class ProjectPaused(Refusal):
    """The project {name!r} is paused. Resume it, then submit again."""

    code = "project-paused"


class JobEnded(Refusal):
    """The job has ended ({status}); only a retry brings it back."""

    code = "job-ended"


class NotSuspended(Refusal):
    """The job is not suspended; it is {status}."""

    code = "not-suspended"


class NothingToRetry(Refusal):
    """There is nothing to retry: no task is {which}."""

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
    :raises NotFound: a job in `after` is not the studio's
    :raises Refusal: whatever `orders.plan` refuses
    """
    if project.is_paused:
        raise ProjectPaused(name=project.name, field="project")
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


def _wait_for(job: Job, after: Sequence[UUID]) -> bool:
    """Note which jobs this one comes after; True if one of them has not succeeded yet."""
    found = {j.id: j for j in Job.objects.filter(studio=job.studio_id, pk__in=after)}
    if missing := [i for i in after if i not in found]:
        raise NotFound(what="job", id=missing[0], field="after")
    JobAfter.objects.bulk_create([JobAfter(studio_id=job.studio_id, job=job, after_id=i) for i in found])
    return any(j.status != JobStatus.SUCCEEDED for j in found.values())


def _create_steps(job: Job, planned: Plan, *, waits: bool, now: datetime) -> None:
    by_name: dict[str, UUID] = {}
    for index, (step, more) in enumerate(zip(planned.expansion.steps, planned.steps, strict=True)):
        active = not waits and not step.depends_on
        scouting = job.approval == Approval.SCOUTING
        ready = 0 if not active else (len(more.scouts) if scouting else len(step.points))
        row = Step.objects.create(
            studio_id=job.studio_id,
            job=job,
            index=index,
            name=step.name[:200],
            status=StepStatus.ACTIVE if active else StepStatus.WAITING,
            depends_on=[by_name[name] for name in step.depends_on],
            document={
                "environments": step.environments,
                "script": step.script,
                "extensions": planned.expansion.extensions,
                "input_paths": planned.expansion.input_paths,
                "output_paths": planned.expansion.output_paths,
            },
            parameter_types=step.parameter_types,
            requirements=more.requirements.to_json(),
            outputs=more.outputs,
            ready=ready,
            pending=len(step.points) - ready,
        )
        by_name[step.name] = row.id
        _create_tasks(row, step.names, step.points, more, active=active, scouting=scouting, now=now)


def _create_tasks(
    step: Step,
    names: Sequence[str],
    points: Sequence[tuple[str, ...]],
    more: PlannedStep,
    *,
    active: bool,
    scouting: bool,
    now: datetime,
) -> None:
    """Insert a step's tasks in one statement. (PostgreSQL refuses COPY into tables under row-level security.)"""
    count = len(points)
    is_scout = [i in more.scouts for i in range(count)]
    ready = [active and (scout or not scouting) for scout in is_scout]
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            INSERT INTO jobs_task (studio_id, job_id, step_id, index, rank, parameters, frame, is_scout, status,
                                   generation, failures, failed_on, interruptions, changed_at, revision)
            SELECT %(studio)s, %(job)s, %(step)s, t.index, t.rank, t.parameters::jsonb, t.frame, t.is_scout,
                   CASE WHEN t.ready THEN 'ready' ELSE 'pending' END, 0, 0, '{{}}', 0, %(now)s, {REVISION}
              FROM unnest(%(index)s::int[], %(rank)s::int[], %(parameters)s::text[], %(frame)s::int[],
                          %(is_scout)s::bool[], %(ready)s::bool[]) AS t(index, rank, parameters, frame, is_scout, ready)
            """,  # noqa: S608
            {
                "studio": step.studio_id,
                "job": step.job_id,
                "step": step.id,
                "now": now,
                "index": list(range(count)),
                "rank": more.ranks,
                "parameters": [json.dumps(dict(zip(names, point, strict=True))) for point in points],
                "frame": more.frames,
                "is_scout": is_scout,
                "ready": ready,
            },
        )


def suspend_job(job: Job, *, by: SuspendedBy = SuspendedBy.PERSON) -> None:
    """
    Start nothing new of a job; what runs finishes.

    :raises JobEnded: it has ended
    """
    if not suspend(job, by):
        _refuse_unless(job, JobStatus.SUSPENDED)


def _refuse_unless(job: Job, status: JobStatus) -> None:
    job.refresh_from_db(fields=["status"])
    if job.status != status:
        raise JobEnded(status=job.status)


@transaction.atomic
def resume_job(job: Job, *, now: datetime) -> None:
    """
    Let a suspended job go on; after scouts this is the approval, after failures it forgives those there are.

    :raises NotSuspended: it is not suspended
    """
    job = Job.objects.select_for_update(no_key=True).get(pk=job.pk)
    if job.status != JobStatus.SUSPENDED:
        raise NotSuspended(status=job.status)
    approved = job.approval == Approval.WAITING
    failed = sum(Step.objects.filter(job=job).values_list("failed", flat=True))
    move_to(
        job,
        JobStatus.ACTIVE,
        moves=JOB_MOVES,
        suspended_by="",
        storm_forgiven=failed,
        approval=Approval.GIVEN if approved else job.approval,
    )
    if approved:
        moved: list[Moved] = []
        for step in Step.objects.filter(job=job, status=StepStatus.ACTIVE):
            moved += release_pending(step, scouts_only=False, now=now)
        ripple(moved, now=now)
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
    unapproved = [Approval.SCOUTING, Approval.WAITING]
    Job.objects.filter(pk=job.pk, approval__in=unapproved).update(approval=Approval.DECLINED)
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


@transaction.atomic
def retry_tasks(job: Job, selection: Selection, *, now: datetime) -> int:
    """
    Put tasks back, ahead of the rest, with a new generation: whoever still works on one is overtaken. Gives how many.

    Steps that depend on a retried one are done again too.

    :raises NothingToRetry: the selection is empty
    :raises Invalid: an unknown kind of selection
    """
    only = {
        "failed": [TaskStatus.FAILED],
        "missing": [TaskStatus.FAILED, TaskStatus.CANCELLED],
        "list": [TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.SUCCEEDED],
    }.get(selection.which)
    if only is None:
        raise Invalid("which", f"{selection.which!r} is not failed, missing or list")
    job = Job.objects.select_for_update(no_key=True).get(pk=job.pk)
    where, params = "job_id = %(job)s", {"job": job.id, "first": -1}
    if selection.which == "list":
        where, params = where + " AND id = ANY(%(tasks)s)", {**params, "tasks": list(selection.tasks)}
    moved = _put_back(job, where, params, only, now=now)
    if not moved:
        raise NothingToRetry(
            which={"failed": "failed", "missing": "missing", "list": "in the list and ended"}[selection.which]
        )
    moved += _put_back_dependents(job, {m.step for m in moved}, now=now)
    if JobStatus(job.status) not in LIVE_JOBS:
        move_to(job, JobStatus.ACTIVE, moves=JOB_MOVES, ended_at=None, suspended_by="")
    ripple(moved, now=now)
    settle_jobs([job.id], now=now)
    emit("job.retried", studio=job.studio_id, subject=job.id, name=job.name, tasks=len(moved))
    wake_dispatcher()
    wake_reconciler(CAPACITY)
    return len(moved)


_FORGIVE = "failures = 0, failed_on = '{}', interruptions = 0, rank = %(first)s"


def _put_back(job: Job, where: str, params: dict[str, Any], only: list[TaskStatus], *, now: datetime) -> list[Moved]:
    """Make tasks of active and ended steps ready, those of waiting steps pending."""
    waiting = list(Step.objects.filter(job=job, status=StepStatus.WAITING).values_list("id", flat=True))
    shared: dict[str, Any] = {"now": now, "bump": True, "also": _FORGIVE, "only": only}
    params = {**params, "waiting": waiting}
    return [
        *move_tasks(TaskStatus.READY, where=where + " AND NOT step_id = ANY(%(waiting)s)", params=params, **shared),
        *move_tasks(TaskStatus.PENDING, where=where + " AND step_id = ANY(%(waiting)s)", params=params, **shared),
    ]


def _put_back_dependents(job: Job, steps: set[UUID], *, now: datetime) -> list[Moved]:
    moved: list[Moved] = []
    for step in Step.objects.filter(job=job).order_by("index"):
        if not steps & set(step.depends_on):
            continue
        steps.add(step.id)
        moved += move_tasks(
            TaskStatus.PENDING,
            where="step_id = %(step)s",
            params={"step": step.id, "first": -1},
            now=now,
            bump=True,
            also=_FORGIVE,
            only=[TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.CANCELLED],
        )
        move_to(step, StepStatus.WAITING, moves=STEP_MOVES)
    return moved


def change_priority(job: Job, priority: int) -> None:
    """
    Change a job's priority.

    :raises Invalid: not between 0 and 100
    """
    if not 0 <= priority <= 100:
        raise Invalid("priority", f"{priority} is not between 0 and 100")
    Job.objects.filter(pk=job.pk).update(priority=priority)
    job.priority = priority
    wake_dispatcher()


def inspect_version(version: SceneVersion, *, renderer: str, now: datetime) -> Job | None:
    """Order the inspection of a whole version; None when it has one already."""
    if Job.objects.filter(scene_version=version, purpose=Purpose.INSPECTION).exists():
        return None
    order = JobOrder(name=f"Inspection of {version.entry}"[:200], renderer=renderer, priority=100)
    if version.created_by is None:
        return None  # nobody's upload: made by a test or by hand
    project = Project.objects.select_related("studio").get(pk=version.scene.project_id)
    return submit_job(
        project=project,
        artist=User.objects.get(pk=version.created_by),
        order=order,
        version=version,
        now=now,
        purpose=Purpose.INSPECTION,
    )

"""The one place where tasks, steps and jobs change status: guarded, set-based moves and their ripple."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from farm.core.events import emit
from farm.core.moves import move_to, sources
from farm.core.wakeups import tell_changed, wake_dispatcher, wake_reconciler
from farm.jobs.models import Job, JobAfter, Step, Task
from farm.jobs.moves import (
    JOB_MOVES,
    LIVE_JOBS,
    STEP_MOVES,
    TASK_MOVES,
    Approval,
    JobStatus,
    StepStatus,
    SuspendedBy,
    TaskStatus,
)
from farm.jobs.ripples import is_storm, job_status, step_status

MOVIES = "farm.results.reconcilers.grow_movies"  # of a room above: it is told by name, and would look by itself


@dataclass(frozen=True)
class Moved:
    """A task that moved."""

    task: UUID
    step: UUID
    job: UUID
    before: TaskStatus
    after: TaskStatus
    generation: int


REVISION = "pg_current_xact_id()::text::bigint"

_MOVE = f"""
UPDATE jobs_task
   SET status = %(to)s, changed_at = %(now)s, revision = {REVISION}, generation = generation + %(bump)s {{also}}
 WHERE id IN (SELECT id FROM jobs_task WHERE {{where}} AND status = ANY(%(sources)s) ORDER BY id
               FOR NO KEY UPDATE {{skip}})
RETURNING id, step_id, job_id, old.status, generation
"""  # noqa: S608  (the parts are this module's own)


def move_tasks(
    to: TaskStatus,
    *,
    where: str,
    params: dict[str, Any],
    now: datetime,
    bump: bool = False,
    also: str = "",
    only: Sequence[TaskStatus] | None = None,
    skip_locked: bool = False,
) -> list[Moved]:
    """
    Move every task that `where` (SQL over `jobs_task`) finds and that may move; the caller ripples them afterwards.

    `bump` raises the generation: the fence against whoever holds the task. `only` narrows the statuses to move from.
    """
    allowed = [s for s in sources(TASK_MOVES, to) if only is None or s in only]
    statement = _MOVE.format(where=where, also=f", {also}" if also else "", skip="SKIP LOCKED" if skip_locked else "")
    with connection.cursor() as cursor:
        cursor.execute(
            statement, {**params, "to": str(to), "now": now, "bump": int(bump), "sources": [str(s) for s in allowed]}
        )
        return [Moved(t, s, j, TaskStatus(before), to, g) for t, s, j, before, g in cursor.fetchall()]


_COUNT = """
WITH locked AS (SELECT id FROM jobs_step WHERE job_id = ANY(%(jobs)s) ORDER BY id FOR NO KEY UPDATE),
     delta AS (SELECT * FROM unnest(%(steps)s::uuid[], %(pending)s::int[], %(ready)s::int[], %(leased)s::int[],
                                    %(succeeded)s::int[], %(failed)s::int[], %(cancelled)s::int[])
                        AS d(id, pending, ready, leased, succeeded, failed, cancelled))
UPDATE jobs_step s
   SET pending = s.pending + d.pending, ready = s.ready + d.ready, leased = s.leased + d.leased,
       succeeded = s.succeeded + d.succeeded, failed = s.failed + d.failed, cancelled = s.cancelled + d.cancelled
  FROM delta d
 WHERE s.id = d.id AND (SELECT count(*) FROM locked) > 0
RETURNING s.job_id, s.pending + s.ready + s.leased = 0 OR s.status <> 'active' OR s.failed > 0 OR s.ready + s.leased = 0
"""


def ripple(moved: Iterable[Moved], *, now: datetime, cancelled: UUID | None = None) -> None:
    """
    Carry moves to steps and jobs: counters once per transaction, then the statuses that follow. Call it last.

    Locks are taken in the order task → step → job; of a job all steps at once, for one may release another.
    `cancelled`: a job that a person cancels ends so.
    """
    moves = list(moved)
    if not moves:
        return
    deltas: dict[UUID, dict[TaskStatus, int]] = defaultdict(lambda: dict.fromkeys(TaskStatus, 0))
    for move in moves:
        deltas[move.step][move.before] -= 1
        deltas[move.step][move.after] += 1
    steps, jobs = sorted(deltas), list({move.job for move in moves})
    with connection.cursor() as cursor:
        columns = {str(s): [deltas[i][s] for i in steps] for s in TaskStatus}
        cursor.execute(_COUNT, {"jobs": jobs, "steps": steps, **columns})
        doubtful = {job for job, may_change in cursor.fetchall() if may_change}
    tell_changed("jobs", *{move.job for move in moves})
    if any(m.after is TaskStatus.READY for m in moves):
        wake_dispatcher()
    settle_jobs(doubtful, now=now, cancelled=cancelled)


def settle_jobs(jobs: Iterable[UUID], *, now: datetime, cancelled: UUID | None = None) -> None:
    """
    Bring the statuses of these jobs and their steps in line with their counters, and wake what waited for them.

    Level-triggered: it looks at what is, so that calling it once too often does nothing.
    """
    waiting = sorted(set(jobs))
    while waiting:
        rows = lock_jobs(waiting)
        waiting = []
        for job in rows:
            waiting += _settle_job(job, now=now, is_cancelled=job.id == cancelled)


def lock_jobs(jobs: Sequence[UUID]) -> list[Job]:
    """Lock jobs with their steps, in the order that all do."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM jobs_step WHERE job_id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [list(jobs)])
    return list(Job.objects.select_for_update(no_key=True).defer("template").filter(pk__in=jobs).order_by("pk"))


def _settle_job(job: Job, *, now: datetime, is_cancelled: bool) -> list[UUID]:
    """Settle one locked job; give the jobs that waited for its end."""
    steps = list(Step.objects.filter(job=job).defer("document", "outputs").order_by("index"))
    released = _settle_steps(job, steps, now=now)
    if released:
        ripple(released, now=now)  # settles this job again, with the counters that follow
        return []
    if JobStatus(job.status) not in LIVE_JOBS:
        return []
    places = {step.id: place for place, step in enumerate(steps)}
    end = job_status([StepStatus(s.status) for s in steps], [[places[d] for d in s.depends_on] for s in steps])
    if end is not None:
        return _end_job(job, JobStatus.CANCELLED if is_cancelled else end, steps, now=now)
    _pause_if_needed(job, steps)
    return []


def _settle_steps(job: Job, steps: list[Step], *, now: datetime) -> list[Moved]:
    status = {s.id: StepStatus(s.status) for s in steps}
    job_waits = JobAfter.objects.filter(job=job).exclude(after__status=JobStatus.SUCCEEDED).exists()
    released: list[Moved] = []
    for step in steps:  # what a step depends on comes before it
        waits = job_waits or any(status[d] is not StepStatus.SUCCEEDED for d in step.depends_on)
        new = step_status(step.counts, waits=waits)
        is_new = new is not status[step.id]
        if is_new and not move_to(step, new, moves=STEP_MOVES):
            continue
        status[step.id] = new
        if new is StepStatus.ACTIVE and step.pending and (is_new or not waits_for_scouts(job)):
            released += release_pending(step, scouts_only=waits_for_scouts(job), now=now)
    return released


def waits_for_scouts(job: Job) -> bool:
    """Say whether only a job's scouts may run now."""
    return job.approval in {Approval.SCOUTING, Approval.WAITING}


def release_pending(step: Step, *, scouts_only: bool, now: datetime) -> list[Moved]:
    """
    Make a step's waiting tasks ready: all, or the scouts alone. The step is locked.

    A task that somebody else has locked is left to them: they settle the job when they are done.
    """
    where = "step_id = %(step)s" + (" AND is_scout" if scouts_only else "")
    return move_tasks(
        TaskStatus.READY, where=where, params={"step": step.id}, now=now, only=[TaskStatus.PENDING], skip_locked=True
    )


def _end_job(job: Job, end: JobStatus, steps: list[Step], *, now: datetime) -> list[UUID]:
    if not move_to(job, end, moves=JOB_MOVES, ended_at=now, suspended_by=""):
        return []
    counts = {str(s): sum(getattr(step, str(s)) for step in steps) for s in TaskStatus}
    wake_reconciler(MOVIES)
    emit(f"job.{end}", studio=job.studio_id, subject=job.id, name=job.name, purpose=job.purpose, **counts)
    if end is not JobStatus.SUCCEEDED:
        return []
    return list(JobAfter.objects.filter(after=job).values_list("job_id", flat=True))


def _pause_if_needed(job: Job, steps: list[Step]) -> None:
    if job.status != JobStatus.ACTIVE:
        return
    if job.approval == Approval.SCOUTING and not _has_open_scouts(job, steps):
        Job.objects.filter(pk=job.pk).update(approval=Approval.WAITING)
        suspend(job, SuspendedBy.FAILURES if _is_storm(job, steps) else SuspendedBy.APPROVAL)
    elif _is_storm(job, steps):
        suspend(job, SuspendedBy.FAILURES)


def _has_open_scouts(job: Job, steps: list[Step]) -> bool:
    """Say whether scouts are still to come; they may wait for other jobs."""
    if any(s.ready + s.leased for s in steps):
        return True
    return Task.objects.filter(job=job, is_scout=True, status=TaskStatus.PENDING).exists()


def _is_storm(job: Job, steps: list[Step]) -> bool:
    """Say whether too much fails, beyond what a person has seen and resumed after."""
    failed = sum(s.failed for s in steps) - job.storm_forgiven
    succeeded, total = sum(s.succeeded for s in steps), sum(sum(s.counts.values()) for s in steps)
    return failed > 0 and is_storm(succeeded=succeeded, failed=failed, total=total)


def suspend(job: Job, by: SuspendedBy) -> bool:
    """Start nothing new of a job; what runs finishes."""
    if not move_to(job, JobStatus.SUSPENDED, moves=JOB_MOVES, suspended_by=by):
        return False
    emit("job.suspended", studio=job.studio_id, subject=job.id, name=job.name, by=str(by))
    return True


def count_tasks(steps: Iterable[UUID]) -> dict[UUID, dict[TaskStatus, int]]:
    """Count tasks afresh, for the audit of counters."""
    found: dict[UUID, dict[TaskStatus, int]] = {s: dict.fromkeys(TaskStatus, 0) for s in steps}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT step_id, status, count(*) FROM jobs_task WHERE step_id = ANY(%s) GROUP BY 1, 2", [list(found)]
        )
        for step, status, count in cursor.fetchall():
            found[step][TaskStatus(status)] = count
    return found

"""The farm's side of the conversation with a worker: sync, grants, step documents. Nothing here claims work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction

from farm.billing.services import extend_holds, lock_budgets, settle
from farm.core.errors import Invalid, NotFound, Refusal
from farm.core.wakeups import wake_dispatcher, wake_reconciler
from farm.dispatch.ends import ReportedEnd, end_attempts, is_sick, unproved
from farm.dispatch.leases import lock_attempts
from farm.dispatch.models import Attempt
from farm.dispatch.predicting import timeout_s
from farm.dispatch.uploads import MAX_LOG_CHUNKS, upload_grant
from farm.fleet.models import Worker
from farm.fleet.moves import WorkerStatus
from farm.fleet.requirements import Requirements
from farm.fleet.services import note_sync, quarantine
from farm.jobs.models import Step
from farm.jobs.moves import TaskStatus
from farm.jobs.outputs import expected_outputs
from farm.jobs.status import Moved, move_tasks, ripple
from farm.scenes.selectors import manifest_of
from farm.scenes.services import signed_downloads
from workers import protocol
from workers.protocol import (
    LEASE_S,
    SYNC_INTERVAL_S,
    Assignment,
    AttemptReport,
    Order,
    Phase,
    SyncAnswer,
    SyncRequest,
    TaskParameter,
)

TAKE_REPORTS = "farm.dispatch.reconcilers.take_reports"


class TooMuch(Refusal):
    """A request for grants may ask for {limit} things at once; this one asked for {count}. Ask in batches."""

    code = "too-many-grants"
    status = 422


def sync(worker: Worker, request: SyncRequest, *, now: datetime) -> SyncAnswer:
    """Take what a worker says and answer with all it shall hold. Idempotent; twenty ends are one transaction."""
    ids = [_id(r.attempt) for r in request.attempts]
    held = {a.id: a for a in Attempt.objects.filter(worker=worker, pk__in=ids)}
    ends = [
        ReportedEnd(_id(r.attempt), r.generation, r.end, r.log_chunks) for r in request.attempts if r.end is not None
    ]
    wrong = unproved(ends, held)
    open_reports = {_id(r.attempt): r for r in request.attempts if r.end is None}
    running = _running(open_reports)
    with transaction.atomic():
        # Locks: tasks and attempts, all at once, then (in the ripple) steps and jobs, then budgets.
        lock_attempts(list(held))
        revived = _revive([a for a in held.values() if a.id in open_reports and a.status == "lost"], now=now)
        ended = end_attempts(worker, ends, wrong, now=now)
        _extend(worker, open_reports, now=now)
        ripple([*revived, *ended.moved], now=now)
        lock_budgets(attempts=[*(f.attempt for f in ended.facts), *(attempt for attempt, _ in running)], now=now)
        settle(ended.facts, now=now)
        unpaid = (
            {attempt for attempt, goes_on in extend_holds(running, now=now).items() if not goes_on}
            if running
            else set()
        )
        assignments = _assignments(worker, unpaid)
        note_sync(worker, request, is_idle=not assignments, now=now)
        if ended.failed:
            _watch_health(worker, now=now)
        if ended.answers or not assignments:
            wake_dispatcher()
        if any(a.task.job.purpose == "inspection" for a in ended.succeeded):
            wake_reconciler(TAKE_REPORTS)
    worker.refresh_from_db(fields=["status"])
    state = {"ready": protocol.WorkerState.READY, "draining": protocol.WorkerState.DRAINING}.get(
        worker.status, protocol.WorkerState.GONE
    )
    return SyncAnswer(state=state, attempts=assignments, answers=ended.answers, interval_s=float(SYNC_INTERVAL_S))


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid("attempt", f"{text!r} is not an id") from None


def _revive(attempts: Sequence[Attempt], *, now: datetime) -> list[Moved]:
    """A worker that was thought lost comes back: it goes on, as long as nobody else has taken the task."""
    if not attempts:
        return []
    wanted = {a.task_id: a for a in attempts}
    moved = move_tasks(
        TaskStatus.LEASED,
        where="(id, generation) IN (SELECT * FROM unnest(%(tasks)s::uuid[], %(generations)s::int[]))",
        params={"tasks": list(wanted), "generations": [a.generation for a in attempts]},
        now=now,
        only=[TaskStatus.READY],
    )
    back = [wanted[m.task].id for m in moved]
    Attempt.objects.filter(pk__in=back, status="lost").update(status="started", cause="", sentence="", ended_at=None)
    return moved


_EXTEND = """
UPDATE dispatch_attempt a
   SET lease_until = %(until)s, progress = r.progress, elapsed_ms = r.elapsed_ms,
       log_chunks = greatest(a.log_chunks, r.log_chunks),
       status = CASE WHEN r.is_started THEN 'started' ELSE a.status END,
       started_at = CASE WHEN r.is_started THEN coalesce(a.started_at, %(now)s) ELSE a.started_at END
  FROM unnest(%(ids)s::uuid[], %(progress)s::float[], %(elapsed)s::bigint[], %(chunks)s::int[], %(started)s::bool[])
       AS r(id, progress, elapsed_ms, log_chunks, is_started)
 WHERE a.id = r.id AND a.worker_id = %(worker)s AND a.status IN ('assigned', 'started')
"""


def _extend(worker: Worker, reports: dict[UUID, AttemptReport], *, now: datetime) -> None:
    """Extend the leases of what the worker holds, and keep how far each is."""
    if not reports:
        return
    rows = reports.values()
    with connection.cursor() as cursor:
        cursor.execute(
            _EXTEND,
            {
                "until": now + timedelta(seconds=LEASE_S),
                "now": now,
                "worker": worker.id,
                "ids": list(reports),
                "progress": [min(1.0, max(0.0, r.progress)) for r in rows],
                "elapsed": [max(0, r.elapsed_ms) for r in rows],
                "chunks": [max(0, min(MAX_LOG_CHUNKS, r.log_chunks)) for r in rows],
                "started": [r.phase in {Phase.RUNNING, Phase.FETCHING, Phase.ENDED} for r in rows],
            },
        )


def _running(reports: dict[UUID, AttemptReport]) -> list[tuple[UUID, int]]:
    """Give the attempts that render, with how long each will have by the sync after next."""
    ahead = 2 * SYNC_INTERVAL_S * 1000
    return [(a, r.elapsed_ms + ahead) for a, r in reports.items() if r.phase is Phase.RUNNING and r.elapsed_ms > 0]


_HELD = """
SELECT a.id, a.generation, a.slot, a.step_id, t.status, t.generation, t.parameters,
       s.parameter_types, s.outputs, j.timeout_s, j.no_progress_s, p.recent_ms
  FROM dispatch_attempt a
  JOIN jobs_task t ON t.id = a.task_id
  JOIN jobs_step s ON s.id = a.step_id
  JOIN jobs_job j ON j.id = a.job_id
  LEFT JOIN dispatch_pace p ON p.step_id = a.step_id AND p.worker_class = a.worker_class
 WHERE a.worker_id = %s AND a.status IN ('assigned', 'started')
 ORDER BY a.id
"""


def _assignments(worker: Worker, unpaid: set[UUID]) -> list[Assignment]:
    """Give all that the worker shall hold, in the order it shall run, and what it shall stop."""
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [worker.id])
        rows = cursor.fetchall()
    found = []
    for row in rows:
        (
            attempt,
            generation,
            slot,
            step,
            status,
            current,
            parameters,
            types,
            outputs,
            asked,
            no_progress,
            recent,
        ) = row
        parameters, types, outputs = (json.loads(v) if isinstance(v, str) else v for v in (parameters, types, outputs))
        reason = ""
        if status == TaskStatus.CANCELLED:
            reason = "cancelled"
        elif current != generation:
            reason = "superseded"
        elif attempt in unpaid:
            reason = "budget"
        found.append(
            Assignment(
                attempt=str(attempt),
                generation=generation,
                order=Order.STOP if reason else Order.RUN,
                reason=reason,
                slot=slot,
                step=str(step),
                parameters={name: TaskParameter(type=types[name], value=value) for name, value in parameters.items()},
                expected=expected_outputs(outputs, parameters),
                timeout_s=timeout_s(recent or [], asked),
                no_progress_s=no_progress,
                memory_mib=0,  # what a step needs at least is no limit; its slot's share of the machine is
            )
        )
    return found


def _watch_health(worker: Worker, *, now: datetime) -> None:
    """Quarantine a worker on which three jobs fail that do not fail elsewhere; never a fleet's last."""
    others = Worker.objects.filter(fleet=worker.fleet_id, status=WorkerStatus.READY, quarantined_at=None).exclude(
        pk=worker.pk
    )
    if worker.quarantined_at is None and is_sick(worker, now=now) and others.exists():
        quarantine(worker, reason="quarantined: tasks of three jobs failed here that do not fail elsewhere", now=now)


def grants(worker: Worker, request: protocol.GrantsRequest, *, now: datetime) -> protocol.GrantsAnswer:
    """
    Sign requests for the worker's own inputs and outputs; what it may not have is left out.

    :raises TooMuch: more than 500 things at once
    :raises Invalid: an upload whose parts and digest do not fit, or that is too large
    """
    count = len(request.uploads) + sum(len(d.digests) for d in request.downloads)
    if count > protocol.MAX_GRANTS:
        raise TooMuch(count=count, limit=protocol.MAX_GRANTS)
    downloads: dict[str, protocol.SignedRequest] = {}
    for wish in request.downloads:
        step = _own_step(worker, _id(wish.step))
        if step is not None and step.job.scene_version_id:
            signed = signed_downloads(step.job.scene_version_id, now=now)
            downloads |= {d: signed[d] for d in wish.digests if d in signed}
    attempts = {
        a.id: a for a in Attempt.objects.filter(worker=worker, pk__in={_id(u.attempt) for u in request.uploads})
    }
    uploads = [
        upload_grant(attempts[_id(u.attempt)], u, now=now) for u in request.uploads if _id(u.attempt) in attempts
    ]
    return protocol.GrantsAnswer(downloads=downloads, uploads=uploads)


def _own_step(worker: Worker, step: UUID) -> Step | None:
    """Give a step if the worker has, or had, an attempt of it."""
    if not Attempt.objects.filter(worker=worker, step=step).exists():
        return None
    rows = Step.objects.select_related("job__scene_version").defer("job__template", "job__scene_version__report")
    return rows.filter(pk=step).first()


def step_document(worker: Worker, step_id: UUID) -> protocol.StepDocument:
    """
    Give all a worker needs to run a step's tasks; it never changes.

    :raises NotFound: the worker has no attempt of this step
    """
    step = _own_step(worker, step_id)
    if step is None:
        raise NotFound(what="step", id=step_id)
    job, document = step.job, step.document
    requirements = Requirements.from_json(step.requirements)
    return protocol.StepDocument(
        step=str(step.id),
        job=str(job.id),
        studio=str(step.studio_id),
        name=step.name,
        scene_version=str(job.scene_version_id) if job.scene_version_id else None,
        entry=job.scene_version.entry if job.scene_version else None,
        manifest=manifest_of(job.scene_version_id) if job.scene_version_id else [],
        parameters={name: TaskParameter(**value) for name, value in job.parameters.items()},
        input_paths=document["input_paths"],
        output_paths=document["output_paths"],
        environments=document["environments"],
        script=document["script"],
        extensions=document["extensions"],
        software={
            name.removeprefix("farmhand:"): v[0]
            for name, v in requirements.attributes.items()
            if name == "farmhand:blender"
        },
        needs_gpu=requirements.needs_gpu,
    )

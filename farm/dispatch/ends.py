"""
Ends: what an attempt's report does to its task, its outputs and its money. One transaction for all ends of a sync.

An end counts only while the task still carries the attempt's generation; who comes too late changes nothing. Success
is proved: before the transaction the store is asked for every reported output, and what the task must leave is
compared with what was reported.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from farm.billing.metering import EndedFact
from farm.billing.services import settle
from farm.core import keys
from farm.dispatch.models import Attempt, Output
from farm.dispatch.moves import OPEN_ATTEMPTS, AttemptStatus
from farm.dispatch.predicting import RECENT
from farm.dispatch.uploads import MAX_LOG_CHUNKS, is_stored
from farm.fleet.models import Worker
from farm.jobs.models import Task
from farm.jobs.moves import TaskStatus
from farm.jobs.outputs import expected_outputs
from farm.jobs.status import Moved, move_tasks
from workers.protocol import FARM_FAULTS, Answer, Cause, End, EndAnswer, Outcome, OutputReport

logger = logging.getLogger(__name__)

MAX_FAILURES = 3
LEAST_WORKERS = 2
MAX_INTERRUPTIONS = 10
CERTAIN = frozenset({Cause.MISSING_ASSET, Cause.SCENE_UNREADABLE})  # another try would say the same
MAX_OUTPUT_NAMES = 10_000
SICK_JOBS = 3
SICK_WITHIN = timedelta(minutes=10)


@dataclass(frozen=True)
class ReportedEnd:
    """An end as a worker reported it."""

    attempt: UUID
    generation: int
    end: End
    log_chunks: int = 0


@dataclass
class Endings:
    """The ends of one sync: what to answer, which tasks moved, what was used. The caller ripples, then settles."""

    now: datetime
    answers: list[EndAnswer] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    facts: list[EndedFact] = field(default_factory=list)
    succeeded: list[Attempt] = field(default_factory=list)
    failed: list[Attempt] = field(default_factory=list)

    def answer(self, attempt: object, answer: Answer, reason: str = "") -> None:
        self.answers.append(EndAnswer(attempt=str(attempt), answer=answer, reason=reason))


def unproved(ends: Iterable[ReportedEnd], attempts: dict[UUID, Attempt]) -> dict[UUID, str]:
    """
    Compare reported outputs with the store, before any transaction; give what does not hold, by attempt.

    The store is asked for size and digest of each (one HEAD each, no download).
    """
    wrong: dict[UUID, str] = {}
    for reported in ends:
        attempt = attempts.get(reported.attempt)
        if attempt is None or reported.end.outcome is not Outcome.SUCCEEDED:
            continue
        for output in reported.end.outputs:
            if not keys.is_digest(output.digest) or not is_stored(attempt, output.digest, output.size):
                wrong[attempt.id] = f"the store does not have {output.name} as reported"
                break
    return wrong


def end_attempts(worker: Worker, ends: Sequence[ReportedEnd], wrong: dict[UUID, str], *, now: datetime) -> Endings:
    """End attempts of a worker, in the caller's transaction. Ends told twice are answered alike and change nothing."""
    work = Endings(now)
    if not ends:
        return work
    attempts = {a.id: a for a in Attempt.objects.filter(worker=worker, pk__in=[e.attempt for e in ends])}
    tasks = {
        t.id: t
        for t in Task.objects.select_for_update(no_key=True, of=("self",))
        .select_related("step", "job")
        .defer("step__document", "job__template")  # whole scripts, of no use here
        .filter(pk__in={a.task_id for a in attempts.values()})
        .order_by("pk")
    }
    attempts = {a.id: a for a in Attempt.objects.filter(pk__in=attempts)}  # as they are now that their tasks are locked
    for reported in ends:
        attempt = attempts.get(reported.attempt)
        if attempt is None:
            work.answer(reported.attempt, Answer.SUPERSEDED, "no such attempt of this worker")
        elif reported.attempt in wrong:
            work.answer(attempt.id, Answer.REFUSED, wrong[reported.attempt])
        else:
            attempt.log_chunks = max(attempt.log_chunks, min(reported.log_chunks, MAX_LOG_CHUNKS))
            _end_one(work, attempt, tasks[attempt.task_id], reported)
    _record_outputs(work)
    _learn_pace(work.succeeded)
    return work


_STANDING = {
    AttemptStatus.SUPERSEDED: Answer.SUPERSEDED,
    AttemptStatus.CANCELLED: Answer.CANCELLED,
}


def _end_one(work: Endings, attempt: Attempt, task: Task, reported: ReportedEnd) -> None:
    status = AttemptStatus(attempt.status)
    if status not in OPEN_ATTEMPTS:
        work.answer(attempt.id, _STANDING.get(status, Answer.ACCEPTED))
        return
    end = reported.end
    is_current = task.generation == attempt.generation == reported.generation
    if (is_current and task.status == TaskStatus.CANCELLED) or (end.outcome is Outcome.CANCELLED and is_current):
        _end_cancelled(work, attempt, task, end)
    elif not is_current or task.status not in {TaskStatus.LEASED, TaskStatus.READY}:
        _close(work, attempt, task, end, AttemptStatus.SUPERSEDED)
        work.answer(attempt.id, Answer.SUPERSEDED, "somebody else has the task")
    elif end.outcome is Outcome.SUCCEEDED and (missing := _missing(task, end)):
        _end_failed(work, attempt, task, _as_failure(end, missing))
    elif end.outcome is Outcome.SUCCEEDED:
        _end_succeeded(work, attempt, task, end)
    elif end.outcome is Outcome.INTERRUPTED or end.cause in FARM_FAULTS:
        _end_interrupted(work, attempt, task, end)
    else:
        _end_failed(work, attempt, task, end)


def _missing(task: Task, end: End) -> str:
    """Say which file the task must leave is not reported, or reported twice; "" when all is well."""
    names = [o.name for o in end.outputs]
    if len(names) > MAX_OUTPUT_NAMES or len(set(names)) != len(names):
        return "its outputs' names repeat or are too many"
    expected = expected_outputs(task.step.outputs, task.parameters)
    reported = {(o.name, o.role): o for o in end.outputs}
    for wish in expected or []:
        found = reported.get((wish.name, wish.role))
        if found is None:
            return f"{wish.name} is not among its outputs"
        for what in ("width", "height", "format", "bit_depth"):
            want, has = getattr(wish, what), getattr(found, what)
            if want is not None and has != want:
                return f"{wish.name} has {what} {has}, expected {want}"
    return ""


def _as_failure(end: End, why: str) -> End:
    return End(
        outcome=Outcome.FAILED,
        cause=Cause.MISSING_OUTPUT,
        sentence=f"The worker reported success, but {why}.",
        setup_ms=end.setup_ms,
        render_ms=end.render_ms,
        peak_memory_mib=end.peak_memory_mib,
        device=end.device,
        outputs=[],
    )


def _close(work: Endings, attempt: Attempt, task: Task, end: End, status: AttemptStatus) -> None:
    """Write the attempt's end and the fact of its usage; a lost attempt that was settled already stays settled once."""
    attempt.status = status
    attempt.cause, attempt.sentence = end.cause or "", end.sentence[:2000]
    attempt.setup_ms, attempt.render_ms = max(0, end.setup_ms), max(0, end.render_ms)
    attempt.peak_memory_mib, attempt.device = end.peak_memory_mib, end.device[:200]
    attempt.ended_at = work.now
    was_settled, attempt.is_settled = attempt.is_settled, True
    attempt.save(
        update_fields=[
            "status",
            "cause",
            "sentence",
            "setup_ms",
            "render_ms",
            "peak_memory_mib",
            "device",
            "log_chunks",
            "ended_at",
            "is_settled",
        ]
    )
    if not was_settled:
        work.facts.append(fact_of(attempt, task, outcome=str(status)))


def fact_of(attempt: Attempt, task: Task, *, outcome: str) -> EndedFact:
    """Give billing what it needs to know of an ended attempt."""
    return EndedFact(
        attempt=attempt.id,
        task=task.id,
        generation=attempt.generation,
        cost_object=task.job.cost_object_id,
        worker_class=attempt.worker_class,
        gpus=1,
        render_ms=attempt.render_ms,
        setup_ms=attempt.setup_ms,
        outcome=outcome,
        cause=attempt.cause,
        purpose=task.job.purpose,
        label=label_of(task),
        claimed_at=attempt.claimed_at,
        started_at=attempt.started_at,
        cancelled_at=task.changed_at if task.status == TaskStatus.CANCELLED else None,
        scout=task.is_scout,
    )


def label_of(task: Task) -> str:
    """Say what a task is to a person."""
    if task.frame is not None:
        return f"frame {task.frame}"
    return ", ".join(f"{name} {value}" for name, value in task.parameters.items()) or "the whole step"


def _end_succeeded(work: Endings, attempt: Attempt, task: Task, end: End) -> None:
    _close(work, attempt, task, end, AttemptStatus.SUCCEEDED)
    work.moved += move_tasks(TaskStatus.SUCCEEDED, where="id = %(task)s", params={"task": task.id}, now=work.now)
    work.succeeded.append(attempt)
    attempt.reported_outputs = end.outputs  # type: ignore[attr-defined]  # written by `_record_outputs`, for all at once
    attempt.task = task
    work.answer(attempt.id, Answer.ACCEPTED)


def _end_cancelled(work: Endings, attempt: Attempt, task: Task, end: End) -> None:
    """A person cancelled the task; or the worker was told to stop for another reason, and the task is ready again."""
    if task.status == TaskStatus.CANCELLED:
        _close(work, attempt, task, end, AttemptStatus.CANCELLED)
        work.answer(attempt.id, Answer.CANCELLED)
    else:
        _end_interrupted(work, attempt, task, end)


def _end_interrupted(work: Endings, attempt: Attempt, task: Task, end: End) -> None:
    _close(work, attempt, task, end, AttemptStatus.INTERRUPTED)
    work.moved += put_back([task.id], now=work.now)
    work.answer(attempt.id, Answer.ACCEPTED)


def put_back(tasks: Sequence[UUID], *, now: datetime) -> list[Moved]:
    """Make interrupted tasks ready again, free of charge; after ten times a task is given up for a person to see."""
    where, params = (
        "id = ANY(%(tasks)s) AND interruptions + 1 {} %(most)s",
        {"tasks": list(tasks), "most": MAX_INTERRUPTIONS},
    )
    shared: dict[str, Any] = {
        "params": params,
        "now": now,
        "also": "interruptions = interruptions + 1",
        "only": [TaskStatus.LEASED],
    }
    return [
        *move_tasks(TaskStatus.READY, where=where.format("<"), **shared),
        *move_tasks(TaskStatus.FAILED, where=where.format(">="), **shared),
    ]


def _end_failed(work: Endings, attempt: Attempt, task: Task, end: End) -> None:
    _close(work, attempt, task, end, AttemptStatus.FAILED)
    failures, failed_on = task.failures + 1, {*task.failed_on, attempt.worker_id}
    given_up = end.cause in CERTAIN or (
        failures >= MAX_FAILURES and (len(failed_on) >= LEAST_WORKERS or _is_only_worker(attempt))
    )
    work.moved += move_tasks(
        TaskStatus.FAILED if given_up else TaskStatus.READY,
        where="id = %(task)s",
        params={"task": task.id, "failed_on": list(failed_on)},
        also="failures = failures + 1, failed_on = %(failed_on)s::uuid[]",
        now=work.now,
    )
    work.failed.append(attempt)
    work.answer(attempt.id, Answer.ACCEPTED)


def _is_only_worker(attempt: Attempt) -> bool:
    """No other worker of its fleet is there to try it on."""
    return (
        not Worker.objects.filter(fleet=attempt.worker.fleet_id, status="ready").exclude(pk=attempt.worker_id).exists()
    )


_INSERT_OUTPUTS = """
INSERT INTO dispatch_output (studio_id, job_id, task_id, attempt_id, frame, name, role, key, size, digest,
                             format, width, height, channels, bit_depth, statistics, is_current)
SELECT o.studio, o.job, o.task, o.attempt, o.frame, o.name, o.role, o.key, o.size, o.digest,
       o.format, o.width, o.height, o.channels, o.bit_depth, o.statistics::jsonb, true
  FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::uuid[], %s::int[], %s::text[], %s::text[], %s::text[],
              %s::bigint[], %s::text[], %s::text[], %s::int[], %s::int[], %s::int[], %s::int[], %s::text[])
       AS o(studio, job, task, attempt, frame, name, role, key, size, digest,
            format, width, height, channels, bit_depth, statistics)
"""


def _record_outputs(work: Endings) -> None:
    """Write the outputs of all successes; those of earlier successes of the same tasks are no longer current."""
    rows = [_output_row(attempt, o) for attempt in work.succeeded for o in attempt.reported_outputs]  # type: ignore[attr-defined]
    if not rows:
        return
    Output.objects.filter(task__in=[a.task_id for a in work.succeeded], is_current=True).update(is_current=False)
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_OUTPUTS, [list(column) for column in zip(*rows, strict=True)])


def _output_row(attempt: Attempt, o: OutputReport) -> tuple[Any, ...]:
    key = keys.output_key(attempt.studio_id, attempt.id, o.digest)
    frame = attempt.task.frame
    statistics = json.dumps(o.statistics) if o.statistics is not None else None
    return (
        attempt.studio_id,
        attempt.job_id,
        attempt.task_id,
        attempt.id,
        frame,
        o.name,
        str(o.role),
        key,
        o.size,
        o.digest,
        o.format or "",
        o.width,
        o.height,
        o.channels,
        o.bit_depth,
        statistics,
    )


_LEARN = f"""
INSERT INTO dispatch_pace AS p (studio_id, step_id, worker_class, recent_ms, recent_tasks) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (step_id, worker_class) DO UPDATE
   SET recent_ms = (p.recent_ms || excluded.recent_ms)
                   [greatest(1, cardinality(p.recent_ms || excluded.recent_ms) - {RECENT - 1}):],
       recent_tasks = (p.recent_tasks || excluded.recent_tasks)
                      [greatest(1, cardinality(p.recent_tasks || excluded.recent_tasks) - {RECENT - 1}):]
"""  # noqa: S608


def _learn_pace(attempts: Sequence[Attempt]) -> None:
    """Remember how long the frames took, for predictions."""
    took: dict[tuple[UUID, UUID, str], list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        took[attempt.studio_id, attempt.step_id, attempt.worker_class].append(attempt)
    with connection.cursor() as cursor:
        for (studio, step, kind), frames in sorted(took.items(), key=lambda item: (item[0][1], item[0][2])):
            times, places = [min(a.render_ms, 2**31 - 1) for a in frames], [a.task.index for a in frames]
            cursor.execute(_LEARN, [studio, step, kind, times[-RECENT:], places[-RECENT:]])


def unsettled(tasks: Sequence[UUID]) -> list[Attempt]:
    """Give the lost attempts of these tasks that could still come back."""
    rows = Attempt.objects.filter(task__in=tasks, status=AttemptStatus.LOST, is_settled=False)
    return list(rows.select_related("task__job").defer("task__job__template").order_by("pk"))


def settle_lost(rows: Sequence[Attempt], *, now: datetime) -> None:
    """Settle lost attempts whose tasks somebody takes now, or that have ended: from here they cannot come back."""
    if not rows:
        return
    Attempt.objects.filter(pk__in=[a.id for a in rows]).update(is_settled=True)
    settle([fact_of(a, a.task, outcome=str(AttemptStatus.LOST)) for a in rows], now=now)


def is_sick(worker: Worker, *, now: datetime) -> bool:
    """Say whether tasks of three different jobs failed on this worker lately that did not fail elsewhere."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT count(DISTINCT a.job_id) FROM dispatch_attempt a JOIN jobs_task t ON t.id = a.task_id
             WHERE a.worker_id = %s AND a.status = 'failed' AND a.ended_at > %s AND t.failed_on = ARRAY[a.worker_id]
            """,
            [worker.id, now - SICK_WITHIN],
        )
        jobs: int = cursor.fetchone()[0]
    return jobs >= SICK_JOBS

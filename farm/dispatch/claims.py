"""
The claim: ready tasks are leased, attempts written, money held, all in one transaction a pass; then workers are told.

Locks are taken in the order task → attempt → step → job → budget.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from celery import current_app
from django.db import connection, transaction
from kombu import Exchange, Queue

from farm.billing.services import HoldRequest, hold, lock_budgets, release
from farm.core.wakeups import tell_changed
from farm.dispatch import snapshot
from farm.dispatch.ends import settle_lost, unsettled
from farm.dispatch.matching import Assignment, StepDemand, match
from farm.dispatch.predicting import expected_ms, predict
from farm.dispatch.turns import Past
from farm.fleet.models import Worker
from farm.fleet.selectors import is_farm_paused
from farm.jobs.status import REVISION
from workers.protocol import LEASE_S

logger = logging.getLogger(__name__)

MAX_CLAIMS = 500  # a pass; what is left is claimed by the next one, at once


@dataclass
class Pass:
    """What one pass did."""

    claimed: int = 0
    ready: int = 0
    short: dict[UUID, int] = field(
        default_factory=dict
    )  # cost objects the budget refused, and what is missing, in micro-units
    told: dict[UUID, list[str]] = field(default_factory=dict)  # worker → attempts


@dataclass(frozen=True)
class _Candidate:
    task: UUID
    step: UUID
    job: UUID
    studio: UUID
    cost_object: UUID
    worker: UUID
    slot: int
    worker_class: str
    purpose: str
    p95_ms: int | None


def run_pass(*, now: datetime, without: Sequence[UUID] = (), past: Past | None = None) -> Pass:
    """
    Take ready tasks and free slots, match, claim, and tell the workers.

    `without`: cost objects to leave alone. `past`: what parties got before, kept by whoever runs the passes. A farm
    that is paused starts nothing.
    """
    demand, weight = snapshot.demand(without=without)
    done = Pass(ready=sum(d.ready for d in demand))
    if not demand or is_farm_paused():
        return done
    there = snapshot.supply()
    shares = snapshot.shares(weight, there.running)
    if past is not None:
        past.pass_to(now)
        shares = replace(shares, debt=past.debts())
    known = snapshot.known_on(demand, there.classes)
    assignments = match(there.slots, known, shares, now=now, limits=snapshot.limits(known))[:MAX_CLAIMS]
    if past is not None:
        held = _held_with(assignments, demand, there)
        past.remember({d.project: d.studio for d in demand}, replace(shares, running=held))
    if assignments:
        classes = {(s.worker, s.index): s.worker_class for s in there.slots}
        binds = {s.worker for s in there.slots if s.binds}
        claim(assignments, classes, binds, done, now=now)
    return done


def _held_with(
    assignments: Sequence[Assignment], demand: Sequence[StepDemand], there: snapshot.Supply
) -> dict[UUID, int]:
    """Give how many slots each studio and project holds with what it is lent now."""
    whose = {d.step: (d.studio, d.project) for d in demand}
    idle = {(s.worker, s.index) for s in there.slots if not s.held}
    held = dict(there.running)
    for step, _ in {(a.step, (a.worker, a.slot)) for a in assignments if (a.worker, a.slot) in idle}:
        for party in whose[step]:
            held[party] = held.get(party, 0) + 1
    return held


def claim(
    assignments: Sequence[Assignment],
    classes: dict[tuple[UUID, int], str],
    binds: set[UUID],
    done: Pass,
    *,
    now: datetime,
) -> None:
    """Lease tasks for these assignments as far as tasks, workers and money are still there, and tell the workers."""
    with transaction.atomic():
        candidates = _candidates(assignments, classes)
        if not candidates:
            return
        _lock_steps({c.step for c in candidates})
        attempts = dict(zip(_new_ids(len(candidates)), candidates, strict=True))
        lost = unsettled([c.task for c in candidates])
        lock_budgets(attempts=[a.id for a in lost], cost_objects={c.cost_object for c in candidates}, now=now)
        settle_lost(lost, now=now)
        granted = _without_leavers(_hold(attempts, done, now=now), now=now)
        _lease(granted, now=now)
        _bind(granted, binds)
        tell_changed("jobs", *{c.job for c in granted.values()})
    for attempt, candidate in granted.items():
        done.told.setdefault(candidate.worker, []).append(str(attempt))
    done.claimed = len(granted)
    tell(done.told)


# One that was overtaken has not stopped yet: its task waits for that.
_IS_FREE = """
status = 'ready' AND NOT EXISTS (SELECT FROM dispatch_attempt a
                                  WHERE a.task_id = k.id AND a.status IN ('assigned', 'started'))
"""

_PICK = f"""
SELECT t.id, t.step_id, t.job_id, t.studio_id, j.cost_object_id, j.purpose
  FROM unnest(%s::uuid[], %s::int[]) AS w(step, n)
  CROSS JOIN LATERAL (SELECT id, step_id, job_id, studio_id FROM jobs_task k WHERE step_id = w.step AND {_IS_FREE}
                       ORDER BY rank, index LIMIT w.n FOR NO KEY UPDATE SKIP LOCKED) t
  JOIN jobs_job j ON j.id = t.job_id AND j.status = 'active'
"""  # noqa: S608

_PICK_THESE = f"""
SELECT t.id, t.step_id, t.job_id, t.studio_id, j.cost_object_id, j.purpose
  FROM (SELECT k.id, step_id, job_id, studio_id FROM unnest(%s::uuid[]) WITH ORDINALITY AS c(id, place)
          JOIN jobs_task k ON k.id = c.id WHERE {_IS_FREE} ORDER BY c.place FOR NO KEY UPDATE OF k SKIP LOCKED) t
  JOIN jobs_job j ON j.id = t.job_id AND j.status = 'active'
"""  # noqa: S608

_FEW = f"SELECT id, step_id, index, rank FROM jobs_task k WHERE step_id = ANY(%s) AND {_IS_FREE}"  # noqa: S608

_PACES = "SELECT step_id, worker_class, recent_ms, recent_tasks FROM dispatch_pace WHERE step_id = ANY(%s)"


def _candidates(assignments: Sequence[Assignment], classes: dict[tuple[UUID, int], str]) -> list[_Candidate]:
    """Lock the first ready tasks of each step and pair them with its assignments; workers that left drop out."""
    staying = set(
        Worker.objects.filter(pk__in={a.worker for a in assignments}, status="ready").values_list("id", flat=True)
    )
    lent: dict[UUID, list[Assignment]] = defaultdict(list)
    for assignment in assignments:
        if assignment.worker in staying:
            lent[assignment.step].append(assignment)
    if not lent:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_PACES, [list(lent)])
        paces = cursor.fetchall()
        tasks = _pick(cursor, lent, paces)
    p95 = {(step, kind): p.p95 for step, kind, recent, _ in paces if (p := predict(recent))}
    found = []
    for task, step, job, studio, cost_object, purpose in tasks:
        to = lent[step].pop(0)
        kind = classes[to.worker, to.slot]
        found.append(
            _Candidate(task, step, job, studio, cost_object, to.worker, to.slot, kind, purpose, p95.get((step, kind)))
        )
    return found


def _pick(cursor: Any, lent: dict[UUID, list[Assignment]], paces: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Lock so many ready tasks of each step: the first by rank; of steps with few left, the longest."""
    tails = {step for step, to in lent.items() if to[-1].is_tail}
    rest = {step: len(to) for step, to in lent.items() if step not in tails}
    tasks: list[tuple[Any, ...]] = []
    if rest:
        cursor.execute(_PICK, [list(rest), list(rest.values())])
        tasks += cursor.fetchall()
    if tails:
        cursor.execute(_FEW, [list(tails)])
        few = cursor.fetchall()
        cursor.execute(_PICK_THESE, [_longest(few, {step: len(lent[step]) for step in tails}, paces)])
        tasks += cursor.fetchall()
    return tasks


def _longest(
    tasks: Sequence[tuple[UUID, UUID, int, int]], wanted: dict[UUID, int], paces: Sequence[tuple[Any, ...]]
) -> list[UUID]:
    """Give so many tasks of each step, those first that a person put first, then the longest predicted. Pure."""
    seen: dict[UUID, list[tuple[int, int]]] = defaultdict(list)
    for step, _, recent, places in paces:
        seen[step] += zip(places, recent[-len(places) :] if places else (), strict=True)
    rows = sorted(tasks, key=lambda t: (t[3] >= 0, -expected_ms(t[2], seen[t[1]]) if t[3] >= 0 else 0, t[3], t[2]))
    by_step: dict[UUID, list[UUID]] = defaultdict(list)
    for task, step, _, _ in rows:
        by_step[step].append(task)
    return [task for step, found in by_step.items() for task in found[: wanted[step]]]


def _without_leavers(granted: dict[UUID, _Candidate], *, now: datetime) -> dict[UUID, _Candidate]:
    """
    Lock the workers, last of all as a sync does, and let those go that began to leave since we looked.

    What was held for them is released; their tasks stay ready.
    """
    rows = Worker.objects.select_for_update(no_key=True).filter(pk__in={c.worker for c in granted.values()})
    ready = set(rows.filter(status="ready").order_by("pk").values_list("pk", flat=True))
    if leaving := [attempt for attempt, c in granted.items() if c.worker not in ready]:
        release(leaving, now=now)
    return {attempt: c for attempt, c in granted.items() if c.worker in ready}


def _lock_steps(steps: set[UUID]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM jobs_step WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [list(steps)])


def _new_ids(count: int) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT uuidv7() FROM generate_series(1, %s)", [count])
        return [row[0] for row in cursor.fetchall()]


def _hold(attempts: dict[UUID, _Candidate], done: Pass, *, now: datetime) -> dict[UUID, _Candidate]:
    """Hold money for each attempt; give those that got it."""
    requests = [
        HoldRequest(
            attempt=attempt,
            cost_object=c.cost_object,
            worker_class=c.worker_class,
            gpus=1,
            predicted_p95_ms=c.p95_ms,
            purpose=c.purpose,
        )
        for attempt, c in attempts.items()
    ]
    answer = hold(requests, now=now)
    for attempt, (_, missing) in answer.refused.items():
        done.short[attempts[attempt].cost_object] = missing
    for attempt, worker_class in answer.unrated.items():
        logger.error("there is no rate for %s: set one with 'manage.py set_rate'", worker_class)
        done.short[attempts[attempt].cost_object] = 0
    return {attempt: c for attempt, c in attempts.items() if attempt in answer.granted}


_LEASE = f"""
WITH w AS (SELECT * FROM unnest(%(attempt)s::uuid[], %(task)s::uuid[], %(worker)s::uuid[], %(slot)s::int[],
                                %(kind)s::text[])
                      AS w(attempt, task, worker, slot, kind)),
     leased AS (UPDATE jobs_task t
                   SET status = 'leased', generation = t.generation + 1, changed_at = %(now)s, revision = {REVISION}
                  FROM w WHERE t.id = w.task AND t.status = 'ready'
                RETURNING t.id, t.studio_id, t.job_id, t.step_id, t.generation, w.attempt, w.worker, w.slot, w.kind)
INSERT INTO dispatch_attempt (id, studio_id, job_id, step_id, task_id, worker_id, slot, generation, status,
                              worker_class, lease_until, claimed_at, progress, elapsed_ms, log_chunks, cause, sentence,
                              setup_ms, render_ms, peak_memory_mib, device, is_settled)
SELECT attempt, studio_id, job_id, step_id, id, worker, slot, generation, 'assigned',
       kind, %(until)s, %(now)s, 0, 0, 0, '', '', 0, 0, 0, '', false
  FROM leased
"""  # noqa: S608


def _lease(granted: dict[UUID, _Candidate], *, now: datetime) -> None:
    """Lease the tasks and write their attempts; step counters follow, their rows being locked already."""
    columns = granted.values()
    per_step = Counter(c.step for c in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            _LEASE,
            {
                "attempt": list(granted),
                "task": [c.task for c in columns],
                "worker": [c.worker for c in columns],
                "slot": [c.slot for c in columns],
                "kind": [c.worker_class for c in columns],
                "now": now,
                "until": now + timedelta(seconds=LEASE_S),
            },
        )
        cursor.execute(
            """
            UPDATE jobs_step s SET ready = s.ready - w.n, leased = s.leased + w.n
              FROM unnest(%s::uuid[], %s::int[]) AS w(step, n) WHERE s.id = w.step
            """,
            [list(per_step), list(per_step.values())],
        )


def _bind(granted: dict[UUID, _Candidate], binds: set[UUID]) -> None:
    """Bind workers to the studio of their first assignment, where the fleet says so."""
    for worker, studio in {c.worker: c.studio for c in granted.values() if c.worker in binds}.items():
        Worker.objects.filter(pk=worker, studio=None).update(studio=studio)
    workers = list({c.worker for c in granted.values()})
    Worker.objects.filter(pk__in=workers).update(idle_since=None)


def tell(told: dict[UUID, list[str]]) -> None:
    """
    Send each worker one Celery message that names its new attempts.

    It carries no work and no credential. Lost, doubled or late it changes nothing: the next sync tells the same.
    """
    try:
        with current_app.amqp.producer_pool.acquire(block=True, timeout=2) as producer:
            for worker, attempts in told.items():
                name = queue_of(worker)
                # No exchange and no declaration: the list alone exists in the broker, and is gone when it is empty.
                queue = Queue(name, Exchange(""), routing_key=name, no_declare=True)
                current_app.send_task(
                    "farmhand.assigned",
                    args=[attempts],
                    queue=cast(Any, queue),  # a name or a queue; its type stub knows only names
                    producer=producer,
                    retry=False,
                    ignore_result=True,
                )
    except Exception as error:  # whatever the broker's client raises
        logger.warning("could not tell %d workers (%s); they will hear at their next sync", len(told), error)


def queue_of(worker: UUID) -> str:
    """Name a worker's own queue."""
    return f"worker.{worker}"

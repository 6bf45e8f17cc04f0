"""
The set-based statements that read and write money rows: one statement for a pass or a sync, however many rows.

Locks are taken in one order everywhere: holds (by attempt), budgets (studio, project, job; by id), then the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.db import connection

from farm.billing.metering import EndedFact, Metered
from farm.billing.pricing import STANDARD_TIER, BudgetScope, Charge, HoldStatus, Policy, Verdict


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On which terms a cost object is charged."""

    cost_object: UUID
    studio: UUID
    project: UUID
    currency: str
    zone: str
    policy: Policy
    rates: dict[str, int]  # by worker class


@dataclass(kw_only=True, eq=False)
class LockedBudget:
    """A budget's row, locked until the transaction ends; `held` and `spent` are counted on as the pass decides."""

    id: UUID
    studio: UUID
    scope: BudgetScope
    subject: UUID
    month: date | None
    cap: int | None
    held: int
    spent: int
    told: list[int]

    def missing(self, more: int) -> int:
        """Give how much this budget lacks to hold so much more; 0 if it fits."""
        return 0 if self.cap is None else max(0, self.held + self.spent + more - self.cap)


@dataclass(frozen=True, kw_only=True)
class OpenHold:
    """An open hold's row, locked until the transaction ends."""

    attempt: UUID
    cost_object: UUID
    worker_class: str
    gpus: int
    rate: int
    purpose: str
    amount: int
    month: date


@dataclass(frozen=True, kw_only=True)
class Line:
    """All that a usage fact's row says."""

    ended: EndedFact
    metered: Metered
    billable_ms: int
    verdict: Verdict
    charge: Charge
    terms: Terms
    worker_class: str
    gpus: int
    rate: int
    held: int
    hold_month: date
    month: date


@dataclass(frozen=True, kw_only=True)
class Booking:
    """A ledger group: entries by account, which sum to zero."""

    key: str
    attempt: UUID
    terms: Terms
    occurred_at: datetime
    entries: dict[str, int]


def _rows(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall() if cursor.description else []


def terms_of(cost_objects: Iterable[UUID]) -> dict[UUID, Terms]:
    """Read on which terms cost objects are charged."""
    rows = _rows(
        """
        SELECT c.id, c.studio_id, c.project_id, c.currency, s.zone, c.policy::text, coalesce(q.rates, '{}')::text
          FROM billing_costobject c
          JOIN studios_studio s ON s.id = c.studio_id
          LEFT JOIN LATERAL (
               SELECT jsonb_object_agg(worker_class, micro_per_gpu_hour) AS rates
                 FROM billing_quotedrate WHERE cost_object_id = c.id) q ON true
         WHERE c.id = ANY(%s)
        """,
        [sorted(set(cost_objects))],
    )
    return {
        row[0]: Terms(
            cost_object=row[0],
            studio=row[1],
            project=row[2],
            currency=row[3],
            zone=row[4],
            policy=Policy.from_json(json.loads(row[5])),
            rates=json.loads(row[6]),
        )
        for row in rows
    }


def quote_rates(wanted: Iterable[tuple[UUID, str]], *, now: datetime) -> None:
    """Freeze the rates in force now for (cost object, worker class); a class without a rate is left out."""
    pairs = sorted(set(wanted))
    _rows(
        """
        INSERT INTO billing_quotedrate (studio_id, cost_object_id, worker_class, rate_id, micro_per_gpu_hour, quoted_at)
        SELECT c.studio_id, c.id, w.worker_class, r.id, r.micro_per_gpu_hour, %s
          FROM unnest(%s::uuid[], %s::text[]) AS w(cost_object, worker_class)
          JOIN billing_costobject c ON c.id = w.cost_object
          JOIN LATERAL (
               SELECT id, micro_per_gpu_hour FROM billing_rate
                WHERE (studio_id = c.studio_id OR studio_id IS NULL) AND worker_class = w.worker_class
                  AND tier = %s AND currency = c.currency AND valid @> %s
                ORDER BY studio_id NULLS LAST LIMIT 1) r ON true
         ORDER BY c.id, w.worker_class
            ON CONFLICT DO NOTHING
        """,
        [now, [p[0] for p in pairs], [p[1] for p in pairs], STANDARD_TIER, now],
    )


def ensure_budgets(wanted: Iterable[tuple[UUID, BudgetScope, UUID, date | None]]) -> int:
    """
    Make the missing ones of these budgets (studio, scope, subject, month), and say how many that were.

    A cap on a studio's month stands until it is changed: a new month takes the cap of the latest month before it.
    """
    rows = sorted(set(wanted), key=str)
    made = _rows(
        """
        INSERT INTO billing_budget (studio_id, scope, subject, month, cap_micro, held_micro, spent_micro, told)
        SELECT w.studio, w.scope, w.subject, w.month,
               (SELECT cap_micro FROM billing_budget e
                 WHERE e.subject = w.subject AND e.month < w.month ORDER BY e.month DESC LIMIT 1),
               0, 0, '{}'
          FROM unnest(%s::uuid[], %s::text[], %s::uuid[], %s::date[]) AS w(studio, scope, subject, month)
         WHERE NOT EXISTS (
               SELECT FROM billing_budget b WHERE b.subject = w.subject AND b.month IS NOT DISTINCT FROM w.month)
         ORDER BY w.subject, w.month
            ON CONFLICT DO NOTHING RETURNING id
        """,
        [[r[0] for r in rows], [r[1].value for r in rows], [r[2] for r in rows], [r[3] for r in rows]],
    )
    return len(made)


# By scope descending: studio, project, job.
_LOCK_BUDGETS = """
SELECT b.id, b.studio_id, b.scope, b.subject, b.month, b.cap_micro, b.held_micro, b.spent_micro, b.told
  FROM billing_budget b
  JOIN unnest(%s::uuid[], %s::date[]) AS k(subject, month)
    ON k.subject = b.subject AND k.month IS NOT DISTINCT FROM b.month
 ORDER BY b.scope DESC, b.id
   FOR UPDATE OF b
"""


def lock_budgets(subjects: Iterable[tuple[UUID, date | None]]) -> dict[tuple[UUID, date | None], LockedBudget]:
    """Lock budgets by (subject, month), in the order that all lockers keep, and read them."""
    keys = sorted(set(subjects), key=str)
    rows = _rows(_LOCK_BUDGETS, [[k[0] for k in keys], [k[1] for k in keys]])
    budgets = [
        LockedBudget(
            id=r[0],
            studio=r[1],
            scope=BudgetScope(r[2]),
            subject=r[3],
            month=r[4],
            cap=r[5],
            held=r[6],
            spent=r[7],
            told=list(r[8]),
        )
        for r in rows
    ]
    return {(b.subject, b.month): b for b in budgets}


def budgets_of(terms: Terms, month: date) -> list[tuple[UUID, date | None]]:
    """Name the budgets that a cost object's usage counts on, by (subject, month)."""
    return [(terms.studio, month), (terms.project, None), (terms.cost_object, None)]


_MOVE_BUDGETS = """
UPDATE billing_budget b
   SET held_micro = b.held_micro + m.held, spent_micro = b.spent_micro + m.spent
  FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[]) AS m(id, held, spent)
 WHERE b.id = m.id
   AND (m.held + m.spent <= 0 OR b.cap_micro IS NULL
        OR b.held_micro + b.spent_micro + m.held + m.spent <= b.cap_micro)
"""


def move_budgets(moves: dict[UUID, tuple[int, int]]) -> None:
    """
    Add (held, spent) to budgets.

    A budget that would hold more than its cap leaves is not moved: the condition stands in the statement itself, so
    that it holds whoever forgets to lock or to look.
    """
    moves = {budget: move for budget, move in moves.items() if move != (0, 0)}
    if not moves:
        return
    with connection.cursor() as cursor:
        cursor.execute(_MOVE_BUDGETS, [list(moves), [m[0] for m in moves.values()], [m[1] for m in moves.values()]])
        if cursor.rowcount != len(moves):
            raise BudgetMoved(f"{len(moves) - cursor.rowcount} of {len(moves)} budgets changed under their lock")


class BudgetMoved(RuntimeError):
    """A budget was no longer what this transaction had locked and read: a fault of ours, so nothing is written."""


def tell_budgets(told: dict[UUID, list[int]]) -> None:
    """Note which percents of their caps were announced."""
    _rows(
        """
        UPDATE billing_budget b SET told = b.told || t.percents::smallint[]
          FROM unnest(%s::uuid[], %s::text[]) AS t(id, percents) WHERE b.id = t.id
        """,
        [list(told), ["{" + ",".join(map(str, p)) + "}" for p in told.values()]],
    )


def insert_holds(holds: Sequence[tuple[OpenHold, UUID]], *, now: datetime) -> None:
    """Write new holds, each with its studio."""
    columns = [
        [h.attempt for h, _ in holds],
        [studio for _, studio in holds],
        [h.cost_object for h, _ in holds],
        [h.worker_class for h, _ in holds],
        [h.gpus for h, _ in holds],
        [h.rate for h, _ in holds],
        [h.purpose for h, _ in holds],
        [h.amount for h, _ in holds],
        [h.month for h, _ in holds],
    ]
    _rows(
        """
        INSERT INTO billing_hold (attempt, studio_id, cost_object_id, worker_class, gpus, micro_per_gpu_hour, purpose,
                                  amount_micro, month, status, taken_at)
        SELECT h.*, 'open', %s
          FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::text[], %s::smallint[], %s::bigint[], %s::text[],
                      %s::bigint[], %s::date[]) AS h
        """,
        [now, *columns],
    )


def lock_holds(attempts: Iterable[UUID]) -> dict[UUID, OpenHold]:
    """Lock the open holds of attempts, and read them."""
    rows = _rows(
        """
        SELECT attempt, cost_object_id, worker_class, gpus, micro_per_gpu_hour, purpose, amount_micro, month
          FROM billing_hold WHERE attempt = ANY(%s) AND status = 'open' ORDER BY attempt FOR UPDATE
        """,
        [sorted(set(attempts))],
    )
    names = ("attempt", "cost_object", "worker_class", "gpus", "rate", "purpose", "amount", "month")
    return {row[0]: OpenHold(**dict(zip(names, row, strict=True))) for row in rows}


def extend_holds(amounts: dict[UUID, int]) -> None:
    """Set holds to new amounts."""
    _rows(
        """
        UPDATE billing_hold h SET amount_micro = n.amount
          FROM unnest(%s::uuid[], %s::bigint[]) AS n(attempt, amount) WHERE h.attempt = n.attempt
        """,
        [list(amounts), list(amounts.values())],
    )


def close_holds(attempts: Iterable[UUID], status: HoldStatus, *, now: datetime) -> None:
    """Close holds as settled or released."""
    _rows(
        "UPDATE billing_hold SET status = %s, closed_at = %s WHERE attempt = ANY(%s) AND status = 'open'",
        [status.value, now, sorted(attempts)],
    )


@dataclass(frozen=True)
class Past:
    """What earlier facts say of the tasks that a settlement is about."""

    attempts: frozenset[UUID]  # that have a fact
    charged: frozenset[tuple[UUID, int]]  # (task, generation)
    scene_faults: frozenset[UUID]  # tasks that failed by the scene


def past_of(facts: Sequence[EndedFact], *, scene_faults: Iterable[str]) -> Past:
    """Read what earlier facts say of these attempts and their tasks."""
    rows = _rows(
        """
        SELECT attempt, task, generation, is_charged, outcome = 'failed' AND cause = ANY(%s)
          FROM billing_usagefact WHERE task = ANY(%s)
        """,
        [sorted(scene_faults), sorted({f.task for f in facts})],
    )
    return Past(
        attempts=frozenset(r[0] for r in rows),
        charged=frozenset((r[1], r[2]) for r in rows if r[3]),
        scene_faults=frozenset(r[1] for r in rows if r[4]),
    )


_FACT_COLUMNS = {
    "attempt": "uuid",
    "task": "uuid",
    "generation": "int",
    "studio_id": "uuid",
    "cost_object_id": "uuid",
    "label": "text",
    "purpose": "text",
    "is_scout": "bool",
    "worker_class": "text",
    "gpus": "smallint",
    "micro_per_gpu_hour": "bigint",
    "outcome": "text",
    "cause": "text",
    "reported_render_ms": "bigint",
    "reported_setup_ms": "bigint",
    "render_ms": "bigint",
    "setup_ms": "bigint",
    "billable_ms": "bigint",
    "payable_ms": "bigint",
    "held_micro": "bigint",
    "gross_micro": "bigint",
    "charged_micro": "bigint",
    "over_hold_micro": "bigint",
    "is_charged": "bool",
    "reason": "text",
    "hold_month": "date",
    "month": "date",
    "claimed_at": "timestamptz",
    "started_at": "timestamptz",
    "cancelled_at": "timestamptz",
}


def _fact_row(line: Line) -> tuple[Any, ...]:
    ended = line.ended
    return (
        ended.attempt,
        ended.task,
        ended.generation,
        line.terms.studio,
        line.terms.cost_object,
        ended.label,
        str(ended.purpose),
        ended.scout,
        line.worker_class,
        line.gpus,
        line.rate,
        str(ended.outcome),
        str(ended.cause),
        ended.render_ms,
        ended.setup_ms,
        line.metered.render_ms,
        line.metered.setup_ms,
        line.billable_ms,
        line.verdict.payable_ms,
        line.held,
        line.charge.gross,
        line.charge.charged,
        line.charge.over_hold,
        line.verdict.is_charged,
        line.verdict.reason.value,
        line.hold_month,
        line.month,
        ended.claimed_at,
        ended.started_at,
        ended.cancelled_at,
    )


_INSERT_FACTS = (
    f"INSERT INTO billing_usagefact ({', '.join(_FACT_COLUMNS)}, ended_at) "  # noqa: S608  (our own names)
    f"SELECT f.*, %s FROM unnest({', '.join(f'%s::{kind}[]' for kind in _FACT_COLUMNS.values())}) AS f"
)


def insert_facts(lines: Sequence[Line], *, now: datetime) -> None:
    """Write usage facts."""
    columns = [list(column) for column in zip(*map(_fact_row, lines), strict=True)]
    _rows(_INSERT_FACTS, [now, *columns])


def insert_credits(given: Sequence[tuple[UUID, UUID, int, int]], *, reason: str, now: datetime) -> None:
    """Write credits (studio, fact, GPU-milliseconds, micro-units)."""
    _rows(
        """
        INSERT INTO billing_credit (studio_id, fact_id, gpu_ms, amount_micro, reason, at)
        SELECT c.*, %s, %s FROM unnest(%s::uuid[], %s::uuid[], %s::bigint[], %s::bigint[]) AS c
        """,
        [reason, now, *([row[i] for row in given] for i in range(4))],
    )


def book(bookings: Sequence[Booking]) -> None:
    """Write ledger groups with their entries; an account with nothing to book is left out."""
    bookings = [b for b in bookings if any(b.entries.values())]
    if not bookings:
        return
    entries = [(b.key, account, amount) for b in bookings for account, amount in b.entries.items() if amount]
    _rows(
        """
        WITH g AS (
            INSERT INTO billing_ledgergroup (key, attempt, studio_id, cost_object_id, currency, occurred_at)
            SELECT n.* FROM unnest(%s::text[], %s::uuid[], %s::uuid[], %s::uuid[], %s::text[], %s::timestamptz[]) AS n
            RETURNING id, key, studio_id)
        INSERT INTO billing_ledgerentry (group_id, studio_id, account, amount_micro)
        SELECT g.id, g.studio_id, e.account, e.amount
          FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS e(key, account, amount) JOIN g USING (key)
        """,
        [
            [b.key for b in bookings],
            [b.attempt for b in bookings],
            [b.terms.studio for b in bookings],
            [b.terms.cost_object for b in bookings],
            [b.terms.currency for b in bookings],
            [b.occurred_at for b in bookings],
            *([e[i] for e in entries] for i in range(3)),
        ],
    )

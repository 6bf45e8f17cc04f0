"""
The books, computed a second time from the facts by code that shares nothing with the code that wrote them.

A ledger that balances proves little: frames charged twice balance too. So every fact is metered, judged and rated anew,
with decimals instead of integers, and facts, ledger and budgets must agree with that to the micro-unit. Only models'
tables are read here; `pricing`, `metering`, `books` and `services` are not imported, and must not be.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any
from uuid import UUID

from django.db import connection, transaction

HOUR = Decimal(3_600_000)
BATCH = 2_000
SHOWN = 20  # of each kind of finding


@dataclass
class Books:
    """What was found: how far the books are from the recomputation, and each thing that is wrong."""

    facts: int = 0
    credits: int = 0
    groups: int = 0
    difference_micro: int = 0  # the sum of all absolute differences
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # worth a look, but no fault of the books

    @property
    def are_right(self) -> bool:
        return self.difference_micro == 0 and not self.findings

    def compare(self, what: str, *, expected: int, found: int) -> None:
        if expected != found:
            self.difference_micro += abs(expected - found)
            self.findings.append(f"{what}: {found} in the books, {expected} by the facts")


@dataclass
class Sums:
    """What the facts add up to."""

    accounts: defaultdict[tuple[UUID, str], int] = field(default_factory=lambda: defaultdict(int))
    budgets: defaultdict[tuple[UUID, Any], int] = field(default_factory=lambda: defaultdict(int))

    def spend(self, row: dict[str, Any], micro: int) -> None:
        self.accounts[row["studio_id"], "receivable"] += micro
        for key in ((row["studio_id"], row["hold_month"]), (row["project_id"], None), (row["cost_object_id"], None)):
            self.budgets[key] += micro


def check_books(*, now: datetime, stale_after: timedelta, studio: UUID | None = None) -> Books:
    """Recompute all money of the farm, or of one studio, from one consistent snapshot, and compare."""
    books, sums = Books(), Sums()
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SET LOCAL statement_timeout = 0")
        _check(books, sums, studio=studio)
        _note_stale_holds(books, studio=studio, before=now - stale_after)
    return books


def check_books_here(*, studio: UUID | None = None) -> Books:
    """Recompute within the caller's transaction, and see what it wrote."""
    books = Books()
    _check(books, Sums(), studio=studio)
    return books


def _check(books: Books, sums: Sums, *, studio: UUID | None) -> None:
    for row in _stream(_FACTS, studio):
        books.facts += 1
        _check_fact(books, sums, row)
    for row in _stream(_CREDITS, studio):
        books.credits += 1
        _check_credit(books, sums, row)
    _check_accounts(books, sums, studio)
    _check_budgets(books, sums, studio)
    for name, sql in _MUST_BE_EMPTY.items():
        _must_be_empty(books, name, sql, studio)


_FACTS = """
SELECT f.*, c.project_id, c.policy::text AS policy_json
  FROM billing_usagefact f JOIN billing_costobject c ON c.id = f.cost_object_id
 WHERE f.studio_id = coalesce(%s, f.studio_id) AND f.attempt > %s ORDER BY f.attempt LIMIT %s
"""

_CREDITS = """
SELECT k.id AS attempt, k.reason, k.gpu_ms, k.amount_micro, f.studio_id, f.cost_object_id, c.project_id, f.hold_month,
       f.charged_micro, f.payable_ms, f.gpus, f.micro_per_gpu_hour
  FROM billing_credit k
  JOIN billing_usagefact f ON f.attempt = k.fact_id
  JOIN billing_costobject c ON c.id = f.cost_object_id
 WHERE k.studio_id = coalesce(%s, k.studio_id) AND k.id > %s ORDER BY k.id LIMIT %s
"""


def _stream(sql: str, studio: UUID | None) -> Iterator[dict[str, Any]]:
    """Read rows in keyset batches, so that ten million of them need no memory."""
    last = UUID(int=0)
    while True:
        rows = _select(sql, [studio, last, BATCH])
        yield from rows
        if len(rows) < BATCH:
            return
        last = rows[-1]["attempt"]


def _select(sql: str, params: list[Any]) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _rated(ms: Any, gpus: int, rate: int) -> int:
    exact = Decimal(ms) * gpus * rate / HOUR
    return int(exact.to_integral_value(ROUND_HALF_EVEN))


def _check_fact(books: Books, sums: Sums, row: dict[str, Any]) -> None:
    policy = json.loads(row["policy_json"])
    name = f"fact of attempt {row['attempt']}"
    limit = max(Decimal(0), _ms(row["ended_at"] - row["claimed_at"]) + 2_000)
    render = min(max(Decimal(row["reported_render_ms"]), Decimal(0)), limit)
    setup = min(max(Decimal(row["reported_setup_ms"]), Decimal(0)), limit - render)
    used = int(render) + max(0, int(setup) - 1_000 * policy["free_setup_seconds"])
    gross = _rated(used, row["gpus"], row["micro_per_gpu_hour"])
    due = _rated(_paid_ms(row, policy, used), row["gpus"], row["micro_per_gpu_hour"])
    charged = min(due, row["held_micro"])
    books.compare(f"{name}, gross", expected=gross, found=row["gross_micro"])
    books.compare(f"{name}, charged", expected=charged, found=row["charged_micro"])
    books.compare(f"{name}, over hold", expected=due - charged, found=row["over_hold_micro"])
    sums.spend(row, charged)
    studio = row["studio_id"]
    sums.accounts[studio, "over-hold"] += due - charged
    sums.accounts[studio, f"credit:{row['reason']}"] += gross - due
    sums.accounts[studio, f"revenue:{row['worker_class']}"] -= gross


def _ms(span: timedelta) -> Decimal:
    return Decimal(span // timedelta(milliseconds=1))


def _paid_ms(row: dict[str, Any], policy: dict[str, Any], used: int) -> Any:
    """
    The table of who pays, once more.

    That a sibling was charged instead is taken from the row here; `_MUST_BE_EMPTY` checks that there is that sibling.
    """
    if row["purpose"] != "render" or row["reason"] in {"already-charged", "scene-fault-free"}:
        return 0
    match row["outcome"], row["cause"]:
        case "succeeded", _:
            return used
        case "cancelled", _ if row["cancelled_at"] is not None:
            begin = row["started_at"] or row["claimed_at"]
            wish = max(Decimal(0), _ms(row["cancelled_at"] - begin))
            return min(used, int(wish) + 1_000 * policy["cancel_grace_seconds"])
        case "failed", "scene_error" | "missing_asset" | "out_of_memory":
            return min(used, 1_000 * (policy["scene_error_cap_seconds"] or 0))
    return 0


def _check_credit(books: Books, sums: Sums, row: dict[str, Any]) -> None:
    is_whole = row["gpu_ms"] == row["payable_ms"] * row["gpus"]
    part = _rated(row["gpu_ms"], 1, row["micro_per_gpu_hour"])
    amount = row["charged_micro"] if is_whole else min(row["charged_micro"], part)
    books.compare(f"credit {row['attempt']}", expected=amount, found=row["amount_micro"])
    sums.spend(row, -amount)
    sums.accounts[row["studio_id"], f"credit:{row['reason']}"] += amount


def _check_accounts(books: Books, sums: Sums, studio: UUID | None) -> None:
    found = _select(
        """
        SELECT studio_id, account, sum(amount_micro)::bigint AS total, count(DISTINCT group_id) AS groups
          FROM billing_ledgerentry WHERE studio_id = coalesce(%s, studio_id) GROUP BY studio_id, account
        """,
        [studio],
    )
    ledger = {(row["studio_id"], row["account"]): row["total"] for row in found}
    books.groups = _select(
        "SELECT count(*) AS n FROM billing_ledgergroup WHERE studio_id = coalesce(%s, studio_id)", [studio]
    )[0]["n"]
    for key in sorted({*ledger, *sums.accounts}, key=str):
        name = f"ledger account {key[1]} of studio {key[0]}"
        books.compare(name, expected=sums.accounts[key], found=ledger.get(key, 0))


def _check_budgets(books: Books, sums: Sums, studio: UUID | None) -> None:
    rows = _select(
        """
        SELECT b.id, b.scope, b.subject, b.month, b.cap_micro, b.held_micro, b.spent_micro,
               coalesce(CASE b.scope
                   WHEN 'studio' THEN (SELECT sum(h.amount_micro) FROM billing_hold h
                                        WHERE h.studio_id = b.subject AND h.month = b.month AND h.status = 'open')
                   WHEN 'project' THEN (SELECT sum(h.amount_micro) FROM billing_hold h
                                          JOIN billing_costobject c ON c.id = h.cost_object_id
                                         WHERE c.project_id = b.subject AND h.status = 'open')
                   ELSE (SELECT sum(h.amount_micro) FROM billing_hold h
                          WHERE h.cost_object_id = b.subject AND h.status = 'open') END, 0)::bigint AS open_micro
          FROM billing_budget b WHERE b.studio_id = coalesce(%s, b.studio_id)
        """,
        [studio],
    )
    for row in rows:
        name = f"budget {row['id']} ({row['scope']})"
        books.compare(f"{name}, held", expected=row["open_micro"], found=row["held_micro"])
        spent = sums.budgets.pop((row["subject"], row["month"]), 0)
        books.compare(f"{name}, spent", expected=spent, found=row["spent_micro"])
        if row["cap_micro"] is not None and row["held_micro"] + row["spent_micro"] > row["cap_micro"]:
            books.notes.append(f"{name} is over its cap, which must have been lowered")
    for (subject, month), spent in sums.budgets.items():
        books.compare(f"budget of {subject}, {month or 'no month'}, which is missing", expected=spent, found=0)


# Each gives what is wrong, as one column of text, of one studio or of all.
_MUST_BE_EMPTY = {
    "ledger group does not sum to zero": """
        SELECT e.group_id::text FROM billing_ledgerentry e WHERE e.studio_id = coalesce(%(studio)s, e.studio_id)
         GROUP BY e.group_id HAVING sum(e.amount_micro) <> 0""",
    "task and generation charged more than once": """
        SELECT f.task || ' ' || f.generation FROM billing_usagefact f
         WHERE f.studio_id = coalesce(%(studio)s, f.studio_id) AND f.is_charged
         GROUP BY f.task, f.generation HAVING count(*) > 1""",
    "fact not charged because of another, which is not there": """
        SELECT f.attempt::text FROM billing_usagefact f
         WHERE f.studio_id = coalesce(%(studio)s, f.studio_id) AND f.reason = 'already-charged' AND NOT EXISTS (
               SELECT FROM billing_usagefact o
                WHERE o.task = f.task AND o.generation = f.generation AND o.is_charged AND o.attempt <> f.attempt)""",
    "first failure by the scene not charged though the policy has a cap": """
        SELECT f.attempt::text FROM billing_usagefact f JOIN billing_costobject c ON c.id = f.cost_object_id
         WHERE f.studio_id = coalesce(%(studio)s, f.studio_id) AND f.reason = 'scene-fault-free'
           AND c.policy ->> 'scene_error_cap_seconds' IS NOT NULL AND NOT EXISTS (
               SELECT FROM billing_usagefact o WHERE o.task = f.task AND o.attempt <> f.attempt
                  AND o.reason IN ('scene-fault', 'already-charged') AND o.outcome = 'failed')""",
    "later failures by the scene charged": """
        SELECT f.task::text FROM billing_usagefact f
         WHERE f.studio_id = coalesce(%(studio)s, f.studio_id) AND f.reason = 'scene-fault'
         GROUP BY f.task HAVING count(*) > 1""",
    "fact and its ledger group differ": """
        SELECT f.attempt::text FROM billing_usagefact f
          LEFT JOIN (SELECT g.key, sum(e.amount_micro) FILTER (WHERE e.account = 'receivable') AS charged,
                            sum(e.amount_micro) FILTER (WHERE e.account LIKE 'revenue:%%') AS revenue
                       FROM billing_ledgergroup g JOIN billing_ledgerentry e ON e.group_id = g.id
                      WHERE g.studio_id = coalesce(%(studio)s, g.studio_id) GROUP BY g.key) l
            ON l.key = 'usage:' || f.attempt
         WHERE f.studio_id = coalesce(%(studio)s, f.studio_id)
           AND (coalesce(l.charged, 0) <> f.charged_micro OR coalesce(l.revenue, 0) <> -f.gross_micro)""",
    "ledger group without what it books": """
        SELECT g.key FROM billing_ledgergroup g
         WHERE g.studio_id = coalesce(%(studio)s, g.studio_id)
           AND NOT EXISTS (SELECT FROM billing_usagefact f WHERE g.key = 'usage:' || f.attempt)
           AND NOT EXISTS (SELECT FROM billing_credit k WHERE g.key = k.reason || ':' || k.fact_id)""",
    "charged without a hold of that amount": """
        SELECT f.attempt::text FROM billing_usagefact f LEFT JOIN billing_hold h ON h.attempt = f.attempt
         WHERE f.studio_id = coalesce(%(studio)s, f.studio_id) AND f.held_micro > 0
           AND (h.status IS DISTINCT FROM 'settled' OR h.amount_micro <> f.held_micro OR h.month <> f.hold_month)""",
    "hold settled without a fact": """
        SELECT h.attempt::text FROM billing_hold h
         WHERE h.studio_id = coalesce(%(studio)s, h.studio_id) AND h.status = 'settled'
           AND NOT EXISTS (SELECT FROM billing_usagefact f WHERE f.attempt = h.attempt)""",
    "more credited than charged": """
        SELECT k.fact_id::text FROM billing_credit k JOIN billing_usagefact f ON f.attempt = k.fact_id
         WHERE k.studio_id = coalesce(%(studio)s, k.studio_id)
         GROUP BY k.fact_id, f.charged_micro HAVING sum(k.amount_micro) > f.charged_micro""",
    "more scouts free on one day than any policy allows": """
        SELECT f.studio_id || ' ' || (f.ended_at AT TIME ZONE s.zone)::date FROM billing_credit k
          JOIN billing_usagefact f ON f.attempt = k.fact_id
          JOIN billing_costobject c ON c.id = f.cost_object_id
          JOIN studios_studio s ON s.id = f.studio_id
         WHERE k.studio_id = coalesce(%(studio)s, k.studio_id) AND k.reason = 'scouts'
         GROUP BY f.studio_id, (f.ended_at AT TIME ZONE s.zone)::date
        HAVING sum(k.gpu_ms) > max((c.policy ->> 'free_scout_gpu_seconds')::bigint) * 1000""",
}


def _must_be_empty(books: Books, name: str, sql: str, studio: UUID | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, {"studio": studio})
        found = [row[0] for row in cursor.fetchall()]
    books.findings += [f"{name}: {row}" for row in found[:SHOWN]]
    if len(found) > SHOWN:
        books.findings.append(f"{name}: {len(found) - SHOWN} more")


def _note_stale_holds(books: Books, *, studio: UUID | None, before: datetime) -> None:
    rows = _select(
        """
        SELECT attempt, taken_at, amount_micro FROM billing_hold
         WHERE studio_id = coalesce(%s, studio_id) AND status = 'open' AND taken_at < %s ORDER BY taken_at LIMIT %s
        """,
        [studio, before, SHOWN],
    )
    books.notes += [f"hold of attempt {r['attempt']} is open since {r['taken_at']:%Y-%m-%d %H:%M}" for r in rows]

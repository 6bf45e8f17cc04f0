"""The second computation of the books: right books pass, and each kind of wrong row is named."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from farm.billing import recompute
from farm.billing.models import CostObject, UsageFact
from farm.billing.pricing import Policy
from farm.billing.recompute import check_books, check_books_here
from farm.billing.services import forgive_scouts
from tests.billing.shop import NOW, Shop, owner

HOUR = timedelta(hours=1)


class TestIndependence:
    def test_it_imports_nothing_of_what_it_checks(self) -> None:
        tree = ast.parse(Path(recompute.__file__).read_text())

        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not {name for name in modules if name and name.startswith("farm")}


class TestCheckBooksHere:
    def test_books_without_anything_are_right(self, shop: Shop) -> None:
        books = check_books_here(studio=shop.studio.id)

        assert books.are_right
        assert (books.facts, books.groups) == (0, 0)

    def test_more_facts_than_one_batch_are_all_read(
        self, shop: Shop, job: CostObject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recompute, "BATCH", 3)
        for _ in range(7):
            shop.render(job)

        assert check_books_here().facts == 7

    def test_another_studios_books_are_left_out(self, shop: Shop, job: CostObject) -> None:
        shop.render(job)

        assert check_books_here(studio=uuid4()).facts == 0


def spoil(shop: Shop, sql: str, *params: Any) -> None:
    """Do as the owner what nobody can do: change a money row."""
    tables = ("usagefact", "credit", "ledgerentry", "ledgergroup", "budget", "hold")
    with owner() as connected:
        for table in tables:
            connected.execute(f"ALTER TABLE billing_{table} NO FORCE ROW LEVEL SECURITY, DISABLE TRIGGER USER")
        connected.execute(sql, params or None)
        connected.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in tables:
            connected.execute(f"ALTER TABLE billing_{table} FORCE ROW LEVEL SECURITY, ENABLE TRIGGER USER")


Spoiled = Callable[[str], list[str]]


@pytest.fixture
def spoiled(open_shop: Shop) -> Spoiled:
    """Books with a frame, an interruption, a forgiven scout and a running attempt; give what is found once spoiled."""
    job = open_shop.open(policy=Policy(scene_error_cap_seconds=30))
    with transaction.atomic():
        open_shop.render(job, label="frame")
        open_shop.render(job, label="lost", outcome="lost")
        open_shop.render(job, label="scout", scout=True)
        forgive_scouts(job.id, now=NOW + HOUR)
        open_shop.start(job)

    def find(sql: str) -> list[str]:
        spoil(open_shop, sql.replace("STUDIO", f"studio_id = '{open_shop.studio.id}'"))
        return check_books(now=NOW, stale_after=HOUR, studio=open_shop.studio.id).findings

    return find


# What is done to the rows (of the studio), and what is found then.
SPOILED = [
    ("usagefact SET gross_micro = gross_micro + 1", "label = 'lost'", "gross: 13418 in the books, 13417"),
    ("usagefact SET charged_micro = charged_micro - 1", "label = 'frame'", "charged: 13416 in the books, 13417"),
    ("usagefact SET outcome = 'lost'", "label = 'frame'", "charged: 13417 in the books, 0"),
    ("usagefact SET micro_per_gpu_hour = 1", "label = 'lost'", "gross: 13417 in the books, 0"),
    ("usagefact SET reason = 'already-charged'", "label = 'lost'", "not charged because of another"),
    (
        "usagefact SET outcome = 'failed', cause = 'scene_error', reason = 'scene-fault-free'",
        "label = 'lost'",
        "first failure by the scene not charged",
    ),
    ("credit SET amount_micro = amount_micro - 1", "true", "credit "),
    ("credit SET amount_micro = 90000", "true", "more credited than charged"),
    ("credit SET gpu_ms = 600001", "true", "more scouts free on one day"),
    ("ledgerentry SET amount_micro = amount_micro + 1", "amount_micro > 0", "does not sum to zero"),
    ("ledgerentry SET account = 'receivable'", "starts_with(account, 'revenue:')", "ledger account receivable"),
    ("ledgerentry SET amount_micro = 0", "true", "fact and its ledger group differ"),
    ("ledgergroup SET key = key || 'x'", "true", "ledger group without what it books"),
    ("budget SET spent_micro = spent_micro + 1", "scope = 'project'", "(project), spent: 13418 in the books, 13417"),
    ("budget SET held_micro = 0", "scope = 'studio'", "(studio), held: 0 in the books, 13417"),
    ("budget SET subject = uuidv7()", "scope = 'job'", "which is missing: 0 in the books, 13417"),
    ("hold SET status = 'settled'", "status = 'open'", "hold settled without a fact"),
    ("hold SET amount_micro = 1", "status = 'settled'", "charged without a hold of that amount"),
]


class TestCheckBooks:
    def test_unspoiled_they_are_right(self, spoiled: Spoiled) -> None:
        assert spoiled("SELECT 1") == []

    @pytest.mark.parametrize(("change", "where", "finding"), SPOILED)
    def test_a_spoiled_row_is_named(self, spoiled: Spoiled, change: str, where: str, finding: str) -> None:
        findings = spoiled(f"UPDATE billing_{change} WHERE STUDIO AND {where}")

        assert any(finding in found for found in findings)

    def test_a_second_failure_by_the_scene_that_is_charged_is_named(self, spoiled: Spoiled) -> None:
        task = uuid4()
        changes = "outcome = 'failed', cause = 'scene_error', reason = 'scene-fault', is_charged = true"

        findings = spoiled(
            f"UPDATE billing_usagefact SET task = '{task}', generation = 1 + is_scout::int, {changes}"
            " WHERE STUDIO AND label IN ('lost', 'scout')"
        )

        assert f"later failures by the scene charged: {task}" in findings

    def test_a_hold_that_is_open_for_long_is_noted(self, open_shop: Shop) -> None:
        job = open_shop.open()
        with transaction.atomic():
            attempt = open_shop.start(job)

        fresh = check_books(now=NOW + HOUR, stale_after=2 * HOUR, studio=open_shop.studio.id)
        stale = check_books(now=NOW + 3 * HOUR, stale_after=2 * HOUR, studio=open_shop.studio.id)

        assert (fresh.notes, stale.are_right) == ([], True)
        assert stale.notes == [f"hold of attempt {attempt} is open since 2026-11-20 12:00"]


class TestCommand:
    def test_right_books_are_said_to_be_right(self, open_shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
        job = open_shop.open()
        with transaction.atomic():
            open_shop.render(job)

        with transaction.atomic():
            running = open_shop.start(job)

        call_command("check_books", studio=open_shop.studio.id, stale_hours=0.0)

        assert capsys.readouterr().out.splitlines() == [
            f"note: hold of attempt {running} is open since 2026-11-20 12:00",
            "1 facts, 0 credits, 1 ledger groups: difference 0 micro-units",
        ]

    def test_of_a_thousand_findings_the_first_are_shown(self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recompute, "SHOWN", 1)
        job = open_shop.open()
        with transaction.atomic():
            for _ in range(3):
                open_shop.render(job)
        spoil(open_shop, "UPDATE billing_hold SET amount_micro = 1 WHERE studio_id = %s", open_shop.studio.id)

        findings = check_books(now=NOW, stale_after=HOUR, studio=open_shop.studio.id).findings

        assert len(findings) == 2
        assert findings[1] == "charged without a hold of that amount: 2 more"

    def test_one_micro_unit_is_too_much(self, open_shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
        job = open_shop.open()
        with transaction.atomic():
            fact = open_shop.render(job)
        spoil(open_shop, "UPDATE billing_budget SET spent_micro = spent_micro + 1 WHERE subject = %s", job.id)

        with pytest.raises(CommandError, match="1 things are wrong"):
            call_command("check_books", studio=open_shop.studio.id)

        assert "difference 1 micro-units" in capsys.readouterr().out
        assert UsageFact.objects.get(pk=fact.pk).charged_micro == fact.charged_micro

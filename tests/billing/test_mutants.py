"""Bugs planted on purpose: a check that does not trip over them is not a check."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from farm.billing import books, pricing
from farm.billing.books import Booking, BudgetMoved, LockedBudget, Past
from farm.billing.metering import EndedFact
from farm.billing.models import Hold
from farm.billing.pricing import BudgetScope
from farm.billing.recompute import Books, check_books
from farm.billing.services import hold, settle
from tests.billing.crowd import crowd, start_fifty
from tests.billing.shop import MINUTE, Shop, owner


def checked(shop: Shop) -> Books:
    return check_books(now=shop.now, stale_after=timedelta(days=1), studio=shop.studio.id)


def render(shop: Shop, count: int = 1, **fields: Any) -> None:
    job = shop.open()
    for _ in range(count):
        with transaction.atomic():
            shop.render(job, **fields)


def forget_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: budgets are read without a lock, and a busy machine takes its time between reading and writing."""
    lock = books.lock_budgets
    assert "FOR UPDATE OF b" in books._LOCK_BUDGETS
    monkeypatch.setattr(books, "_LOCK_BUDGETS", books._LOCK_BUDGETS.replace("FOR UPDATE OF b", ""))

    def read(subjects: Iterable[Any]) -> dict[Any, LockedBudget]:
        found = lock(subjects)
        time.sleep(0.05)
        return found

    monkeypatch.setattr(books, "lock_budgets", read)


def forget_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: what is held is added whether or not it fits the cap."""
    condition = books._MOVE_BUDGETS[books._MOVE_BUDGETS.index("AND (") :]
    monkeypatch.setattr(books, "_MOVE_BUDGETS", books._MOVE_BUDGETS.replace(condition, ""))


class TestReadThenWriteBudget:
    def test_more_than_ten_start_on_a_budget_for_ten(self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        forget_locks(monkeypatch)
        forget_condition(monkeypatch)
        job = open_shop.open(budget=10 * MINUTE)

        started = start_fifty(open_shop, job)

        budget = open_shop.budget(BudgetScope.JOB, job.id)
        assert len(started) > 10
        assert budget.held_micro > 10 * MINUTE
        assert any("over its cap" in note for note in checked(open_shop).notes)

    def test_the_statement_alone_holds_the_cap(self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        forget_locks(monkeypatch)
        job = open_shop.open(budget=10 * MINUTE)

        def try_one() -> bool:
            try:
                with transaction.atomic():
                    return bool(hold([open_shop.request(job)], now=open_shop.now).granted)
            except BudgetMoved:
                return False

        with crowd() as all_at_once:
            started = sum(all_at_once(try_one))

        assert started == 10
        assert Hold.objects.filter(cost_object=job).count() == 10
        assert open_shop.budget(BudgetScope.JOB, job.id).held_micro == 10 * MINUTE


def forget_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: nobody looks whether the generation was charged before."""
    past_of = books.past_of

    def forgetful(facts: Sequence[EndedFact], *, scene_faults: Iterable[str]) -> Past:
        return replace(past_of(facts, scene_faults=scene_faults), charged=frozenset())

    monkeypatch.setattr(books, "past_of", forgetful)


@contextmanager
def without_unique_key() -> Iterator[None]:
    """Plant: the partial unique key on charged facts is not there."""
    name = "one_charged_fact_per_generation"
    with owner() as connected:
        definition = connected.execute("SELECT pg_get_indexdef(%s::regclass)", [name]).fetchone()
        connected.execute(f"DROP INDEX {name}")
    try:
        yield
    finally:
        with owner() as connected:
            connected.execute("ALTER TABLE billing_usagefact NO FORCE ROW LEVEL SECURITY, DISABLE TRIGGER USER")
            connected.execute(
                "UPDATE billing_usagefact SET generation = -generation WHERE reason = 'verified' AND label = 'twice'"
            )
            connected.execute("ALTER TABLE billing_usagefact FORCE ROW LEVEL SECURITY, ENABLE TRIGGER USER")
            assert definition is not None
            connected.execute(definition[0])


class TestNoUniqueKey:
    def settle_twice(self, shop: Shop) -> UUID:
        job, task = shop.open(), uuid4()
        with transaction.atomic():
            attempts = [shop.start(job) for _ in range(2)]
        for label, attempt in zip(("once", "twice"), attempts, strict=True):
            with transaction.atomic():
                settle([shop.ended(job, attempt, task=task, label=label)], now=shop.now + timedelta(hours=1))
        return task

    def test_with_the_key_the_second_charge_is_refused(self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        forget_the_past(monkeypatch)

        with pytest.raises(IntegrityError, match="one_charged_fact_per_generation"):
            self.settle_twice(open_shop)

        assert checked(open_shop).findings == []

    def test_without_it_the_ledger_balances_and_the_check_trips(
        self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        forget_the_past(monkeypatch)

        with without_unique_key():
            task = self.settle_twice(open_shop)
            found = checked(open_shop).findings

        assert found == [f"task and generation charged more than once: {task} 1"]


class TestCentsPerFrame:
    def test_the_difference_is_found_to_the_micro_unit(self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        exact = pricing.amount

        def in_cents(ms: int, *, gpus: int, rate: int) -> int:
            return round(exact(ms, gpus=gpus, rate=rate) / 10_000) * 10_000

        monkeypatch.setattr(pricing, "amount", in_cents)
        render(open_shop, 3)

        found = checked(open_shop)

        assert not found.are_right
        # Each of three frames is off by the same in its gross and charge, each again in two accounts and three budgets.
        assert found.difference_micro == (MINUTE - 10_000) * (2 * 3 + 2 * 3 + 3 * 3)


class TestLedgerApart:
    def test_a_usage_that_was_not_booked_is_found(self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(books, "book", lambda bookings: None)
        render(open_shop)

        found = checked(open_shop)

        assert found.difference_micro == 2 * MINUTE
        assert any(f.startswith("fact and its ledger group differ") for f in found.findings)

    def test_a_usage_that_was_booked_twice_is_found_though_all_balances(
        self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        book = books.book

        def twice(bookings: Sequence[Booking]) -> None:
            book(bookings)
            book([replace(b, key=f"{b.key}:again") for b in bookings])

        monkeypatch.setattr(books, "book", twice)
        render(open_shop)

        found = checked(open_shop)

        assert found.difference_micro == 2 * MINUTE
        assert any(f.startswith("ledger group without what it books") for f in found.findings)


class TestWhoPays:
    def test_an_interruption_that_is_charged_is_found(self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        judge = pricing.judge
        monkeypatch.setattr(pricing, "judge", lambda usage, policy: judge(replace(usage, outcome="succeeded"), policy))
        render(open_shop, outcome="interrupted", cause="interrupted")

        assert any("charged: 13417 in the books, 0 by the facts" in f for f in checked(open_shop).findings)

    def test_a_worker_that_is_believed_anything_is_found(
        self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("farm.billing.metering.CLOCK_SLACK", timedelta(days=1))
        render(open_shop, render_ms=10**7, p95_ms=10**7, after=timedelta(minutes=1))

        assert checked(open_shop).difference_micro > 0

    def test_what_was_beyond_the_hold_and_charged_is_refused_by_the_table(
        self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        price = pricing.price
        monkeypatch.setattr(pricing, "price", lambda verdict, **known: price(verdict, **known | {"held": 10**12}))

        with pytest.raises(IntegrityError, match="charged_is_within_gross_and_hold"):
            render(open_shop, p95_ms=1_000)


class TestForgottenHold:
    def test_a_hold_that_is_never_given_back_is_found(self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(books, "close_holds", lambda attempts, status, *, now: None)
        render(open_shop, p95_ms=60_000)

        found = checked(open_shop).findings

        assert any(f.startswith("charged without a hold of that amount") for f in found)
        assert any("held: 0 in the books, 13417 by the facts" in f for f in found)


class TestCheckBooks:
    def test_a_planted_bug_makes_the_command_fail(
        self, open_shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(books, "book", lambda bookings: None)
        render(open_shop)

        with pytest.raises(CommandError, match="things are wrong with the books"):
            call_command("check_books", studio=open_shop.studio.id)

        shown = capsys.readouterr()
        assert "1 facts, 0 credits, 0 ledger groups: difference 26834 micro-units" in shown.out
        assert "ledger account receivable" in shown.err

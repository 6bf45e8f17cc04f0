"""Budgets when many want to start at once, on connections and in transactions of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError, transaction

from farm.billing.models import Budget, CostObject, Hold, UsageFact
from farm.billing.pricing import BudgetScope
from farm.billing.recompute import check_books
from farm.billing.services import extend_holds, hold, lock_budgets, release, settle
from tests.billing.crowd import FIFTY, crowd, start_one
from tests.billing.shop import MINUTE, NOW, Shop, erase, make_shop


class TestFiftyAtOnce:
    @pytest.mark.parametrize(
        ("scope", "times"), [(BudgetScope.JOB, 20), (BudgetScope.PROJECT, 5), (BudgetScope.STUDIO, 5)]
    )
    def test_a_budget_for_ten_starts_exactly_ten(self, open_shop: Shop, scope: BudgetScope, times: int) -> None:
        with crowd() as all_at_once:
            for _ in range(times):
                job = open_shop.open()
                budget = open_shop.budget(scope, job.id if scope is BudgetScope.JOB else None)
                cap = budget.held_micro + 10 * MINUTE
                Budget.objects.filter(pk=budget.pk).update(cap_micro=cap)

                started = set().union(*all_at_once(partial(start_one, open_shop, job)))

                budget.refresh_from_db()
                assert len(started) == 10
                assert budget.held_micro == cap
                assert Hold.objects.filter(cost_object=job).count() == 10

    def test_a_month_that_nobody_opened_is_opened_once(self, open_shop: Shop) -> None:
        job = open_shop.open(budget=10 * MINUTE)
        open_shop.now += timedelta(days=40)

        with crowd() as all_at_once:
            started = set().union(*all_at_once(partial(start_one, open_shop, job)))

        assert len(started) == 10
        month = Budget.objects.get(scope=BudgetScope.STUDIO, studio=open_shop.studio, month="2026-12-01")
        assert month.held_micro == 10 * MINUTE

    def test_one_attempt_that_ends_fifty_times_is_charged_once(self, open_shop: Shop) -> None:
        job = open_shop.open()
        with transaction.atomic():
            attempt = open_shop.start(job)
        fact = open_shop.ended(job, attempt)

        def end() -> None:
            with transaction.atomic():
                settle([fact], now=open_shop.now + timedelta(hours=1))

        with crowd() as all_at_once:
            all_at_once(end)

        assert UsageFact.objects.filter(attempt=attempt).count() == 1
        assert {b.spent_micro for b in Budget.objects.filter(studio=open_shop.studio)} == {MINUTE}

    def test_fifty_attempts_of_one_generation_are_charged_once(self, open_shop: Shop) -> None:
        job, task = open_shop.open(), uuid4()
        with transaction.atomic():
            attempts = iter([open_shop.start(job) for _ in range(FIFTY)])

        def end() -> None:
            with transaction.atomic():
                settle([open_shop.ended(job, next(attempts), task=task)], now=open_shop.now + timedelta(hours=1))

        with crowd() as all_at_once:
            all_at_once(end)

        assert UsageFact.objects.filter(task=task).count() == FIFTY
        assert UsageFact.objects.filter(task=task, is_charged=True).count() == 1


@pytest.fixture
def two_shops(open_shop: Shop) -> Iterator[tuple[Shop, Shop]]:
    """Two studios whose frames one shared machine renders."""
    other = make_shop()
    try:
        yield open_shop, other
    finally:
        erase(other)


class TestLockBudgets:
    def cross(self, shops: tuple[Shop, Shop], *, locks_all_first: bool) -> list[str]:
        """Let two transactions hold for two studios, one after the other and crosswise; give how each ended."""
        jobs = [shop.open() for shop in shops]
        orders = iter([jobs, jobs[::-1]])

        def hold_for_both() -> str:
            order = next(orders)
            try:
                with transaction.atomic():
                    if locks_all_first:
                        lock_budgets(cost_objects=[job.id for job in order], now=NOW)
                    for job in order:
                        hold([shops[0].request(job)], now=NOW)
                        time.sleep(0.3)
            except OperationalError as error:
                return str(error).splitlines()[0]
            return "done"

        with crowd(2) as all_at_once:
            return sorted(all_at_once(hold_for_both))

    def test_two_that_meet_crosswise_both_get_through(self, two_shops: tuple[Shop, Shop]) -> None:
        assert self.cross(two_shops, locks_all_first=True) == ["done", "done"]

    def test_without_it_one_of_them_has_to_give_way(self, two_shops: tuple[Shop, Shop]) -> None:
        assert self.cross(two_shops, locks_all_first=False) == ["deadlock detected", "done"]


@dataclass
class Worker:
    """A worker's syncs and a dispatcher's passes in one: ends some of what runs, extends the rest, starts more."""

    jobs: list[tuple[Shop, CostObject]]
    random: Random
    running: list[tuple[Shop, CostObject, UUID]] = field(default_factory=list)

    @transaction.atomic
    def sync(self) -> None:
        chosen = self.random.sample(self.jobs, 2)
        self.random.shuffle(self.running)
        ended = [self.running.pop() for _ in range(self.random.randint(0, len(self.running)))]
        attempts = [attempt for _, _, attempt in ended + self.running]
        lock_budgets(attempts=attempts, cost_objects=[job.id for _, job in chosen], now=NOW)
        settle([shop.ended(job, attempt) for shop, job, attempt in ended], now=NOW + timedelta(hours=1))
        extend_holds([(attempt, 90_000) for _, _, attempt in self.running], now=NOW)
        wanted = [(shop, job, shop.request(job)) for shop, job in chosen * 2]
        granted = hold([request for _, _, request in wanted], now=NOW).granted
        self.running += [(shop, job, r.attempt) for shop, job, r in wanted if r.attempt in granted]

    @transaction.atomic
    def leave(self) -> None:
        release([attempt for _, _, attempt in self.running], now=NOW)


class TestMixedTraffic:
    def test_nobody_deadlocks_and_the_books_are_right(self, two_shops: tuple[Shop, Shop]) -> None:
        jobs = [(shop, shop.open(budget=40 * MINUTE)) for shop in two_shops for _ in range(2)]
        workers = iter([Worker(jobs, Random(seed)) for seed in range(8)])

        def live() -> None:
            worker = next(workers)
            for _ in range(25):
                worker.sync()
            worker.leave()

        with crowd(8) as all_at_once:
            all_at_once(live)

        for shop in two_shops:
            books = check_books(now=NOW, stale_after=timedelta(days=1), studio=shop.studio.id)
            assert books.findings == []
            assert books.facts > 0
            budgets = Budget.objects.filter(studio=shop.studio)
            assert {b.held_micro for b in budgets} == {0}
            assert all(b.spent_micro <= b.cap_micro for b in budgets if b.cap_micro is not None)

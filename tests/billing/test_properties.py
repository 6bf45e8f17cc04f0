"""Whatever happens to money, in whatever order: budgets keep their promise and the books are right."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.billing.models import Budget, CostObject, UsageFact
from farm.billing.pricing import BudgetScope, Policy, WhenRefused
from farm.billing.recompute import check_books_here
from farm.billing.services import (
    change_cap,
    extend_holds,
    forgive_scouts,
    hold,
    release,
    set_policy,
    set_rate,
    settle,
)
from farm.studios.authentication import Caller
from farm.studios.models import Project
from farm.studios.roles import Scope
from tests.billing.shop import GPU, NOW, Shop, make_shop

ENDS = [
    ("succeeded", ""),
    ("failed", "scene_error"),
    ("failed", "out_of_memory"),
    ("failed", "no_gpu"),
    ("interrupted", "interrupted"),
    ("lost", "lost"),
    ("superseded", ""),
    ("cancelled", ""),
]
milliseconds = st.integers(0, 3_000_000)
money = st.integers(0, 2_000_000)
some = st.lists(st.integers(0, 30), max_size=4)

STEPS = st.one_of(
    st.tuples(st.just("open"), st.one_of(st.none(), money)),
    st.tuples(st.just("hold"), st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), milliseconds)), max_size=6)),
    st.tuples(st.just("extend"), st.lists(st.tuples(st.integers(0, 30), milliseconds), max_size=4)),
    st.tuples(
        st.just("settle"),
        st.lists(
            st.tuples(
                st.integers(0, 30),  # which of those that run
                st.integers(0, 5),  # which task
                st.integers(1, 2),  # generation
                st.sampled_from(ENDS),
                st.integers(-5, 10**7),  # render_ms, as the worker says
                st.integers(0, 500_000),  # setup_ms
                st.booleans(),  # a scout
                st.one_of(st.none(), st.integers(0, 900)),  # cancelled so many seconds after the claim
            ),
            max_size=5,
        ),
    ),
    st.tuples(st.just("settle_again"), some),
    st.tuples(st.just("release"), some),
    st.tuples(st.just("forgive"), st.integers(0, 3)),
    st.tuples(st.just("cap"), st.tuples(st.integers(0, 20), st.one_of(st.none(), money))),
    st.tuples(st.just("rate"), st.integers(0, 5_000_000)),
    st.tuples(st.just("policy"), st.tuples(st.one_of(st.none(), st.integers(0, 600)), st.sampled_from(WhenRefused))),
    st.tuples(st.just("time"), st.integers(1, 15 * 24 * 60)),
)


@dataclass
class Life:
    """A studio to which things happen."""

    shop: Shop
    now: datetime = NOW
    jobs: list[CostObject] = field(default_factory=list)
    running: list[tuple[CostObject, UUID, datetime]] = field(default_factory=list)
    ended: list[Any] = field(default_factory=list)
    tasks: list[UUID] = field(default_factory=lambda: [uuid4() for _ in range(6)])

    def __post_init__(self) -> None:
        self.projects = [self.shop.project, Project.objects.create(studio=self.shop.studio, name="Other")]
        self.caller = Caller(self.shop.artist, self.shop.studio, frozenset(Scope), None, None)
        self.open(None)

    def happen(self, step: tuple[str, Any]) -> None:
        name, wish = step
        getattr(self, name)(wish)

    def open(self, budget: int | None) -> None:
        self.shop.now = self.now
        self.jobs.append(self.shop.open(budget=budget, project=self.projects[len(self.jobs) % 2]))

    def hold(self, wishes: list[tuple[int, int | None]]) -> None:
        jobs = [self.jobs[which % len(self.jobs)] for which, _ in wishes]
        requests = [self.shop.request(job, p95_ms=p95) for job, (_, p95) in zip(jobs, wishes, strict=True)]
        answer = hold(requests, now=self.now)
        assert answer.granted.keys() | answer.refused.keys() == {r.attempt for r in requests}
        self.running += [
            (j, r.attempt, self.now) for j, r in zip(jobs, requests, strict=True) if r.attempt in answer.granted
        ]

    def _some(self, which: list[int]) -> list[tuple[CostObject, UUID, datetime]]:
        return [self.running[i % len(self.running)] for i in which] if self.running else []

    def extend(self, wishes: list[tuple[int, int]]) -> None:
        chosen = self._some([which for which, _ in wishes])
        extend_holds([(run[1], ms) for run, (_, ms) in zip(chosen, wishes, strict=False)], now=self.now)

    def settle(self, wishes: list[Any]) -> None:
        facts = []
        for which, task, generation, (outcome, cause), render, setup, scout, cancelled in wishes:
            if not self.running:
                break
            job, attempt, claimed = self.running.pop(which % len(self.running))
            facts.append(
                self.shop.ended(
                    job,
                    attempt,
                    task=self.tasks[task],
                    generation=generation,
                    outcome=outcome,
                    cause=cause,
                    render_ms=render,
                    setup_ms=setup,
                    scout=scout,
                    claimed_at=claimed,
                    started_at=claimed,
                    cancelled_at=None if cancelled is None else claimed + timedelta(seconds=cancelled),
                )
            )
        self.ended += facts
        settle(facts, now=self.now)

    def settle_again(self, which: list[int]) -> None:
        before = UsageFact.objects.count()
        settle([self.ended[i % len(self.ended)] for i in which] if self.ended else [], now=self.now)
        assert UsageFact.objects.count() == before

    def release(self, which: list[int]) -> None:
        gone = {attempt for _, attempt, _ in self._some(which)}
        self.running = [run for run in self.running if run[1] not in gone]
        release([*gone, *(fact.attempt for fact in self.ended[:2])], now=self.now)

    def forgive(self, which: int) -> None:
        forgive_scouts(self.jobs[which % len(self.jobs)].id, now=self.now)

    def cap(self, wish: tuple[int, int | None]) -> None:
        which, cap = wish
        budgets = list(Budget.objects.filter(studio=self.shop.studio).order_by("id"))
        change_cap(self.caller, budgets[which % len(budgets)].id, cap_micro=cap)

    def rate(self, micro: int) -> None:
        self.now += timedelta(seconds=1)
        studio = self.shop.studio
        set_rate(
            worker_class=GPU, currency="USD", micro_per_gpu_hour=micro, valid_from=self.now, studio=studio, now=self.now
        )

    def policy(self, wish: tuple[int | None, WhenRefused]) -> None:
        self.now += timedelta(seconds=1)
        policy = Policy(scene_error_cap_seconds=wish[0], when_refused=wish[1])
        set_policy(policy, studio=self.shop.studio, now=self.now)

    def time(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    def used(self) -> dict[UUID, tuple[int | None, int]]:
        budgets = Budget.objects.filter(studio=self.shop.studio)
        return {b.id: (b.cap_micro, b.held_micro + b.spent_micro) for b in budgets}


class TestAnyLife:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(STEPS, max_size=25))
    def test_no_budget_is_passed_and_the_books_are_right(self, db: None, steps: list[tuple[str, Any]]) -> None:
        with transaction.atomic():
            life = Life(make_shop())
            before = life.used()
            for step in steps:
                life.happen(step)
                after = life.used()
                for budget, (cap, used) in after.items():
                    was = before.get(budget, (None, 0))[1]
                    assert used >= 0
                    assert cap is None or used <= max(cap, was), f"{step[0]} passed a cap"
                before = after
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

            books = check_books_here(studio=life.shop.studio.id)

            assert books.findings == []
            assert books.facts == len(life.ended)
            transaction.set_rollback(True)

    def test_every_scope_occurs_in_a_life(self, db: None) -> None:
        life = Life(make_shop())

        assert set(Budget.objects.filter(pk__in=life.used()).values_list("scope", flat=True)) == set(BudgetScope)


class TestOrder:
    def test_the_order_of_independent_ends_does_not_change_the_bill(self, shop: Shop) -> None:
        bills = []
        for order in (1, -1):
            job = shop.open()
            facts = [
                shop.ended(
                    job, shop.start(job), outcome=outcome, cause=cause, render_ms=1_111 * n, label=outcome + cause
                )
                for n, (outcome, cause) in enumerate(ENDS, start=1)
            ]
            for fact in facts[::order]:
                settle([fact], now=NOW + timedelta(hours=1))
            lines = UsageFact.objects.filter(cost_object=job).order_by("label")
            bills.append(list(lines.values_list("label", "gross_micro", "charged_micro", "reason")))

        assert bills[0] == bills[1]
        assert sum(charged for _, _, charged, _ in bills[0]) == 248

"""Cost objects, holds, settlements, caps and rates, in a real database."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from farm.billing.models import (
    Budget,
    CostObject,
    Credit,
    Hold,
    LedgerEntry,
    LedgerGroup,
    Rate,
    UsageFact,
)
from farm.billing.pricing import BudgetScope, HoldStatus, Policy, Reason, WhenRefused
from farm.billing.recompute import check_books_here
from farm.billing.services import (
    BudgetExists,
    NoRate,
    RateInThePast,
    RateOverlaps,
    change_cap,
    extend_holds,
    forgive_scouts,
    hold,
    lock_budgets,
    release,
    retag,
    set_budget,
    set_policy,
    set_rate,
    settle,
)
from farm.core.errors import Invalid, NotFound
from farm.core.models import Event
from farm.studios.authentication import Caller
from farm.studios.models import AuditRow
from farm.studios.roles import Scope
from tests.billing.shop import GPU, MINUTE, NOW, RATE, Shop, make_shop

HOUR = timedelta(hours=1)


def money_of(budget: Budget) -> tuple[int, int]:
    """Give what a budget's row says now: held, spent."""
    budget.refresh_from_db()
    return budget.held_micro, budget.spent_micro


def moneys(shop: Shop, job: CostObject) -> set[tuple[int, int]]:
    """Give what the job's three budgets say; one pair if they agree."""
    return {money_of(shop.budget(scope, job.id if scope is BudgetScope.JOB else None)) for scope in BudgetScope}


def booked(attempt: Any) -> dict[str, int]:
    """Give what the ledger says of an attempt, by account."""
    return dict(LedgerEntry.objects.filter(group__attempt=attempt).values_list("account", "amount_micro"))


class TestOpenCostObject:
    def test_it_keeps_the_policy_and_the_rates_of_the_moment(self, shop: Shop) -> None:
        job = shop.open(policy=Policy(scene_error_cap_seconds=60))

        set_policy(Policy(), studio=shop.studio, now=NOW + HOUR)
        set_rate(worker_class=GPU, currency="USD", micro_per_gpu_hour=1, valid_from=NOW + HOUR, now=NOW + HOUR)

        job.refresh_from_db()
        assert Policy.from_json(job.policy) == Policy(scene_error_cap_seconds=60)
        assert dict(job.quoted_rates.values_list("worker_class", "micro_per_gpu_hour")) == {GPU: RATE, "cpu": 400_000}

    def test_a_rate_agreed_with_the_studio_comes_before_the_default(self, shop: Shop) -> None:
        set_rate(worker_class=GPU, currency="USD", micro_per_gpu_hour=5, valid_from=NOW, studio=shop.studio, now=NOW)

        quoted = [s.open().quoted_rates.get(worker_class=GPU).micro_per_gpu_hour for s in (shop, make_shop())]

        assert quoted == [5, RATE]

    def test_the_rate_is_in_the_studios_currency(self, db: None) -> None:
        shop = make_shop(currency="JPY")

        job = shop.open()

        assert job.currency == "JPY"
        assert job.quoted_rates.get(worker_class=GPU).micro_per_gpu_hour == 120_800_000

    def test_a_class_without_a_rate_is_refused_by_name(self, shop: Shop) -> None:
        with pytest.raises(NoRate) as refusal:
            shop.open(worker_classes=["cpu", "Voodoo 2"])

        assert "no USD rate for Voodoo 2" in refusal.value.sentence
        assert CostObject.objects.filter(studio=shop.studio).count() == 0

    def test_its_budgets_are_there_from_the_beginning(self, shop: Shop) -> None:
        job = shop.open(budget=7)

        rows = Budget.objects.filter(studio=shop.studio).values_list("scope", "subject", "month", "cap_micro")
        assert set(rows) == {
            ("studio", shop.studio.id, date(2026, 11, 1), None),
            ("project", shop.project.id, None, None),
            ("job", job.id, None, 7),
        }

    def test_it_says_who_ordered_it_by_name_or_mail(self, shop: Shop) -> None:
        named = shop.open()
        shop.artist.name = ""
        nameless = shop.open()

        assert (named.artist_name, nameless.artist_name) == ("Ada", shop.artist.email)


class TestHold:
    def test_it_sets_the_predicted_price_aside_on_all_budgets(self, shop: Shop) -> None:
        job = shop.open(budget=MINUTE)

        attempt = shop.start(job, p95_ms=60_000)

        assert Hold.objects.get(pk=attempt).amount_micro == MINUTE
        assert moneys(shop, job) == {(MINUTE, 0)}

    def test_without_a_prediction_it_sets_ten_minutes_aside(self, shop: Shop, job: CostObject) -> None:
        attempt = shop.start(job, p95_ms=None, gpus=2)

        assert Hold.objects.get(pk=attempt).amount_micro == RATE // 3

    def test_what_does_not_fit_is_refused_with_what_is_missing(self, shop: Shop) -> None:
        job = shop.open(budget=MINUTE * 2 + 1)
        requests = [shop.request(job) for _ in range(4)]

        answer = hold(requests, now=NOW)

        budget = shop.budget(BudgetScope.JOB, job.id).id
        assert answer.granted == {r.attempt: MINUTE for r in requests[:2]}
        assert answer.refused == {
            requests[2].attempt: (budget, MINUTE - 1),
            requests[3].attempt: (budget, 2 * MINUTE - 1),
        }
        assert moneys(shop, job) == {(MINUTE * 2, 0)}

    def test_a_smaller_one_does_not_overtake_what_came_first(self, shop: Shop) -> None:
        job = shop.open(budget=MINUTE)
        large, small = shop.request(job, p95_ms=120_000), shop.request(job, p95_ms=1_000)

        answer = hold([large, small], now=NOW)

        assert answer.granted == {}
        assert answer.refused.keys() == {large.attempt, small.attempt}

    def test_a_job_without_money_does_not_stop_the_others(self, shop: Shop) -> None:
        poor, rich = shop.open(budget=0), shop.open(budget=MINUTE)
        first, second = shop.request(poor), shop.request(rich)

        answer = hold([first, second], now=NOW)

        assert answer.granted == {second.attempt: MINUTE}
        assert money_of(shop.budget(BudgetScope.PROJECT)) == (MINUTE, 0)

    @pytest.mark.parametrize("scope", list(BudgetScope))
    def test_each_of_the_three_budgets_can_refuse(self, shop: Shop, scope: BudgetScope) -> None:
        job = shop.open()
        budget = shop.cap(scope, MINUTE - 1, job.id if scope is BudgetScope.JOB else None)
        request = shop.request(job)

        answer = hold([request], now=NOW)

        assert answer.refused == {request.attempt: (budget.id, 1)}
        assert moneys(shop, job) == {(0, 0)}

    def test_it_counts_on_the_month_of_the_studios_zone(self, db: None) -> None:
        shop = make_shop(zone="Asia/Tokyo")
        shop.now = datetime(2026, 11, 30, 16, tzinfo=UTC)

        shop.start(shop.open())

        assert Hold.objects.get(studio=shop.studio).month == date(2026, 12, 1)

    def test_a_new_month_keeps_the_studios_cap_and_begins_empty(self, shop: Shop, job: CostObject) -> None:
        shop.start(job)
        shop.cap(BudgetScope.STUDIO, MINUTE)
        december = datetime(2026, 12, 1, tzinfo=UTC)

        answer = hold([shop.request(job), shop.request(job)], now=december)

        new = Budget.objects.get(scope=BudgetScope.STUDIO, month=date(2026, 12, 1), studio=shop.studio)
        assert len(answer.granted) == 1
        assert (new.cap_micro, new.held_micro) == (MINUTE, MINUTE)

    def test_a_class_that_came_after_the_quote_is_quoted_when_it_is_first_used(self, shop: Shop) -> None:
        job = shop.open(worker_classes=[GPU])

        shop.start(job, worker_class="cpu")

        assert job.quoted_rates.get(worker_class="cpu").micro_per_gpu_hour == 400_000

    def test_a_class_without_a_rate_is_named_and_stops_nobody_else(self, shop: Shop, job: CostObject) -> None:
        unrated, fine = shop.request(job, worker_class="Voodoo 2"), shop.request(job)

        answer = hold([unrated, fine], now=NOW)

        assert answer.unrated == {unrated.attempt: "Voodoo 2"}
        assert answer.granted.keys() == {fine.attempt}

    def test_what_is_free_starts_without_money(self, shop: Shop) -> None:
        job = shop.open(budget=0)
        request = shop.request(job, purpose="inspection")

        answer = hold([request], now=NOW)

        assert answer.granted == {request.attempt: 0}

    def test_a_refusal_is_told_once(self, shop: Shop) -> None:
        job = shop.open(budget=0)

        for _ in range(3):
            hold([shop.request(job)], now=NOW)

        budget = shop.budget(BudgetScope.JOB, job.id)
        event = Event.objects.get(kind="budget.threshold", subject=budget.id)
        assert (event.params["percent"], event.params["of"]) == (100, str(job.id))

    def test_nothing_wanted_is_nothing_done(self, db: None) -> None:
        with CaptureQueriesContext(connection) as queries:
            answer = hold([], now=NOW)

        assert (answer.granted, len(queries)) == ({}, 0)

    def test_a_pass_of_500_takes_a_handful_of_statements(self, shop: Shop) -> None:
        jobs = [shop.open(budget=10**9) for _ in range(10)]
        requests = [shop.request(jobs[i % 10]) for i in range(500)]

        with CaptureQueriesContext(connection) as queries:
            answer = hold(requests, now=NOW)

        assert len(answer.granted) == 500
        assert len(queries) <= 6


class TestExtendHolds:
    def test_it_holds_the_difference_more(self, shop: Shop, job: CostObject) -> None:
        attempt = shop.start(job, p95_ms=60_000)

        answer = extend_holds([(attempt, 120_000)], now=NOW)

        assert answer == {attempt: True}
        assert moneys(shop, job) == {(26_833, 0)}  # two minutes, rounded once

    def test_what_is_held_already_is_not_given_back(self, shop: Shop, job: CostObject) -> None:
        attempt = shop.start(job, p95_ms=60_000)

        answer = extend_holds([(attempt, 1_000)], now=NOW)

        assert answer == {attempt: True}
        assert moneys(shop, job) == {(MINUTE, 0)}

    def test_refused_it_may_not_go_on(self, shop: Shop) -> None:
        job = shop.open(budget=MINUTE)
        attempt = shop.start(job, p95_ms=60_000)

        answer = extend_holds([(attempt, 120_000)], now=NOW)

        assert answer == {attempt: False}
        assert moneys(shop, job) == {(MINUTE, 0)}

    def test_refused_it_may_finish_where_the_policy_says_so(self, shop: Shop) -> None:
        job = shop.open(budget=MINUTE, policy=Policy(when_refused=WhenRefused.FINISH))
        attempt = shop.start(job, p95_ms=60_000)

        answer = extend_holds([(attempt, 120_000)], now=NOW)

        assert answer == {attempt: True}
        assert moneys(shop, job) == {(MINUTE, 0)}

    def test_it_extends_in_the_month_in_which_the_hold_was_taken(self, shop: Shop, job: CostObject) -> None:
        attempt = shop.start(job, p95_ms=60_000)

        extend_holds([(attempt, 120_000)], now=datetime(2026, 12, 1, tzinfo=UTC))

        assert moneys(shop, job) == {(26_833, 0)}

    def test_an_attempt_without_a_hold_may_not_go_on(self, db: None) -> None:
        attempt = uuid4()

        assert extend_holds([(attempt, 1)], now=NOW) == {attempt: False}

    def test_named_twice_it_is_extended_once(self, shop: Shop, job: CostObject) -> None:
        attempt = shop.start(job, p95_ms=60_000)

        extend_holds([(attempt, 120_000), (attempt, 120_000)], now=NOW)

        assert moneys(shop, job) == {(26_833, 0)}


class TestLockBudgets:
    def test_it_makes_and_locks_what_the_calls_after_it_need(self, shop: Shop, job: CostObject) -> None:
        attempt = shop.start(job)
        december = datetime(2026, 12, 1, tzinfo=UTC)

        with CaptureQueriesContext(connection) as queries:
            lock_budgets(attempts=[attempt], cost_objects=[job.id], now=december)

        assert Budget.objects.filter(subject=shop.studio.id, month=date(2026, 12, 1)).exists()
        assert sum("FOR UPDATE" in q["sql"] for q in queries) == 2

    def test_about_nothing_it_asks_once(self, db: None) -> None:
        with CaptureQueriesContext(connection) as queries:
            lock_budgets(attempts=[uuid4()], now=NOW)

        assert len(queries) == 1


class TestSettle:
    def test_a_verified_frame_moves_its_hold_to_spent_and_the_rest_back(self, shop: Shop, job: CostObject) -> None:
        fact = shop.render(job, p95_ms=90_000)

        assert (fact.gross_micro, fact.charged_micro, fact.reason) == (MINUTE, MINUTE, Reason.VERIFIED)
        assert Hold.objects.get(pk=fact.pk).status == HoldStatus.SETTLED
        assert moneys(shop, job) == {(0, MINUTE)}
        assert booked(fact.pk) == {"receivable": MINUTE, f"revenue:{GPU}": -MINUTE}

    @pytest.mark.parametrize("outcome", ["interrupted", "lost", "superseded"])
    def test_what_the_farm_lost_is_a_line_and_its_credit(self, shop: Shop, job: CostObject, outcome: str) -> None:
        fact = shop.render(job, outcome=outcome)

        assert (fact.gross_micro, fact.charged_micro, fact.is_charged) == (MINUTE, 0, False)
        assert moneys(shop, job) == {(0, 0)}
        assert booked(fact.pk) == {f"credit:{outcome}": MINUTE, f"revenue:{GPU}": -MINUTE}

    def test_more_than_was_held_is_the_farms(self, shop: Shop, job: CostObject) -> None:
        fact = shop.render(job, p95_ms=30_000)

        assert (fact.charged_micro, fact.over_hold_micro) == (6_708, MINUTE - 6_708)
        assert booked(fact.pk) == {"receivable": 6_708, "over-hold": MINUTE - 6_708, f"revenue:{GPU}": -MINUTE}

    def test_more_than_the_time_that_went_is_not_believed(self, shop: Shop, job: CostObject) -> None:
        fact = shop.render(job, render_ms=10**10, after=timedelta(seconds=58))

        assert (fact.reported_render_ms, fact.render_ms, fact.charged_micro) == (10**10, 60_000, MINUTE)

    def test_entering_a_session_is_free_up_to_five_minutes(self, shop: Shop, job: CostObject) -> None:
        fact = shop.render(job, render_ms=30_000, setup_ms=330_000)

        assert (fact.billable_ms, fact.charged_micro) == (60_000, MINUTE)

    def test_settled_again_it_changes_nothing(self, shop: Shop, job: CostObject) -> None:
        attempt = shop.start(job)
        fact = shop.ended(job, attempt)

        for minutes in (1, 2):
            settle([fact, fact], now=NOW + timedelta(minutes=minutes))

        assert UsageFact.objects.get().ended_at == NOW + timedelta(minutes=1)
        assert LedgerGroup.objects.count() == 1
        assert moneys(shop, job) == {(0, MINUTE)}

    def test_a_generation_is_charged_once(self, shop: Shop, job: CostObject) -> None:
        task = uuid4()
        attempts = [shop.start(job) for _ in range(3)]

        settle([shop.ended(job, a, task=task) for a in attempts[:2]], now=NOW + HOUR)
        settle([shop.ended(job, attempts[2], task=task)], now=NOW + HOUR)

        reasons = [UsageFact.objects.get(pk=a).reason for a in attempts]
        assert reasons == [Reason.VERIFIED, Reason.ALREADY_CHARGED, Reason.ALREADY_CHARGED]
        assert moneys(shop, job) == {(0, MINUTE)}

    def test_rendered_again_on_request_it_is_charged_again(self, shop: Shop, job: CostObject) -> None:
        task = uuid4()

        for generation in (1, 2):
            shop.render(job, task=task, generation=generation)

        assert moneys(shop, job) == {(0, 2 * MINUTE)}

    def test_the_scenes_fault_is_charged_once_up_to_the_cap(self, shop: Shop) -> None:
        job = shop.open(policy=Policy(scene_error_cap_seconds=30))
        task = uuid4()

        facts = [shop.render(job, task=task, generation=g, outcome="failed", cause="scene_error") for g in (1, 2)]

        assert [f.charged_micro for f in facts] == [6_708, 0]
        assert [f.reason for f in facts] == [Reason.SCENE_FAULT, Reason.SCENE_FAULT_FREE]

    def test_two_faults_of_the_scene_in_one_sync_are_charged_once(self, shop: Shop) -> None:
        job = shop.open(policy=Policy(scene_error_cap_seconds=30))
        task = uuid4()
        failed = {"task": task, "outcome": "failed", "cause": "missing_asset"}

        settle([shop.ended(job, shop.start(job), generation=g, **failed) for g in (1, 2)], now=NOW + HOUR)

        assert moneys(shop, job) == {(0, 6_708)}

    def test_what_a_person_cancels_is_charged_until_it_stopped(self, shop: Shop, job: CostObject) -> None:
        fact = shop.render(job, outcome="cancelled", cancelled_at=NOW + timedelta(seconds=15))

        assert (fact.payable_ms, fact.charged_micro, fact.gross_micro) == (30_000, 6_708, MINUTE)

    def test_an_inspection_costs_nothing_and_shows_what_it_used(self, shop: Shop, job: CostObject) -> None:
        fact = shop.render(job, purpose="inspection")

        assert (fact.charged_micro, fact.gross_micro, fact.reason) == (0, MINUTE, Reason.FREE_PURPOSE)

    def test_it_settles_in_the_budget_of_the_month_of_its_hold(self, shop: Shop, job: CostObject) -> None:
        shop.now = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)

        fact = shop.render(job)

        assert (fact.hold_month, fact.month) == (date(2026, 11, 1), date(2026, 12, 1))
        assert moneys(shop, job) == {(0, MINUTE)}

    def test_an_attempt_that_held_nothing_is_charged_nothing(self, shop: Shop, job: CostObject) -> None:
        attempt = uuid4()

        settle([shop.ended(job, attempt)], now=NOW + HOUR)

        fact = UsageFact.objects.get(pk=attempt)
        assert (fact.charged_micro, fact.over_hold_micro) == (0, MINUTE)
        assert moneys(shop, job) == {(0, 0)}

    def test_the_rate_and_the_class_are_those_of_the_hold(self, shop: Shop, job: CostObject) -> None:
        attempt = shop.start(job, worker_class="cpu")

        settle([shop.ended(job, attempt, worker_class=GPU, gpus=8)], now=NOW + HOUR)

        fact = UsageFact.objects.get(pk=attempt)
        assert (fact.worker_class, fact.gpus, fact.micro_per_gpu_hour) == ("cpu", 1, 400_000)

    def test_thresholds_are_told_once_each(self, shop: Shop) -> None:
        job = shop.open(budget=MINUTE * 10)
        told = []

        for _ in range(10):
            shop.render(job, p95_ms=60_000)
            budget = shop.budget(BudgetScope.JOB, job.id)
            events = Event.objects.filter(kind="budget.threshold", subject=budget.id).order_by("id")
            told.append([e.params["percent"] for e in events])

        assert told == [[], [], [], [], [50], [50], [50], [50, 80], [50, 80], [50, 80, 100]]

    def test_what_may_not_be_held_any_more_is_not_spent_again(self, shop: Shop) -> None:
        job = shop.open(budget=MINUTE)
        shop.render(job, p95_ms=60_000)

        answer = hold([shop.request(job)], now=NOW)

        assert answer.granted == {}

    def test_a_sync_of_100_takes_a_handful_of_statements(self, shop: Shop) -> None:
        jobs = [shop.open(budget=10**9) for _ in range(5)]
        requests = [shop.request(jobs[i % 5]) for i in range(100)]
        hold(requests, now=NOW)
        facts = [shop.ended(jobs[i % 5], r.attempt) for i, r in enumerate(requests)]

        with CaptureQueriesContext(connection) as queries:
            settle(facts, now=NOW + HOUR)

        assert UsageFact.objects.filter(is_charged=True).count() == 100
        assert len(queries) <= 8


class TestRelease:
    def test_it_gives_all_back_and_leaves_no_fact(self, shop: Shop, job: CostObject) -> None:
        attempts = [shop.start(job) for _ in range(2)]

        release(attempts, now=NOW)

        assert moneys(shop, job) == {(0, 0)}
        assert set(Hold.objects.values_list("status", flat=True)) == {HoldStatus.RELEASED}
        assert UsageFact.objects.count() == 0

    def test_again_it_changes_nothing(self, shop: Shop, job: CostObject) -> None:
        attempt = shop.start(job)

        release([attempt], now=NOW)
        release([attempt, uuid4()], now=NOW)

        assert moneys(shop, job) == {(0, 0)}

    def test_what_was_settled_is_not_released(self, shop: Shop, job: CostObject) -> None:
        fact = shop.render(job)

        release([fact.pk], now=NOW)

        assert moneys(shop, job) == {(0, MINUTE)}


class TestForgiveScouts:
    def test_scouts_of_a_job_that_was_not_continued_are_given_back(self, shop: Shop, job: CostObject) -> None:
        scouts = [shop.render(job, scout=True) for _ in range(3)]
        shop.render(job)

        given = forgive_scouts(job.id, now=NOW + HOUR)

        assert given == 3 * MINUTE
        assert moneys(shop, job) == {(0, MINUTE)}
        assert LedgerEntry.objects.filter(account="credit:scouts").count() == 3
        assert {c.fact_id for c in Credit.objects.all()} == {s.pk for s in scouts}

    def test_again_it_changes_nothing(self, shop: Shop, job: CostObject) -> None:
        shop.render(job, scout=True)

        assert [forgive_scouts(job.id, now=NOW + HOUR) for _ in range(2)] == [MINUTE, 0]

    def test_ten_minutes_are_free_a_day_whatever_the_job(self, shop: Shop) -> None:
        first, second = shop.open(), shop.open()
        for job in (first, second):
            shop.render(job, scout=True, render_ms=400_000)

        given = [forgive_scouts(job.id, now=NOW + HOUR) for job in (first, second)]

        assert given == [89_444, 44_722]  # 400 and 200 seconds
        assert list(Credit.objects.order_by("id").values_list("gpu_ms", flat=True)) == [400_000, 200_000]

    def test_the_next_day_has_its_own(self, shop: Shop, job: CostObject) -> None:
        shop.render(job, scout=True, render_ms=600_000)
        shop.render(job, scout=True, render_ms=600_000, after=timedelta(hours=20))

        assert forgive_scouts(job.id, now=NOW + timedelta(hours=21)) == 2 * 134_167

    def test_a_scout_that_was_not_charged_needs_no_credit(self, shop: Shop, job: CostObject) -> None:
        shop.render(job, scout=True, outcome="lost")

        assert forgive_scouts(job.id, now=NOW + HOUR) == 0


@pytest.fixture
def caller(shop: Shop) -> Caller:
    return Caller(shop.artist, shop.studio, frozenset(Scope), None, None)


class TestSetBudget:
    def test_it_limits_what_was_spent_already(self, shop: Shop, job: CostObject, caller: Caller) -> None:
        shop.render(job)

        budget = set_budget(
            caller, scope=BudgetScope.PROJECT, subject=shop.project.id, month=None, cap_micro=MINUTE, now=NOW
        )

        assert (budget.cap_micro, budget.spent_micro) == (MINUTE, MINUTE)
        assert hold([shop.request(job)], now=NOW).granted == {}
        assert AuditRow.objects.get(act="budget.capped").params == {"before": None, "after": MINUTE}

    def test_of_the_studio_it_is_this_months_unless_said(self, shop: Shop, caller: Caller) -> None:
        budget = set_budget(caller, scope=BudgetScope.STUDIO, subject=None, month=None, cap_micro=5, now=NOW)

        assert (budget.month, budget.subject, budget.cap_micro) == (date(2026, 11, 1), shop.studio.id, 5)

    def test_a_later_month_may_differ(self, shop: Shop, caller: Caller) -> None:
        set_budget(caller, scope=BudgetScope.STUDIO, subject=None, month=None, cap_micro=5, now=NOW)

        set_budget(caller, scope=BudgetScope.STUDIO, subject=None, month=date(2026, 12, 1), cap_micro=9, now=NOW)

        caps = Budget.objects.order_by("month").values_list("month", "cap_micro")
        assert list(caps) == [(date(2026, 11, 1), 5), (date(2026, 12, 1), 9)]

    def test_where_one_is_it_is_refused(self, shop: Shop, caller: Caller) -> None:
        wish: dict[str, Any] = {"scope": BudgetScope.PROJECT, "subject": shop.project.id, "month": None, "now": NOW}
        set_budget(caller, cap_micro=5_000_000, **wish)

        with pytest.raises(BudgetExists) as refusal:
            set_budget(caller, cap_micro=6, **wish)

        assert "5.000000 USD" in refusal.value.sentence

    @pytest.mark.parametrize(
        ("fields", "kind"),
        [
            ({"scope": BudgetScope.STUDIO, "month": date(2026, 10, 1)}, Invalid),
            ({"scope": BudgetScope.STUDIO, "month": date(2026, 12, 2)}, Invalid),
            ({"scope": BudgetScope.STUDIO, "subject": uuid4()}, NotFound),
            ({"scope": BudgetScope.PROJECT}, Invalid),
            ({"scope": BudgetScope.PROJECT, "subject": uuid4()}, NotFound),
            ({"scope": BudgetScope.JOB, "subject": uuid4()}, NotFound),
            ({"scope": BudgetScope.JOB, "subject": uuid4(), "month": date(2026, 12, 1)}, Invalid),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, caller: Caller, fields: dict[str, Any], kind: type[Exception]
    ) -> None:
        wish: dict[str, Any] = {"subject": None, "month": None} | fields

        with pytest.raises(kind):
            set_budget(caller, cap_micro=1, now=NOW, **wish)

    def test_a_foreign_project_is_not_there(self, caller: Caller) -> None:
        foreign = make_shop().project

        with pytest.raises(NotFound):
            set_budget(caller, scope=BudgetScope.PROJECT, subject=foreign.id, month=None, cap_micro=1, now=NOW)


class TestChangeCap:
    def test_below_what_is_held_it_only_keeps_more_from_starting(
        self, shop: Shop, job: CostObject, caller: Caller
    ) -> None:
        attempt = shop.start(job)
        budget = shop.budget(BudgetScope.JOB, job.id)

        change_cap(caller, budget.id, cap_micro=1)

        refused = hold([shop.request(job)], now=NOW)
        settle([shop.ended(job, attempt)], now=NOW + HOUR)
        assert refused.granted == {}
        assert money_of(budget) == (0, MINUTE)

    def test_lifted_everything_starts(self, shop: Shop, caller: Caller) -> None:
        job = shop.open(budget=0)

        change_cap(caller, shop.budget(BudgetScope.JOB, job.id).id, cap_micro=None)

        assert len(hold([shop.request(job)], now=NOW).granted) == 1

    def test_a_new_cap_is_told_of_anew(self, shop: Shop, caller: Caller) -> None:
        job = shop.open(budget=MINUTE)
        shop.render(job, p95_ms=60_000)
        budget = shop.budget(BudgetScope.JOB, job.id)

        changed = change_cap(caller, budget.id, cap_micro=MINUTE * 3 // 2)

        assert (budget.told, changed.told) == ([50, 80, 100], [50])

    def test_a_foreign_budget_is_not_there(self, caller: Caller) -> None:
        foreign = make_shop()
        foreign.open()

        with pytest.raises(NotFound):
            change_cap(caller, foreign.budget(BudgetScope.PROJECT).id, cap_micro=1)


class TestRetag:
    def test_it_changes_what_is_reported_by_and_no_money(self, shop: Shop, job: CostObject, caller: Caller) -> None:
        fact = shop.render(job)

        retag(caller, job.id, shot="sh020", tags={"client": "ACME"})

        job.refresh_from_db()
        assert (job.shot, job.sequence, job.tags) == ("sh020", "", {"client": "ACME"})
        assert UsageFact.objects.get(pk=fact.pk).charged_micro == fact.charged_micro
        assert AuditRow.objects.get(act="cost-object.retagged").params["shot"] == "sh020"

    def test_a_foreign_one_is_not_there(self, caller: Caller) -> None:
        foreign = make_shop().open()

        with pytest.raises(NotFound):
            retag(caller, foreign.id, shot="mine")


class TestSetRate:
    def wish(self, **fields: Any) -> dict[str, Any]:
        return {
            "worker_class": GPU,
            "currency": "USD",
            "micro_per_gpu_hour": 7,
            "valid_from": NOW + HOUR,
            "now": NOW,
        } | fields

    def test_the_rate_before_it_ends_where_it_begins(self, db: None) -> None:
        new = set_rate(**self.wish())

        rates = Rate.objects.filter(worker_class=GPU, currency="USD", studio=None).order_by("id")
        old = next(r for r in rates if r.id != new.id)
        assert (old.valid.upper, old.micro_per_gpu_hour) == (NOW + HOUR, RATE)
        new.refresh_from_db()
        assert (new.valid.lower, new.valid.upper) == (NOW + HOUR, None)

    def test_it_is_quoted_from_its_beginning_on(self, shop: Shop) -> None:
        set_rate(**self.wish())

        before = shop.open().quoted_rates.get(worker_class=GPU)
        shop.now = NOW + HOUR
        after = shop.open().quoted_rates.get(worker_class=GPU)
        assert (before.micro_per_gpu_hour, after.micro_per_gpu_hour) == (RATE, 7)

    def test_it_cannot_begin_in_the_past(self, db: None) -> None:
        with pytest.raises(RateInThePast):
            set_rate(**self.wish(valid_from=NOW - timedelta(seconds=1)))

    def test_it_cannot_begin_before_one_that_is_announced(self, db: None) -> None:
        set_rate(**self.wish())

        with pytest.raises(RateOverlaps):
            set_rate(**self.wish(valid_from=NOW))

    def test_a_studios_first_rate_leaves_the_default_as_it_is(self, shop: Shop) -> None:
        set_rate(**self.wish(studio=shop.studio))

        assert Rate.objects.get(worker_class=GPU, currency="USD", studio=None).valid.upper is None


class TestSetPolicy:
    def test_the_studios_own_comes_before_the_default(self, shop: Shop) -> None:
        set_policy(Policy(free_setup_seconds=1), studio=None, now=NOW)
        set_policy(Policy(free_setup_seconds=2), studio=shop.studio, now=NOW)

        assert Policy.from_json(shop.open().policy).free_setup_seconds == 2
        assert Policy.from_json(make_shop().open().policy).free_setup_seconds == 1


class TestMoneyRows:
    """What the database itself refuses, whoever asks."""

    def refuse(self, sql: str, params: list[Any]) -> str:
        with pytest.raises(DatabaseError) as error:
            self.carry_out(sql, params)
        return str(error.value)

    @transaction.atomic
    def carry_out(self, sql: str, params: list[Any]) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    @pytest.mark.parametrize(
        ("table", "column"),
        [
            ("billing_usagefact", "charged_micro"),
            ("billing_ledgerentry", "amount_micro"),
            ("billing_ledgergroup", "currency"),
            ("billing_credit", "amount_micro"),
            ("billing_quotedrate", "micro_per_gpu_hour"),
            ("billing_policy", "free_setup_seconds"),
        ],
    )
    def test_they_are_never_changed_nor_deleted(self, shop: Shop, job: CostObject, table: str, column: str) -> None:
        shop.render(job, scout=True)
        forgive_scouts(job.id, now=NOW + HOUR)

        for sql in (f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}"):
            assert "permission denied" in self.refuse(sql, [])

    @pytest.mark.parametrize(
        "sql",
        [
            "UPDATE billing_rate SET micro_per_gpu_hour = 1 WHERE worker_class = %s",
            "UPDATE billing_rate SET valid = tstzrange('2026-01-02', NULL) WHERE worker_class = %s",
            "UPDATE billing_rate SET valid = tstzrange(lower(valid), now()), currency = 'EUR' WHERE worker_class = %s",
        ],
    )
    def test_a_rate_only_closes(self, db: None, sql: str) -> None:
        assert "append-only" in self.refuse(sql, [GPU])

    def test_a_closed_rate_is_not_closed_again(self, db: None) -> None:
        set_rate(worker_class=GPU, currency="USD", micro_per_gpu_hour=7, valid_from=NOW, now=NOW)

        again = "UPDATE billing_rate SET valid = tstzrange(lower(valid), '2026-06-01') WHERE upper(valid) = %s"
        assert "append-only" in self.refuse(again, [NOW])

    def test_two_rates_for_one_moment_are_refused(self, db: None) -> None:
        double = (
            "INSERT INTO billing_rate (worker_class, tier, currency, micro_per_gpu_hour, valid, source)"
            " VALUES (%s, 'standard', 'USD', 1, tstzrange('2026-06-01', '2026-06-02'), '')"
        )

        assert "one_rate_at_a_time" in self.refuse(double, [GPU])

    def test_a_ledger_group_that_does_not_sum_to_zero_is_refused(self, shop: Shop, job: CostObject) -> None:
        group = LedgerGroup.objects.get(attempt=shop.render(job).pk)

        lopsided = (
            "INSERT INTO billing_ledgerentry (group_id, studio_id, account, amount_micro)"
            " VALUES (%s, %s, 'receivable', 1)"
        )
        assert "does not sum to zero" in self.refuse(lopsided, [group.id, shop.studio.id])

    def test_a_booking_happens_once(self, shop: Shop, job: CostObject) -> None:
        group = LedgerGroup.objects.get(attempt=shop.render(job).pk)

        again = (
            "INSERT INTO billing_ledgergroup (studio_id, cost_object_id, attempt, currency, key, occurred_at)"
            " SELECT studio_id, cost_object_id, attempt, currency, key, occurred_at"
            " FROM billing_ledgergroup WHERE id = %s"
        )
        assert "duplicate key" in self.refuse(again, [group.id])

    def test_a_budget_is_never_negative(self, shop: Shop, job: CostObject) -> None:
        assert "budget_is_not_negative" in self.refuse(
            "UPDATE billing_budget SET held_micro = -1 WHERE subject = %s", [job.id]
        )


class TestStory:
    def test_after_all_of_it_the_books_are_right(self, shop: Shop, caller: Caller) -> None:
        job = shop.open(budget=MINUTE * 100, policy=Policy(scene_error_cap_seconds=30))
        for outcome, cause in [
            ("succeeded", ""),
            ("lost", "lost"),
            ("failed", "scene_error"),
            ("failed", "no_gpu"),
            ("superseded", ""),
        ]:
            shop.render(job, p95_ms=30_000 if outcome == "succeeded" else 90_000, outcome=outcome, cause=cause)
        shop.render(job, p95_ms=90_000, outcome="cancelled", cancelled_at=NOW + timedelta(seconds=5))
        shop.render(job, p95_ms=90_000, scout=True, setup_ms=400_000)
        shop.render(job, purpose="inspection")
        forgive_scouts(job.id, now=NOW + HOUR)
        running = shop.start(job)
        extend_holds([(running, 600_000)], now=NOW)
        release([shop.start(job)], now=NOW)
        change_cap(caller, shop.budget(BudgetScope.JOB, job.id).id, cap_micro=1)

        books = check_books_here(studio=shop.studio.id)

        assert (books.findings, books.difference_micro) == ([], 0)
        assert (books.facts, books.credits) == (8, 1)

"""The rules of money, as tables and properties."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.billing.pricing import (
    Charge,
    Policy,
    Reason,
    Usage,
    Verdict,
    WhenRefused,
    amount,
    crossed,
    hold_amount,
    judge,
    price,
    scout_credit,
)

HOUR = 3_600_000


class TestAmount:
    @pytest.mark.parametrize(
        ("ms", "gpus", "rate", "expected"),
        [
            (HOUR, 1, 805_000, 805_000),
            (HOUR, 4, 805_000, 3_220_000),
            (60_000, 1, 805_000, 13_417),
            (0, 1, 805_000, 0),
            (1, 1, 805_000, 0),
            (1_800_000, 1, 1, 0),  # a half, to the even 0
            (1_800_000, 1, 3, 2),  # one and a half, to the even 2
            (1_800_000, 1, 5, 2),  # two and a half, to the even 2
        ],
    )
    def test_it_is_rounded_half_to_even(self, ms: int, gpus: int, rate: int, expected: int) -> None:
        assert amount(ms, gpus=gpus, rate=rate) == expected

    @given(st.integers(0, 10**9), st.integers(1, 16), st.integers(0, 10**10))
    def test_it_is_what_decimals_give(self, ms: int, gpus: int, rate: int) -> None:
        exact = Decimal(ms) * gpus * rate / Decimal(HOUR)

        assert amount(ms, gpus=gpus, rate=rate) == int(exact.to_integral_value(ROUND_HALF_EVEN))

    def test_a_thousand_short_frames_cost_what_they_cost(self) -> None:
        rate = 540_000  # 0.00015 a second

        assert sum(amount(37_000, gpus=1, rate=rate) for _ in range(1000)) == 5_550_000
        assert sum(amount(1_400, gpus=1, rate=rate) for _ in range(1000)) == 210_000


class TestHoldAmount:
    def test_it_is_the_price_of_the_prediction(self) -> None:
        assert hold_amount(HOUR, gpus=2, rate=100, purpose="render") == 200

    def test_without_a_prediction_it_is_ten_minutes(self) -> None:
        assert hold_amount(None, gpus=1, rate=600, purpose="render") == 100

    def test_what_is_free_holds_nothing(self) -> None:
        assert hold_amount(HOUR, gpus=1, rate=100, purpose="inspection") == 0


def usage(**fields: Any) -> Usage:
    known: dict[str, Any] = {
        "purpose": "render",
        "outcome": "succeeded",
        "cause": "",
        "billable_ms": 100_000,
        "ms_until_cancelled": None,
        "is_generation_charged": False,
        "is_first_scene_fault": True,
    }
    return Usage(**known | fields)


CAPPED = Policy(scene_error_cap_seconds=60)
FREE_ROWS = [
    ("interrupted", "interrupted", Reason.INTERRUPTED),
    ("lost", "lost", Reason.LOST),
    ("superseded", "", Reason.SUPERSEDED),
    ("failed", "no_gpu", Reason.FARM_FAULT),
    ("failed", "missing_output", Reason.FARM_FAULT),
    ("failed", "bad_output", Reason.FARM_FAULT),
    ("failed", "disk_full", Reason.FARM_FAULT),
    ("failed", "no_progress", Reason.FARM_FAULT),
    ("failed", "timeout", Reason.FARM_FAULT),
    ("failed", "", Reason.FARM_FAULT),
    ("cancelled", "", Reason.FARM_FAULT),  # the farm's own stop: no person's wish
    ("never heard of", "", Reason.FARM_FAULT),
]
SCENE_FAULT_CAUSES = ["scene_error", "missing_asset", "out_of_memory"]


class TestJudge:
    """The table "Who pays", row by row."""

    def test_verified_output_is_paid_by_the_millisecond(self) -> None:
        assert judge(usage(), Policy()) == Verdict(True, 100_000, Reason.VERIFIED)

    @pytest.mark.parametrize(("outcome", "cause", "reason"), FREE_ROWS)
    @pytest.mark.parametrize("policy", [Policy(), CAPPED])
    def test_what_is_not_the_studios_doing_is_free(
        self, outcome: str, cause: str, reason: Reason, policy: Policy
    ) -> None:
        assert judge(usage(outcome=outcome, cause=cause), policy) == Verdict(False, 0, reason)

    @pytest.mark.parametrize("cause", SCENE_FAULT_CAUSES)
    def test_the_scenes_fault_is_free_by_default(self, cause: str) -> None:
        assert judge(usage(outcome="failed", cause=cause), Policy()) == Verdict(False, 0, Reason.SCENE_FAULT_FREE)

    @pytest.mark.parametrize("cause", SCENE_FAULT_CAUSES)
    def test_the_first_fault_of_the_scene_is_paid_up_to_the_cap(self, cause: str) -> None:
        assert judge(usage(outcome="failed", cause=cause), CAPPED) == Verdict(True, 60_000, Reason.SCENE_FAULT)
        assert judge(usage(outcome="failed", cause=cause, billable_ms=5), CAPPED).payable_ms == 5

    @pytest.mark.parametrize("cause", SCENE_FAULT_CAUSES)
    def test_later_faults_of_the_scene_are_free(self, cause: str) -> None:
        later = usage(outcome="failed", cause=cause, is_first_scene_fault=False)

        assert judge(later, CAPPED) == Verdict(False, 0, Reason.SCENE_FAULT_FREE)

    def test_what_the_studio_cancels_is_paid_until_it_stopped(self) -> None:
        cancelled = usage(outcome="cancelled", ms_until_cancelled=90_000)

        assert judge(cancelled, Policy()) == Verdict(True, 100_000, Reason.CANCELLED)

    def test_what_the_studio_cancels_is_paid_at_most_until_the_grace_ends(self) -> None:
        cancelled = usage(outcome="cancelled", ms_until_cancelled=20_000)

        assert judge(cancelled, Policy()) == Verdict(True, 35_000, Reason.CANCELLED)

    @pytest.mark.parametrize("purpose", ["inspection", "preview", "stitching", "never heard of"])
    @pytest.mark.parametrize("outcome", ["succeeded", "failed", "cancelled"])
    def test_what_is_not_rendering_is_free(self, purpose: str, outcome: str) -> None:
        free = usage(purpose=purpose, outcome=outcome, cause="scene_error", ms_until_cancelled=1)

        assert judge(free, CAPPED) == Verdict(False, 0, Reason.FREE_PURPOSE)

    @pytest.mark.parametrize(
        "again",
        [
            {"outcome": "succeeded"},
            {"outcome": "cancelled", "ms_until_cancelled": 1},
            {"outcome": "failed", "cause": "scene_error"},
        ],
    )
    def test_a_generation_is_charged_once(self, again: dict[str, Any]) -> None:
        assert judge(usage(is_generation_charged=True, **again), CAPPED) == Verdict(False, 0, Reason.ALREADY_CHARGED)

    def test_a_free_outcome_keeps_its_reason_when_the_generation_was_charged(self) -> None:
        assert judge(usage(outcome="superseded", is_generation_charged=True), Policy()).reason is Reason.SUPERSEDED


class TestPrice:
    def test_a_verified_minute(self) -> None:
        verdict = Verdict(True, 60_000, Reason.VERIFIED)

        assert price(verdict, billable_ms=60_000, gpus=1, rate=805_000, held=20_000) == Charge(
            gross=13_417, charged=13_417, over_hold=0
        )

    def test_never_more_than_was_held(self) -> None:
        verdict = Verdict(True, 60_000, Reason.VERIFIED)

        assert price(verdict, billable_ms=60_000, gpus=1, rate=805_000, held=10_000) == Charge(
            gross=13_417, charged=10_000, over_hold=3_417
        )

    def test_a_free_verdict_keeps_its_gross(self) -> None:
        verdict = Verdict(False, 0, Reason.LOST)

        assert price(verdict, billable_ms=60_000, gpus=1, rate=805_000, held=20_000) == Charge(
            gross=13_417, charged=0, over_hold=0
        )

    @given(
        st.integers(0, 10**8), st.integers(0, 10**8), st.integers(1, 8), st.integers(0, 10**8), st.integers(0, 10**9)
    )
    def test_the_parts_sum_to_the_gross_and_none_is_negative(
        self, payable: int, more: int, gpus: int, rate: int, held: int
    ) -> None:
        verdict = Verdict(True, payable, Reason.CANCELLED)

        charge = price(verdict, billable_ms=payable + more, gpus=gpus, rate=rate, held=held)

        assert min(charge.charged, charge.over_hold, charge.gross - charge.charged - charge.over_hold) >= 0
        assert charge.charged <= held


class TestScoutCredit:
    def test_within_the_allowance_all_that_was_charged_comes_back(self) -> None:
        assert scout_credit(payable_ms=1000, gpus=2, rate=HOUR, charged=1999, gpu_ms_left=2000) == (2000, 1999)

    def test_beyond_the_allowance_the_rest_of_it_comes_back(self) -> None:
        assert scout_credit(payable_ms=1000, gpus=2, rate=HOUR, charged=2000, gpu_ms_left=500) == (500, 500)

    def test_a_used_up_allowance_gives_nothing(self) -> None:
        assert scout_credit(payable_ms=1000, gpus=1, rate=HOUR, charged=1000, gpu_ms_left=-5) == (0, 0)

    def test_never_more_than_was_charged(self) -> None:
        assert scout_credit(payable_ms=1000, gpus=1, rate=HOUR, charged=300, gpu_ms_left=900) == (900, 300)


class TestCrossed:
    @pytest.mark.parametrize(
        ("spent", "told", "expected"),
        [(0, [], []), (49, [], []), (50, [], [50]), (80, [50], [80]), (100, [50], [80, 100]), (100, [50, 80, 100], [])],
    )
    def test_each_threshold_is_told_once(self, spent: int, told: list[int], expected: list[int]) -> None:
        assert crossed(spent=spent, cap=100, told=told) == expected

    def test_without_a_cap_there_is_no_threshold(self) -> None:
        assert crossed(spent=10**12, cap=None, told=[]) == []


class TestPolicy:
    def test_it_is_stored_and_read_back_whole(self) -> None:
        policy = Policy(scene_error_cap_seconds=60, when_refused=WhenRefused.FINISH)

        assert Policy.from_json(policy.as_json()) == policy

    def test_what_is_not_stored_is_the_default(self) -> None:
        assert Policy.from_json({"scene_error_cap_seconds": 5}) == Policy(scene_error_cap_seconds=5)

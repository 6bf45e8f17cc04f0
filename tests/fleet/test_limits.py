"""The farm's limits: what they leave, and which are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.fleet.limits import Limits, Room, Standing, room


class TestRoom:
    @pytest.mark.parametrize(
        ("limits", "standing", "expected"),
        [
            (Limits(), Standing(machines=10**6, micro_per_hour=10**12), Room(5)),
            (Limits(machines=10), Standing(machines=5), Room(5)),
            (Limits(machines=10), Standing(machines=7), Room(3, ("machines",))),
            (Limits(machines=10), Standing(machines=12), Room(0, ("machines",))),
            (Limits(launches_per_hour=4), Standing(launches_per_hour=1), Room(3, ("launches-per-hour",))),
            (Limits(micro_per_hour=35), Standing(micro_per_hour=10), Room(2, ("micro-per-hour",))),
            (Limits(micro_per_day=100), Standing(micro_per_day=50, micro_per_hour=30), Room(2, ("micro-per-day",))),
            (Limits(machines=9, micro_per_hour=10), Standing(machines=8), Room(1, ("machines", "micro-per-hour"))),
        ],
    )
    def test_the_tightest_limit_says_how_many(self, limits: Limits, standing: Standing, expected: Room) -> None:
        assert room(limits, standing, wished=5, price_micro=10) == expected

    def test_what_costs_nothing_is_held_by_no_limit_of_money(self) -> None:
        assert room(Limits(micro_per_hour=0, micro_per_day=0), Standing(), wished=5, price_micro=0) == Room(5)

    @given(
        st.builds(Limits, *[st.none() | st.integers(0, 1000)] * 4),
        st.builds(Standing, *[st.integers(0, 1000)] * 4),
        st.integers(1, 100),
        st.integers(0, 50),
    )
    def test_no_limit_is_ever_passed_by_what_is_allowed(
        self, limits: Limits, standing: Standing, wished: int, price: int
    ) -> None:
        left = room(limits, standing, wished=wished, price_micro=price).machines

        assert 0 <= left <= wished
        if left and limits.machines is not None:
            assert standing.machines + left <= limits.machines
        if left and limits.micro_per_hour is not None and price:
            assert standing.micro_per_hour + left * price <= limits.micro_per_hour

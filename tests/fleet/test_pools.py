"""Pools: what is remembered, how long one is left alone, and how fast machines may be launched."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.fleet.pools import HALF_LIFE, Pace, faded, wait_after

NOW = datetime(2026, 12, 1, tzinfo=UTC)
EC2 = Pace(burst=1000, per_second=2)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


class TestPace:
    @pytest.mark.parametrize(
        ("launches", "now", "room"),
        [
            ([], 0, 1000),
            ([(0, 1000)], 0, 0),
            ([(0, 1000)], 5, 8),  # ten have come back, and the last two may not have arrived
            ([(0, 1000)], 501, 1000),
            ([(0, 400)], 0, 598),
            ([(0, 1000), (5, 8), (10, 10)], 15, 10),
            ([(0, 1000), (3600, 10)], 3600, 988),
        ],
    )
    def test_the_bucket_as_the_provider_counts_it(
        self, launches: list[tuple[float, int]], now: float, room: int
    ) -> None:
        assert EC2.room([(at(moment), count) for moment, count in launches], now=at(now)) == room

    @pytest.mark.parametrize(("throttled", "room"), [(0, 98), (1, 49), (2, 24), (99, 0)])
    def test_who_was_throttled_asks_for_half(self, throttled: int, room: int) -> None:
        assert EC2.room([(NOW, 900)], now=NOW, throttled=throttled) == room

    @given(st.lists(st.floats(min_value=0.1, max_value=60), min_size=1, max_size=60))
    def test_who_asks_for_no_more_than_the_room_is_never_refused_by_a_bucket_that_is_a_little_late(
        self, pauses: list[float]
    ) -> None:
        launches: list[tuple[datetime, int]] = []
        level, seen, moment = 1000.0, 0.0, 0.0
        for number, pause in enumerate(pauses):
            moment += pause
            count = EC2.room(launches, now=at(moment))
            arrives = moment + (0.9 if number % 2 == 0 else 0.0)
            level = min(1000.0, level + max(0.0, arrives - seen) * 2) - count
            seen = max(seen, arrives)
            launches.append((at(moment), count))

            assert level > -1e-6

    def test_steadily_it_launches_as_fast_as_the_provider_lets(self) -> None:
        launches = [(at(0), 1000)]
        for step in range(1, 61):
            launches.append((at(5 * step), EC2.room(launches, now=at(5 * step))))

        assert sum(count for _, count in launches) == 1000 + 600 - 2


class TestWaitAfter:
    def test_it_doubles_up_to_a_quarter_of_an_hour(self) -> None:
        assert [wait_after(n).total_seconds() / 60 for n in (0, 1, 2, 3, 4, 99)] == [2, 2, 4, 8, 15, 15]


class TestFaded:
    def test_half_is_left_after_a_half_life(self) -> None:
        assert faded(8, since=2 * HALF_LIFE) == 2
        assert faded(8, since=timedelta(0)) == 8

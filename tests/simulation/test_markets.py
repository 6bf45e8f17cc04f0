"""Where machines are bought."""

from __future__ import annotations

import pytest

from farm.simulation.markets import Series, constant, from_counts


class TestSeries:
    @pytest.mark.parametrize(("moment", "value"), [(-5, 1), (0, 1), (9.9, 1), (10, 3), (99, 3)])
    def test_a_number_holds_until_the_next(self, moment: float, value: float) -> None:
        assert Series([0, 10], [1, 3]).at(moment) == value

    @pytest.mark.parametrize(("start", "end", "area"), [(0, 10, 10), (5, 15, 20), (10, 20, 30), (20, 20, 0)])
    def test_its_area(self, start: float, end: float, area: float) -> None:
        assert Series([0, 10], [1, 3]).area(start, end) == pytest.approx(area)

    def test_a_constant_is_one(self) -> None:
        assert constant(2).area(3, 7) == 8


class TestFromCounts:
    def test_the_sample_that_ships_can_be_bought_from(self) -> None:
        market = from_counts()

        assert len(market.zones) == 5
        assert market.ends_s > 2 * 86_400
        assert all(0 < zone.spot_usd.at(0) < zone.on_demand_usd for zone in market.zones.values())
        assert market.changes == sorted(set(market.changes))

    def test_only_some_of_its_zones(self) -> None:
        market = from_counts()
        name = next(iter(market.zones))

        assert list(market.only([name]).zones) == [name]

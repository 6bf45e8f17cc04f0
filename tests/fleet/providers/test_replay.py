"""A market from a trace."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from farm.core.errors import Invalid
from farm.fleet.pools import Market, PoolKey
from farm.fleet.providers import FleetSpec, InsufficientCapacity, LaunchRequest, provider
from farm.fleet.providers import replay as replay_module
from farm.fleet.providers.replay import INSTANCE_TYPE, ReplayProvider, make_sample
from farm.fleet.providers.replay import Market as Trace

SPEC = FleetSpec("r", markets=(Market.SPOT, Market.ON_DEMAND))
EAST, WEST = (PoolKey(INSTANCE_TYPE, zone, Market.SPOT) for zone in ("east-1-a", "west-1-a"))
FARM = UUID(int=1)

COUNTS = """at,east-1-a,west-1-a
2025-10-03T17:10:00,3,1
2025-10-03T17:20:00,1,2
"""
PRICES = """region,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour
east-1,1.5,10
west-1,2.5,11
"""


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    (tmp_path / "counts.csv").write_text(COUNTS)
    (tmp_path / "prices.csv").write_text(PRICES)
    return Trace.from_csv(tmp_path / "counts.csv", tmp_path / "prices.csv")


@pytest.fixture
def moment() -> list[float]:
    return [0.0]


@pytest.fixture
def seller(trace: Trace, moment: list[float]) -> ReplayProvider:
    return ReplayProvider(trace, lambda: moment[0])


def request_for(count: int, *pools: PoolKey, launch: int = 1) -> LaunchRequest:
    return LaunchRequest(UUID(int=launch), SPEC, pools or (EAST, WEST), count, "s", FARM, "http://f", 600)


class TestMarket:
    def test_capacity_is_that_of_the_latest_row(self, trace: Trace) -> None:
        assert [trace.capacity("east-1-a", at) for at in (-5, 0, 599, 600, 10**9)] == [3, 3, 3, 1, 1]
        assert list(trace.changes()) == [0, 600]

    def test_prices_are_the_region_s(self, trace: Trace) -> None:
        assert (trace.price("west-1-a"), trace.price("west-1-a", Market.ON_DEMAND)) == (2.5, 11)

    def test_the_one_that_ships_is_whole_and_can_be_made_again(self) -> None:
        trace = Trace.from_csv()

        assert len(trace.zones) == 5
        assert len(trace.moments) == 3 * 144
        assert {0} < {c for counts in trace.counts.values() for c in counts} <= set(range(17))
        assert "\n".join(make_sample()) + "\n" == replay_module.COUNTS.read_text()


class TestReplayProvider:
    def test_pools_are_asked_in_their_order_and_give_what_they_have(self, seller: ReplayProvider) -> None:
        answer = seller.launch(request_for(9))

        assert [m.pool for m in answer.machines] == [EAST] * 3 + [WEST]
        assert [(r.pool, type(r.error)) for r in answer.refusals] == [
            (EAST, InsufficientCapacity), (WEST, InsufficientCapacity)
        ]  # fmt: skip

    def test_what_is_held_is_not_there_for_others(self, seller: ReplayProvider) -> None:
        seller.launch(request_for(2, EAST))

        assert len(seller.launch(request_for(2, EAST, launch=2)).machines) == 1

    def test_asked_twice_they_come_once(self, seller: ReplayProvider) -> None:
        assert seller.launch(request_for(2)) == seller.launch(request_for(2))
        assert len(seller.machines(FARM)) == 2

    def test_a_zone_that_shrinks_takes_the_newest_back(self, seller: ReplayProvider, moment: list[float]) -> None:
        first = [m.id for m in seller.launch(request_for(3, EAST)).machines]
        moment[0] = 600

        assert [m.id for m in seller.take_back()] == first[:0:-1]
        assert [m.id for m in seller.machines(FARM)] == first[:1]

    def test_on_demand_is_always_to_be_had(self, seller: ReplayProvider) -> None:
        pool = PoolKey(INSTANCE_TYPE, "east-1-a", Market.ON_DEMAND)

        assert len(seller.launch(request_for(50, pool)).machines) == 50
        assert seller.prices([pool, EAST]) == {pool: 10_000_000, EAST: 1_500_000}

    def test_it_offers_each_zone_on_each_market_of_the_fleet(self, seller: ReplayProvider) -> None:
        assert len(seller.offers(SPEC)) == 4
        with pytest.raises(Invalid):
            seller.check(FleetSpec("r", zones=["moon"]))

    def test_a_farm_can_rehearse_with_the_trace_that_ships(self) -> None:
        market = provider("replay")

        assert len(market.offers(SPEC)) == 10

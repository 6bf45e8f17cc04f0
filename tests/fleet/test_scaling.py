"""How many machines, where and on which market: as sentences, and what never happens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.fleet.pools import FleetMarket, Market, PoolKey
from farm.fleet.scaling import decide, hazard, hoped_s, overhead, running_s
from farm.fleet.situation import (
    Busy,
    Decision,
    Demand,
    FleetRules,
    FleetView,
    MachineStatus,
    MachineView,
    PoolView,
    Snapshot,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
FLEET, OTHER_FLEET = UUID(int=1), UUID(int=2)
STUDIO, OTHER_STUDIO, STEP = UUID(int=3), UUID(int=4), UUID(int=5)
DOLLAR = 1_000_000
HOUR = timedelta(hours=1)


def key(zone: str, market: Market = Market.SPOT) -> PoolKey:
    return PoolKey("one", zone, market)


LOCAL = PoolView(key("local", Market.ON_DEMAND), boot_s=3)
NEAR = PoolView(key("near"), price_micro=2 * DOLLAR, on_demand_micro=10 * DOLLAR)
DEAR = PoolView(key("dear"), price_micro=3 * DOLLAR, on_demand_micro=10 * DOLLAR)
SURE = PoolView(key("near", Market.ON_DEMAND), price_micro=10 * DOLLAR)
CLOUD = (NEAR, DEAR, SURE)


def refused(pool: PoolView, *, minutes: int = 1, times: int = 1) -> PoolView:
    """Give a pool that refused so long ago, and is to be left alone for a while."""
    at = NOW - timedelta(minutes=minutes)
    return PoolView(
        pool.key, price_micro=pool.price_micro, refused_at=at, refusals=times, refused_until=NOW + timedelta(minutes=5)
    )


def rules(**changed: Any) -> FleetRules:
    usual: dict[str, Any] = {
        "min_machines": 0,
        "max_machines": 50,
        "idle_timeout": timedelta(seconds=120),
        "is_paused": False,
        "market": FleetMarket.SPOT_OR_ON_DEMAND,
    }
    return FleetRules(**usual | changed)


def work(ready: int, *, hours: float | None = None, seconds: float = 300, **changed: Any) -> Demand:
    usual: dict[str, Any] = {
        "step": STEP,
        "studio": STUDIO,
        "fleets": frozenset({FLEET}),
        "ready": ready,
        "deadline": NOW + hours * HOUR if hours is not None else None,
        "seconds": {"cpu": seconds},
    }
    return Demand(**usual | changed)


def machine(number: int, pool: PoolView = LOCAL, *, idle_s: float | None = None, **changed: Any) -> MachineView:
    usual: dict[str, Any] = {
        "id": UUID(int=100 + number),
        "pool": pool.key,
        "status": MachineStatus.READY,
        "requested_at": NOW - HOUR,
        "idle_since": None if idle_s is None else NOW - timedelta(seconds=idle_s),
        "busy": (Busy(STEP, NOW, 100.0),) if idle_s is None else (),
    }
    return MachineView(**usual | changed)


def starting(number: int, pool: PoolView = LOCAL) -> MachineView:
    return machine(number, pool, idle_s=None, status=MachineStatus.STARTING, busy=(), requested_at=NOW)


def decided(
    *demand: Demand, pools: Sequence[PoolView] = (LOCAL,), machines: Sequence[MachineView] = (), **changed: Any
) -> Decision:
    fleet = {name: changed.pop(name) for name in ("room", "shares_machines") if name in changed}
    is_sure = all(pool.key.market is Market.ON_DEMAND for pool in pools)
    changed.setdefault("market", FleetMarket.ON_DEMAND if is_sure else FleetMarket.SPOT_OR_ON_DEMAND)
    view = FleetView(FLEET, rules(**changed), pools, machines, **fleet)
    return decide(Snapshot(demand, [view]), now=NOW)[FLEET]


def bought(decision: Decision, market: Market) -> int:
    return sum(launch.count for launch in decision.launches if launch.market is market)


class TestWithoutADeadline:
    @pytest.mark.parametrize(
        ("ready", "machines", "changed", "launch", "reason"),
        [
            (0, (), {}, 0, "content"),
            (1, (), {}, 1, "in-parallel"),
            (9, (), {}, 9, "in-parallel"),
            (100, (), {}, 50, "in-parallel"),
            (5, (), {"pools": (PoolView(LOCAL.key, slots=4),)}, 2, "in-parallel"),
            (2, (machine(1), machine(2)), {}, 2, "in-parallel"),
            (2, (starting(1), starting(2)), {}, 0, "content"),  # they come, and will take it
            (9, tuple(machine(n) for n in range(50)), {}, 0, "limit"),
            (9, (), {"room": 3}, 3, "in-parallel"),
            (9, (), {"room": 0}, 0, "limit"),
            (9, (), {"is_paused": True}, 0, "paused"),
            (0, (), {"min_machines": 2}, 2, "min-machines"),
            (0, (machine(1),), {"min_machines": 2}, 1, "min-machines"),
            (0, (), {"min_machines": 60}, 50, "min-machines"),
        ],
    )
    def test_machines_that_cost_nothing_start_for_every_task(
        self, ready: int, machines: tuple[MachineView, ...], changed: dict[str, Any], launch: int, reason: str
    ) -> None:
        demand = [work(ready)] if ready else []

        decision = decided(*demand, machines=machines, **changed)

        assert (decision.launch, decision.reason) == (launch, reason)

    def test_machines_that_cost_start_as_broadly_as_start_up_stays_a_tenth_of_the_bill(self) -> None:
        decision = decided(work(1000, seconds=60), pools=CLOUD)

        assert decision.launch == 25  # 60,000 s of work ÷ (240 s ÷ 0.1)
        assert decision.launches[0].pools[0] == NEAR.key

    def test_little_work_gets_a_few_machines_all_the_same(self) -> None:
        assert decided(work(3, seconds=1), pools=CLOUD).launch == 3

    def test_it_waits_for_spot_that_is_sold_out(self) -> None:
        decision = decided(work(10), pools=(refused(NEAR), refused(DEAR), SURE))

        assert decision.launches == ()

    def test_it_goes_on_demand_when_all_spot_has_refused_again_and_again(self) -> None:
        decision = decided(work(10), pools=(refused(NEAR, times=4), refused(DEAR, times=9), SURE))

        assert bought(decision, Market.ON_DEMAND) > 0

    def test_a_deadline_that_has_passed_is_none(self) -> None:
        decision = decided(work(100, hours=-1), pools=CLOUD)

        assert bought(decision, Market.ON_DEMAND) == 0
        assert bought(decision, Market.SPOT) > 0

    def test_an_inspection_gets_a_machine_at_once_whatever_it_costs(self) -> None:
        decision = decided(work(2, is_urgent=True), pools=(refused(NEAR), refused(DEAR), SURE))

        assert (bought(decision, Market.ON_DEMAND), decision.reason) == (2, "urgent")


class TestWithADeadline:
    def test_few_cheap_machines_do_what_has_time(self) -> None:
        decision = decided(work(120, hours=12), pools=CLOUD)  # ten machine-hours

        assert [launch.pools[0] for launch in decision.launches] == [NEAR.key]
        assert 1 <= decision.launch <= 3
        assert decision.reason == "in-time"

    def test_the_nearer_the_deadline_the_more(self) -> None:
        launches = [decided(work(120, hours=hours), pools=CLOUD).launch for hours in (12, 4, 2, 1)]

        assert launches == sorted(launches)
        assert launches[0] < launches[-1]

    def test_a_sold_out_cheap_zone_is_waited_for_while_there_is_time(self) -> None:
        pools = (refused(NEAR), PoolView(DEAR.key, price_micro=8 * DOLLAR), SURE)

        assert decided(work(60, hours=24), pools=pools).launch < decided(work(60, hours=1.5), pools=pools).launch

    def test_on_demand_waits_as_long_as_it_still_helps_later(self) -> None:
        pools = (refused(NEAR, minutes=300), refused(DEAR, minutes=300), SURE)

        early, late = decided(work(60, hours=6), pools=pools), decided(work(60, hours=0.5), pools=pools)

        assert (early.launch, early.reason) == (0, "waits")
        assert (bought(late, Market.ON_DEMAND) > 0, late.reason) == (True, "late")

    def test_a_frame_that_must_begin_now_gets_an_on_demand_machine_of_its_own(self) -> None:
        busy = tuple(machine(n, NEAR, busy=(Busy(STEP, NOW, 3000.0),)) for n in range(4))

        decision = decided(work(1, hours=0.6, seconds=1200), pools=(refused(NEAR), SURE), machines=busy)

        assert bought(decision, Market.ON_DEMAND) == 1

    def test_spot_as_dear_as_on_demand_is_left_alone(self) -> None:
        pools = (PoolView(NEAR.key, price_micro=10 * DOLLAR), SURE)

        assert bought(decided(work(60, hours=1), pools=pools), Market.SPOT) == 0

    def test_a_dearer_pool_than_the_cap_is_left_alone(self) -> None:
        decision = decided(work(500, hours=1), pools=(DEAR,), price_cap_micro=2 * DOLLAR, market=FleetMarket.SPOT)

        assert decision.launch == 0

    def test_a_pool_whose_price_nobody_knows_is_above_any_cap(self) -> None:
        pools = (PoolView(NEAR.key, price_micro=None),)

        assert decided(work(50, hours=1), pools=pools, price_cap_micro=DOLLAR, market=FleetMarket.SPOT).launch == 0

    def test_interruptions_make_a_cheap_zone_dear(self) -> None:
        stormy = PoolView(NEAR.key, price_micro=2 * DOLLAR, lost=60, machine_hours=10)

        decision = decided(work(120, hours=12, seconds=1500), pools=(stormy, DEAR, SURE))

        assert decision.launches[0].pools[0] == DEAR.key

    def test_fleets_that_could_do_the_same_work_do_not_each_buy_all_of_it(self) -> None:
        both = frozenset({FLEET, OTHER_FLEET})
        alone = decided(work(500, hours=3), pools=CLOUD)
        views = [FleetView(name, rules(), CLOUD) for name in both]

        decisions = decide(Snapshot([work(500, hours=3, fleets=both)], views), now=NOW)

        assert sum(d.launch for d in decisions.values()) == alone.launch

    def test_machines_of_another_studio_are_no_help(self) -> None:
        theirs = [machine(n, NEAR, idle_s=0, studio=OTHER_STUDIO) for n in range(20)]

        decision = decided(work(120, hours=4), pools=CLOUD, machines=theirs, shares_machines=False)

        assert decision.launch == decided(work(120, hours=4), pools=CLOUD, shares_machines=False).launch

    def test_an_earlier_deadline_has_the_machines_before_a_later_one(self) -> None:
        held = [machine(n, NEAR, idle_s=0) for n in range(8)]
        soon, later = work(60, hours=1.2), work(60, hours=1.3, step=UUID(int=6))

        assert (
            decided(soon, pools=CLOUD, machines=held).launch < decided(soon, later, pools=CLOUD, machines=held).launch
        )


class TestLettingGo:
    def test_what_was_idle_too_long_ends(self) -> None:
        idle = (machine(1, idle_s=119), machine(2, idle_s=120), machine(3, idle_s=500))

        assert set(decided(machines=idle).end) == {idle[1].id, idle[2].id}

    def test_as_many_stay_as_the_fleet_must_have(self) -> None:
        idle = tuple(machine(n, idle_s=600) for n in range(4))

        assert len(decided(machines=idle, min_machines=3).end) == 1

    def test_idlers_that_waiting_work_can_use_stay(self) -> None:
        idle = tuple(machine(n, idle_s=600) for n in range(3))

        assert len(decided(work(2), machines=idle).end) == 1

    def test_on_demand_goes_first_once_spot_covers_the_rest(self) -> None:
        held = [machine(n, NEAR) for n in range(10)] + [machine(99, SURE)]

        decision = decided(work(20, hours=8), pools=CLOUD, machines=held)

        assert held[-1].id in decision.drain

    def test_then_the_dearest(self) -> None:
        held = [machine(1, NEAR), machine(2, DEAR)]

        assert decided(work(2, hours=12), pools=CLOUD, machines=held).drain == (held[1].id,)

    def test_on_demand_is_never_left_idle(self) -> None:
        held = [machine(1, SURE, idle_s=0)]

        assert decided(pools=CLOUD, machines=held).end == (held[0].id,)

    def test_paused_it_ends_nobody(self) -> None:
        assert decided(machines=(machine(1, idle_s=999),), is_paused=True).end == ()

    def test_the_numbers_that_led_to_it_are_told(self) -> None:
        decision = decided(work(120, hours=4), pools=CLOUD, machines=(machine(1, NEAR),))

        assert decision.params == {
            "ready": 1, "starting": 0, "leaving": 0, "busy": 1, "max": 50, "waiting": 120,
            "need": 123.6, "covered": decision.params["covered"], "left_s": 14400,
        }  # fmt: skip
        assert float(decision.params["covered"]) >= 123.6


class TestWhatAPoolIsWorth:
    def test_an_unknown_pool_is_expected_to_lose_some(self) -> None:
        assert hazard(NEAR) == pytest.approx(0.15 / 3600)
        assert hazard(PoolView(NEAR.key, lost=10, machine_hours=96)) == pytest.approx(0.106 / 3600)
        assert hazard(SURE) == 0

    def test_overhead_grows_with_the_length_of_what_is_lost(self) -> None:
        assert overhead(0, 1000, 240) == 1
        assert 1 < overhead(1e-4, 100, 240) < overhead(1e-4, 3000, 240)

    def test_what_runs_is_expected_to_run_longer_than_what_is_hoped_for(self) -> None:
        assert running_s(3600, 0) == 3600
        assert 0 < hoped_s(3600, 1440) < running_s(3600, 1e-4) < 3600
        assert hoped_s(3600, 14_400) < hoped_s(3600, 1440)  # the longer it has refused, the longer it will
        assert running_s(-1, 1e-4) == hoped_s(-1, 1440) == 0


class TestAHundredJobsAtOnce:
    def test_stay_within_the_fleet_and_are_decided_on_in_order(self) -> None:
        jobs = [work(50, hours=1 + n / 10, step=UUID(int=1000 + n)) for n in range(100)]

        decision = decided(*jobs, pools=CLOUD)

        assert 40 <= decision.launch <= 50
        assert decision.params["left_s"] == 3600  # the most pressing is told of


@st.composite
def situations(draw: st.DrawFn) -> Snapshot:
    pools = [
        PoolView(
            key(f"z{n // 2}", list(Market)[n % 2]),
            price_micro=draw(st.sampled_from([0, 1, DOLLAR, 9 * DOLLAR, None])),
            slots=draw(st.integers(1, 4)),
            refused_at=NOW - timedelta(minutes=draw(st.integers(0, 90))),
            refused_until=draw(st.sampled_from([None, NOW, NOW + timedelta(minutes=1)])),
            refusals=draw(st.integers(0, 20)),
            lost=draw(st.integers(0, 500)),
            machine_hours=draw(st.floats(0, 500)),
        )
        for n in range(draw(st.integers(0, 4)))
    ]
    machines = [
        MachineView(
            UUID(int=n),
            draw(st.sampled_from([p.key for p in pools] or [key("gone")])),
            draw(st.sampled_from(list(MachineStatus))),
            NOW - timedelta(seconds=draw(st.integers(-900, 900))),  # a clock may jump
            busy=(Busy(STEP, NOW - timedelta(seconds=draw(st.integers(-900, 900))), draw(st.floats(0, 1e5))),)
            if draw(st.booleans())
            else (),
            idle_since=draw(st.sampled_from([None, NOW, NOW + HOUR, NOW - HOUR])),
            studio=draw(st.sampled_from([None, STUDIO, OTHER_STUDIO])),
        )
        for n in range(draw(st.integers(0, 8)))
    ]
    demand = [
        work(
            draw(st.integers(1, 300)),
            hours=draw(st.sampled_from([None, -1, 0, 0.1, 1, 12, 1e4])),
            seconds=draw(st.sampled_from([0.01, 60, 1e5])),
            is_urgent=draw(st.booleans()),
            sizes=(1.5, 1.0) if draw(st.booleans()) else (),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    wish = rules(
        min_machines=draw(st.integers(0, 12)),
        max_machines=draw(st.integers(0, 12)),
        is_paused=draw(st.booleans()),
        market=draw(st.sampled_from(list(FleetMarket))),
        idle_timeout=timedelta(seconds=draw(st.sampled_from([0, 60]))),
    )
    return Snapshot(demand, [FleetView(FLEET, wish, pools, machines, shares_machines=draw(st.booleans()))])


class TestAlways:
    @given(situations())
    def test_limits_hold_whatever_the_weather(self, snapshot: Snapshot) -> None:
        (fleet,) = snapshot.fleets

        decision = decide(snapshot, now=NOW)[FLEET]

        assert all(launch.count > 0 for launch in decision.launches)
        assert decision.launch == 0 or len(fleet.machines) + decision.launch <= fleet.rules.max_machines
        by_id = {m.id: m for m in fleet.machines}
        assert not any(by_id[name].busy for name in decision.end)
        assert not set(decision.end) & set(decision.drain)
        assert len({*decision.end, *decision.drain}) == len(decision.end) + len(decision.drain)
        staying = [m for m in fleet.machines if m.status is not MachineStatus.LEAVING]
        gone = len(decision.end) + len(decision.drain)
        assert not gone or len(staying) - gone >= min(fleet.rules.min_machines, fleet.rules.max_machines)
        if fleet.rules.is_paused:
            assert (decision.launch, decision.end, decision.drain) == (0, (), ())

    @given(situations())
    def test_only_pools_that_may_be_asked_are_and_each_launch_is_of_one_market(self, snapshot: Snapshot) -> None:
        (fleet,) = snapshot.fleets
        askable = {p.key for p in fleet.pools if p.refused_until is None or p.refused_until <= NOW}

        for launch in decide(snapshot, now=NOW)[FLEET].launches:
            assert set(launch.pools) <= askable
            assert {pool.market for pool in launch.pools} == {launch.market}

    @given(situations())
    def test_it_is_the_same_every_time(self, snapshot: Snapshot) -> None:
        assert decide(snapshot, now=NOW) == decide(snapshot, now=NOW)

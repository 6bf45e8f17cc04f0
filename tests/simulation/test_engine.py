"""The simulated farm: what is done is done once, what is paid was there, and the weather may be as it likes."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.fleet.pools import FleetMarket, Market
from farm.fleet.situation import FleetRules
from farm.simulation.engine import BEGIN, FleetPlan, Simulation, World
from farm.simulation.markets import Series
from farm.simulation.outcomes import Outcome, outcome_of, paid_usd
from farm.simulation.policies import BASELINES, policy
from farm.simulation.workloads import JobPlan, StepPlan
from tests.simulation.farms import HOUR, job, ours, play, scenario, step, zone


def flaky(seed: int, *, most: int = 12, hours: int = 12) -> Series:
    """A zone that gives another number of machines every ten minutes."""
    rng = random.Random(seed)
    marks = [600.0 * n for n in range(6 * hours)]
    return Series(marks, [rng.randint(0, most) for _ in marks])


def told(run: Simulation) -> Outcome:
    return outcome_of(run)


class TestARun:
    def test_it_does_each_task_once(self) -> None:
        run = play(scenario(job(step(100)), zones=[zone("a", flaky(1)), zone("b", flaky(2))]))

        assert run.lost_tasks > 0
        assert (run.done, run.jobs[0].unfinished, run.unfinished) == (100, 0, 0)
        assert run.useful_s == pytest.approx(sum(run.jobs[0].plan.steps[0].seconds))

    def test_it_is_the_same_with_the_same_seed_and_another_with_another(self) -> None:
        given_ = scenario(zones=[zone("a", flaky(1)), zone("b", flaky(2))], world=World(boot_sigma=0.3))

        first, again, other = (play(given_, seed=seed) for seed in (1, 1, 2))

        assert told(first) == told(again)
        assert told(first) != told(other)

    def test_nobody_pays_for_a_machine_after_its_end_or_before_its_launch(self) -> None:
        run = play(scenario(zones=[zone("a", flaky(1))]))

        assert not run.machines
        assert all(m.ended_s is not None and 0 <= m.launched_s <= m.ended_s <= run.now for m in run.gone)
        by_pool = Counter(m.pool.key for m in run.gone)
        assert sum(by_pool.values()) == run.launches
        counted = sum(p.machine_s for pools in run.pools for p in pools.values())
        assert told(run).machine_s == pytest.approx(counted)

    def test_bills_are_by_the_second_at_the_price_of_each_moment(self) -> None:
        steps = Series([0.0, 1000.0], [2.0, 4.0])
        run = play(scenario(job(step(4), hours=8), zones=[zone("a", usd=steps)]))

        spot = [m for m in run.gone if m.pool.is_spot]
        assert spot
        for machine in spot:
            assert machine.ended_s is not None
            cheap = max(0.0, min(machine.ended_s, 1000) - machine.launched_s)
            dear = machine.ended_s - machine.launched_s - cheap
            assert paid_usd(machine, 0) == pytest.approx((2 * cheap + 4 * dear) / HOUR)

    def test_never_more_spot_than_a_zone_gives(self) -> None:
        series = flaky(3)
        given_ = scenario(job(step(300)), zones=[zone("a", series)])
        seen: list[int] = []

        def watching(snapshot: Any, now: datetime) -> Any:
            held = sum(m.pool.market is Market.SPOT for m in snapshot.fleets[0].machines)
            seen.append(int(series.at((now - BEGIN).total_seconds())) - held)
            return ours(snapshot, now)

        play(given_, policy=watching)

        assert min(seen) >= 0

    def test_a_step_waits_for_those_before_it(self) -> None:
        first = step(5)
        second = StepPlan([60.0] * 5, after=(0,))
        run = play(scenario(job(first, second)))

        assert run.done == 10
        assert run.jobs[0].ended_s is not None
        assert run.jobs[0].ended_s > max(first.seconds) + 60

    def test_a_scene_is_opened_once_for_each_slot_and_step(self) -> None:
        run = play(scenario(job(step(60), hours=6)))

        assert run.cold == run.launches  # no machine did anything else
        assert run.load_s == pytest.approx(60 * run.cold)

    def test_faster_machines_take_less_time(self) -> None:
        usual, fast = (play(scenario(zones=[zone("a", speed=speed)], machines=1)) for speed in (1.0, 4.0))

        assert fast.useful_s == pytest.approx(usual.useful_s / 4)

    def test_a_machine_of_several_slots_does_several_tasks_at_once(self) -> None:
        run = play(scenario(job(step(40), hours=None), zones=[zone("a", slots=4)], machines=2))

        assert (run.launches, run.done) == (1, 40)
        assert told(run).machine_s < 1.5 * (run.useful_s + run.load_s + 4 * 180)

    def test_a_bound_machine_serves_one_studio_in_its_life(self) -> None:
        rules = FleetRules(0, 6, timedelta(0), False, FleetMarket.SPOT)
        fleet = FleetPlan("bound", ("a",), rules, shares_machines=False)
        run = play(
            scenario(job(studio="A", hours=None), job(studio="B", hours=None), zones=[zone("a")], fleets=[fleet])
        )

        assert run.done == 80
        assert {m.studio for m in run.gone} == {run.jobs[n].studio for n in range(2)}

    @settings(max_examples=15, deadline=None)
    @given(st.integers(0, 10_000), st.integers(0, 8), st.sampled_from([0.0, 120.0]), st.sampled_from([0.0, 0.2]))
    def test_in_any_weather_all_is_done_once_or_still_waits(
        self, seed: int, most: int, notice_s: float, faults: float
    ) -> None:
        world = World(notice_s=notice_s, never_boots=faults, on_demand_refused=faults, boot_sigma=0.3)
        zones = [zone("a", flaky(seed, most=most)), zone("b", flaky(seed + 1, most=most))]
        run = play(scenario(job(step(50, seed=seed)), zones=zones, world=world, until_s=10 * HOUR), seed=seed)

        left = sum(s.unfinished for j in run.jobs for s in j.steps)
        assert run.done + left == 50
        assert not run.machines
        assert run.useful_s + run.load_s + run.lost_s <= told(run).machine_s + 1e-6


class TestBaselines:
    @pytest.mark.parametrize("name", BASELINES)
    def test_each_gets_the_work_done(self, name: str) -> None:
        run = play(scenario(job(step(60), hours=3)), policy=policy(BASELINES[name]()))

        assert (run.done, told(run).missed) == (60, 0)

    def test_none_is_cheaper_than_ours_where_there_is_time(self) -> None:
        given_ = scenario(job(step(200), hours=4), zones=[zone("a", flaky(5)), zone("b", flaky(6), usd=3.0)])
        others = {name: told(play(given_, policy=policy(make()))).usd for name, make in BASELINES.items()}

        assert told(play(given_)).usd <= min(others.values())


class TestHostileWeather:
    def test_zones_that_never_give_anything_end_on_demand_and_in_time(self) -> None:
        run = play(scenario(job(step(60), hours=2), zones=[zone("a", 0), zone("b", 0)]))

        assert (run.done, told(run).missed) == (60, 0)
        assert not any(m.pool.is_spot for m in run.gone)

    def test_zones_that_vanish_half_way_are_replaced_in_time(self) -> None:
        gone = Series([0.0, 2400.0], [20, 0])
        run = play(scenario(job(step(200), hours=2), zones=[zone("a", gone), zone("b", gone)]))

        assert run.lost_machines > 0
        assert (run.done, told(run).missed) == (200, 0)

    def test_prices_that_double_past_on_demand_drive_it_away(self) -> None:
        wild = Series([0.0, 1800.0], [2.0, 40.0])
        run = play(scenario(job(step(200), hours=4), zones=[zone("a", usd=wild), zone("b", usd=3.0)]))

        late = [m for m in run.gone if m.pool.key.zone == "a" and m.pool.is_spot and m.launched_s > 1800]
        assert not late
        assert told(run).missed == 0

    def test_on_demand_that_is_refused_is_asked_again(self) -> None:
        world = World(on_demand_refused=0.5)
        run = play(scenario(job(step(20), hours=3), zones=[zone("a", 0), zone("b", 0)], world=world))

        assert (run.done, told(run).missed) == (20, 0)

    def test_machines_that_never_boot_are_given_up_and_paid(self) -> None:
        run = play(scenario(job(step(60), hours=3), world=World(never_boots=0.4)))

        assert run.done == 60
        assert told(run).missed == 0

    def test_a_notice_lets_short_frames_end(self) -> None:
        zones = [zone("a", flaky(1)), zone("b", flaky(2))]
        sudden, warned = (
            play(scenario(job(step(200, mean_s=60.0)), zones=zones, world=World(notice_s=notice)))
            for notice in (0, 120)
        )

        assert warned.lost_tasks < sudden.lost_tasks

    def test_a_clock_that_jumps_back_and_forth_harms_nothing(self) -> None:
        rng = random.Random(3)

        def confused(snapshot: Any, now: datetime) -> Any:
            return ours(snapshot, now + timedelta(seconds=rng.choice([0, 0, -600, 600])))

        run = play(scenario(job(step(100), hours=4)), policy=confused)

        assert (run.done, told(run).missed) == (100, 0)

    def test_a_studio_that_submits_a_hundred_jobs_at_once_starves_nobody(self) -> None:
        flood = [job(step(3, seed=n), studio="Flood", hours=None) for n in range(100)]
        small = job(step(12), studio="Small", hours=None, at=60.0)
        run = play(scenario(*flood, small, machines=20))

        outcome = told(run)
        assert (run.done, outcome.studios["Flood"].unfinished) == (312, 0)
        assert outcome.studios["Small"].makespan_s < 0.3 * outcome.studios["Flood"].makespan_s


class TestTheJobPlan:
    def test_work_counts_all_steps(self) -> None:
        assert JobPlan("j", "S", [StepPlan([1.0, 2.0]), StepPlan([3.0])]).work_s == 6

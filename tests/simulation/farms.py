"""Small made-up farms for the simulator's tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from farm.fleet import scaling
from farm.fleet.pools import FleetMarket
from farm.fleet.situation import FleetRules
from farm.simulation.engine import FleetPlan, Policy, Scenario, Simulation, World
from farm.simulation.markets import Market, Series, Zone, constant
from farm.simulation.workloads import JobPlan, StepPlan, Workload, make_step

HOUR = 3600.0


def zone(name: str, capacity: Series | int = 10, *, usd: Series | float = 2.0, **more: Any) -> Zone:
    count = constant(capacity) if isinstance(capacity, int) else capacity
    return Zone(name, constant(usd) if isinstance(usd, float) else usd, 10.0, count, **more)


def step(tasks: int = 40, *, seed: int = 1, mean_s: float = 120.0, **more: Any) -> StepPlan:
    return make_step(random.Random(seed), tasks=tasks, mean_s=mean_s, **more)


def job(*steps: StepPlan, studio: str = "Studio", hours: float | None = 2.0, at: float = 0.0) -> JobPlan:
    deadline = at + hours * HOUR if hours is not None else None
    return JobPlan("job", studio, steps or [step()], submitted_s=at, deadline_s=deadline)


def scenario(
    *jobs: JobPlan, zones: Sequence[Zone] = (zone("a"), zone("b", usd=3.0)), machines: int = 20, **more: Any
) -> Scenario:
    rules = FleetRules(0, machines, timedelta(0), False, FleetMarket.SPOT_OR_ON_DEMAND)
    fleets = more.pop("fleets", [FleetPlan("fleet", tuple(z.name for z in zones), rules)])
    return Scenario(Workload(jobs or [job()]), Market({z.name: z for z in zones}), fleets, **more)


def ours(snapshot: scaling.Snapshot, now: datetime) -> Any:
    return scaling.decide(snapshot, now=now)


def play(given: Scenario, *, policy: Policy = ours, seed: int = 1) -> Simulation:
    return Simulation(given, policy, seed=seed).run()


__all__ = ["HOUR", "World", "job", "ours", "play", "scenario", "step", "zone"]

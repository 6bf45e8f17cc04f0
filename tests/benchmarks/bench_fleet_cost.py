"""
Fleet cost: what it costs to meet deadlines on a real trace of spot machines ÷ the least that it could have cost.

25 cells: short, middling and long frames × 13, 8 and 2 zones × 1.5, 4 and 12 hours, each from several moments of the
trace: every other one in its first four days, on which the policy was tuned, the others in the rest, which are told
apart. A run is a job of 50 or 100 GPU-hours that may have 150 machines; they boot in three minutes and open the scene
in one. The farm knows render times no better than an earlier version of the scene would tell it.

The limit is a linear program that knows the whole future, start-up included; nothing can cost less. Beside it: the
naive bound, an omniscient heuristic that carries the program out anew every ten minutes, and policies that are known.
A deadline counts as missed only if adaptive on-demand machines would have met it.

`TRACES=` names the folder with `gcp_h100_spot_counts.csv` and `gcp_h100_prices.csv`; other traces with these columns
do as well. `STARTS` (8) and `PEER_STARTS` (2) shrink or widen it; `ONLY_OURS=1` leaves the others out.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import numpy as np

from farm.fleet.pools import FleetMarket
from farm.fleet.situation import Decision, FleetRules, Launch, Snapshot
from farm.simulation import markets, policies
from farm.simulation.engine import BEGIN, FleetPlan, Policy, Scenario, Simulation, World
from farm.simulation.outcomes import outcome_of
from farm.simulation.workloads import JobPlan, Workload, make_step
from tests.benchmarks import bounds
from tests.benchmarks.measure import close

STARTS = int(os.environ.get("STARTS", "8"))
PEER_STARTS = int(os.environ.get("PEER_STARTS", "2"))
ONLY_OURS = bool(os.environ.get("ONLY_OURS"))
GOAL = 1.07
MACHINES = 150
HOUR, DAY = 3600.0, 86_400.0
TUNED_S = 4 * DAY
KINDS = {"short": (1500, 120.0, 0.5), "middling": (1200, 300.0, 0.5), "long": (240, 1500.0, 0.3)}  # tasks, mean, sigma
HOURS = (1.5, 4.0, 12.0)
SCARCE = ("us-west1-a", "us-west1-b")
BOOT_S, LOAD_S = 180.0, 60.0


@dataclass(frozen=True)
class Cell:
    kind: str
    where: str
    hours: float

    def __str__(self) -> str:
        return f"{self.kind:9s} {self.where:7s} {self.hours:4.1f} h"


@dataclass(frozen=True)
class Result:
    """One run."""

    cell: Cell
    start: int
    usd: float
    lp_usd: float
    is_late: bool
    utilisation: float

    @property
    def ratio(self) -> float:
        return self.usd / self.lp_usd


class Grid:
    """The cells on a trace, and the bounds of each run."""

    def __init__(self, market: markets.Market) -> None:
        self.market = market
        names = list(market.zones)
        scarce = [z for z in SCARCE if z in names] or names[:2]
        self.zones = {"all": names, "us": [z for z in names if z.startswith("us-")] or names[::2], "scarce": scarce}
        self.cells = [
            Cell(kind, where, hours)
            for kind in KINDS
            for where in self.zones
            for hours in HOURS
            if not (kind == "long" and hours == HOURS[0] and where != "all")  # frames that hardly fit
        ]
        rng = random.Random(7)
        spans = [(0.0, TUNED_S - max(HOURS) * HOUR), (TUNED_S, market.ends_s - max(HOURS) * HOUR)]
        self.starts = [rng.uniform(*spans[n % 2]) for n in range(STARTS)]
        self.bound: dict[tuple[Cell, int], tuple[float, float]] = {}

    def scenario(self, cell: Cell, start: int) -> Scenario:
        tasks, mean_s, sigma = KINDS[cell.kind]
        step = make_step(random.Random(f"{cell.kind}{start}"), tasks=tasks, mean_s=mean_s, sigma=sigma, setup_s=LOAD_S)
        zones = self.zones[cell.where]
        rules = FleetRules(0, MACHINES, timedelta(0), False, FleetMarket.SPOT_OR_ON_DEMAND)
        return Scenario(
            workload=Workload([JobPlan("job", "studio", [step], deadline_s=cell.hours * HOUR)]),
            market=self.market.only(zones),
            fleets=[FleetPlan("fleet", tuple(zones), rules)],
            world=World(boot_s=BOOT_S),
            start_s=self.starts[start],
            until_s=3 * cell.hours * HOUR,
        )

    def bounds(self, cell: Cell, start: int) -> tuple[float, float]:
        """Give the naive bound and the program's, in dollars."""
        if (cell, start) not in self.bound:
            scenario = self.scenario(cell, start)
            zones = self.zones[cell.where]
            slots = bounds.cut(scenario.market, zones, self.starts[start], cell.hours * HOUR, MACHINES)
            work = scenario.workload.work_s
            least, _ = bounds.plan(slots, work, BOOT_S + LOAD_S, MACHINES)
            self.bound[cell, start] = bounds.naive(slots, work, MACHINES), least
        return self.bound[cell, start]

    def run(self, cell: Cell, start: int, make: Callable[[Scenario], Policy]) -> Result:
        scenario = self.scenario(cell, start)
        outcome = outcome_of(Simulation(scenario, make(scenario), seed=start).run())
        return Result(cell, start, outcome.usd, self.bounds(cell, start)[1], bool(outcome.missed), outcome.utilisation)


class Omniscient:
    """Solves the program anew whenever a zone changes, with the true future, and buys what it says for now."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.zones = list(scenario.fleets[0].zones)
        self.target: dict[str, int] = {}
        self.on_demand = 0
        self.planned_s = -math.inf

    def __call__(self, snapshot: Snapshot, now: datetime) -> dict[UUID, Decision]:
        seen = policies.look(snapshot, now)
        if not seen.tasks:
            return {seen.fleet.id: policies.toward(seen, spot=0, on_demand=0)}
        at = self.scenario.start_s + (now - BEGIN).total_seconds()
        if any(self.planned_s < change <= at for change in self.scenario.market.changes) or self.planned_s < 0:
            self._plan(seen, at)
        return {seen.fleet.id: self._toward(seen)}

    def _plan(self, seen: policies.Outlook, at: float) -> None:
        left = seen.left_s - seen.mean_s / 2 - 30
        if left <= 2 * seen.startup_s:
            return
        self.planned_s = at
        slots = bounds.cut(self.scenario.market, self.zones, at, left, MACHINES)
        held = np.array([sum(m.pool.zone == z for m in seen.spot) for z in self.zones] + [len(seen.on_demand)], float)
        _, machines = bounds.plan(slots, 1.02 * seen.rest_s, seen.startup_s, MACHINES, held=held)
        if machines is None:
            self.target, self.on_demand = {}, seen.need
            return
        self.target = {z: math.ceil(machines[n, 0] - 0.05) for n, z in enumerate(self.zones)}
        self.on_demand = math.ceil(machines[-1, 0] - 0.05)

    def _toward(self, seen: policies.Outlook) -> Decision:
        launches, surplus = [], []
        for zone, pool in ((p.key.zone, p) for p in seen.spot_pools):
            missing = self.target.get(zone, 0) - sum(m.pool == pool.key for m in seen.spot)
            if missing > 0:
                launches.append(Launch((pool.key,), missing, "plan"))
        for zone in self.zones:
            held = [m for m in seen.spot if m.pool.zone == zone]
            surplus += held[: max(0, len(held) - self.target.get(zone, 0))]
        missing = self.on_demand - len(seen.on_demand)
        if missing > 0 and seen.on_demand_pools:
            launches.append(Launch((seen.on_demand_pools[0].key,), missing, "plan"))
        surplus += seen.on_demand[: max(0, -missing)]
        drain = tuple(m.id for m in surplus if m.busy)
        return Decision(tuple(launches), drain, tuple(m.id for m in surplus if not m.busy), "plan")


def ours(scenario: Scenario) -> Policy:
    return policies.the_farms()


def baseline(name: str) -> Callable[[Scenario], Policy]:
    return lambda scenario: policies.policy(policies.BASELINES[name]())


def mean(numbers: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(n) for n in numbers))


def of_cells(results: Sequence[Result]) -> float:
    """Give the geometric mean over cells of the geometric means of their runs."""
    key = lambda r: str(r.cell)
    return mean([mean([r.ratio for r in rows]) for _, rows in itertools.groupby(sorted(results, key=key), key)])


def split(results: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    return [r for r in results if r.start % 2 == 0], [r for r in results if r.start % 2]


def on_demand_misses(grid: Grid) -> set[tuple[str, float, int]]:
    """Give the runs that adaptive on-demand misses; where it buys makes no difference to it."""
    found = set()
    for kind, hours, start in itertools.product(KINDS, HOURS, range(STARTS)):
        if grid.run(Cell(kind, "all", hours), start, baseline("on-demand-adaptive")).is_late:
            found.add((kind, hours, start))
    return found


def avoidable(results: Sequence[Result], excused: set[tuple[str, float, int]]) -> list[Result]:
    return [r for r in results if r.is_late and (r.cell.kind, r.cell.hours, r.start) not in excused]


def play(grid: Grid, name: str, make: Callable[[Scenario], Policy], starts: int) -> list[Result]:
    began = time.process_time()
    results = [grid.run(cell, start, make) for cell in grid.cells for start in range(starts)]
    late = sum(r.is_late for r in results)
    print(
        f"  {name:22s} {of_cells(results):6.3f} x the bound, {late:3d} of {len(results)} late, "
        f"utilisation {statistics.fmean(r.utilisation for r in results):.3f}, {time.process_time() - began:.0f} s",
        flush=True,
    )
    return results


def rows(results: Sequence[Result]) -> Iterator[str]:
    for cell, found in itertools.groupby(results, lambda r: r.cell):
        runs = list(found)
        each = " ".join(f"{r.ratio:.2f}{'!' if r.is_late else ''}" for r in runs)
        yield f"  {cell}  {mean([r.ratio for r in runs]):.3f}  {each}"


def main() -> None:
    folder = os.environ.get("TRACES")
    if not folder or not (Path(folder) / "gcp_h100_spot_counts.csv").exists():
        print("fleet-cost needs traces: make bench ONLY=fleet-cost TRACES=/folder/with/gcp_h100_spot_counts.csv")
        return
    traces = Path(folder)
    grid = Grid(markets.from_counts(traces / "gcp_h100_spot_counts.csv", traces / "gcp_h100_prices.csv"))
    print(f"{len(grid.cells)} cells, {STARTS} starts each; others {PEER_STARTS}; seeds are the starts' numbers")
    results = play(grid, "this farm's policy", ours, STARTS)
    print("\n".join(rows(results)))
    excused = on_demand_misses(grid)
    missed = avoidable(results, excused)
    both = [grid.bounds(r.cell, r.start) for r in results]
    print(f"  program ÷ naive bound  {mean([least / naive for naive, least in both]):.3f}")
    others: dict[str, float] = {}
    if not ONLY_OURS:
        for name in policies.BASELINES:
            others[name] = round(of_cells(play(grid, name, baseline(name), PEER_STARTS)), 3)
        others["omniscient"] = round(of_cells(play(grid, "omniscient heuristic", Omniscient, PEER_STARTS)), 3)
    tuned, later = split(results)
    close(
        "fleet-cost",
        of_cells(results),
        goal=GOAL,
        also=not missed,
        first_four_days=round(of_cells(tuned), 3),
        last_three_days=round(of_cells(later), 3) if later else None,
        late=sum(r.is_late for r in results),
        avoidably_late=len(missed),
        runs=len(results),
        naive=round(mean([r.usd / naive for r, (naive, _) in zip(results, both, strict=True)]), 3),
        others=others,
    )


if __name__ == "__main__":
    main()

"""
Simple policies, to measure the product's against: they see the same snapshot and give the same kind of answer.

Each is written for one fleet and work with one deadline, as its source has it: on-demand; greedy spot; rate matching;
Uniform Progress (Wu et al., "Can't Be Late", NSDI 2024) with its rule for one machine carried over to a fleet.
Notation: `need` = machines that finish the rest in time = rest ÷ (time left − start-up − 1.3 mean frames − 60 s).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from farm.fleet.pools import Market
from farm.fleet.scaling import decide
from farm.fleet.situation import (
    UNKNOWN_TASK_S,
    Decision,
    FleetView,
    Launch,
    MachineStatus,
    MachineView,
    PoolView,
    Snapshot,
)

LEAST_REST = 0.15  # of a frame that takes longer than was predicted


@dataclass
class Outlook:
    """What simple policies look at: the rest of the work and the machines, in seconds of one class of worker."""

    fleet: FleetView
    waiting_s: float
    tasks: int
    running_s: float
    mean_s: float
    startup_s: float
    left_s: float
    spot: list[MachineView]
    on_demand: list[MachineView]
    spot_pools: list[PoolView]  # that may be asked, cheapest first
    on_demand_pools: list[PoolView]
    rest: dict[UUID, float]

    @property
    def rest_s(self) -> float:
        return self.waiting_s + self.running_s

    @property
    def need(self) -> int:
        """Give how many machines finish the rest in time; as many as there are tasks when it cannot be done."""
        useful = self.left_s - self.startup_s - 1.3 * self.mean_s - 60
        most = self.tasks + len(self.rest)
        return min(most, math.ceil(self.rest_s / useful)) if useful > 0 else most


def rest_of(machine: MachineView, now: datetime) -> float:
    """Give how long a machine is still at work."""
    longest = 0.0
    for busy in machine.busy:
        left = busy.seconds - (now - busy.since).total_seconds()
        longest = max(longest, left, LEAST_REST * busy.seconds)
    return longest


def look(snapshot: Snapshot, now: datetime) -> Outlook:
    fleet = snapshot.fleets[0]
    waiting_s, tasks, deadline, setup_s = 0.0, 0, None, 60.0
    for demand in snapshot.demand:
        mean = next(iter(demand.seconds.values()), UNKNOWN_TASK_S)
        waiting_s, tasks, setup_s = waiting_s + mean * demand.ready, tasks + demand.ready, demand.setup_s
        if demand.deadline and (deadline is None or demand.deadline < deadline):
            deadline = demand.deadline
    present = [m for m in fleet.machines if m.status is not MachineStatus.LEAVING]
    rest = {m.id: rest_of(m, now) for m in fleet.machines if m.busy}
    busy = [b.seconds for m in fleet.machines for b in m.busy]
    askable = [p for p in fleet.pools if p.refused_until is None or p.refused_until <= now]
    askable.sort(key=lambda p: p.price_micro or 0)
    return Outlook(
        fleet=fleet,
        waiting_s=waiting_s,
        tasks=tasks,
        running_s=sum(rest.values()),
        mean_s=waiting_s / tasks if tasks else (sum(busy) / len(busy) if busy else UNKNOWN_TASK_S),
        startup_s=fleet.pools[0].boot_s + setup_s,
        left_s=(deadline - now).total_seconds() if deadline else math.inf,
        spot=[m for m in present if m.pool.market is Market.SPOT],
        on_demand=[m for m in present if m.pool.market is Market.ON_DEMAND],
        spot_pools=[p for p in askable if p.key.market is Market.SPOT],
        on_demand_pools=[p for p in askable if p.key.market is Market.ON_DEMAND],
        rest=rest,
    )


def toward(seen: Outlook, *, spot: int, on_demand: int) -> Decision:
    """Buy what is missing to these numbers of machines, drain what is beyond; without waiting work, drain all."""
    launches: list[Launch] = []
    for pools, held, wanted in (
        (seen.spot_pools, seen.spot, spot),
        (seen.on_demand_pools, seen.on_demand, on_demand),
    ):
        room = seen.fleet.rules.max_machines - len(seen.fleet.machines) - sum(launch.count for launch in launches)
        missing = min(wanted - len(held), room)
        if missing > 0 and pools:
            launches.append(Launch(tuple(p.key for p in pools), missing, "short"))
    surplus = _dearest(seen, seen.spot, len(seen.spot) - spot) + _dearest(
        seen, seen.on_demand, len(seen.on_demand) - on_demand
    )
    idle = tuple(m.id for m in surplus if not m.busy)
    return Decision(tuple(launches), drain=tuple(m.id for m in surplus if m.busy), end=idle, reason="target")


def _dearest(seen: Outlook, machines: Sequence[MachineView], count: int) -> list[MachineView]:
    if count <= 0:
        return []
    price = {p.key: p.price_micro or 0 for p in seen.fleet.pools}
    return sorted(machines, key=lambda m: (bool(m.busy), -price[m.pool], seen.rest.get(m.id, 0)))[:count]


Rule = Callable[[Outlook], tuple[int, int]]  # targets: spot, on demand


def policy(rule: Rule) -> Callable[[Snapshot, datetime], Mapping[UUID, Decision]]:
    def follow(snapshot: Snapshot, now: datetime) -> Mapping[UUID, Decision]:
        seen = look(snapshot, now)
        if not seen.tasks and not seen.fleet.machines:
            return {}
        spot, on_demand = rule(seen) if seen.tasks else (0, 0)
        return {seen.fleet.id: toward(seen, spot=spot, on_demand=on_demand)}

    return follow


class FixedOnDemand:
    """As many on-demand machines as the first estimate says, from the beginning."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, seen: Outlook) -> tuple[int, int]:
        self.count = self.count or seen.need
        return 0, self.count


def adaptive_on_demand(seen: Outlook) -> tuple[int, int]:
    """On-demand machines, more as soon as the waiting work does not fit what those that run have left."""
    horizon = seen.left_s - seen.mean_s / 2
    fits = sum(max(0.0, horizon - seen.rest.get(m.id, seen.startup_s)) for m in seen.on_demand)
    each = horizon - seen.startup_s
    missing = seen.waiting_s - fits
    more = math.ceil(missing / each) if each > 0 else seen.tasks
    return 0, len(seen.on_demand) + max(0, min(seen.tasks, more)) if missing > 0 else len(seen.on_demand)


class GreedySpot:
    """All the spot that is to be had; on demand only when nothing else can be in time, and then to the end."""

    def __init__(self) -> None:
        self.is_late = False

    def __call__(self, seen: Outlook) -> tuple[int, int]:
        most = seen.fleet.rules.max_machines
        self.is_late = self.is_late or seen.need >= 0.98 * most
        spot = min(most, seen.tasks + len(seen.rest))
        return spot, max(0, seen.need - len(seen.spot)) if self.is_late else 0


def rate_matching(seen: Outlook) -> tuple[int, int]:
    """Spot for a little more than the rate that is needed; on demand at once for what spot does not give."""
    working = len([m for m in seen.spot if m.status is MachineStatus.READY])
    return math.ceil(1.1 * seen.need) + 1, max(0, seen.need - working)


class UniformProgress:
    """
    Spot as greedily as there is (or at `rate` × need); on demand while less is done than should be by now.

    Once on demand, stay until the work is ahead by two start-ups: on demand is left for spot or for being done only.
    """

    def __init__(self, rate: float | None = None) -> None:
        self.rate = rate
        self.total_s = self.allowed_s = 0.0

    def __call__(self, seen: Outlook) -> tuple[int, int]:
        if not self.total_s:
            self.total_s, self.allowed_s = seen.rest_s, seen.left_s
        most = min(seen.fleet.rules.max_machines, seen.tasks + len(seen.rest))
        spot = most if self.rate is None else min(most, math.ceil(self.rate * seen.need) + 1)
        done = self.total_s - seen.rest_s
        should = self._expected(seen, 0)
        short = max(0, seen.need - len(seen.spot))
        if done < should:
            return spot, max(short, min(len(seen.on_demand), seen.need))
        is_ahead = done >= self._expected(seen, 2 * seen.startup_s)
        return spot, 0 if is_ahead else min(len(seen.on_demand), short)

    def _expected(self, seen: Outlook, ahead_s: float) -> float:
        """Give what should be done by now, net of start-up and the last frame."""
        net = self.allowed_s - seen.startup_s - 1.3 * seen.mean_s - 60
        past = self.allowed_s - seen.left_s - seen.startup_s + ahead_s
        return self.total_s * min(1.0, max(0.0, past / net)) if net > 0 else self.total_s


BASELINES: dict[str, Callable[[], Rule]] = {
    "on-demand": FixedOnDemand,
    "on-demand-adaptive": lambda: adaptive_on_demand,
    "greedy-spot": GreedySpot,
    "rate-matching": lambda: rate_matching,
    "uniform-progress": UniformProgress,
    "uniform-progress-rate": lambda: UniformProgress(1.25),
}

Make = Callable[[], Callable[[Snapshot, datetime], Mapping[UUID, Decision]]]


def the_farms() -> Callable[[Snapshot, datetime], Mapping[UUID, Decision]]:
    """Give the product's own policy."""
    return lambda snapshot, now: decide(snapshot, now=now)


def _maker(rule: Callable[[], Rule]) -> Make:
    return lambda: policy(rule())


MAKERS: dict[str, Make] = {name: _maker(rule) for name, rule in BASELINES.items()}

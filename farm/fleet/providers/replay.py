"""
A market from a trace: machines are granted, refused and taken back as it happened once, and nothing runs on them.

The simulator and the tests buy here; a farm may, to rehearse a policy. `Market` knows no clock and no Django. A trace
has the columns of `replay_counts.csv` (how many machines each zone would have given, at moments) and of
`replay_prices.csv` (dollars per GPU-hour by region; a zone's region is its name without the last `-x`). The two beside
this file are made up, to be usable without any other: `make_sample` says how.
"""

from __future__ import annotations

import bisect
import csv
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from farm.core.errors import Invalid
from farm.fleet.pools import Market as Kind
from farm.fleet.pools import Pace, PoolKey
from farm.fleet.providers import (
    FleetSpec,
    InsufficientCapacity,
    LaunchAnswer,
    LaunchRequest,
    Machine,
    PoolOffer,
    PoolRefusal,
)

FOLDER = Path(__file__).parent
COUNTS, PRICES = FOLDER / "replay_counts.csv", FOLDER / "replay_prices.csv"
INSTANCE_TYPE, GPU, MICRO = "replay", "NVIDIA H100 80GB HBM3", 1_000_000


@dataclass(frozen=True)
class Market:
    """What each zone would give at each moment, and what it asks. Moments are seconds from the trace's first row."""

    moments: Sequence[float]
    counts: Mapping[str, Sequence[int]]  # by zone, one for each moment
    spot_usd: Mapping[str, float]  # by zone, per GPU-hour
    on_demand_usd: Mapping[str, float]

    @classmethod
    def from_csv(cls, counts: Path = COUNTS, prices: Path = PRICES) -> Market:
        """Read a trace."""
        with counts.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        zones = rows[0][1:]
        starts = [datetime.fromisoformat(row[0]) for row in rows[1:]]
        with prices.open(newline="", encoding="utf-8") as file:
            asked = {row["region"]: row for row in csv.DictReader(file)}
        priced = {zone: asked[zone.rpartition("-")[0]] for zone in zones}
        return cls(
            moments=[(at - starts[0]).total_seconds() for at in starts],
            counts={zone: [int(row[n]) for row in rows[1:]] for n, zone in enumerate(zones, start=1)},
            spot_usd={zone: float(row["spot_usd_per_gpu_hour"]) for zone, row in priced.items()},
            on_demand_usd={zone: float(row["on_demand_usd_per_gpu_hour"]) for zone, row in priced.items()},
        )

    @property
    def zones(self) -> list[str]:
        return list(self.counts)

    def capacity(self, zone: str, at: float) -> int:
        """Say how many spot machines a zone gives in all at a moment; before the first and after the last, as then."""
        return self.counts[zone][max(0, bisect.bisect_right(self.moments, at) - 1)]

    def price(self, zone: str, market: Kind = Kind.SPOT) -> float:
        """Give the dollars of a GPU-hour."""
        return (self.spot_usd if market is Kind.SPOT else self.on_demand_usd)[zone]

    def changes(self) -> Sequence[float]:
        """Give the moments at which capacity may change."""
        return self.moments


@dataclass
class ReplayProvider:
    """Sells what a market has. On-demand machines are always to be had, as the trace knows nothing of them."""

    market: Market
    now: Callable[[], float]
    name: str = "replay"
    pace: Pace | None = None
    lag: timedelta = timedelta(0)
    running: dict[str, Machine] = field(default_factory=dict)
    answers: dict[UUID, LaunchAnswer] = field(default_factory=dict)

    def check(self, fleet: FleetSpec) -> None:
        if unknown := sorted(set(fleet.zones) - set(self.market.zones)):
            raise Invalid("zones", f"the trace has no zone {unknown[0]!r}; it has {', '.join(self.market.zones)}")

    def offers(self, fleet: FleetSpec) -> Sequence[PoolOffer]:
        return [
            PoolOffer(
                pool=PoolKey(INSTANCE_TYPE, zone, market), gpu=GPU, vcpus=16, memory_mib=262_144, vram_mib=81_920,
                on_demand_micro=round(self.market.price(zone, Kind.ON_DEMAND) * MICRO),
            )
            for zone in fleet.zones or self.market.zones
            for market in fleet.markets
        ]  # fmt: skip

    def launch(self, request: LaunchRequest) -> LaunchAnswer:
        """Take from the pools in their order as many as each has left."""
        if request.launch not in self.answers:
            self.answers[request.launch] = self._sell(request)
        return self.answers[request.launch]

    def _sell(self, request: LaunchRequest) -> LaunchAnswer:
        self.take_back()
        machines: list[Machine] = []
        refusals: list[PoolRefusal] = []
        for pool in request.pools:
            wanted = request.count - len(machines)
            granted = min(wanted, self._left(pool))
            for number in range(granted):
                machine = Machine(f"r-{request.launch}-{pool.zone}-{number}", str(request.launch), pool)
                self.running[machine.id] = machine
                machines.append(machine)
            if granted < wanted:
                why = f"{pool.zone} has {granted} of {wanted}"
                refusals.append(PoolRefusal(pool, InsufficientCapacity(provider=self.name, why=why)))
        return LaunchAnswer(machines, refusals)

    def _left(self, pool: PoolKey) -> int:
        if pool.market is Kind.ON_DEMAND:
            return 2**31
        held = sum(m.pool == pool for m in self.running.values())
        return max(0, self.market.capacity(pool.zone, self.now()) - held)

    def take_back(self) -> list[Machine]:
        """End spot machines that their zone has no longer, the newest first; give them."""
        taken = []
        for zone in self.market.zones:
            held = [m for m in self.running.values() if m.pool.zone == zone and m.pool.market is Kind.SPOT]
            excess = len(held) - self.market.capacity(zone, self.now())
            taken += held[::-1][: max(0, excess)]
        self.terminate([m.id for m in taken])
        return taken

    def forget(self, launches: Sequence[UUID]) -> None:
        for launch in launches:
            self.answers.pop(launch, None)

    def terminate(self, ids: Sequence[str]) -> None:
        for machine in ids:
            self.running.pop(machine, None)

    def machines(self, farm: UUID) -> Sequence[Machine]:
        self.take_back()
        return list(self.running.values())

    def prices(self, pools: Sequence[PoolKey]) -> Mapping[PoolKey, int]:
        return {p: round(self.market.price(p.zone, p.market) * MICRO) for p in pools if p.zone in self.market.spot_usd}


def connect(region: str) -> ReplayProvider:
    """Sell from the trace beside this file, as if it had begun with this process."""
    began = time.monotonic()
    return ReplayProvider(Market.from_csv(), lambda: time.monotonic() - began)


def make_sample(*, days: int = 3, seed: int = 1) -> Iterable[str]:
    """
    Make up a trace: zones that breathe over the day, with dips at random, one that is scarce and one that is dear.

    `python -c "from farm.fleet.providers.replay import *; print(*make_sample(), sep='\\n')"` prints what ships.
    """
    rng = random.Random(seed)
    typical = {"coast-east-a": 14, "coast-east-b": 9, "coast-west-a": 11, "plain-mid-a": 3, "isle-far-a": 16}
    dip = dict.fromkeys(typical, 0)
    yield ",".join(["at", *typical])
    start = datetime(2026, 1, 5)  # noqa: DTZ001  (a trace has its own time)
    for row in range(days * 144):
        cells = []
        for zone, usual in typical.items():
            if rng.random() < 0.02:
                dip[zone] = rng.randint(1, 12)
            daily = 1 - 0.35 * math.sin(math.pi * (row % 144) / 144) ** 2
            level = usual * daily * (0.2 if dip[zone] else 1) + rng.uniform(-1, 1)
            dip[zone] = max(0, dip[zone] - 1)
            cells.append(str(max(0, min(16, round(level)))))
        yield ",".join([(start + timedelta(minutes=10 * row)).isoformat(), *cells])

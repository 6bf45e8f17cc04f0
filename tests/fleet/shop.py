"""A provider that keeps its machines in memory, as a module of its own; what goes wrong is set by the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from farm.fleet.models import Fleet, Worker
from farm.fleet.pools import Market, Pace, PoolKey
from farm.fleet.providers import (
    AnswerLost,
    FleetSpec,
    InsufficientCapacity,
    LaunchAnswer,
    LaunchRequest,
    Machine,
    NotToBeRepeated,
    PoolOffer,
    PoolRefusal,
    ProviderError,
)

SPOT_A = PoolKey("l4.one", "zone-a", Market.SPOT)
SPOT_B = PoolKey("l4.one", "zone-b", Market.SPOT)
DEMAND_A = PoolKey("l4.one", "zone-a", Market.ON_DEMAND)
DEMAND_B = PoolKey("l4.one", "zone-b", Market.ON_DEMAND)
POOLS = (SPOT_A, SPOT_B, DEMAND_A, DEMAND_B)
DOLLAR = 1_000_000
ASKS = {SPOT_A: DOLLAR, SPOT_B: DOLLAR, DEMAND_A: 3 * DOLLAR, DEMAND_B: 3 * DOLLAR}


@dataclass
class Shop:
    """Sells L4 machines in two zones. `stock` is what a pool has left; a pool that is not in it has plenty."""

    name: str = "shop"
    pace: Pace | None = None
    lag: timedelta = timedelta(seconds=60)
    stock: dict[PoolKey, int] = field(default_factory=dict)
    asks: dict[PoolKey, int] = field(
        default_factory=lambda: {p: DOLLAR if p.market == "spot" else 3 * DOLLAR for p in POOLS}
    )
    refuses: ProviderError | None = None
    loses_answers: int = 0  # so many more times, after the work was done
    is_deaf: bool = False  # loses the request instead
    running: dict[str, Machine] = field(default_factory=dict)
    asked: list[LaunchRequest] = field(default_factory=list)
    answers: dict[UUID, LaunchAnswer] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    forgotten: list[UUID] = field(default_factory=list)
    rows_when_asked: int = 0

    def check(self, fleet: FleetSpec) -> None:
        pass

    def offers(self, fleet: FleetSpec) -> Sequence[PoolOffer]:
        return [
            PoolOffer(p, gpu="NVIDIA L4", vcpus=8, memory_mib=32_768, vram_mib=22_888, on_demand_micro=3 * DOLLAR)
            for p in POOLS
            if p.market in fleet.markets and (not fleet.zones or p.zone in fleet.zones)
        ]

    def launch(self, request: LaunchRequest) -> LaunchAnswer:
        self.asked.append(request)
        self.rows_when_asked = Worker.objects.filter(status="requested").count()
        if self.refuses:
            raise self.refuses
        if self.is_deaf:
            raise AnswerLost(provider="shop", why="nobody is there")
        if request.launch not in self.answers:
            if not request.secret:
                raise NotToBeRepeated(provider="shop", why="no such launch")
            self.answers[request.launch] = self._sell(request)
        if self.loses_answers:
            self.loses_answers -= 1
            raise AnswerLost(provider="shop", why="the line was cut")
        return self.answers[request.launch]

    def _sell(self, request: LaunchRequest) -> LaunchAnswer:
        machines: list[Machine] = []
        refusals = []
        for pool in request.pools:
            wanted = request.count - len(machines)
            granted = min(wanted, self.stock.get(pool, 10_000))
            if pool in self.stock:
                self.stock[pool] -= granted
            machines += [self._start(request, pool) for _ in range(granted)]
            if granted < wanted:
                refusals.append(PoolRefusal(pool, InsufficientCapacity(provider="shop", why="sold out")))
        return LaunchAnswer(machines, refusals)

    def _start(self, request: LaunchRequest, pool: PoolKey) -> Machine:
        machine = Machine(f"i-{len(self.running) + len(self.ended) + 1}", str(request.launch), pool)
        self.running[machine.id] = machine
        return machine

    def forget(self, launches: Sequence[UUID]) -> None:
        self.forgotten += launches

    def terminate(self, ids: Sequence[str]) -> None:
        self.ended += ids
        for machine in ids:
            self.running.pop(machine, None)

    def machines(self, farm: UUID) -> Sequence[Machine]:
        return list(self.running.values())

    def prices(self, pools: Sequence[PoolKey]) -> Mapping[PoolKey, int]:
        return {p: self.asks[p] for p in pools if p in self.asks}


def shop_fleet(**changes: Any) -> Fleet:
    """A fleet that buys at the shop, on spot unless said otherwise."""
    given: dict[str, Any] = {
        "name": "spot", "provider": "shop", "region": "here", "purposes": ["render"], "gpu_models": ["NVIDIA L4"],
        "market": "spot", "max_machines": 1000, "sharing": "studio", "software": {"blender": ["5.0.1"]},
    } | changes  # fmt: skip
    return Fleet.objects.create(**given)

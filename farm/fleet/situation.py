"""What a scaling policy sees, and what it answers: values only. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from farm.fleet.pools import FleetMarket, Market, PoolKey

UNKNOWN_TASK_S = 300.0  # what a task is taken for until one of its step has ended


class MachineStatus(StrEnum):
    STARTING = "starting"  # asked for, or booting
    READY = "ready"
    LEAVING = "leaving"  # takes nothing more


@dataclass(frozen=True)
class Busy:
    """A slot at work."""

    step: UUID
    since: datetime
    seconds: float  # expected of this task, from `since` to its end, setup included


@dataclass(frozen=True)
class MachineView:
    """A machine that is there, or was asked for."""

    id: UUID
    pool: PoolKey
    status: MachineStatus
    requested_at: datetime
    slots: int = 1
    busy: tuple[Busy, ...] = ()
    idle_since: datetime | None = None
    studio: UUID | None = None  # bound to
    worker_class: str = ""  # "": as its pool's


@dataclass(frozen=True)
class PoolView:
    """What may be bought of one instance type in one zone on one market, and what is remembered of it."""

    key: PoolKey
    worker_class: str = "cpu"
    slots: int = 1
    price_micro: int | None = 0  # of a machine-hour now; None: not known
    on_demand_micro: int | None = None  # the same type on demand
    boot_s: float = 180.0
    refused_until: datetime | None = None  # it is not asked before
    refused_at: datetime | None = None
    granted_at: datetime | None = None
    refusals: int = 0  # in a row
    granted: float = 0.0  # machines, fading (see pools.HALF_LIFE)
    refused: float = 0.0
    lost: float = 0.0  # machines that it took back in the last 24 hours
    machine_hours: float = 0.0  # that its machines were there in the last 24 hours


@dataclass(frozen=True)
class FleetRules:
    """What a person said of a fleet."""

    min_machines: int
    max_machines: int
    idle_timeout: timedelta
    is_paused: bool
    market: FleetMarket = FleetMarket.ON_DEMAND
    price_cap_micro: int | None = None  # of a GPU-hour
    max_life: timedelta = timedelta(hours=24)


@dataclass(frozen=True)
class FleetView:
    id: UUID
    rules: FleetRules
    pools: Sequence[PoolView]
    machines: Sequence[MachineView] = ()
    room: int | None = None  # machines that the farm's limits and the provider's pace leave now; None: no bound
    room_reason: str = ""
    shares_machines: bool = True  # False: a machine serves one studio in its life


@dataclass(frozen=True)
class Demand:
    """A step with tasks that wait."""

    step: UUID
    studio: UUID
    fleets: frozenset[UUID]  # that may run it
    ready: int
    deadline: datetime | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)  # mean of one task by worker class that can run it
    spread: float = 1.5  # ninth decile of a task ÷ mean
    sizes: Sequence[float] = ()  # of the longest waiting tasks, ÷ mean, longest first; (): all alike
    setup_s: float = 60.0  # a machine's first task of it
    is_urgent: bool = False  # somebody waits: a machine for each task
    waiting_since: datetime | None = None


@dataclass(frozen=True)
class Snapshot:
    demand: Sequence[Demand]
    fleets: Sequence[FleetView]


@dataclass(frozen=True)
class Launch:
    """Machines wished for from pools of one market, the first pool first."""

    pools: tuple[PoolKey, ...]
    count: int
    reason: str
    params: Mapping[str, int | float | str] = field(default_factory=dict)

    @property
    def market(self) -> Market:
        return self.pools[0].market


@dataclass(frozen=True)
class Decision:
    """What a fleet is to do now, and why."""

    launches: tuple[Launch, ...] = ()
    drain: tuple[UUID, ...] = ()  # take nothing more; end when what runs has ended
    end: tuple[UUID, ...] = ()  # idle or still starting: end at once
    reason: str = "content"
    params: Mapping[str, int | float | str] = field(default_factory=dict)

    @property
    def launch(self) -> int:
        """Say how many machines are wished for in all."""
        return sum(launch.count for launch in self.launches)

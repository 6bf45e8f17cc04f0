"""Who sells machines: one module a provider, all behind one small protocol with typed errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast
from uuid import UUID

from farm.core.errors import Refusal
from farm.fleet.pools import Market, Pace, PoolKey


class ProviderError(Refusal):
    """The provider {provider} could not do it: {why}"""

    code = "provider-error"


class InsufficientCapacity(ProviderError):
    """{provider} has no capacity in this pool at the moment ({why}). Another pool may have."""

    code = "insufficient-capacity"


class Throttled(ProviderError):
    """{provider} asks to wait {retry_after} seconds ({why})."""

    code = "throttled"


class QuotaExceeded(ProviderError):
    """The quota {quota} of {provider} allows {limit}, {needed} are needed. Raise it at {where}."""

    code = "quota-exceeded"


class Unauthorized(ProviderError):
    """{provider} does not let the farm do this ({why}). Check the farm's credentials and policy."""

    code = "unauthorized"


class AnswerLost(ProviderError):
    """{provider} did not answer ({why}). Whether it did what was asked is not known; asking again is safe."""

    code = "answer-lost"


class NotToBeRepeated(ProviderError):
    """{provider} was never asked for this launch ({why}), and what it was to be asked with is gone."""

    code = "not-to-be-repeated"


@dataclass(frozen=True)
class FleetSpec:
    """What a provider needs to know of a fleet: where, which machines, and the provider's own settings."""

    name: str
    region: str = "local"
    zones: Sequence[str] = ()
    instance_types: Sequence[str] = ()
    gpu_models: Sequence[str] = ()
    markets: Sequence[Market] = (Market.ON_DEMAND,)
    price_cap_micro: int | None = None  # of a GPU-hour; of a machine-hour without GPUs
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PoolOffer:
    """A pool that a fleet may buy from, and what a machine of it has."""

    pool: PoolKey
    gpu: str = ""
    slots: int = 1
    vcpus: int = 0
    memory_mib: int = 0
    vram_mib: int = 0
    on_demand_micro: int | None = None  # a machine-hour of this type on demand, as the catalogue has it


@dataclass(frozen=True)
class LaunchRequest:
    """
    Machines to start, all of one market.

    `launch` makes asking twice start them once: a new attempt is another launch. `secret` is what each of them
    registers with, once; it is empty when an earlier request is only repeated. `studio` is set where the machines serve
    no other from the start.
    """

    launch: UUID
    fleet: FleetSpec
    pools: Sequence[PoolKey]
    count: int
    secret: str
    farm: UUID
    farm_url: str
    max_life_s: int
    boot_timeout_s: int = 900
    studio: UUID | None = None


LOCAL_POOL = PoolKey("local", "local", Market.ON_DEMAND)


@dataclass(frozen=True)
class Machine:
    """A machine as the provider knows it, and the launch that it came from."""

    id: str
    launch: str
    pool: PoolKey = LOCAL_POOL
    is_running: bool = True  # or will be; False: it was stopped, and still costs


@dataclass(frozen=True)
class PoolRefusal:
    """A pool that gave nothing, or less than it was asked for, and why."""

    pool: PoolKey
    error: ProviderError


@dataclass(frozen=True)
class LaunchAnswer:
    """What came of a request: machines, and what was refused beside them."""

    machines: Sequence[Machine]
    refusals: Sequence[PoolRefusal] = ()


class Provider(Protocol):
    """What the farm asks of a seller of machines, in one region."""

    name: str
    pace: Pace | None  # how fast machines may be launched; None: at any pace
    lag: timedelta  # how far its list of machines may be behind its answers

    def check(self, fleet: FleetSpec) -> None:
        """
        Look whether a fleet says all that it takes to buy for it.

        :raises Invalid: a setting is missing, unknown or makes no sense
        """

    def offers(self, fleet: FleetSpec) -> Sequence[PoolOffer]:
        """Give the pools that the fleet may buy from."""

    def launch(self, request: LaunchRequest) -> LaunchAnswer:
        """
        Start machines; asking twice with one launch starts them once. Fewer than asked may come, or none:
        the answer names the pools that refused. What holds for all of them is raised:

        :raises InsufficientCapacity: there are none for now
        :raises Throttled: the provider asks to wait `retry_after` seconds
        :raises QuotaExceeded: a quota must be raised first
        :raises Unauthorized: the credentials do not allow it
        :raises AnswerLost: whether it was done is not known; ask again with the same launch
        :raises NotToBeRepeated: a repetition of what never reached the provider
        """

    def forget(self, launches: Sequence[UUID]) -> None:
        """Remove what was kept with the provider for these launches: all their machines have registered or are gone."""

    def terminate(self, ids: Sequence[str]) -> None:
        """End machines; one that is gone already is no error."""

    def machines(self, farm: UUID) -> Sequence[Machine]:
        """Give the farm's machines that exist now, running or starting."""

    def prices(self, pools: Sequence[PoolKey]) -> Mapping[PoolKey, int]:
        """Give the present price of a machine-hour in each pool, in micro-dollars, where it is known."""


@cache
def provider(name: str, region: str = "local") -> Provider:
    """
    Give a provider by name, in a region of its own.

    :raises ProviderError: there is none
    """
    connect = getattr(_module(name), "connect", None)
    if connect is None:
        raise ProviderError(provider=name, why="there is no such provider")
    return cast(Provider, connect(region))


def _module(name: str) -> object:
    address = f"farm.fleet.providers.{name}"
    try:
        return import_module(address) if name.isidentifier() and name[0] != "_" else None
    except ModuleNotFoundError as error:
        if error.name != address:
            raise  # it is there, and lacks something
        return None

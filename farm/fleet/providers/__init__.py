"""Who sells machines: one module a provider, all behind one small protocol with typed errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from farm.core.errors import Refusal


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


@dataclass(frozen=True)
class Order:
    """One machine to start. `token` makes asking twice start it once; the agent registers with `secret`."""

    token: str
    secret: str


@dataclass(frozen=True)
class LaunchRequest:
    fleet: str
    settings: Mapping[str, Any]
    farm_url: str
    orders: Sequence[Order]
    max_life_s: int


@dataclass(frozen=True)
class Machine:
    """A machine as the provider knows it. `token` is the order's it was started for."""

    id: str
    token: str


class Provider(Protocol):
    """What the farm asks of a seller of machines."""

    def launch(self, request: LaunchRequest) -> Sequence[Machine]:
        """
        Start machines; asking twice with one token starts one. Fewer than asked may come back.

        :raises InsufficientCapacity: this pool is sold out for now; ask another
        :raises Throttled: the provider asks to wait `retry_after` seconds
        :raises QuotaExceeded: a quota must be raised first
        :raises Unauthorized: the credentials do not allow it
        """

    def terminate(self, ids: Sequence[str]) -> None:
        """End machines; one that is gone already is no error."""

    def machines(self, fleet: str) -> Sequence[Machine]:
        """Give the fleet's machines that exist now, running or starting."""

    def slots_per_machine(self, settings: Mapping[str, Any]) -> int:
        """Say how many slots a machine will have, to plan with before the first one has registered."""


def provider(name: str) -> Provider:
    """
    Give a provider by name.

    :raises ProviderError: there is none
    """
    try:
        module = import_module(f"farm.fleet.providers.{name}") if name.isidentifier() and name[0] != "_" else None
        return cast(Provider, cast(Any, module).PROVIDER)
    except (ModuleNotFoundError, AttributeError):
        raise ProviderError(provider=name, why="there is no such provider") from None

"""What no policy may exceed: the farm's limits on machines, launches and money, and how much room they leave. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The farm's limits; None: there is none."""

    machines: int | None = None
    launches_per_hour: int | None = None
    micro_per_hour: int | None = None
    micro_per_day: int | None = None


@dataclass(frozen=True)
class Standing:
    """Where the farm stands: machines there or coming, launched within the hour, and what they cost."""

    machines: int = 0
    launches_per_hour: int = 0
    micro_per_hour: int = 0
    micro_per_day: int = 0


@dataclass(frozen=True)
class Room:
    """How many machines may still be launched, and which limits leave no room for all that were wished for."""

    machines: int
    reached: tuple[str, ...] = ()


def room(limits: Limits, standing: Standing, *, wished: int, price_micro: int) -> Room:
    """Say how many of the wished machines, at this price an hour each, the limits allow."""
    short = {name: max(0, most) for name, most in _most(limits, standing, price_micro) if most < wished}
    return Room(min(short.values(), default=wished), tuple(sorted(short)))


def _most(limits: Limits, standing: Standing, price_micro: int) -> Iterator[tuple[str, int]]:
    if limits.machines is not None:
        yield "machines", limits.machines - standing.machines
    if limits.launches_per_hour is not None:
        yield "launches-per-hour", limits.launches_per_hour - standing.launches_per_hour
    if limits.micro_per_hour is not None and price_micro:
        yield "micro-per-hour", (limits.micro_per_hour - standing.micro_per_hour) // price_micro
    if limits.micro_per_day is not None and price_micro:
        # An hour of all that runs, and of what is launched, must still fit the day.
        left = limits.micro_per_day - standing.micro_per_day - standing.micro_per_hour
        yield "micro-per-day", left // price_micro

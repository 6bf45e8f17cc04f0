"""
A pool is one instance type in one zone, on the spot market or on demand: what is bought, refused and remembered. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

FIRST_WAIT = timedelta(minutes=2)  # after a refusal for want of capacity, doubled each time
LONGEST_WAIT = timedelta(minutes=15)
HALF_LIFE = timedelta(minutes=30)  # of what is remembered of grants and refusals


class Market(StrEnum):
    """How a machine is paid."""

    SPOT = "spot"  # cheap, and taken back at two minutes' notice
    ON_DEMAND = "on-demand"


class FleetMarket(StrEnum):
    """Which markets a fleet may buy on."""

    SPOT = "spot"
    SPOT_OR_ON_DEMAND = "spot-or-on-demand"  # on demand only for what spot cannot do in time
    ON_DEMAND = "on-demand"


MARKETS: dict[FleetMarket, tuple[Market, ...]] = {
    FleetMarket.SPOT: (Market.SPOT,),
    FleetMarket.SPOT_OR_ON_DEMAND: (Market.SPOT, Market.ON_DEMAND),
    FleetMarket.ON_DEMAND: (Market.ON_DEMAND,),
}


@dataclass(frozen=True, order=True)
class PoolKey:
    """Names a pool within a provider's region."""

    instance_type: str
    zone: str
    market: Market

    def __str__(self) -> str:
        return f"{self.instance_type} in {self.zone}, {self.market}"


@dataclass(frozen=True)
class Pace:
    """How fast a provider lets machines be launched in a region: so many at once, then so many a second."""

    burst: int
    per_second: float
    slack_s: float = 1.0  # by how much our clock and the provider's may differ

    def room(self, launches: Iterable[tuple[datetime, int]], *, now: datetime, throttled: int = 0) -> int:
        """
        Give how many machines may be launched now, after these launches (when they were done, machines), oldest first.

        `throttled` times in a row the provider said that it was too many: others may be using its bucket too.
        """
        level, at = float(self.burst), None
        for moment, count in launches:
            if at is not None:
                level += (moment - at).total_seconds() * self.per_second
            level, at = min(level, self.burst) - count, moment
        if at is not None:
            level += (now - at).total_seconds() * self.per_second
        left = self.burst if level >= self.burst else level - self.slack_s * self.per_second
        return max(0, int(left)) >> min(throttled, 10)

    @property
    def memory(self) -> timedelta:
        """After so long without a launch all is forgotten."""
        return timedelta(seconds=self.burst / self.per_second)


def wait_after(refusals: int) -> timedelta:
    """Say how long to leave a pool alone that has refused so many times in a row."""
    doublings = min(max(0, refusals - 1), 10)
    return min(LONGEST_WAIT, FIRST_WAIT * (1 << doublings))


def faded(amount: float, *, since: timedelta) -> float:
    """Give what is left of a remembered number after so long."""
    return float(amount * 0.5 ** (since / HALF_LIFE))

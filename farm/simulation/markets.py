"""Where machines are bought: how many each zone gives and at what price, from a trace or made up."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from farm.fleet.providers import replay

UNLIMITED = 1_000_000


@dataclass(frozen=True)
class Series:
    """A number that changes at moments; before the first it is the first."""

    moments: Sequence[float]
    values: Sequence[float]

    def at(self, moment: float) -> float:
        return self.values[max(0, bisect.bisect_right(self.moments, moment) - 1)]

    @cached_property
    def _areas(self) -> list[float]:
        spans = [(b - a) * v for a, b, v in zip(self.moments, self.moments[1:], self.values, strict=False)]
        return list(accumulate(spans, initial=0.0))

    def area(self, start: float, end: float) -> float:
        """Integrate from start to end."""
        return self._area_to(end) - self._area_to(start)

    def _area_to(self, moment: float) -> float:
        place = max(0, bisect.bisect_right(self.moments, moment) - 1)
        return self._areas[place] + (moment - self.moments[place]) * self.values[place]


def constant(value: float) -> Series:
    return Series((0.0,), (value,))


@dataclass(frozen=True)
class Zone:
    """Machines of one type in one zone. Dollars of a machine-hour; moments are seconds from the trace's first row."""

    name: str
    spot_usd: Series
    on_demand_usd: float
    capacity: Series  # spot machines it gives in all
    worker_class: str = replay.GPU
    speed: float = 1.0  # tasks of a workload take their seconds ÷ speed
    slots: int = 1


@dataclass(frozen=True)
class Market:
    zones: Mapping[str, Zone]

    @property
    def ends_s(self) -> float:
        """Say when the trace's last row begins."""
        return max(zone.capacity.moments[-1] for zone in self.zones.values())

    def only(self, names: Sequence[str]) -> Market:
        return Market({name: self.zones[name] for name in names})

    @cached_property
    def changes(self) -> list[float]:
        """Give the moments at which any zone's capacity may change."""
        return sorted({moment for zone in self.zones.values() for moment in zone.capacity.moments})

    @cached_property
    def on_demand_usd(self) -> float:
        """Give the least that a machine-hour costs on demand."""
        return min(zone.on_demand_usd for zone in self.zones.values())


def from_counts(counts: Path = replay.COUNTS, prices: Path = replay.PRICES) -> Market:
    """Read a trace of counts by zone and list prices by region (the columns of the replay provider's)."""
    told = replay.Market.from_csv(counts, prices)
    return Market(
        {
            zone: Zone(
                zone, constant(told.spot_usd[zone]), told.on_demand_usd[zone], Series(told.moments, told.counts[zone])
            )
            for zone in told.zones
        }
    )

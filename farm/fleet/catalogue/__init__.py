"""
What there is to rent: GPUs with their memory and render speed, instance types, prices on demand. Data with its source.

The figures are starting points: measured frames, the providers' live prices and what a machine says of itself go before
them. What is not known is None, never zero. Pure.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

FOLDER = Path(__file__).parent
REFERENCE = "NVIDIA L4"  # its speed is 1
MICRO = 1_000_000


@dataclass(frozen=True)
class Gpu:
    """A GPU as its maker's library names it. `score`: Blender's benchmark, in samples per minute."""

    model: str
    vram_mib: int
    score: float | None


@dataclass(frozen=True)
class InstanceType:
    """A kind of machine. Its slots are its GPUs; without one it is a single slot of CPU."""

    provider: str
    name: str
    gpu: str
    gpus: int
    vcpus: int
    memory_mib: int

    @property
    def slots(self) -> int:
        return max(1, self.gpus)


@dataclass(frozen=True)
class Source:
    """Where a table comes from, and of which day."""

    table: str
    source: str
    as_of: str


def gpu(model: str) -> Gpu | None:
    """Give a GPU by the name its library gives it."""
    return gpus().get(model)


def speed(model: str) -> float | None:
    """Say how many times as fast as an L4 a GPU renders; None where nobody measured."""
    found, reference = gpu(model), gpus()[REFERENCE].score
    return found.score / reference if found and found.score and reference else None


def instance_type(provider: str, name: str) -> InstanceType | None:
    """Give a kind of machine by its provider's name."""
    return instance_types().get((provider, name))


def types_with(provider: str, models: Iterable[str]) -> list[InstanceType]:
    """Give the kinds of machine that have one of these GPUs, those with the fewest first."""
    wanted = set(models)
    found = [t for t in instance_types().values() if t.provider == provider and t.gpu in wanted]
    return sorted(found, key=lambda t: (t.gpu, t.gpus, t.vcpus))


def on_demand_micro(provider: str, region: str, name: str) -> int | None:
    """Give the price of a machine-hour on demand, in micro-dollars; None where it is not known."""
    return prices().get((provider, region, name))


def sources() -> list[Source]:
    """Say where the figures come from."""
    return [_source(table) for table in ("gpus", "instance_types", "prices")]


@cache
def gpus() -> Mapping[str, Gpu]:
    """Give all GPUs by name."""
    rows = (Gpu(r["model"], int(r["vram_mib"]), float(r["score"]) if r["score"] else None) for r in _rows("gpus"))
    return MappingProxyType({row.model: row for row in rows})


@cache
def instance_types() -> Mapping[tuple[str, str], InstanceType]:
    """Give all kinds of machine by provider and name."""
    rows = (
        InstanceType(r["provider"], r["instance_type"], r["gpu"], int(r["gpus"]), int(r["vcpus"]), int(r["memory_mib"]))
        for r in _rows("instance_types")
    )
    return MappingProxyType({(row.provider, row.name): row for row in rows})


@cache
def prices() -> Mapping[tuple[str, str, str], int]:
    """Give all prices on demand by provider, region and type, in micro-dollars an hour."""
    return MappingProxyType(
        {
            (r["provider"], r["region"], r["instance_type"]): round(float(r["usd_per_hour"]) * MICRO)
            for r in _rows("prices")
        }
    )


def _rows(table: str) -> list[dict[str, str]]:
    lines = (FOLDER / f"{table}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def _source(table: str) -> Source:
    told = dict(
        line.removeprefix("# ").split(": ", 1)
        for line in (FOLDER / f"{table}.csv").read_text(encoding="utf-8").splitlines()
        if line.startswith(("# source: ", "# as of: "))
    )
    return Source(table, told["source"], told["as of"])

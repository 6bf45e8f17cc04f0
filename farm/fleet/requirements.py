"""
What a step needs and what a slot has, in OpenJD's words (2023-09 "host requirements"). Pure.

Amounts: `worker.vcpu`, `worker.memory` (MiB), `worker.gpu`, `worker.gpu.memory` (MiB), `worker.disk.scratch` (GiB).
Attributes: `worker.os.family`, `worker.cpu.arch`, and the farm's own `farmhand:fleet` and `farmhand:<software>`.
A limit (`farmhand:amount.limit.<name>`, licences for instance) is an amount too, but of the farm, not of a slot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from farm.core.errors import Refusal


class UnknownCapability(Refusal):
    """The template asks for {name}, which this farm does not know. Known: {known}."""

    code = "unknown-capability"
    status = 422


AMOUNTS = ("worker.vcpu", "worker.memory", "worker.gpu", "worker.gpu.memory", "worker.disk.scratch")
LIMIT = "farmhand:limit."
ATTRIBUTES = ("worker.os.family", "worker.cpu.arch", "farmhand:fleet", "farmhand:blender")


@dataclass(frozen=True)
class Requirements:
    """Least amounts, and for each attribute the values of which one is needed."""

    amounts: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"amounts": dict(self.amounts), "attributes": {k: list(v) for k, v in self.attributes.items()}}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Requirements:
        return cls(stored.get("amounts", {}), stored.get("attributes", {}))

    @cached_property
    def limits(self) -> Mapping[str, float]:
        """How much of each of the farm's limits a task uses."""
        return {name.removeprefix(LIMIT): used for name, used in self.amounts.items() if name.startswith(LIMIT)}

    @cached_property
    def of_slot(self) -> Mapping[str, float]:
        """The least amounts that one slot must have."""
        return {name: least for name, least in self.amounts.items() if not name.startswith(LIMIT)}

    @property
    def needs_gpu(self) -> bool:
        return self.amounts.get("worker.gpu", 0) > 0


@dataclass(frozen=True)
class Capabilities:
    """What one slot has."""

    amounts: Mapping[str, float]
    attributes: Mapping[str, Sequence[str]]


def parse_host_requirements(host: Mapping[str, Any]) -> Requirements:
    """
    Read OpenJD's `hostRequirements` of a step.

    :raises UnknownCapability: an amount or attribute that no worker of this farm states
    """
    amounts = {}
    for wish in host.get("amounts", []):
        name = _plain(wish["name"], "amount.")
        if name not in AMOUNTS and not _is_limit(name):
            raise UnknownCapability(
                name=wish["name"], known=", ".join(f"amount.{a}" for a in AMOUNTS), field="template"
            )
        amounts[name] = float(wish.get("min", 1 if _is_limit(name) else 0))
    attributes = {}
    for wish in host.get("attributes", []):
        name = _plain(wish["name"], "attr.")
        if name not in ATTRIBUTES:
            raise UnknownCapability(
                name=wish["name"], known=", ".join(f"attr.{a}" for a in ATTRIBUTES), field="template"
            )
        attributes[name] = list(wish.get("anyOf") or wish.get("allOf") or [])
    return Requirements(amounts, attributes)


def _is_limit(name: str) -> bool:
    return name.startswith(LIMIT) and len(name) > len(LIMIT)


def _plain(name: str, kind: str) -> str:
    """`attr.worker.os.family` → `worker.os.family`; `farmhand:attr.fleet` → `farmhand:fleet`."""
    vendor, colon, rest = name.rpartition(":")
    return f"{vendor}{colon}{rest.removeprefix(kind)}"


def shortfall(needed: Requirements, has: Capabilities) -> tuple[str, Any] | None:
    """Give the first requirement that the slot does not meet, as (name, what is needed); None when it meets all."""
    for name, least in needed.of_slot.items():
        if has.amounts.get(name, 0) < least:
            return name, least
    for name, wanted in needed.attributes.items():
        if not set(wanted) & set(has.attributes.get(name, ())):
            return name, list(wanted)
    return None


_LACKS = {
    "purpose": "does not take work of this kind ({needed})",
    "worker.vcpu": "has fewer than {needed:g} cores a slot",
    "worker.memory": "has less than {needed:,.0f} MiB of memory a slot",
    "worker.gpu": "has no GPU",
    "worker.gpu.memory": "has less than {needed:,.0f} MiB of GPU memory",
    "worker.disk.scratch": "has less than {needed:,.0f} GiB of disk",
    "farmhand:fleet": "is not the fleet asked for",
}


def lack_in_words(name: str, needed: Any) -> str:
    """Say what a fleet lacks, as `shortfall` gives it."""
    if words := _LACKS.get(name):
        return words.format(needed=needed)
    values = " or ".join(str(value) for value in needed)
    return f"has no {name.removeprefix('farmhand:')} {values}"


def capabilities_of(
    *,
    cores: int,
    memory_mib: int,
    disk_mib: int,
    slots: int,
    gpu_model: str,
    vram_mib: int,
    fleet: str,
    software: Mapping[str, Sequence[str]],
) -> Capabilities:
    """Give what one slot of a machine has: its GPU, and its share of the rest."""
    return Capabilities(
        amounts={
            "worker.vcpu": cores / slots,
            "worker.memory": memory_mib / slots,
            "worker.gpu": 1 if gpu_model else 0,
            "worker.gpu.memory": vram_mib,
            "worker.disk.scratch": math.floor(disk_mib / 1024),
        },
        attributes={
            "worker.os.family": ("linux",),
            "worker.cpu.arch": ("x86_64",),
            "farmhand:fleet": (fleet,),
            **{f"farmhand:{name}": [minor(v) for v in versions] for name, versions in software.items()},
        },
    )


def minor(version: str) -> str:
    """`5.0.1` → `5.0`: what scenes and workers are matched by."""
    return ".".join(version.split(".")[:2])


def version_key(version: str) -> tuple[int, ...]:
    """Order versions by number, not by letter: 4.10 comes after 4.9."""
    return tuple(int(p) for p in version.split(".") if p.isdigit())

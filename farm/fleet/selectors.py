"""What fleets offer, and who is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from farm.fleet.models import Fleet, Worker
from farm.fleet.moves import WorkerStatus
from farm.fleet.providers import provider
from farm.fleet.requirements import Capabilities, Requirements, capabilities_of, shortfall


@dataclass(frozen=True)
class Offer:
    """A fleet and the best that one of its slots is known to have."""

    fleet: str
    purposes: Sequence[str]
    worker_class: str
    capabilities: Capabilities


def offers() -> list[Offer]:
    """Give what each fleet offers: by its latest workers, or by its settings before the first one has come."""
    found = []
    for fleet in Fleet.objects.order_by("name"):
        rows = Worker.objects.filter(fleet=fleet, registered_at__isnull=False).order_by("-id")
        latest = rows.only(
            "id", "slots", "cores", "memory_mib", "disk_mib"
        ).first()  # all that a person's request may read
        stated: dict[str, Any] = (
            {
                "cores": latest.cores,
                "memory_mib": latest.memory_mib,
                "disk_mib": latest.disk_mib,
                "slots": len(latest.slots),
                "gpu_model": latest.slots[0]["gpu_model"],
                "vram_mib": latest.slots[0]["vram_mib"],
            }
            if latest
            else _promised(fleet)
        )
        capabilities = capabilities_of(**stated, fleet=fleet.name, software=fleet.software)
        found.append(Offer(fleet.name, fleet.purposes, stated["gpu_model"] or "cpu", capabilities))
    return found


def _promised(fleet: Fleet) -> dict[str, Any]:
    promised = fleet.settings.get("promises", {})
    return {
        "cores": promised.get("cores", 1_000),
        "memory_mib": promised.get("memory_mib", 1_000_000),
        "disk_mib": promised.get("disk_mib", 1_000_000),
        "slots": provider(fleet.provider).slots_per_machine(fleet.settings),
        "gpu_model": promised.get("gpu_model", ""),
        "vram_mib": promised.get("vram_mib", 0),
    }


Lack = tuple[str, Any]


def able_among(
    offered: Sequence[Offer], requirements: Requirements, *, purpose: str
) -> tuple[list[Offer], dict[str, Lack]]:
    """Give the offers that could run a step, and for each other fleet what it lacks."""
    able: list[Offer] = []
    lacking: dict[str, Lack] = {}
    for offer in offered:
        lack = ("purpose", purpose) if purpose not in offer.purposes else shortfall(requirements, offer.capabilities)
        if lack:
            lacking[offer.fleet] = lack
        else:
            able.append(offer)
    return able, lacking


def fleets_for(requirements: Requirements, *, purpose: str) -> tuple[list[Offer], dict[str, Lack]]:
    """Give the fleets that could run a step, and for each other one what it lacks."""
    return able_among(offers(), requirements, purpose=purpose)


def ready_workers() -> list[Worker]:
    """Give the workers that may take work."""
    return list(Worker.objects.filter(status=WorkerStatus.READY).select_related("fleet"))

"""What fleets offer, and who is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from farm.fleet import supply
from farm.fleet.models import Farm, Fleet, Pool, Worker
from farm.fleet.moves import WorkerStatus
from farm.fleet.providers import provider
from farm.fleet.requirements import Capabilities, Requirements, capabilities_of, shortfall

PLENTY = 1_000_000  # of what nobody has said how much there is


@dataclass(frozen=True)
class Offer:
    """A class of worker that a fleet has, and the best that one of its slots is known to have."""

    fleet: str
    purposes: Sequence[str]
    worker_class: str
    capabilities: Capabilities


def offers() -> list[Offer]:
    """Give what each fleet offers, one for each class of worker: by its latest workers, or by what it could buy."""
    return [offer for fleet in Fleet.objects.order_by("name") for offer in _offers_of(fleet)]


def _offers_of(fleet: Fleet) -> Iterator[Offer]:
    promised = {told["gpu_model"]: told for told in _promised(fleet)}
    for stated in (promised | {told["gpu_model"]: told for told in _seen(fleet)}).values():
        capabilities = capabilities_of(**stated, fleet=fleet.name, software=fleet.software)
        yield Offer(fleet.name, fleet.purposes, stated["gpu_model"] or "cpu", capabilities)


def _seen(fleet: Fleet) -> Iterator[dict[str, Any]]:
    """Give what the latest worker said it has; of a fleet that buys, only if it bought it."""
    rows = Worker.objects.filter(fleet=fleet, registered_at__isnull=False).order_by("-id")
    # all that a person's request may read
    latest = rows.only("id", "slots", "cores", "memory_mib", "disk_mib").first()
    if latest:
        yield {
            "cores": latest.cores,
            "memory_mib": latest.memory_mib,
            "disk_mib": latest.disk_mib,
            "slots": len(latest.slots),
            "gpu_model": latest.slots[0]["gpu_model"],
            "vram_mib": latest.slots[0]["vram_mib"],
        }


def _promised(fleet: Fleet) -> Iterator[dict[str, Any]]:
    """Give what its machines would have, for each GPU that it could buy; of the local fleet, what its settings say."""
    if fleet.provider == "local":
        if not Worker.objects.filter(fleet=fleet, registered_at__isnull=False).only("id").exists():
            yield _locally(fleet)
        return
    best: dict[str, Pool] = {}
    for pool in supply.known_pools(fleet):
        if pool.gpu not in best or pool.memory_mib / pool.slots > best[pool.gpu].memory_mib / best[pool.gpu].slots:
            best[pool.gpu] = pool
    for gpu, pool in best.items():
        yield {
            "cores": pool.vcpus,
            "memory_mib": pool.memory_mib,
            "disk_mib": int(fleet.settings.get("disk_gib", PLENTY)) * 1024,
            "slots": pool.slots,
            "gpu_model": gpu,
            "vram_mib": pool.vram_mib,
        }


def _locally(fleet: Fleet) -> dict[str, Any]:
    promised = fleet.settings.get("promises", {})
    return {
        "cores": promised.get("cores", 1_000),
        "memory_mib": promised.get("memory_mib", PLENTY),
        "disk_mib": promised.get("disk_mib", PLENTY),
        "slots": slots_per_machine(fleet),
        "gpu_model": promised.get("gpu_model", ""),
        "vram_mib": promised.get("vram_mib", 0),
    }


def slots_per_machine(fleet: Fleet) -> int:
    """Say how many slots a fleet's next machine will most likely have."""
    if fleet.provider == "local":
        return provider("local").offers(supply.spec_of(fleet))[0].slots
    pools = supply.known_pools(fleet)
    return pools[0].slots if pools else 1


def the_farm(*, lock: bool = False) -> Farm:
    """Give the row of the whole farm; one that has none yet gets one, without limits."""
    rows = Farm.objects.select_for_update() if lock else Farm.objects.all()
    found = rows.first()
    if found is None:
        Farm.objects.bulk_create([Farm()], ignore_conflicts=True)
        found = rows.get()
    return found


def is_farm_paused() -> bool:
    return Farm.objects.filter(is_paused=True).exists()


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
    return able, {fleet: lack for fleet, lack in lacking.items() if fleet not in {offer.fleet for offer in able}}


def fleets_for(requirements: Requirements, *, purpose: str) -> tuple[list[Offer], dict[str, Lack]]:
    """Give the fleets that could run a step, and for each other one what it lacks."""
    return able_among(offers(), requirements, purpose=purpose)


def ready_workers() -> list[Worker]:
    """Give the workers that may take work."""
    return list(Worker.objects.filter(status=WorkerStatus.READY).select_related("fleet"))

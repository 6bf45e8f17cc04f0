"""The wide range of an order before it is submitted: frames foreseen and priced, for each fleet that could run it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from farm.billing.pricing import STANDARD_TIER
from farm.billing.selectors import rates_of
from farm.dispatch.estimating import Basis, Seen, Size, Wide, foresee
from farm.dispatch.models import Pace
from farm.dispatch.quotes import Range, estimate
from farm.fleet.catalogue import speed
from farm.fleet.models import Fleet
from farm.fleet.selectors import Offer, slots_per_machine
from farm.jobs.models import Job
from farm.jobs.moves import Purpose
from farm.jobs.orders import JobOrder, Plan, plan
from farm.scenes.defaults import defaults_of
from farm.scenes.models import SceneVersion
from farm.studios.models import Studio

JOBS_OF_SCENE = 5
JOBS_OF_STUDIO = 30
# Nobody benchmarks a slot of a processor; a core or two of a server draw about this much of what an L4 draws.
CPU_SPEED = 0.04


@dataclass(frozen=True)
class Estimate:
    """What an order would cost on one fleet's class of worker, and how long it would take there."""

    offer: Offer
    wide: Wide
    slots: int  # how many at once the time is for
    tasks: int
    rate: int | None
    range: Range | None  # without a rate there is no price, and nothing is told


def estimate_order(
    studio: Studio, *, order: JobOrder, version: SceneVersion | None, now: datetime
) -> tuple[Plan, list[Estimate]]:
    """
    Estimate what an order comes to, for each class of worker that could run all of it. Creates nothing.

    :raises Refusal: as `jobs.orders.plan`
    """
    planned = plan(order, version=version)
    offers = _offers_of_all_steps(planned)
    seen = [*_of_scene(order, version), *_of_studio(order, version)]
    size = size_of(version, {name: value["value"] for name, value in planned.expansion.parameters.items()})
    rates = dict(
        rates_of(studio.id, studio.currency, now=now)
        .filter(tier=STANDARD_TIER)
        .values_list("worker_class", "micro_per_gpu_hour")
    )
    speeds = _speeds({o.worker_class for o in offers} | {each.worker_class for each in seen})
    tasks = planned.expansion.task_count
    slots = _slots({o.fleet for o in offers}, most=tasks)
    return planned, [
        _estimate(
            offer,
            foresee(seen, worker_class=offer.worker_class, size=size, speeds=speeds),
            tasks=tasks,
            slots=slots[offer.fleet],
            rate=rates.get(offer.worker_class),
        )
        for offer in offers
    ]


def _estimate(offer: Offer, wide: Wide, *, tasks: int, slots: int, rate: int | None) -> Estimate:
    found = None if rate is None else estimate(wide.prediction, tasks=tasks, slots=slots, rate=rate)
    return Estimate(offer, wide, slots, tasks, rate, found)


def _offers_of_all_steps(planned: Plan) -> list[Offer]:
    """Give the offers that could run every step, in the fleets' order."""
    first, *others = planned.steps
    also = [{(o.fleet, o.worker_class) for o in step.offers} for step in others]
    return [o for o in first.offers if all((o.fleet, o.worker_class) in step for step in also)]


def _slots(fleets: set[str], *, most: int) -> dict[str, int]:
    """Say how many slots of each fleet could work on so many tasks at once."""
    rows = Fleet.objects.filter(name__in=fleets)
    return {row.name: max(1, min(most, row.max_machines * slots_per_machine(row))) for row in rows}


def _speeds(classes: Iterable[str]) -> dict[str, float | None]:
    return {name: CPU_SPEED if name == "cpu" else speed(name) for name in classes}


# --- what was rendered before


def _of_scene(order: JobOrder, version: SceneVersion | None) -> list[Seen]:
    """Give the frames of the scene's latest jobs, whichever version they rendered."""
    if version is None or not order.renderer:
        return []
    jobs = _jobs(order).filter(scene_version__scene=version.scene_id).select_related("scene_version")[:JOBS_OF_SCENE]
    return [seen for job in jobs for seen in _seen(job, Basis.SCENE, size_of(job.scene_version, _values(job)))]


def _of_studio(order: JobOrder, version: SceneVersion | None) -> list[Seen]:
    """Give the frames of other scenes; their size is not looked at, which the wider range allows for."""
    if not order.renderer:
        return []
    jobs = _jobs(order).exclude(scene_version__scene=version.scene_id if version else None)[:JOBS_OF_STUDIO]
    return [seen for job in jobs for seen in _seen(job, Basis.STUDIO, Size())]


def _jobs(order: JobOrder) -> QuerySet[Job]:
    rows = Job.objects.filter(renderer=order.renderer, purpose=Purpose.RENDER).order_by("-id")
    return rows.defer("template")


def _seen(job: Job, basis: Basis, size: Size) -> list[Seen]:
    return [Seen(basis, pace.worker_class, size, pace.recent_ms) for pace in Pace.objects.filter(step__job=job)]


def _values(job: Job) -> dict[str, str]:
    return {name: str(value["value"]) for name, value in job.parameters.items()}


def size_of(version: SceneVersion | None, values: Mapping[str, Any]) -> Size:
    """Say how much there is to draw in a frame of a scene, ordered with these parameters."""
    if version is None or not version.report or version.refusal:
        return Size()
    texts = {name: str(value) for name, value in values.items()}
    scene = defaults_of(version.report, texts)
    width_height = scene.size_at(_number(texts.get("ResolutionPercent")))
    return Size(
        pixels=None if width_height is None else width_height[0] * width_height[1],
        samples=_number(texts.get("Samples")) or scene.samples,
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0

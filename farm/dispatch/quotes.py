"""Quotes: what a job will cost and how long it will take, as a range, from frames that have been rendered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from farm.billing.models import QuotedRate
from farm.billing.pricing import amount
from farm.dispatch.models import Pace, Quote
from farm.dispatch.predicting import Prediction, predict
from farm.jobs.models import Job, Step
from farm.jobs.moves import Approval


@dataclass(frozen=True)
class Range:
    """Micro-units and seconds at p10, p50 and p90."""

    p10_micro: int
    p50_micro: int
    p90_micro: int
    p10_s: int
    p50_s: int
    p90_s: int


def estimate(prediction: Prediction, *, tasks: int, slots: int, rate: int) -> Range:
    """
    Estimate so many more tasks on so many slots. Pure.

    The range of one task is taken as the range of their mean: frames of one scene vary together (a heavy camera
    position lasts for many), so that summing does not narrow the range as independence would promise.
    """
    waves = math.ceil(tasks / max(1, slots))

    def money(ms: int) -> int:
        return amount(ms * tasks, gpus=1, rate=rate)

    def time(ms: int) -> int:
        return math.ceil(ms * waves / 1000)

    p = prediction
    return Range(money(p.p10), money(p.p50), money(p.p90), time(p.p10), time(p.p50), time(p.p90))


def rates_of_job(job: Job) -> dict[str, int]:
    """Give the rates the job was quoted, in micro-units per GPU-hour, by worker class."""
    return dict(
        QuotedRate.objects.filter(cost_object=job.cost_object_id).values_list("worker_class", "micro_per_gpu_hour")
    )


def quote(job: Job, *, slots: int = 1) -> list[Quote]:
    """Make and keep a quote for what remains of a job, one for each class of worker that has rendered frames of it."""
    return Quote.objects.bulk_create(draft(job, slots=slots, now=timezone.now()))


def draft(job: Job, *, slots: int = 1, now: datetime) -> list[Quote]:
    """Make a quote as `quote` does, and keep nothing of it."""
    rates = rates_of_job(job)
    left = {s.id: s.pending + s.ready + s.leased for s in Step.objects.filter(job=job)}
    rows = []
    for pace in Pace.objects.filter(step__in=list(left)):
        prediction = predict(pace.recent_ms)
        if prediction is None or pace.worker_class not in rates or not left[pace.step_id]:
            continue
        found = estimate(prediction, tasks=left[pace.step_id], slots=slots, rate=rates[pace.worker_class])
        rows.append(_row(job, pace.worker_class, left[pace.step_id], slots, found, now))
    return rows


def _row(job: Job, worker_class: str, tasks: int, slots: int, found: Range, now: datetime) -> Quote:
    basis = "scouts" if job.approval in {Approval.SCOUTING, Approval.WAITING} else "frames"
    return Quote(
        studio_id=job.studio_id,
        job=job,
        worker_class=worker_class,
        basis=basis,
        tasks=tasks,
        slots=slots,
        at=now,
        **vars(found),
    )


def latest_quotes(job: UUID) -> list[Quote]:
    """Give the latest quote of each class of worker."""
    return list(Quote.objects.filter(job=job).order_by("worker_class", "-id").distinct("worker_class"))

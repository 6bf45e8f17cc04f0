"""How far several jobs are, and what they will cost: what a list of jobs shows beside each, in a few questions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from farm.dispatch.models import Pace, Quote
from farm.dispatch.predicting import predict
from farm.jobs.models import Job, Step

# The index of live attempts has those at work alone, however many ended before them.
_SLOTS = """
SELECT job_id, count(DISTINCT (worker_id, slot)) FROM dispatch_attempt
 WHERE status IN ('assigned', 'started') AND job_id = ANY(%s) GROUP BY job_id
"""


@dataclass(frozen=True)
class Forecast:
    """A job's slots at work, the seconds left at that, and the ranges it was told last, one a class of worker."""

    job: UUID
    slots: int
    eta_s: int | None
    quotes: list[Quote]


def forecasts(ids: Sequence[UUID]) -> list[Forecast]:
    """Give the forecasts of those of these jobs that there are, in the order asked."""
    there = set(Job.objects.filter(pk__in=ids).values_list("pk", flat=True))
    jobs = [job for job in dict.fromkeys(ids) if job in there]
    left = _left(jobs)
    paces = _paces(step for job in jobs for step in left[job])
    slots, quotes = _slots(jobs), _quotes(jobs)
    return [Forecast(j, slots.get(j, 0), eta_s(left[j], paces, slots=slots.get(j, 0)), quotes[j]) for j in jobs]


def eta_s(left: Mapping[UUID, int], paces: Mapping[UUID, int], *, slots: int) -> int | None:
    """
    Predict the seconds until so many tasks of each step are done on so many slots, from the milliseconds of one.

    None while nothing is at work, or nothing was learnt of a step that has tasks left. Pure.
    """
    if not slots or any(count and step not in paces for step, count in left.items()):
        return None
    return math.ceil(sum(count * paces.get(step, 0) for step, count in left.items()) / 1000 / slots)


def _left(jobs: Sequence[UUID]) -> dict[UUID, dict[UUID, int]]:
    left: dict[UUID, dict[UUID, int]] = {job: {} for job in jobs}
    rows = Step.objects.filter(job__in=jobs).values_list("job", "pk", "pending", "ready", "leased")
    for job, step, *counts in rows:
        left[job][step] = sum(counts)
    return left


def _paces(steps: Iterable[UUID]) -> dict[UUID, int]:
    rows = Pace.objects.filter(step__in=list(steps)).order_by("pk").values_list("step", "recent_ms")
    return {step: found.p50 for step, recent in rows if (found := predict(recent))}


def _slots(jobs: Sequence[UUID]) -> dict[UUID, int]:
    with connection.cursor() as cursor:
        cursor.execute(_SLOTS, [list(jobs)])
        return dict(cursor.fetchall())


def _quotes(jobs: Sequence[UUID]) -> dict[UUID, list[Quote]]:
    found: dict[UUID, list[Quote]] = defaultdict(list)
    rows = Quote.objects.filter(job__in=jobs).order_by("job", "worker_class", "-id").distinct("job", "worker_class")
    for row in rows.select_related("job__cost_object").defer("job__template"):
        found[row.job_id].append(row)
    return found

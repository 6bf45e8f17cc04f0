"""This farm's own past as work for the simulator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection

from farm.fleet.catalogue import speed
from farm.fleet.providers import replay
from farm.jobs.models import Job
from farm.jobs.moves import Purpose
from farm.simulation.workloads import JobPlan, StepPlan, Workload

_TIMES = """
SELECT a.job_id, a.step_id, a.worker_class, array_agg(a.render_ms ORDER BY a.id), avg(nullif(a.setup_ms, 0))
  FROM dispatch_attempt a WHERE a.status = 'succeeded' AND a.job_id = ANY(%s) GROUP BY 1, 2, 3 ORDER BY 2, 3
"""


def past_work(*, since: datetime, until: datetime) -> Workload:
    """
    Give the jobs that were submitted in a span, with the times their frames took.

    A frame is worth as many seconds as a machine of the market would have taken, where the catalogue knows both GPUs.
    What failed or never ran is left out, and so is what waited for what: a job's steps may run side by side.
    """
    rows = Job.objects.filter(created_at__gte=since, created_at__lt=until).select_related("studio", "project")
    jobs = list(rows.order_by("created_at", "pk"))
    steps = _steps_of([job.pk for job in jobs])
    return Workload(
        [_plan(job, steps[job.pk], since) for job in jobs if job.pk in steps],
        weights={job.studio.name: job.studio.share for job in jobs},
    )


def _steps_of(jobs: Sequence[UUID]) -> dict[UUID, list[StepPlan]]:
    times: dict[tuple[UUID, UUID], list[float]] = defaultdict(list)
    setups: dict[UUID, float] = {}
    with connection.cursor() as cursor:
        cursor.execute(_TIMES, [list(jobs)])
        for job, step, worker_class, render_ms, setup_ms in cursor.fetchall():
            pace = speed_of(worker_class)
            times[job, step] += [ms / 1000 * pace for ms in render_ms]
            setups[step] = float(setup_ms or 0) / 1000
    found: dict[UUID, list[StepPlan]] = defaultdict(list)
    for (job, step), seconds in times.items():
        found[job].append(StepPlan(seconds, setup_s=setups[step]))
    return found


def speed_of(worker_class: str) -> float:
    """Say how fast a class of worker renders beside the machines of the market; 1 where that is not known."""
    ours, theirs = speed(worker_class), speed(replay.GPU)
    return ours / theirs if ours and theirs else 1.0


def _plan(job: Job, steps: Sequence[StepPlan], since: datetime) -> JobPlan:
    return JobPlan(
        name=str(job.pk),
        studio=job.studio.name,
        project=job.project.name,
        steps=steps,
        submitted_s=(job.created_at - since).total_seconds(),
        deadline_s=(job.deadline - since).total_seconds() if job.deadline else None,
        priority=job.priority,
        is_inspection=job.purpose == Purpose.INSPECTION,
    )

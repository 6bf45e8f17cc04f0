"""What must become true of jobs: whole versions are inspected, finished jobs end, counters are right."""

from __future__ import annotations

import logging
from uuid import UUID

from celery import shared_task
from django.db import IntegrityError, transaction
from django.utils import timezone

from farm.core.errors import Refusal
from farm.jobs.models import Job, Step
from farm.jobs.moves import LIVE_JOBS, TaskStatus
from farm.jobs.services import inspect_version
from farm.jobs.status import count_tasks, lock_jobs, settle_jobs
from farm.scenes.selectors import versions_without_report

logger = logging.getLogger(__name__)


@shared_task(name="farm.jobs.reconcilers.inspect_versions")
def inspect_versions() -> None:
    """Order an inspection for each whole version that has neither a report nor an inspection."""
    for version in versions_without_report():
        try:
            inspect_version(version, renderer="blender", now=timezone.now())
        except Refusal as refusal:  # one version's trouble is no other's
            logger.warning("version %s cannot be inspected: %s", version.id, refusal)
        except IntegrityError:  # ordered by another run at this moment
            logger.info("version %s is being inspected already", version.id)


@shared_task(name="farm.jobs.reconcilers.close_jobs")
def close_jobs() -> None:
    """Audit counters against a fresh count, and settle jobs that should have moved."""
    for job in Job.objects.filter(status__in=LIVE_JOBS).values_list("id", flat=True):
        with transaction.atomic():
            lock_jobs([job])
            _audit_counters(job)
            settle_jobs([job], now=timezone.now())


def _audit_counters(job: UUID) -> None:
    steps = {s.id: s for s in Step.objects.filter(job=job).defer("document", "outputs")}
    for step_id, counts in count_tasks(steps).items():
        if counts != steps[step_id].counts:
            logger.error("step %s: counters said %s, there are %s", step_id, steps[step_id].counts, counts)
            Step.objects.filter(pk=step_id).update(**{str(s): counts[s] for s in TaskStatus})

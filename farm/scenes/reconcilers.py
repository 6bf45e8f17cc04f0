"""What the scenes room does by the clock: take away what nobody references."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from celery import shared_task
from django.utils import timezone

from farm.scenes import services

logger = logging.getLogger(__name__)

UNREFERENCED = timedelta(days=7)
UNFINISHED = timedelta(hours=24)


@shared_task
def collect_garbage() -> None:
    """Delete blobs that no version has listed for 7 days, and parts that nobody has added to for 24 hours."""
    collect(now=timezone.now())


def collect(*, now: datetime) -> tuple[int, int]:
    """Collect once; give how many blobs and how many unfinished uploads were deleted."""
    uploads = services.abort_stale_uploads(before=now - UNFINISHED)
    blobs = services.delete_unreferenced(before=now - UNREFERENCED)
    if blobs or uploads:
        logger.info("garbage: %d unreferenced blobs and %d unfinished uploads deleted", blobs, uploads)
    return blobs, uploads

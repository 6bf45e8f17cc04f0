"""What the core does by the clock: forget answers that nobody asks for any more."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from celery import shared_task
from django.utils import timezone

from farm.core.models import IdempotencyKey

logger = logging.getLogger(__name__)

KEPT = timedelta(days=7)  # a client that was cut off asks again in minutes; a queue that was stopped, after a weekend
BATCH = 10_000


@shared_task(name="farm.core.reconcilers.forget_answers")
def forget_answers() -> None:
    """Delete the answers stored under idempotency keys a week ago."""
    if forgotten := forget(now=timezone.now()):
        logger.info("%d stored answers forgotten", forgotten)


def forget(*, now: datetime) -> int:
    """Forget once, in batches so that no transaction is long; give how many."""
    old = IdempotencyKey.objects.filter(at__lt=now - KEPT)
    total = 0
    while ids := list(old.values_list("pk", flat=True)[:BATCH]):
        total += IdempotencyKey.objects.filter(pk__in=ids).delete()[0]
    return total

"""What must become true of launches and pools: no answer stays lost, no price gets old."""

from __future__ import annotations

import logging

from celery import shared_task
from django.utils import timezone

from farm.fleet import launches, supply
from farm.fleet.models import Fleet
from farm.fleet.providers import ProviderError

logger = logging.getLogger(__name__)


@shared_task(name="farm.fleet.reconcilers.settle_launches")
def settle_launches() -> None:
    """Ask again for launches whose answer was lost; forget those whose machines are all there."""
    launches.settle_launches(now=timezone.now())


@shared_task(name="farm.fleet.reconcilers.refresh_pools")
def refresh_pools() -> None:
    """Ask providers what they sell and for how much, and let running spot machines cost what they cost now."""
    for fleet in Fleet.objects.order_by("name"):
        try:
            supply.refresh_pools(fleet, now=timezone.now())
        except ProviderError as error:  # one provider's trouble is no other's
            logger.warning("fleet %s: %s", fleet.name, error)

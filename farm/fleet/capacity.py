"""A policy's decisions carried out: launches, drains and ends, each written down with the numbers that led to it."""

from __future__ import annotations

from datetime import datetime

from farm.fleet.launches import Wish, launch
from farm.fleet.models import Fleet, Worker
from farm.fleet.moves import WorkerStatus
from farm.fleet.services import drain, end_workers
from farm.fleet.situation import Decision


def carry_out(fleet: Fleet, decision: Decision, *, now: datetime) -> int:
    """
    Do what was decided for a fleet; give how many machines came.

    :raises ProviderError: what the provider sells is not known yet, and it does not say
    """
    if decision.end:
        end_workers(fleet, decision.end, reason="idle", only_idle=True, now=now)
    for worker in Worker.objects.filter(pk__in=decision.drain, status=WorkerStatus.READY).order_by("pk"):
        drain(worker, reason="surplus")
    return sum(launch(fleet, wish, now=now) for wish in _wishes(decision))


def _wishes(decision: Decision) -> list[Wish]:
    return [Wish(w.count, w.pools, reason=w.reason, params={**decision.params, **w.params}) for w in decision.launches]

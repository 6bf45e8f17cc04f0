"""A policy's decisions carried out: launches, drains and ends, each written down with the numbers that led to it."""

from __future__ import annotations

from datetime import datetime

from farm.fleet.launches import Wish, launch
from farm.fleet.models import Fleet
from farm.fleet.scaling import Decision
from farm.fleet.services import end_workers


def carry_out(fleet: Fleet, decision: Decision, *, now: datetime) -> int:
    """
    Do what was decided for a fleet; give how many machines came.

    :raises ProviderError: what the provider sells is not known yet, and it does not say
    """
    if decision.end:
        end_workers(fleet, decision.end, reason=decision.reason, only_idle=True, now=now)
    if not decision.launch:
        return 0
    return launch(fleet, Wish(decision.launch, reason=decision.reason, params=decision.params), now=now)

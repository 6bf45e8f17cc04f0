"""What was decided, with the numbers that led to it: append-only, for people to read."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from farm.fleet.models import Fleet, FleetDecision

MOST_REASON = 64


def record(fleet: Fleet, kind: str, reason: str, *, worker: UUID | None = None, **params: Any) -> None:
    """Write a launch, refusal, drain, end or alarm down."""
    plain = json.loads(json.dumps(params, default=str))
    FleetDecision.objects.create(fleet=fleet, worker_id=worker, kind=kind, reason=reason[:MOST_REASON], params=plain)

"""What was decided, with the numbers that led to it: append-only, for people to read."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from farm.fleet.models import Fleet, FleetDecision

MOST_REASON = 64
KINDS = ("launch", "refused", "drain", "end", "alarm")

_SENTENCES = {
    "launch": "{count} machines asked for ({reason}), {wished} were wished for.",
    "refused": "{count} of {asked} machines did not come: {sentence}",
    "drain": "A machine takes nothing more: {reason}.",
    "end": "Ended: {reason}.",
    "alarm": "Nothing is launched: {reason}. {machines} machines are there, {wished} more were wished for.",
}


class _Known(dict[str, Any]):
    """Decisions of earlier versions may lack a number."""

    def __missing__(self, name: str) -> str:
        return "?"


def sentence(decision: FleetDecision) -> str:
    """Say a decision in English."""
    known = _Known(decision.params) | {"reason": decision.reason}
    return _SENTENCES.get(decision.kind, "{reason}").format_map(_Known(known))


def record(fleet: Fleet, kind: str, reason: str, *, worker: UUID | None = None, **params: Any) -> None:
    """Write a launch, refusal, drain, end or alarm down."""
    plain = json.loads(json.dumps(params, default=str))
    FleetDecision.objects.create(fleet=fleet, worker_id=worker, kind=kind, reason=reason[:MOST_REASON], params=plain)

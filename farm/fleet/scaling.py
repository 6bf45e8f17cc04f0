"""How many machines a fleet should have: a snapshot in, decisions with reasons out. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID


@dataclass(frozen=True)
class FleetRules:
    min_machines: int
    max_machines: int
    idle_timeout: timedelta
    is_paused: bool


@dataclass(frozen=True)
class Idler:
    """A ready worker that holds nothing."""

    worker: UUID
    since: datetime


@dataclass(frozen=True)
class FleetState:
    """What runs and boots, and how many slots the work that only waits could use."""

    present: int  # machines that run, boot or were asked for, and may take work
    slots_per_machine: int
    busy_slots: int
    wanted_slots: int  # tasks ready that this fleet could run, each on a slot of its own
    idle: tuple[Idler, ...]
    leaving: int = 0  # machines that take nothing more, but are still there


@dataclass(frozen=True)
class Decision:
    launch: int
    end: tuple[UUID, ...]
    reason: str
    params: dict[str, int]


def decide(rules: FleetRules, state: FleetState, *, now: datetime) -> Decision:
    """Start what ready work can use, up to the fleet's limit; end what has been idle too long, oldest idler first."""
    demand_slots = state.busy_slots + state.wanted_slots
    needed = max(rules.min_machines, math.ceil(demand_slots / max(1, state.slots_per_machine)))
    target = min(needed, rules.max_machines)
    numbers = {
        "present": state.present,
        "leaving": state.leaving,
        "needed": needed,
        "max": rules.max_machines,
        "ready": state.wanted_slots,
        "busy": state.busy_slots,
    }
    if rules.is_paused:
        return Decision(0, (), "paused", numbers)
    if target > state.present:
        room = max(0, rules.max_machines - state.present - state.leaving)
        return Decision(min(target - state.present, room), (), "work-ready" if room else "limit", numbers)
    surplus = state.present - target
    tired = sorted((i for i in state.idle if now - i.since >= rules.idle_timeout), key=lambda i: i.since)
    return Decision(0, tuple(i.worker for i in tired[:surplus]), "idle", numbers)

"""The statuses of an attempt. Pure."""

from __future__ import annotations

from enum import StrEnum

from farm.core.moves import Moves


class AttemptStatus(StrEnum):
    ASSIGNED = "assigned"  # leased to a worker that has not said so yet
    STARTED = "started"  # its worker has it
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # the machine's or the farm's fault
    LOST = "lost"  # its lease expired; until somebody else takes the task, it may come back
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"  # somebody else had the task when it ended


ATTEMPT_MOVES: Moves[AttemptStatus] = {
    AttemptStatus.ASSIGNED: {
        AttemptStatus.STARTED,
        AttemptStatus.SUCCEEDED,
        AttemptStatus.FAILED,
        AttemptStatus.INTERRUPTED,
        AttemptStatus.LOST,
        AttemptStatus.CANCELLED,
        AttemptStatus.SUPERSEDED,
    },
    AttemptStatus.STARTED: {
        AttemptStatus.SUCCEEDED,
        AttemptStatus.FAILED,
        AttemptStatus.INTERRUPTED,
        AttemptStatus.LOST,
        AttemptStatus.CANCELLED,
        AttemptStatus.SUPERSEDED,
    },
    AttemptStatus.LOST: {
        AttemptStatus.STARTED,
        AttemptStatus.SUCCEEDED,
        AttemptStatus.FAILED,
        AttemptStatus.INTERRUPTED,
        AttemptStatus.CANCELLED,
        AttemptStatus.SUPERSEDED,
    },
    AttemptStatus.SUCCEEDED: set(),
    AttemptStatus.FAILED: set(),
    AttemptStatus.INTERRUPTED: set(),
    AttemptStatus.CANCELLED: set(),
    AttemptStatus.SUPERSEDED: set(),
}

LIVE_ATTEMPTS = (AttemptStatus.ASSIGNED, AttemptStatus.STARTED)
OPEN_ATTEMPTS = (*LIVE_ATTEMPTS, AttemptStatus.LOST)

"""The statuses of a worker. Pure."""

from __future__ import annotations

from enum import StrEnum

from farm.core.moves import Moves


class WorkerStatus(StrEnum):
    REQUESTED = "requested"  # the provider was asked
    BOOTING = "booting"  # the provider says that the machine exists
    READY = "ready"  # it registered
    DRAINING = "draining"  # takes nothing more
    GONE = "gone"  # with a cause


WORKER_MOVES: Moves[WorkerStatus] = {
    WorkerStatus.REQUESTED: {WorkerStatus.BOOTING, WorkerStatus.READY, WorkerStatus.GONE},
    WorkerStatus.BOOTING: {WorkerStatus.READY, WorkerStatus.GONE},
    WorkerStatus.READY: {WorkerStatus.DRAINING, WorkerStatus.GONE},
    WorkerStatus.DRAINING: {WorkerStatus.GONE},
    WorkerStatus.GONE: set(),
}

LIVE_WORKERS = (WorkerStatus.READY, WorkerStatus.DRAINING)
STARTING_WORKERS = (WorkerStatus.REQUESTED, WorkerStatus.BOOTING)
PRESENT_WORKERS = (*STARTING_WORKERS, *LIVE_WORKERS)

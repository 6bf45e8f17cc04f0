"""The statuses of workers and launches. Pure."""

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


class LaunchStatus(StrEnum):
    ASKED = "asked"  # the provider's answer is not known yet
    ANSWERED = "answered"  # with machines, or some
    REFUSED = "refused"  # with none
    LOST = "lost"  # never answered; what came of it, the audit has found


LAUNCH_MOVES: Moves[LaunchStatus] = {
    LaunchStatus.ASKED: {LaunchStatus.ANSWERED, LaunchStatus.REFUSED, LaunchStatus.LOST},
    LaunchStatus.ANSWERED: set(),
    LaunchStatus.REFUSED: set(),
    LaunchStatus.LOST: set(),
}

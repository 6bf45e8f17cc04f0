"""How a task's change spreads: task → step → job. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farm.jobs.moves import JobStatus, StepStatus, TaskStatus

Counts = Mapping[TaskStatus, int]

STORM_FIRST = 3
STORM_SHARE = 0.10
STORM_LEAST = 20


def step_status(counts: Counts, *, waits: bool) -> StepStatus:
    """Give a step's status from how many tasks it has in each, and whether it waits for others."""
    total = sum(counts.values())
    open_tasks = counts[TaskStatus.PENDING] + counts[TaskStatus.READY] + counts[TaskStatus.LEASED]
    if open_tasks:
        return StepStatus.WAITING if waits else StepStatus.ACTIVE
    if counts[TaskStatus.FAILED]:
        return StepStatus.FAILED
    if counts[TaskStatus.CANCELLED] == total:
        return StepStatus.CANCELLED
    return StepStatus.SUCCEEDED


def job_status(steps: Sequence[StepStatus], depends_on: Sequence[Sequence[int]]) -> JobStatus | None:
    """
    Give the status a job ends in, or None while it has not ended.

    `depends_on[i]` are the places of the steps that step i depends on; they come before it. A step that waits for one
    that failed or was cancelled can never run: it ends the job as that one did.
    """
    ends: list[StepStatus] = []
    is_cut = False
    for status, needed in zip(steps, depends_on, strict=True):
        if status is StepStatus.WAITING:
            blocks = {ends[i] for i in needed} & {StepStatus.FAILED, StepStatus.CANCELLED}
            if blocks:
                status = StepStatus.FAILED if StepStatus.FAILED in blocks else StepStatus.CANCELLED
                is_cut = True
        ends.append(status)
    if StepStatus.ACTIVE in ends or StepStatus.WAITING in ends:
        return None
    if StepStatus.FAILED in ends:
        return JobStatus.FAILED
    return JobStatus.CANCELLED if is_cut or set(ends) == {StepStatus.CANCELLED} else JobStatus.SUCCEEDED


def is_storm(*, succeeded: int, failed: int, total: int) -> bool:
    """Say whether a job fails so much that it should stop and ask: its first 3 tasks, or 10 % of at least 20."""
    if not succeeded and failed >= min(STORM_FIRST, total):
        return total > failed
    ended = succeeded + failed
    return ended >= STORM_LEAST and failed >= STORM_SHARE * ended and total > ended


def halving_ranks(count: int) -> list[int]:
    """
    Rank `count` frames so that a movie exists early: first, middle, last, then halving.

    Gives the rank (0 runs first) of each position.
    """
    ranks = [-1] * count
    order = iter(range(count))
    for position in (0, (count - 1) // 2, count - 1):
        if 0 <= position < count and ranks[position] < 0:
            ranks[position] = next(order)
    stride = 1
    while stride < count:
        stride *= 2
    while stride >= 1:
        for position in range(0, count, stride):
            if ranks[position] < 0:
                ranks[position] = next(order)
        stride //= 2
    return ranks

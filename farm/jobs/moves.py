"""The statuses of tasks, steps and jobs, and the moves between them. Pure."""

from __future__ import annotations

from enum import StrEnum

from farm.core.moves import Moves


class TaskStatus(StrEnum):
    PENDING = "pending"  # waits for other tasks, or for a person's approval
    READY = "ready"  # waits for a worker
    LEASED = "leased"  # a worker has it
    SUCCEEDED = "succeeded"  # its outputs are verified
    FAILED = "failed"  # given up; a person may retry it
    CANCELLED = "cancelled"


TASK_MOVES: Moves[TaskStatus] = {
    TaskStatus.PENDING: {TaskStatus.READY, TaskStatus.CANCELLED},
    # succeeded, failed: a late end that nobody overtook; pending: what it depends on is done again
    TaskStatus.READY: {
        TaskStatus.LEASED,
        TaskStatus.SUCCEEDED,
        TaskStatus.FAILED,
        TaskStatus.CANCELLED,
        TaskStatus.PENDING,
    },
    TaskStatus.LEASED: {
        TaskStatus.SUCCEEDED,
        TaskStatus.READY,
        TaskStatus.FAILED,
        TaskStatus.CANCELLED,
        TaskStatus.PENDING,
    },
    TaskStatus.SUCCEEDED: {TaskStatus.READY, TaskStatus.PENDING},  # rendered again on request
    TaskStatus.FAILED: {TaskStatus.READY, TaskStatus.PENDING, TaskStatus.CANCELLED},
    TaskStatus.CANCELLED: {TaskStatus.READY, TaskStatus.PENDING},
}


class StepStatus(StrEnum):
    WAITING = "waiting"  # for other steps, or for the jobs this one comes after
    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


STEP_MOVES: Moves[StepStatus] = {
    StepStatus.WAITING: {StepStatus.ACTIVE, StepStatus.CANCELLED},
    StepStatus.ACTIVE: {StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.CANCELLED, StepStatus.WAITING},
    StepStatus.SUCCEEDED: {StepStatus.ACTIVE, StepStatus.WAITING},
    StepStatus.FAILED: {StepStatus.ACTIVE, StepStatus.CANCELLED, StepStatus.WAITING},
    StepStatus.CANCELLED: {StepStatus.ACTIVE, StepStatus.WAITING},
}


class JobStatus(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"  # running tasks finish, nothing new starts; suspended_by says why
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


JOB_MOVES: Moves[JobStatus] = {
    JobStatus.ACTIVE: {JobStatus.SUSPENDED, JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED},
    JobStatus.SUSPENDED: {JobStatus.ACTIVE, JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED},
    JobStatus.SUCCEEDED: {JobStatus.ACTIVE},
    JobStatus.FAILED: {JobStatus.ACTIVE},
    JobStatus.CANCELLED: {JobStatus.ACTIVE},
}

LIVE_JOBS = (JobStatus.ACTIVE, JobStatus.SUSPENDED)


class JobState(StrEnum):
    """A job's status as people see it: of an active one, whether anything of it is at work. Computed, never stored."""

    WAITING = "waiting"
    RENDERING = "rendering"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


def job_state(status: JobStatus, *, leased: int) -> JobState:
    """Give the state of a job of which so many tasks are at work."""
    if status is JobStatus.ACTIVE:
        return JobState.RENDERING if leased else JobState.WAITING
    return JobState(str(status))


class SuspendedBy(StrEnum):
    PERSON = "person"
    BUDGET = "budget"
    FAILURES = "failures"
    APPROVAL = "approval"


class Approval(StrEnum):
    """Where a job with scouts is."""

    NONE = "none"  # no scouts were asked for, or a person said continue
    SCOUTING = "scouting"  # only the scouts may run
    WAITING = "waiting"  # the range is known; a person decides
    GIVEN = "given"
    DECLINED = "declined"  # it was cancelled instead: its scouts are to be credited
    CREDITED = "credited"


class Purpose(StrEnum):
    """What a job is for: who sees it, who pays, how urgent it is."""

    RENDER = "render"
    INSPECTION = "inspection"

"""A job's frames in order, with the picture each has: what a flipbook turns through."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from django.db import connection

from farm.dispatch.files import VALID, address, steady_moment
from farm.dispatch.models import Output
from farm.jobs.grid import frames_of, steps_of
from farm.jobs.models import Job

MOST_FRAMES = 500  # in one answer
KNOWN_STEPS = 32  # whose frames a process remembers: they never change

_TASKS = """
SELECT index, id, left(status, 1) FROM jobs_task WHERE step_id = %s AND index = ANY(%s)
"""


@dataclass(frozen=True)
class Frame:
    """A frame, its task, and the picture there is of it."""

    frame: int
    index: int
    status: str  # of its task, as a letter
    url: str | None
    width: int | None
    height: int | None
    digest: str | None


@dataclass(frozen=True)
class Places:
    """The frames of a step in order, each with the place of its first task, should several cameras share it."""

    frames: array[int]
    indexes: array[int]

    def __len__(self) -> int:
        return len(self.frames)

    def from_frame(self, first: int, limit: int) -> list[tuple[int, int]]:
        """Give so many frames from one on."""
        place = bisect_left(self.frames, first)
        return list(zip(self.frames[place : place + limit], self.indexes[place : place + limit], strict=True))

    def of(self, frames: Sequence[int]) -> list[tuple[int, int]]:
        """Give those of these frames that there are, in order."""
        found = []
        for frame in sorted(set(frames)):
            place = bisect_left(self.frames, frame)
            if place < len(self) and self.frames[place] == frame:
                found.append((frame, self.indexes[place]))
        return found


NOWHERE = Places(array("q"), array("q"))  # of a job without frames


def step_shown(job: UUID) -> UUID | None:
    """Give the step whose frames are shown: the first that has any."""
    return next((step.id for step in steps_of(job) if frames_of(step.id) is not None), None)


@lru_cache(maxsize=KNOWN_STEPS)
def places_of(step: UUID) -> Places:
    """Give the frames of a step."""
    first: dict[int, int] = {}
    place = 0
    for begin, end, by in frames_of(step) or ():
        for frame in range(begin, end + (1 if by > 0 else -1), by):
            first.setdefault(frame, place)
            place += 1
    frames = sorted(first)
    return Places(array("q", frames), array("q", (first[frame] for frame in frames)))


def pictures(job: Job, step: UUID, wanted: Sequence[tuple[int, int]], *, role: str, now: datetime) -> list[Frame]:
    """Give these frames of a step with their pictures of one kind; one without a picture yet has no address."""
    with connection.cursor() as cursor:
        cursor.execute(_TASKS, [step, [index for _, index in wanted]])
        tasks = {index: (task, status) for index, task, status in cursor.fetchall()}
    outputs = _outputs([task for task, _ in tasks.values()], role)
    signed_at = steady_moment(now)
    found = []
    for frame, index in wanted:
        task, status = tasks[index]
        picture = outputs.get(task)
        url = address(picture, now=signed_at) if picture else None
        size = (picture.width, picture.height) if picture else (None, None)
        found.append(Frame(frame, index, status, url, *size, picture.digest if picture else None))
    return found


def valid_until(now: datetime) -> datetime:
    """Give the moment until which addresses that are given now are valid."""
    return steady_moment(now) + VALID


def _outputs(tasks: Sequence[UUID], role: str) -> dict[UUID, Output]:
    """Give the current picture of each task: the first by name, should a task leave several."""
    rows = Output.objects.filter(task__in=tasks, role=role, is_current=True).order_by("task", "name").distinct("task")
    return {row.task_id: row for row in rows}

"""A job's tasks as columns, a letter each: all of them, or those that changed since somebody last looked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connection

from farm.core.pages import by_index
from farm.core.revisions import COMING, OLDEST
from farm.jobs.models import Step

MOST_CHANGES = 5_000  # in one answer; whoever has missed more takes the grid anew
KNOWN_STEPS = 1_000  # whose frames a process remembers: they never change

# One statement, hence one snapshot. A status is told by its first letter; no two begin alike.
_GRID = f"""
SELECT s.id, g.letters, {OLDEST}
  FROM jobs_step s
 CROSS JOIN LATERAL (SELECT string_agg(left(t.status, 1), '' ORDER BY t.index) AS letters
                       FROM jobs_task t WHERE t.step_id = s.id) g
 WHERE s.job_id = %s
"""  # noqa: S608  (the revision is the farm's own text)

_FRAMES = "SELECT array_agg(frame ORDER BY index) FROM jobs_task WHERE step_id = %s"

_CHANGES = """
SELECT step_id, index, left(status, 1) FROM jobs_task WHERE job_id = %s AND revision >= %s LIMIT %s
"""


@dataclass(frozen=True)
class Grid:
    """All tasks of a job. What is committed later has a revision of at least `revision`."""

    revision: int
    letters: dict[UUID, str]  # by step, in the order of its tasks' indexes


def grid_of(job: UUID) -> Grid:
    """Give the statuses of a job's tasks."""
    with by_index(), connection.cursor() as cursor:
        cursor.execute(_GRID, [job])
        rows = cursor.fetchall()
    return Grid(rows[0][2], {step: letters or "" for step, letters, _ in rows})


@dataclass(frozen=True)
class Changes:
    """The tasks that changed since a revision; `is_reload`: too many, or that revision is none of this farm's."""

    revision: int
    is_reload: bool
    steps: list[dict[str, Any]]  # {"step", "indexes", "statuses"}


def changes_of(job: UUID, *, since: int) -> Changes:
    """
    Give what changed in transactions numbered `since` and later.

    The number to ask with next is taken first: a transaction that commits while the tasks are read is seen again.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {OLDEST}, {COMING}")
        revision, coming = cursor.fetchone()
        if since > coming:  # of a database that was restored, or of another farm
            return Changes(revision, True, [])
        cursor.execute(_CHANGES, [job, since, MOST_CHANGES + 1])
        rows = cursor.fetchall()
    if len(rows) > MOST_CHANGES:
        return Changes(revision, True, [])
    return Changes(revision, False, _by_step(rows))


def _by_step(rows: Iterable[tuple[UUID, int, str]]) -> list[dict[str, Any]]:
    found: dict[UUID, list[tuple[int, str]]] = {}
    for step, index, letter in rows:
        found.setdefault(step, []).append((index, letter))
    return [
        {"step": step, "indexes": [i for i, _ in tasks], "statuses": "".join(letter for _, letter in tasks)}
        for step, tasks in found.items()
    ]


def steps_of(job: UUID) -> list[Step]:
    """Give a job's steps in order, without the scripts that workers get."""
    return list(Step.objects.filter(job=job).defer("document", "outputs").order_by("index"))


@lru_cache(maxsize=KNOWN_STEPS)
def frames_of(step: UUID) -> tuple[tuple[int, int, int], ...] | None:
    """Give the frames of a step's tasks in the order of their indexes, as runs; None if they have none."""
    with by_index(), connection.cursor() as cursor:
        cursor.execute(_FRAMES, [step])
        (frames,) = cursor.fetchone()
    if not frames or frames[0] is None:
        return None
    return tuple(runs(frames))


def runs(numbers: Sequence[int]) -> list[tuple[int, int, int]]:
    """Write numbers as runs (first, last, by), to be laid end to end; what is no run is one of a single number."""
    found: list[tuple[int, int, int]] = []
    for number in numbers:
        first, last, by = found[-1] if found else (number, number, 0)
        if found and number != last and (last == first or number - last == by):
            found[-1] = (first, number, number - last)
        else:
            found.append((number, number, 1))
    return found

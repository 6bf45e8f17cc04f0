"""What changed, and what a stream says of it: ids and revisions, never rows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

MOST_IDS = 200  # in one message; of more it says: look again


@dataclass
class Changes:
    """What one look at the database found. All that was committed before `horizon` has been looked at."""

    horizon: int
    jobs: dict[UUID, tuple[UUID, int]] = field(default_factory=dict)  # job: its studio, and a revision
    movies: dict[UUID, tuple[UUID, int]] = field(default_factory=dict)  # job: its studio, and the movie's version
    versions: dict[UUID, UUID] = field(default_factory=dict)  # scene version: its studio
    fleets: set[str] = field(default_factory=set)

    def note_job(self, job: UUID, studio: UUID, revision: int) -> None:
        """Note a revision of a job, unless a later one is known."""
        if revision > self.jobs.get(job, (studio, -1))[1]:
            self.jobs[job] = (studio, revision)

    def note_event(self, kind: str, subject: UUID, studio: UUID, revision: int) -> None:
        """Note what an event is about."""
        room = kind.partition(".")[0]
        if room in {"job", "movie"}:
            self.note_job(subject, studio, revision)
        elif room == "scene":
            self.versions[subject] = studio


@dataclass
class Heard:
    """What notifications said since the last look."""

    jobs: set[UUID] = field(default_factory=set)
    movies: dict[UUID, tuple[UUID, int]] = field(default_factory=dict)
    fleets: set[str] = field(default_factory=set)
    has_events: bool = False

    def note(self, payload: str) -> None:
        """Take one notification, as `core.wakeups.tell_changed` words it; of another farm's version, nothing."""
        kind, *subjects = payload.split()
        try:
            if kind == "jobs":
                self.jobs.update(UUID(job) for job in subjects)
            elif kind == "movie":
                job, studio, version = subjects
                self.movies[UUID(job)] = (UUID(studio), int(version))
            elif kind == "fleets":
                self.fleets.update(subjects)
            elif kind == "events":
                self.has_events = True
        except ValueError:
            return

    def __bool__(self) -> bool:
        return bool(self.jobs or self.movies or self.fleets or self.has_events)


def message(event: str, data: dict[str, Any], *, horizon: int) -> bytes:
    """Write one message. Its id is where a browser that was cut off goes on."""
    return f"event: {event}\nid: {horizon}\ndata: {json.dumps(data, default=str)}\n\n".encode()


def ids(name: str, found: Iterable[object] | None) -> dict[str, Any]:
    """Name what changed, or None when it is too much to be named."""
    listed = None if found is None else sorted(str(item) for item in found)
    return {name: None if listed is None or len(listed) > MOST_IDS else listed}

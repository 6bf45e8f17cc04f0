"""Open streams: who hears what, how often, and how many there may be. No database is known here."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from uuid import UUID

from farm.core.errors import Refusal
from farm.notifications.changes import Changes, ids, message
from farm.studios.roles import Scope

FAST_S = 0.1  # between two messages about the jobs a stream names
SLOW_S = 1.0  # between two about all the others
PING_S = 15.0
RETRY_MS = 2000
MOST_OF_A_PERSON = 10
MOST_OF_A_PROCESS = 500


class TooManyStreams(Refusal):
    """There are {count} streams open for {whom}, as many as may be. Close a page, or ask from time to time instead."""

    code = "too-many-streams"
    status = 429


@dataclass(frozen=True)
class Ticket:
    """What somebody may hear: of one studio, as far as these scopes go; `jobs` are those that a page shows."""

    user: UUID
    studio: UUID
    scopes: frozenset[Scope]
    jobs: frozenset[UUID] = frozenset()


class Stream:
    """One open stream. What is not sent yet is merged, so that a slow reader costs no memory."""

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.is_over = False
        self._horizon = 0
        self._jobs: dict[UUID, int] = {}
        self._movies: dict[UUID, int] = {}
        self._rows: dict[str, set[object] | None] = {}  # changed rows of lists; None: look again
        self._woken = asyncio.Event()

    def take(self, found: Changes) -> None:
        """Take what concerns this stream."""
        studio, mine = self.ticket.studio, self.ticket.jobs
        self._horizon = max(self._horizon, found.horizon)
        own = {job: revision for job, (of, revision) in found.jobs.items() if of == studio}
        self._jobs.update({job: revision for job, revision in own.items() if job in mine})
        self._movies.update(
            {job: version for job, (of, version) in found.movies.items() if of == studio and job in mine}
        )
        self._note("jobs", own)
        if Scope.SCENES_READ in self.ticket.scopes:
            self._note("scenes", [version for version, of in found.versions.items() if of == studio])
        if Scope.STUDIO_READ in self.ticket.scopes:
            self._note("fleets", found.fleets)
        if self._jobs or self._movies or self._rows:
            self._woken.set()

    def look_again(self) -> None:
        """Say that too much was missed to be named."""
        self._rows = {"jobs": None, "scenes": None, "fleets": None}
        self._woken.set()

    def end(self) -> None:
        """Send nothing more."""
        self.is_over = True
        self._woken.set()

    async def messages(self, *, horizon: int) -> AsyncIterator[bytes]:
        """Give what is to be sent, when it is due; a ping when nothing is."""
        clock = asyncio.get_running_loop().time
        self._horizon = max(self._horizon, horizon)
        yield f"retry: {RETRY_MS}\n\n".encode() + message("hello", {"revision": horizon}, horizon=horizon)
        fast = slow = 0.0
        ping = clock() + PING_S
        while not self.is_over:
            now, out = clock(), b""
            if (self._jobs or self._movies) and now >= fast:
                out, fast = self._of_jobs(), now + FAST_S
            if self._rows and now >= slow:
                out, slow = out + self._of_lists(), now + SLOW_S
            if not out and now >= ping:
                out = b": ping\n\n"
            if out:
                ping = now + PING_S
                yield out
            else:
                due = [ping] + [fast] * bool(self._jobs or self._movies) + [slow] * bool(self._rows)
                await self._wait(min(due) - now)

    async def _wait(self, seconds: float) -> None:
        self._woken.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    def _of_jobs(self) -> bytes:
        jobs, self._jobs = self._jobs, {}
        movies, self._movies = self._movies, {}
        told = [message("job", {"job": job, "revision": at}, horizon=self._horizon) for job, at in jobs.items()]
        told += [message("movie", {"job": job, "version": v}, horizon=self._horizon) for job, v in movies.items()]
        return b"".join(told)

    def _of_lists(self) -> bytes:
        rows, self._rows = self._rows, {}
        names = {"jobs": "jobs", "scenes": "versions", "fleets": "fleets"}
        return b"".join(message(kind, ids(names[kind], found), horizon=self._horizon) for kind, found in rows.items())

    def _note(self, kind: str, changed: Iterable[object]) -> None:
        known = self._rows.get(kind, set())
        if known is not None and (merged := known | set(changed)):
            self._rows[kind] = merged


class Hub:
    """All streams of this process."""

    def __init__(self) -> None:
        self._streams: set[Stream] = set()

    @property
    def streams(self) -> list[Stream]:
        """Those that are open now."""
        return list(self._streams)

    @property
    def studios(self) -> set[UUID]:
        """The studios somebody listens to."""
        return {stream.ticket.studio for stream in self._streams}

    @property
    def jobs(self) -> set[UUID]:
        """The jobs somebody looks at."""
        return {job for stream in self._streams for job in stream.ticket.jobs}

    def tell(self, found: Changes) -> None:
        """Let each stream take what concerns it."""
        for stream in self._streams:
            stream.take(found)

    def open(self, ticket: Ticket) -> Stream:
        """
        Open a stream.

        :raises TooManyStreams: this person, or everybody together, has as many as may be
        """
        if len(self._streams) >= MOST_OF_A_PROCESS:
            raise TooManyStreams(count=len(self._streams), whom="everybody")
        own = Counter(stream.ticket.user for stream in self._streams)[ticket.user]
        if own >= MOST_OF_A_PERSON:
            raise TooManyStreams(count=own, whom="you")
        stream = Stream(ticket)
        self._streams.add(stream)
        return stream

    def close(self, stream: Stream) -> None:
        """Forget a stream."""
        stream.end()
        self._streams.discard(stream)

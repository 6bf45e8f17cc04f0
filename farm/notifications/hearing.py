"""
The one connection of this process that listens, and looks for what changed; all streams are told from it.

A notification makes it look at once, at most ten times a second; every two seconds it looks by itself, at what the
streams show, for notifications may be lost.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from uuid import UUID

import psycopg

from farm.core.wakeups import CHANGES, listener
from farm.notifications.changes import Changes, Heard
from farm.notifications.selectors import EVENTS, HORIZON, JOBS_SINCE, MOST_MISSED, REVISIONS
from farm.notifications.streams import Hub

logger = logging.getLogger(__name__)

LOOK_S = 0.1  # between two looks
BEAT_S = 2.0
RECONNECT_S = 1.0
MOST_REMEMBERED = 10_000
MANNERS: dict[str, Any] = {
    "connect_timeout": 5,
    "application_name": "farm-events",
    "options": "-c statement_timeout=10s",
}


class Ear:
    """Listens, for as long as it runs."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.is_listening = False
        self._horizon = 0  # all that was committed before was looked at in a beat
        self._events: set[UUID] = set()  # told already, of those that the next look finds again
        self._told: dict[UUID, int] = {}  # job: the revision that was told last

    async def run(self) -> None:
        """Listen until cancelled; a database that is away is asked for again."""
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(**listener(), **MANNERS, autocommit=True) as session:
                    await session.execute(f"LISTEN {CHANGES}")
                    self.is_listening = True
                    await self._listen(session)
            except psycopg.OperationalError as error:
                if self.is_listening:
                    logger.warning("the database is away: %s", str(error).strip().splitlines()[:1])
            except Exception:  # a bug; people poll meanwhile, and the next look may go well
                logger.exception("could not look for changes")
            self.is_listening = False
            await asyncio.sleep(RECONNECT_S)

    async def _listen(self, session: psycopg.AsyncConnection[Any]) -> None:
        clock = asyncio.get_running_loop().time
        beat = looked = 0.0
        while True:
            heard = Heard()
            async for notice in session.notifies(timeout=max(0.0, beat - clock()), stop_after=1):
                heard.note(notice.payload)
            if wait := max(0.0, looked + LOOK_S - clock()):
                await asyncio.sleep(wait)
            async for notice in session.notifies(timeout=0):  # what came meanwhile is looked at together
                heard.note(notice.payload)
            is_beat = clock() >= beat
            if is_beat:
                beat = clock() + BEAT_S
            if self._hub.streams and (heard or is_beat):
                looked = clock()
                self._hub.tell(await self._look(session, heard, is_beat=is_beat))
            elif is_beat:
                self._horizon = await _oldest(session)

    async def _look(self, session: psycopg.AsyncConnection[Any], heard: Heard, *, is_beat: bool) -> Changes:
        studios, jobs = list(self._hub.studios), list(self._hub.jobs)
        # Asked before all else: whatever commits later is found by the next beat.
        horizon = await _oldest(session)
        since = self._horizon or horizon
        found = Changes(since, movies=heard.movies, fleets=heard.fleets)
        if heard.jobs:
            for job, studio, revision in await _rows(session, REVISIONS, jobs=list(heard.jobs), studios=studios):
                found.note_job(job, studio, revision)
        if is_beat:
            for job, studio, revision in await _rows(session, JOBS_SINCE, jobs=jobs, studios=studios, since=since):
                found.note_job(job, studio, revision)
        if heard.has_events or is_beat:
            rows = await _rows(session, EVENTS, studios=studios, since=since)
            for event, kind, subject, studio, revision in rows:
                if event not in self._events:
                    found.note_event(kind, subject, studio, revision)
            self._events = {row[0] for row in rows}
            if len(rows) == MOST_MISSED:
                for stream in self._hub.streams:
                    stream.look_again()
        if is_beat:
            self._horizon = horizon
        self._forget_told(found)
        return found

    def _forget_told(self, found: Changes) -> None:
        """Leave out jobs of which this, or something later, was told before."""
        found.jobs = {job: (of, at) for job, (of, at) in found.jobs.items() if at > self._told.get(job, -1)}
        if len(self._told) > MOST_REMEMBERED:
            self._told.clear()  # what is told twice means nothing
        self._told.update({job: at for job, (_, at) in found.jobs.items()})


async def _oldest(session: psycopg.AsyncConnection[Any]) -> int:
    return int((await _rows(session, HORIZON))[0][0])


async def _rows(session: psycopg.AsyncConnection[Any], question: str, **params: Any) -> list[tuple[Any, ...]]:
    return await (await session.execute(question, params)).fetchall()

"""What happened since somebody last heard."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connection

from farm.core.revisions import COMING, OLDEST
from farm.notifications.changes import Changes
from farm.notifications.streams import Ticket

MOST_MISSED = 1_000  # events; whoever missed more looks again

HORIZON = f"SELECT {OLDEST}, {COMING}"

_LATEST = "SELECT t.revision FROM jobs_task t WHERE t.job_id = j.id ORDER BY t.revision DESC LIMIT 1"

# One probe of an index a job.
REVISIONS = f"""
SELECT j.id, j.studio_id, t.revision FROM jobs_job j CROSS JOIN LATERAL ({_LATEST}) t
 WHERE j.id = ANY(%(jobs)s) AND j.studio_id = ANY(%(studios)s)
"""  # noqa: S608  (the parts are this module's own)

JOBS_SINCE = f"""
SELECT j.id, j.studio_id, t.revision FROM jobs_job j CROSS JOIN LATERAL ({_LATEST}) t
 WHERE j.studio_id = ANY(%(studios)s) AND t.revision >= %(since)s
   AND (j.id = ANY(%(jobs)s) OR j.status IN ('active', 'suspended'))
"""  # noqa: S608

EVENTS = f"""
SELECT id, kind, subject, studio_id, revision FROM core_event
 WHERE studio_id = ANY(%(studios)s) AND revision >= %(since)s ORDER BY revision LIMIT {MOST_MISSED}
"""  # noqa: S608


def horizon() -> tuple[int, int]:
    """Give the oldest transaction that still runs, and the number that none has yet."""
    with connection.cursor() as cursor:
        cursor.execute(HORIZON)
        oldest, coming = cursor.fetchone()
        return oldest, coming


def missed(ticket: Ticket, *, since: int) -> Changes | None:
    """Give what a stream that was cut off has missed; None when that is too much to be told."""
    oldest, coming = horizon()
    if since > coming:
        return None
    found = Changes(oldest)
    params: dict[str, Any] = {"jobs": list(ticket.jobs), "studios": [ticket.studio], "since": since}
    with connection.cursor() as cursor:
        cursor.execute(JOBS_SINCE, params)
        for job, studio, revision in cursor.fetchall():
            found.note_job(job, studio, revision)
        cursor.execute(EVENTS, params)
        rows = cursor.fetchall()
    for _, kind, subject, studio, revision in rows:
        found.note_event(kind, subject, studio, revision)
    return None if len(rows) == MOST_MISSED else found


def jobs_there(studio: UUID, jobs: frozenset[UUID]) -> set[UUID]:
    """Give those of these jobs that are the studio's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM jobs_job WHERE studio_id = %s AND id = ANY(%s)", [studio, list(jobs)])
        return {row[0] for row in cursor.fetchall()}

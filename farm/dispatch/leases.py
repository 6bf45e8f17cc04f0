"""
Leases: extended by sync, ended in one place, the reaper.

Lease time decides only when others may take a task; the generation decides whose result counts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction

from farm.dispatch.ends import put_back
from farm.dispatch.models import Attempt, Reaper
from farm.dispatch.moves import AttemptStatus
from farm.jobs.status import ripple
from workers.protocol import Cause

logger = logging.getLogger(__name__)

REAP_INTERVAL = timedelta(seconds=5)
BLIND_AFTER = timedelta(seconds=15)
GRACE = timedelta(seconds=60)


@transaction.atomic
def reap(*, now: datetime) -> int:
    """
    Take tasks back from workers that were not heard of for a lease; give how many.

    After a time in which the reaper could not look, workers could not report either: then every lease gets a grace,
    and none expires in this run.
    """
    row = Reaper.objects.select_for_update().filter(pk=1).first()
    was_blind = row is None or now - row.at > BLIND_AFTER
    Reaper.objects.update_or_create(pk=1, defaults={"at": now})
    if was_blind:
        _give_grace(now)
        return 0
    return _expire(now)


def _give_grace(now: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE dispatch_attempt SET lease_until = greatest(lease_until, %s)
             WHERE id IN (SELECT id FROM dispatch_attempt WHERE status IN ('assigned', 'started')
                           ORDER BY task_id, id FOR NO KEY UPDATE)
            """,
            [now + GRACE],
        )
        if cursor.rowcount:
            logger.warning("was blind: %d leases got %d s of grace", cursor.rowcount, GRACE.total_seconds())


def _expire(now: datetime) -> int:
    # The tasks first: locks go task → attempt.
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT a.id FROM dispatch_attempt a JOIN jobs_task t ON t.id = a.task_id
             WHERE a.status IN ('assigned', 'started') AND a.lease_until < %s
             ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
            """,
            [now],
        )
        ids = [row[0] for row in cursor.fetchall()]
    if not ids:
        return 0
    attempts = list(Attempt.objects.filter(pk__in=ids, status__in=["assigned", "started"], lease_until__lt=now))
    lost(
        attempts,
        sentence="Its worker was not heard of; the frame is rendered again elsewhere, and nothing is charged.",
        now=now,
    )
    return len(attempts)


def lock_attempts(attempts: Sequence[UUID]) -> None:
    """Lock attempts, each after its task, in the order that all do: two who lock the same ones never wait in a ring."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT 1 FROM dispatch_attempt a JOIN jobs_task t ON t.id = a.task_id
             WHERE a.id = ANY(%s) ORDER BY t.id, a.id FOR NO KEY UPDATE OF t, a
            """,
            [list(attempts)],
        )


def lost(attempts: Sequence[Attempt], *, sentence: str, now: datetime) -> None:
    """Take tasks back from attempts that are lost; until somebody takes one, its worker may still come back with it."""
    if not attempts:
        return
    Attempt.objects.filter(pk__in=[a.id for a in attempts]).update(
        status=AttemptStatus.LOST, cause=Cause.LOST, sentence=sentence, ended_at=now
    )
    logger.warning("%d leases expired", len(attempts))
    # The hold stays with the attempt: a late end that nobody overtook still settles it; otherwise the next claim does.
    ripple(put_back([a.task_id for a in attempts], now=now), now=now)


@transaction.atomic
def lose_workers(workers: Sequence[UUID], *, now: datetime) -> int:
    """Take back at once what workers held whose machines are known to be gone."""
    held = Attempt.objects.filter(worker__in=workers, status__in=["assigned", "started"])
    lock_attempts(list(held.values_list("id", flat=True)))
    attempts = list(held.order_by("task_id"))  # as they are now that they are locked
    lost(
        attempts,
        sentence="Its machine is gone; the frame is rendered again elsewhere, and nothing is charged.",
        now=now,
    )
    return len(attempts)

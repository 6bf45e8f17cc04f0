"""
Wake-ups: make immediate what the beat makes certain.

To the dispatcher by `pg_notify` inside the transaction; to reconcilers by a Celery message on commit; to whoever shows
changes to people by `pg_notify` after it. All may be lost.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import current_app
from django.db import connection, transaction

logger = logging.getLogger(__name__)

DISPATCH = "farm_dispatch"
CHANGES = "farm_changes"
MOST_TOLD = 150  # ids in one notification, which holds at most 8,000 bytes


def listener() -> dict[str, Any]:
    """Give what a connection of its own is made with: LISTEN and an advisory lock live as long as it does."""
    known = connection.get_connection_params()
    return {name: known[name] for name in ("dbname", "user", "password", "host", "port") if known.get(name)}


def wake_dispatcher() -> None:
    """Tell the dispatcher that idleness may end; it hears when the transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [DISPATCH])


def wake_reconciler(task: str) -> None:
    """Ask for a reconciler's run as soon as the transaction has committed. A broker that is down only costs time."""
    transaction.on_commit(lambda: _send(task), robust=True)


def _send(task: str) -> None:
    try:
        current_app.send_task(task, retry=False)
    except Exception as error:  # whatever the broker's client raises: the beat will do it
        logger.warning("could not wake %s: %s", task, error)


def tell_changed(kind: str, *subjects: object) -> None:
    """
    Tell the events part that something changed, as soon as the transaction has committed.

    Not inside it: a notification locks out all others that commit with one, and is waited for until the disk has it.
    This one waits for no disk; nothing but time hangs on it.
    """
    texts = [str(item) for item in subjects]
    told = [" ".join([kind, *texts[i : i + MOST_TOLD]]) for i in range(0, max(1, len(texts)), MOST_TOLD)]
    transaction.on_commit(lambda: _notify(told), robust=True)


def _notify(told: list[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, t.text) FROM unnest(%s::text[]) t(text)
            """,
            [CHANGES, told],
        )

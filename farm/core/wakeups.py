"""
Wake-ups: make immediate what the beat makes certain.

To the dispatcher by `pg_notify` inside the transaction; to reconcilers by a Celery message on commit. Both may be lost.
"""

from __future__ import annotations

import logging

from celery import current_app
from django.db import connection, transaction

logger = logging.getLogger(__name__)

DISPATCH = "farm_dispatch"


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

"""The dispatcher: one leader claims while work is ready, reaps leases, and sleeps until it is woken."""

from __future__ import annotations

import logging
import threading
import time
from datetime import datetime, timedelta
from uuid import UUID

import psycopg
from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections
from django.utils import timezone

from farm.core.wakeups import DISPATCH, listener, wake_reconciler
from farm.dispatch.claims import run_pass
from farm.dispatch.leases import REAP_INTERVAL, reap
from farm.dispatch.turns import Past

logger = logging.getLogger(__name__)

LEADER_LOCK = 7_365_219_001  # any number, the same for all dispatchers of a farm
BUSY_PAUSE_S = 0.05  # at most one pass in this time
IDLE_PAUSE_S = 1.0
BUDGET_PAUSE = timedelta(seconds=5)
CAPACITY_PAUSE_S = 2.0


class Dispatcher:
    """Runs until told to stop. Only one of a farm's dispatchers leads; the others wait to take over."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.short: dict[UUID, datetime] = {}  # cost objects the budget refused, and when to try again
        self.past = Past()
        self.next_reap = 0.0
        self.next_capacity = 0.0

    def run(self) -> None:
        """Lead for ever; after any trouble with the database, begin again."""
        while not self.stop.is_set():
            try:
                with psycopg.connect(**listener(), autocommit=True) as session:
                    self._wait_to_lead(session)
                    self._lead(session)
            except (psycopg.OperationalError, OperationalError, InterfaceError) as error:
                logger.warning("database unavailable, trying again: %s", str(error).strip().splitlines()[0])
                self.stop.wait(1)
            finally:
                close_old_connections()

    def _wait_to_lead(self, session: psycopg.Connection) -> None:
        while not self.stop.is_set():
            row = session.execute("SELECT pg_try_advisory_lock(%s)", [LEADER_LOCK]).fetchone()
            if row and row[0]:
                logger.info("leading")
                return
            self.stop.wait(1)

    def _lead(self, session: psycopg.Connection) -> None:
        session.execute(f"LISTEN {DISPATCH}")
        while not self.stop.is_set():
            began = time.monotonic()
            self._reap_if_due()
            is_busy = self._pass()
            wait = BUSY_PAUSE_S if is_busy else IDLE_PAUSE_S
            # NOTIFY wakes an idle dispatcher at once; a busy one goes on by itself.
            for _ in session.notifies(timeout=max(0.001, wait - (time.monotonic() - began)), stop_after=1):
                pass

    def _reap_if_due(self) -> None:
        if time.monotonic() < self.next_reap:
            return
        self.next_reap = time.monotonic() + REAP_INTERVAL.total_seconds()
        reap(now=timezone.now())

    def _pass(self) -> bool:
        """Run one pass; True while there is ready work that it could serve."""
        now = timezone.now()
        self.short = {cost_object: until for cost_object, until in self.short.items() if until > now}
        try:
            done = run_pass(now=now, without=list(self.short), past=self.past)
        except (OperationalError, InterfaceError):
            raise
        except DatabaseError:
            logger.exception("a pass failed; its claims are rolled back")
            return False
        self.short |= dict.fromkeys(done.short, now + BUDGET_PAUSE)
        if done.ready > done.claimed and time.monotonic() > self.next_capacity:
            self.next_capacity = time.monotonic() + CAPACITY_PAUSE_S
            wake_reconciler("farm.dispatch.reconcilers.provide_capacity")
        return done.claimed > 0

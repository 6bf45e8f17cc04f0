"""Wake-ups: heard when the transaction commits, and their loss costs only time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import psycopg
import pytest
from celery import current_app
from django.db import DatabaseError, connection, transaction
from kombu.exceptions import OperationalError

from farm.core.events import emit
from farm.core.models import Event
from farm.core.wakeups import DISPATCH, wake_dispatcher, wake_reconciler


@pytest.fixture
def listener(transactional_db: None) -> Iterator[psycopg.Connection[Any]]:
    settings = connection.get_connection_params()
    wish = {name: settings[name] for name in ("dbname", "user", "password", "host", "port")}
    with psycopg.connect(**wish, autocommit=True) as session:
        session.execute(f"LISTEN {DISPATCH}")
        yield session


def heard(listener: psycopg.Connection[Any]) -> int:
    return len(list(listener.notifies(timeout=0.2)))


class TestWakeDispatcher:
    def test_it_hears_when_the_transaction_commits_once(self, listener: psycopg.Connection[Any]) -> None:
        with transaction.atomic():
            wake_dispatcher()
            wake_dispatcher()
            assert heard(listener) == 0

        assert heard(listener) == 1

    def test_what_is_rolled_back_wakes_nobody(self, listener: psycopg.Connection[Any]) -> None:
        with transaction.atomic():
            wake_dispatcher()
            transaction.set_rollback(True)

        assert heard(listener) == 0


@pytest.mark.django_db
class TestWakeReconciler:
    def test_it_is_asked_after_the_commit(self, django_capture_on_commit_callbacks: Any) -> None:
        with patch.object(current_app, "send_task") as send:
            with django_capture_on_commit_callbacks(execute=True):
                wake_reconciler("farm.tests.nothing")
                assert send.call_count == 0

            send.assert_called_once_with("farm.tests.nothing", retry=False)

    def test_a_broker_that_is_down_costs_only_time(
        self, django_capture_on_commit_callbacks: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        with (
            patch.object(current_app, "send_task", side_effect=OperationalError("refused")),
            django_capture_on_commit_callbacks(execute=True),
        ):
            wake_reconciler("farm.tests.nothing")

        assert "could not wake farm.tests.nothing: refused" in caplog.text


@pytest.mark.django_db
class TestEmit:
    def test_an_event_is_kept_with_its_parameters(self) -> None:
        studio, subject = uuid4(), uuid4()

        emit("job.succeeded", studio=studio, subject=subject, frames=3)

        event = Event.objects.get()
        assert (event.kind, event.studio_id, event.subject, event.params) == (
            "job.succeeded",
            studio,
            subject,
            {"frames": 3},
        )

    def test_it_is_there_only_if_what_it_tells_of_is(self) -> None:
        with transaction.atomic():
            emit("job.succeeded", studio=uuid4(), subject=uuid4())
            transaction.set_rollback(True)

        assert not Event.objects.exists()

    def test_nobody_changes_or_deletes_one(self) -> None:
        emit("job.succeeded", studio=uuid4(), subject=uuid4())
        with pytest.raises(DatabaseError), transaction.atomic():
            Event.objects.update(kind="job.failed")
        with pytest.raises(DatabaseError), transaction.atomic():
            Event.objects.all().delete()

        assert Event.objects.get().kind == "job.succeeded"

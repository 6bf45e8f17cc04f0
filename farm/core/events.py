"""Say that something happened."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from farm.core.models import Event
from farm.core.wakeups import tell_changed


def emit(kind: str, *, studio: UUID, subject: UUID, **params: Any) -> None:
    """Append an event, in the caller's transaction: it is there if and only if what it tells of is."""
    Event.objects.create(studio_id=studio, kind=kind, subject=subject, params=params)
    tell_changed("events")

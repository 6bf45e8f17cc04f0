"""Statuses change in one way only: a guarded move along a table of moves."""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import StrEnum
from typing import Any, TypeVar

Status = TypeVar("Status", bound=StrEnum)
Moves = Mapping[Status, Set[Status]]


def sources(moves: Moves[Status], to: Status) -> list[Status]:
    """Give the statuses from which a row may move to `to`."""
    return [status for status, targets in moves.items() if to in targets]


def choices(kind: type[StrEnum]) -> list[tuple[str, str]]:
    """Give a status enum as a Django field's choices."""
    return [(str(s), str(s)) for s in kind]


def move_to(row: Any, to: Status, *, moves: Moves[Status], **fields: Any) -> bool:
    """
    Move one row, of any model with a status, by a guarded UPDATE; set further fields in the same statement.

    The row in memory follows. Gives False, and changes nothing, when it is not in a status that may move there.
    """
    manager = type(row)._default_manager
    moved = manager.filter(pk=row.pk, status__in=sources(moves, to)).update(status=to, **fields)
    if moved:
        for name, value in {"status": to, **fields}.items():
            setattr(row, name, value)
    return bool(moved)

"""What was used: milliseconds as far as they can be true, and the days and months they count for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

CLOCK_SLACK = timedelta(seconds=2)  # a worker's clock may tick this much more than ours between claim and receipt


@dataclass(frozen=True, kw_only=True)
class EndedFact:
    """One ended attempt, as `dispatch` tells it."""

    attempt: UUID
    task: UUID
    generation: int
    cost_object: UUID
    worker_class: str
    gpus: int
    render_ms: int
    setup_ms: int
    outcome: str  # of the attempt: succeeded, failed, interrupted, lost, cancelled, superseded
    cause: str
    claimed_at: datetime
    started_at: datetime | None = None
    cancelled_at: datetime | None = None  # when a person of the studio, or its budget, stopped it; None: the farm did
    label: str = ""  # what a statement's reader knows it by: "frame 12"
    purpose: str = "render"
    scout: bool = False


@dataclass(frozen=True, kw_only=True)
class Metered:
    """Milliseconds that count."""

    render_ms: int
    setup_ms: int


def meter(ended: EndedFact, *, received_at: datetime) -> Metered:
    """Take the worker's milliseconds, as far as they fit between the claim and the receipt of the end."""
    most = milliseconds(ended.claimed_at, received_at + CLOCK_SLACK)
    render = min(max(ended.render_ms, 0), most)
    return Metered(render_ms=render, setup_ms=min(max(ended.setup_ms, 0), most - render))


def billable_ms(metered: Metered, *, free_setup_seconds: int) -> int:
    """Give the line's milliseconds: rendering, and of entering the session what is beyond the free part."""
    return metered.render_ms + max(0, metered.setup_ms - free_setup_seconds * 1000)


def ms_until_cancelled(ended: EndedFact) -> int | None:
    """Give the milliseconds from an attempt's start to the studio's wish to cancel; None if it had none."""
    if ended.cancelled_at is None:
        return None
    return milliseconds(ended.started_at or ended.claimed_at, ended.cancelled_at)


def milliseconds(begin: datetime, end: datetime) -> int:
    """Give whole milliseconds between two moments, none if they are the wrong way round."""
    return max(0, (end - begin) // timedelta(milliseconds=1))


def month_of(at: datetime, *, zone: str) -> date:
    """Give the first day of the month of a moment, in a studio's zone."""
    return at.astimezone(ZoneInfo(zone)).date().replace(day=1)


def day_bounds(at: datetime, *, zone: str) -> tuple[datetime, datetime]:
    """Give the half-open bounds of a moment's day, in a studio's zone."""
    local = at.astimezone(ZoneInfo(zone))
    begin = datetime(local.year, local.month, local.day, tzinfo=ZoneInfo(zone))
    end = begin.date() + timedelta(days=1)
    return begin, datetime(end.year, end.month, end.day, tzinfo=ZoneInfo(zone))

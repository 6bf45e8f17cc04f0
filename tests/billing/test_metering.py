"""Milliseconds that count, and the days and months they count for."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from farm.billing.metering import (
    EndedFact,
    Metered,
    billable_ms,
    day_bounds,
    meter,
    milliseconds,
    month_of,
    ms_until_cancelled,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def ended(**fields: Any) -> EndedFact:
    known: dict[str, Any] = {
        "attempt": uuid4(),
        "task": uuid4(),
        "generation": 1,
        "cost_object": uuid4(),
        "worker_class": "cpu",
        "gpus": 1,
        "render_ms": 0,
        "setup_ms": 0,
        "outcome": "succeeded",
        "cause": "",
        "claimed_at": NOW,
    }
    return EndedFact(**known | fields)


class TestMeter:
    @pytest.mark.parametrize(
        ("render", "setup", "counts"),
        [
            (50_000, 5_000, (50_000, 5_000)),
            (62_000, 0, (62_000, 0)),  # the two seconds that a clock may run ahead
            (62_001, 0, (62_000, 0)),
            (10**12, 10**12, (62_000, 0)),
            (60_000, 5_000, (60_000, 2_000)),
            (-5, -7, (0, 0)),
        ],
    )
    def test_a_worker_is_believed_as_far_as_the_time_went(
        self, render: int, setup: int, counts: tuple[int, int]
    ) -> None:
        metered = meter(ended(render_ms=render, setup_ms=setup), received_at=NOW + timedelta(seconds=60))

        assert metered == Metered(render_ms=counts[0], setup_ms=counts[1])

    def test_a_receipt_before_the_claim_counts_nothing(self) -> None:
        metered = meter(ended(render_ms=5_000), received_at=NOW - timedelta(hours=1))

        assert metered == Metered(render_ms=0, setup_ms=0)


class TestBillableMs:
    @pytest.mark.parametrize(("setup", "expected"), [(0, 1_000), (300_000, 1_000), (300_001, 1_001), (360_000, 61_000)])
    def test_entering_a_session_is_free_for_so_long(self, setup: int, expected: int) -> None:
        assert billable_ms(Metered(render_ms=1_000, setup_ms=setup), free_setup_seconds=300) == expected


class TestMsUntilCancelled:
    def test_it_counts_from_the_start(self) -> None:
        fact = ended(started_at=NOW + timedelta(seconds=5), cancelled_at=NOW + timedelta(seconds=20))

        assert ms_until_cancelled(fact) == 15_000

    def test_before_the_start_was_heard_of_it_counts_from_the_claim(self) -> None:
        assert ms_until_cancelled(ended(cancelled_at=NOW + timedelta(seconds=20))) == 20_000

    def test_cancelled_before_it_started_is_nothing(self) -> None:
        fact = ended(started_at=NOW + timedelta(seconds=5), cancelled_at=NOW)

        assert ms_until_cancelled(fact) == 0

    def test_nobody_cancelled(self) -> None:
        assert ms_until_cancelled(ended()) is None


class TestMilliseconds:
    def test_whole_ones_are_counted(self) -> None:
        assert milliseconds(NOW, NOW + timedelta(microseconds=1_999)) == 1


class TestMonthOf:
    @pytest.mark.parametrize(
        ("at", "zone", "expected"),
        [
            ("2026-11-30T23:59:59+00:00", "UTC", date(2026, 11, 1)),
            ("2026-12-01T00:00:00+00:00", "UTC", date(2026, 12, 1)),
            ("2026-11-30T23:30:00+00:00", "Europe/Berlin", date(2026, 12, 1)),
            ("2026-12-01T04:00:00+00:00", "America/New_York", date(2026, 11, 1)),
            ("2026-12-31T10:00:00+00:00", "Pacific/Kiritimati", date(2027, 1, 1)),
        ],
    )
    def test_a_month_is_the_studios(self, at: str, zone: str, expected: date) -> None:
        assert month_of(datetime.fromisoformat(at), zone=zone) == expected


class TestDayBounds:
    def test_a_day_is_half_open_and_the_studios(self) -> None:
        begin, end = day_bounds(datetime(2026, 11, 20, 3, tzinfo=UTC), zone="America/New_York")

        assert (begin.isoformat(), end.isoformat()) == ("2026-11-19T00:00:00-05:00", "2026-11-20T00:00:00-05:00")

    def test_the_day_the_clocks_change_has_25_hours(self) -> None:
        begin, end = day_bounds(datetime(2026, 10, 25, 12, tzinfo=UTC), zone="Europe/Berlin")

        assert end.astimezone(UTC) - begin.astimezone(UTC) == timedelta(hours=25)

"""Whose turn it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.dispatch.turns import Past, Shares, Turns, fair_slots

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class TestTurns:
    def test_promises_that_are_more_than_there_is_shrink_and_leave_a_tenth(self) -> None:
        promised, other = uuid4(), uuid4()
        shares = Shares({}, {promised: 9}, guaranteed={promised: 50})

        turns = Turns(shares, {uuid4(): promised, uuid4(): other}, slots=10)

        assert turns.of(other) < turns.of(promised)

    def test_a_project_counts_on_its_part_of_what_its_studio_holds(self) -> None:
        studio, sure, other = uuid4(), uuid4(), uuid4()
        shares = Shares({}, {studio: 10, sure: 8, other: 2}, guaranteed={sure: 9})

        turns = Turns(shares, {sure: studio, other: studio}, slots=100)

        assert turns.of(sure) < turns.of(other)

    def test_lending_counts(self) -> None:
        studio = uuid4()
        turns = Turns(Shares({}, {}, most={studio: 1}), {uuid4(): studio}, slots=3)

        assert turns.may_grow(studio)
        turns.lend(studio)
        assert not turns.may_grow(studio)


class TestFairSlots:
    def test_what_one_may_not_have_the_others_share(self) -> None:
        small, big = uuid4(), uuid4()

        assert fair_slots([small, big], Shares({}, {}, most={small: 2}), 10) == {small: 2.0, big: 8.0}

    @given(st.lists(st.tuples(st.integers(1, 500), st.none() | st.integers(0, 20)), min_size=1, max_size=6))
    def test_gives_no_more_than_there_is_and_none_more_than_its_most(self, rows: list[tuple[int, int | None]]) -> None:
        parties = {uuid4(): row for row in rows}
        shares = Shares(
            {p: w for p, (w, _) in parties.items()}, {}, most={p: m for p, (_, m) in parties.items() if m is not None}
        )

        fair = fair_slots(parties, shares, 30)

        assert sum(fair.values()) <= 30 + 1e-6
        assert all(fair[p] <= most for p, most in shares.most.items())


class TestPast:
    def test_who_held_too_much_counts_as_holding_more_but_never_more_than_a_slot(self) -> None:
        rich, poor, project, other = uuid4(), uuid4(), uuid4(), uuid4()
        past = Past()
        past.pass_to(NOW)
        past.remember({project: rich, other: poor}, Shares({}, {rich: 3, poor: 1}))

        past.pass_to(NOW + timedelta(seconds=15))
        assert past.debts()[rich] == pytest.approx(0.25)
        past.pass_to(NOW + timedelta(hours=1))

        assert (past.debts()[rich], past.debts()[poor]) == (1.0, -1.0)

    def test_is_forgotten_by_who_wants_nothing_any_more(self) -> None:
        studio, other = uuid4(), uuid4()
        past = Past()
        past.pass_to(NOW)
        past.remember({uuid4(): studio, uuid4(): other}, Shares({}, {studio: 1}))
        past.pass_to(NOW + timedelta(seconds=60))
        past.remember({}, Shares({}, {}))

        past.pass_to(NOW + timedelta(hours=9))
        past.pass_to(NOW + timedelta(hours=10))

        assert past.debts() == {}

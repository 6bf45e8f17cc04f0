"""How many machines: as a table, and what never happens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.fleet.scaling import Decision, FleetRules, FleetState, Idler, decide

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def idler(number: int, *, seconds: int) -> Idler:
    return Idler(UUID(int=number), NOW - timedelta(seconds=seconds))


def decided(state: dict[str, Any], **rules: Any) -> Decision:
    wish: dict[str, Any] = {
        "min_machines": 0,
        "max_machines": 4,
        "idle_timeout": timedelta(seconds=120),
        "is_paused": False,
    } | rules
    told: dict[str, Any] = {
        "present": 0,
        "slots_per_machine": 1,
        "busy_slots": 0,
        "wanted_slots": 0,
        "idle": (),
    } | state
    return decide(FleetRules(**wish), FleetState(**told), now=NOW)


class TestDecide:
    @pytest.mark.parametrize(
        ("state", "rules", "launch", "reason"),
        [
            ({}, {}, 0, "idle"),
            ({"wanted_slots": 1}, {}, 1, "work-ready"),
            ({"wanted_slots": 100}, {}, 4, "work-ready"),
            ({"wanted_slots": 5, "slots_per_machine": 4}, {}, 2, "work-ready"),
            ({"wanted_slots": 2, "present": 2}, {}, 0, "idle"),  # they are there, and about to take it
            ({"wanted_slots": 2, "present": 2, "busy_slots": 2}, {}, 2, "work-ready"),
            ({"wanted_slots": 9, "present": 4, "busy_slots": 4}, {}, 0, "idle"),
            ({"wanted_slots": 9, "present": 2, "busy_slots": 2, "leaving": 1}, {}, 1, "work-ready"),
            ({"wanted_slots": 9, "leaving": 4}, {}, 0, "limit"),
            ({"wanted_slots": 9, "leaving": 9}, {}, 0, "limit"),
            ({"wanted_slots": 1}, {"max_machines": 0}, 0, "idle"),
            ({}, {"min_machines": 2}, 2, "work-ready"),
            ({"present": 1}, {"min_machines": 2}, 1, "work-ready"),
            ({}, {"min_machines": 9}, 4, "work-ready"),
            ({"wanted_slots": 9}, {"is_paused": True}, 0, "paused"),
        ],
    )
    def test_it_starts_what_ready_work_can_use(
        self, state: dict[str, Any], rules: dict[str, Any], launch: int, reason: str
    ) -> None:
        decision = decided(state, **rules)

        assert (decision.launch, decision.reason, decision.end) == (launch, reason, ())

    def test_it_ends_what_was_idle_too_long_longest_first(self) -> None:
        idle = (idler(1, seconds=119), idler(2, seconds=120), idler(3, seconds=500))

        assert decided({"present": 4, "busy_slots": 1, "idle": idle}).end == (UUID(int=3), UUID(int=2))

    def test_it_keeps_as_many_as_the_fleet_must_have(self) -> None:
        idle = tuple(idler(n, seconds=600 + n) for n in range(4))

        assert decided({"present": 4, "idle": idle}, min_machines=3).end == (UUID(int=3),)

    def test_it_keeps_idlers_that_ready_work_can_use(self) -> None:
        idle = tuple(idler(n, seconds=600) for n in range(3))

        assert len(decided({"present": 3, "wanted_slots": 2, "idle": idle}).end) == 1

    def test_a_lowered_limit_ends_idlers_and_nobody_else(self) -> None:
        idle = (idler(1, seconds=600),)

        assert decided({"present": 6, "busy_slots": 5, "idle": idle}).end == (UUID(int=1),)

    def test_paused_it_ends_nobody(self) -> None:
        assert decided({"present": 1, "idle": (idler(1, seconds=999),)}, is_paused=True).end == ()

    def test_the_numbers_that_led_to_it_are_kept(self) -> None:
        decision = decided({"present": 1, "busy_slots": 1, "wanted_slots": 2, "leaving": 1})

        assert decision.params == {"present": 1, "leaving": 1, "needed": 3, "max": 4, "ready": 2, "busy": 1}


@st.composite
def situations(draw: st.DrawFn) -> tuple[FleetRules, FleetState]:
    count = st.integers(0, 12)
    present = draw(count)
    idle = draw(st.integers(0, present))
    rules = FleetRules(draw(count), draw(count), timedelta(seconds=draw(st.sampled_from([0, 60]))), draw(st.booleans()))
    state = FleetState(
        present=present,
        slots_per_machine=draw(st.integers(0, 4)),
        busy_slots=draw(st.integers(0, 4 * (present - idle))) if present > idle else 0,
        wanted_slots=draw(st.integers(0, 100)),
        idle=tuple(idler(n, seconds=draw(st.integers(0, 120))) for n in range(idle)),
        leaving=draw(count),
    )
    return rules, state


class TestAlways:
    @given(situations())
    def test_never_above_the_limit_never_somebody_at_work_never_below_what_must_be(
        self, situation: tuple[FleetRules, FleetState]
    ) -> None:
        rules, state = situation

        decision = decide(rules, state, now=NOW)

        there = state.present + state.leaving
        assert decision.launch >= 0
        assert decision.launch == 0 or there + decision.launch <= rules.max_machines
        tired = {i.worker for i in state.idle if NOW - i.since >= rules.idle_timeout}
        assert set(decision.end) <= tired
        assert len(set(decision.end)) == len(decision.end)
        assert not (decision.launch and decision.end)
        left = state.present - len(decision.end)
        assert not decision.end or left >= min(rules.min_machines, rules.max_machines)
        if rules.is_paused:
            assert (decision.launch, decision.end) == (0, ())

    @given(situations())
    def test_carried_out_it_is_content(self, situation: tuple[FleetRules, FleetState]) -> None:
        rules, state = situation
        first = decide(rules, state, now=NOW)
        idle = tuple(i for i in state.idle if i.worker not in first.end)
        then = FleetState(
            present=state.present + first.launch - len(first.end),
            slots_per_machine=state.slots_per_machine,
            busy_slots=state.busy_slots,
            wanted_slots=state.wanted_slots,
            idle=idle,
            leaving=state.leaving,
        )

        again = decide(rules, then, now=NOW)

        assert (again.launch, again.end) == (0, ())

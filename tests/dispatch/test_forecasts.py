"""When a job will be done, at the present number of slots."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from farm.dispatch.forecasts import eta_s

A, B = uuid4(), uuid4()


class TestEtaS:
    @pytest.mark.parametrize(
        ("left", "paces", "slots", "seconds"),
        [
            ({A: 10}, {A: 2_000}, 1, 20),
            ({A: 10}, {A: 2_000}, 4, 5),
            ({A: 10, B: 1}, {A: 2_000, B: 500}, 1, 21),
            ({A: 10}, {A: 2_000}, 0, None),  # nothing is at work
            ({A: 10, B: 1}, {A: 2_000}, 1, None),  # nothing was learnt of a step
            ({A: 10, B: 0}, {A: 2_000}, 1, 20),  # which does not matter when it is done
            ({A: 0}, {}, 1, 0),
        ],
    )
    def test_it_is_the_work_that_is_left_over_the_slots(
        self, left: dict[UUID, int], paces: dict[UUID, int], slots: int, seconds: int | None
    ) -> None:
        assert eta_s(left, paces, slots=slots) == seconds

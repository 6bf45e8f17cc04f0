"""How a task's change spreads: read as tables."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.jobs.moves import StepStatus, TaskStatus
from farm.jobs.ripples import halving_ranks, is_storm, job_status, step_status


def counts(**given: int) -> dict[TaskStatus, int]:
    return {status: given.get(str(status), 0) for status in TaskStatus}


class TestStepStatus:
    @pytest.mark.parametrize(
        ("tasks", "waits", "status"),
        [
            ({"pending": 2}, True, "waiting"),
            ({"ready": 2}, False, "active"),
            ({"pending": 1, "succeeded": 1}, False, "active"),
            ({"leased": 1, "failed": 5}, False, "active"),
            ({"ready": 1, "succeeded": 3}, True, "waiting"),
            ({"succeeded": 2}, False, "succeeded"),
            ({"succeeded": 2}, True, "succeeded"),
            ({"succeeded": 2, "cancelled": 1}, False, "succeeded"),
            ({"succeeded": 2, "failed": 1}, False, "failed"),
            ({"cancelled": 2, "failed": 1}, False, "failed"),
            ({"cancelled": 2}, False, "cancelled"),
        ],
    )
    def test_it_follows_from_its_tasks(self, tasks: dict[str, int], waits: bool, status: str) -> None:
        assert step_status(counts(**tasks), waits=waits) == status


class TestJobStatus:
    @pytest.mark.parametrize(
        ("steps", "depends_on", "status"),
        [
            ("active", [[]], None),
            ("succeeded", [[]], "succeeded"),
            ("failed", [[]], "failed"),
            ("cancelled", [[]], "cancelled"),
            ("waiting", [[]], None),  # for other jobs
            ("succeeded waiting", [[], [0]], None),
            ("active waiting", [[], [0]], None),
            ("failed waiting", [[], [0]], "failed"),
            ("cancelled waiting", [[], [0]], "cancelled"),
            ("failed active", [[], []], None),
            ("failed waiting active", [[], [0], []], None),
            ("failed waiting succeeded", [[], [0], []], "failed"),
            ("cancelled succeeded", [[], []], "succeeded"),
            ("cancelled waiting succeeded", [[], [0], []], "cancelled"),
            ("cancelled waiting", [[], []], None),  # independent: it waits for other jobs
            ("failed waiting waiting", [[], [0], [1]], "failed"),
            ("failed cancelled waiting", [[], [], [0, 1]], "failed"),
            ("cancelled cancelled", [[], []], "cancelled"),
            ("succeeded failed", [[], []], "failed"),
        ],
    )
    def test_it_follows_from_its_steps(self, steps: str, depends_on: list[list[int]], status: str | None) -> None:
        assert job_status([StepStatus(s) for s in steps.split()], depends_on) == status


class TestIsStorm:
    @pytest.mark.parametrize(
        ("succeeded", "failed", "total", "storm"),
        [
            (0, 2, 100, False),
            (0, 3, 100, True),
            (0, 3, 3, False),  # it has ended: nothing is left to stop
            (0, 2, 2, False),
            (1, 3, 100, False),
            (17, 2, 100, False),
            (18, 2, 100, True),
            (17, 3, 100, True),
            (90, 9, 100, False),
            (90, 10, 200, True),
            (90, 10, 100, False),
            (0, 0, 100, False),
        ],
    )
    def test_the_first_three_or_a_tenth_of_twenty(self, succeeded: int, failed: int, total: int, storm: bool) -> None:
        assert is_storm(succeeded=succeeded, failed=failed, total=total) is storm


class TestHalvingRanks:
    @given(st.integers(0, 400))
    def test_each_rank_is_given_once(self, count: int) -> None:
        assert sorted(halving_ranks(count)) == list(range(count))

    @pytest.mark.parametrize(
        ("count", "order"),
        [(1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (5, [0, 2, 4, 1, 3]), (9, [0, 4, 8, 2, 6, 1, 3, 5, 7])],
    )
    def test_first_middle_last_then_halving(self, count: int, order: list[int]) -> None:
        ranks = halving_ranks(count)

        assert sorted(range(count), key=ranks.__getitem__) == order

    @given(st.integers(2, 300), st.data())
    def test_whatever_is_done_first_leaves_no_gap_much_larger_than_another(
        self, count: int, data: st.DataObject
    ) -> None:
        done = data.draw(st.integers(3, count)) if count > 3 else count
        ranks = halving_ranks(count)
        places = [i for i in range(count) if ranks[i] < done]

        largest = max((b - a for a, b in pairwise(places)), default=0)
        assert largest <= 4 * max(1, count // done)

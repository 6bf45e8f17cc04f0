"""How long a task will take, and what follows from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.dispatch.predicting import expected_ms, predict, quantile, queue_depth, scaled, timeout_s

times = st.lists(st.integers(1, 10_000_000), min_size=1, max_size=50)


class TestPredict:
    def test_knows_nothing_of_a_step_without_frames(self) -> None:
        assert predict([]) is None

    @given(times)
    def test_gives_quantiles_in_order_around_the_median(self, recent: list[int]) -> None:
        found = predict(recent)

        assert found is not None
        assert found.p10 <= found.p50 <= found.p90 <= found.p95
        assert min(recent) <= found.p50 <= max(recent)

    def test_a_single_frame_gives_a_wide_range(self) -> None:
        found = predict([10_000])

        assert found is not None
        assert (found.p10, found.p50, found.p90) == (6_666, 10_000, 15_000)


class TestQuantile:
    def test_interpolates_between_order_statistics(self) -> None:
        assert quantile([1, 2, 3, 4], 0.5) == 2.5
        assert quantile([5], 0.9) == 5


class TestTimeout:
    def test_is_what_a_person_asked(self) -> None:
        assert timeout_s([], 90) == 90

    def test_is_six_hours_before_five_frames_are_known(self) -> None:
        assert timeout_s([60_000] * 4, None) == 6 * 3600

    def test_is_five_medians_and_at_least_ten_minutes(self) -> None:
        assert timeout_s([600_000] * 5, None) == 3000
        assert timeout_s([1_000] * 5, None) == 600


class TestQueueDepth:
    def test_grows_as_frames_get_shorter(self) -> None:
        assert [queue_depth(ms) for ms in (None, 60_000, 5_000, 2_000, 200)] == [1, 1, 2, 3, 6]


class TestExpectedMs:
    def test_the_nearest_frame_weighs_most(self) -> None:
        seen = [(0, 1_000), (10, 9_000)]

        assert expected_ms(9, seen) > 8_000 > 2_000 > expected_ms(1, seen)

    def test_lies_between_what_was_seen(self) -> None:
        assert expected_ms(5, [(0, 1_000), (10, 9_000)]) == pytest.approx(5_000)
        assert expected_ms(3, []) == 0.0


class TestScaled:
    def test_a_class_nobody_measured_is_told_from_the_one_nearest_in_speed(self) -> None:
        speeds = {"T4": 0.5, "L4": 1.0, "H100": 4.0}

        assert scaled({"T4": 8_000, "H100": 1_500}, speeds) == {"T4": 8_000, "H100": 1_500, "L4": 4_000}

    def test_what_has_no_known_speed_stays_unknown(self) -> None:
        assert scaled({"cpu": 9_000}, {"cpu": None, "L4": 1.0}) == {"cpu": 9_000}

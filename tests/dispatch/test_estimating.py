"""Frames that nobody has rendered yet: how wide the range is, and what it rests on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.dispatch.estimating import MOST_RATIO, USUAL, Basis, Seen, Size, foresee, ratio_of

HD = Size(1920 * 1080, 128)
SPEEDS = {"NVIDIA L4": 1.0, "NVIDIA L40S": 3.0, "Odd GPU": None, "cpu": 0.05}


def seen(*ms: int, basis: Basis = Basis.SCENE, worker_class: str = "NVIDIA L4", size: Size = HD) -> Seen:
    return Seen(basis, worker_class, size, list(ms))


class TestForesee:
    def test_the_same_scene_goes_before_other_scenes(self) -> None:
        found = foresee(
            [seen(90_000, basis=Basis.STUDIO), seen(10_000)], worker_class="NVIDIA L4", size=HD, speeds=SPEEDS
        )

        assert (found.basis, found.frames, found.prediction.p50) == (Basis.SCENE, 1, 10_000)

    def test_its_own_class_of_worker_goes_before_others(self) -> None:
        others = seen(90_000, 90_000, worker_class="NVIDIA L40S")

        found = foresee([others, seen(10_000)], worker_class="NVIDIA L4", size=HD, speeds=SPEEDS)

        assert (found.frames, found.prediction.p50) == (1, 10_000)

    def test_frames_of_a_slower_gpu_are_scaled_by_the_catalogue_and_the_range_is_wider(self) -> None:
        same = foresee([seen(30_000)], worker_class="NVIDIA L4", size=HD, speeds=SPEEDS).prediction

        found = foresee([seen(30_000)], worker_class="NVIDIA L40S", size=HD, speeds=SPEEDS).prediction

        assert found.p50 == 10_000
        assert found.p90 / found.p50 > same.p90 / same.p50

    def test_a_gpu_that_nobody_measured_gets_the_widest_range(self) -> None:
        known = foresee([seen(30_000)], worker_class="NVIDIA L40S", size=HD, speeds=SPEEDS).prediction

        found = foresee([seen(30_000)], worker_class="Odd GPU", size=HD, speeds=SPEEDS).prediction

        assert found.p50 == 30_000
        assert found.p90 / found.p10 > known.p90 / known.p10

    def test_larger_and_finer_frames_take_longer(self) -> None:
        twice = Size(HD.pixels and HD.pixels * 4, 256)

        found = foresee([seen(1_000)], worker_class="NVIDIA L4", size=twice, speeds=SPEEDS)

        assert found.prediction.p50 == 8_000

    def test_other_scenes_give_a_wider_range_than_the_same_one(self) -> None:
        same = foresee([seen(9_000)], worker_class="NVIDIA L4", size=HD, speeds=SPEEDS).prediction
        other = foresee([seen(9_000, basis=Basis.STUDIO)], worker_class="NVIDIA L4", size=HD, speeds=SPEEDS)

        assert other.basis is Basis.STUDIO
        assert other.prediction.p90 > same.p90
        assert other.prediction.p10 < same.p10

    def test_without_any_frames_it_is_what_a_frame_usually_takes_and_named_so(self) -> None:
        found = foresee([], worker_class="NVIDIA L4", size=HD, speeds=SPEEDS)

        assert (found.basis, found.frames) == (Basis.CATALOGUE, 0)
        assert found.prediction.p50 == USUAL.p50

    def test_frames_of_no_milliseconds_are_none(self) -> None:
        assert foresee([seen()], worker_class="NVIDIA L4", size=HD, speeds=SPEEDS).basis is Basis.CATALOGUE

    @given(
        st.lists(st.integers(1, 10_000_000), max_size=50),
        st.sampled_from(list(SPEEDS)),
        st.sampled_from(list(SPEEDS)),
        st.sampled_from([Basis.SCENE, Basis.STUDIO]),
    )
    def test_quantiles_stand_in_order(self, ms: list[int], ours: str, theirs: str, basis: Basis) -> None:
        found = foresee([seen(*ms, basis=basis, worker_class=ours)], worker_class=theirs, size=HD, speeds=SPEEDS)

        told = found.prediction
        assert 1 <= told.p10 <= told.p50 <= told.p90 <= told.p95


class TestRatioOf:
    @pytest.mark.parametrize(
        ("known", "wanted", "ratio"),
        [
            (HD, HD, 1.0),
            (HD, Size(None, 256), 2.0),
            (Size(), HD, 1.0),
            (HD, Size(1, 1), 1 / MOST_RATIO),
            (Size(1, 1), HD, MOST_RATIO),
        ],
    )
    def test_what_is_unknown_counts_as_equal_and_the_rest_has_bounds(
        self, known: Size, wanted: Size, ratio: float
    ) -> None:
        assert ratio_of(known, wanted) == pytest.approx(ratio)

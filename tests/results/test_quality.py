"""What looks wrong with frames."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from farm.results.quality import Kind, Picture, check


def measured(
    frame: int,
    level: float = 0.5,
    *,
    series: Hashable = "a",
    size: tuple[int | None, int | None] = (64, 36),
    **statistics: Any,
) -> Picture:
    plain = {
        "mean": [level] * 3,
        "min": [level / 2] * 3,
        "max": [min(1.0, level * 2)] * 3,
        "nan": 0,
        "inf": 0,
        "alpha": None,
        "uniform": False,
    }
    return Picture(series, frame, f"task{frame}", *size, {**plain, **statistics})


def kinds(*pictures: Picture) -> list[tuple[int, Kind]]:
    return [(finding.frame, finding.kind) for finding in check(pictures)]


class TestOneFrame:
    def test_that_is_as_frames_are_has_no_finding(self) -> None:
        assert kinds(measured(1)) == []

    @pytest.mark.parametrize(
        ("statistics", "kind"),
        [
            ({"max": [0.0, 0.0, 0.0], "uniform": True}, Kind.BLACK),
            ({"max": [0.003, 0.0, 0.0]}, Kind.BLACK),
            ({"uniform": True}, Kind.UNIFORM),
            ({"nan": 3}, Kind.NAN),
            ({"inf": 1}, Kind.NAN),
            ({"alpha": {"mean": 0.0, "covered": 0.0}, "max": [0.0] * 3}, Kind.TRANSPARENT),
        ],
    )
    def test_is_named_for_what_it_is(self, statistics: dict[str, Any], kind: Kind) -> None:
        assert kinds(measured(7, **statistics)) == [(7, kind)]

    def test_that_is_dark_or_partly_transparent_is_not_named(self) -> None:
        assert kinds(measured(1, max=[0.02, 0.0, 0.0], alpha={"mean": 0.1, "covered": 0.2})) == []

    def test_of_one_grey_channel_is_checked_too(self) -> None:
        assert kinds(measured(1, mean=[0.0], max=[0.0])) == [(1, Kind.BLACK)]

    @pytest.mark.parametrize(
        "statistics", [{"mean": None, "max": None}, {"max": [None] * 3}, {"nan": "x"}, {"alpha": 1}, {"mean": "abc"}]
    )
    def test_with_statistics_of_another_form_is_passed_over(self, statistics: dict[str, Any]) -> None:
        assert kinds(measured(1, **statistics)) == []

    def test_says_so_in_a_sentence(self) -> None:
        (finding,) = check([measured(7, nan=2, inf=1)])

        assert finding.sentence == "Frame 7 has 3 pixel values that are no number or infinite."


class TestNeighbours:
    def test_a_single_frame_unlike_both_is_an_outlier(self) -> None:
        levels = [0.5, 0.51, 0.5, 0.9, 0.5, 0.51, 0.5]

        assert kinds(*(measured(n, level) for n, level in enumerate(levels))) == [(3, Kind.OUTLIER)]

    @pytest.mark.parametrize("odd", [0, 5])
    def test_the_first_and_the_last_are_compared_with_the_two_beside_them(self, odd: int) -> None:
        levels = [0.1 if n == odd else 0.5 for n in range(6)]

        assert kinds(*(measured(n, level) for n, level in enumerate(levels))) == [(odd, Kind.OUTLIER)]

    @pytest.mark.parametrize(
        "levels",
        [
            [0.2, 0.2, 0.2, 0.8, 0.8, 0.8],  # a cut
            [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],  # a fade
            [0.1, 0.9, 0.1, 0.9, 0.1, 0.9],  # a strobe: that is how frames are here
            [0.2, 0.9, 0.2],  # too few to tell
            [0.5, 0.505, 0.5, 0.515, 0.5],  # hardly to be seen
        ],
    )
    def test_what_a_film_may_do_is_none(self, levels: list[float]) -> None:
        assert kinds(*(measured(n, level) for n, level in enumerate(levels))) == []

    def test_only_frames_of_one_series_are_compared(self) -> None:
        frames = [measured(n, 0.2, series="left") for n in range(5)] + [
            measured(n, 0.9, series="right") for n in range(5)
        ]

        assert kinds(*frames) == []

    def test_order_is_by_frame_however_they_come(self) -> None:
        levels = {3: 0.9, 0: 0.5, 4: 0.5, 1: 0.5, 2: 0.5, 5: 0.5}

        assert kinds(*(measured(n, level) for n, level in levels.items())) == [(3, Kind.OUTLIER)]


class TestSizes:
    def test_a_frame_of_another_size_than_most_is_named(self) -> None:
        frames = [measured(1), measured(2), measured(3, size=(32, 18))]

        (finding,) = check(frames)

        assert (finding.kind, finding.frame) == (Kind.SIZE, 3)
        assert finding.sentence == "Frame 3 is 32 × 18; most frames are 64 × 36."

    def test_frames_of_unknown_size_are_not(self) -> None:
        assert kinds(measured(1), measured(2, size=(None, None))) == []

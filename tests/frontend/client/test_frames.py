"""Frame ranges as people write them."""

from __future__ import annotations

import pytest
from farmhand.frames import BadFrames, parse_frames, say_frames
from hypothesis import given
from hypothesis import strategies as st


class TestParseFrames:
    @pytest.mark.parametrize(
        ("text", "frames"),
        [
            ("3", [3]),
            ("3,7-9", [3, 7, 8, 9]),
            ("1-10:4", [1, 5, 9]),
            ("1-10x4", [1, 5, 9]),
            (" 2 - 4 , 3", [2, 3, 4]),
            ("-2-1", [-2, -1, 0, 1]),
        ],
    )
    def test_ranges_are_read(self, text: str, frames: list[int]) -> None:
        assert parse_frames(text) == frames

    @pytest.mark.parametrize("text", ["", "a", "1,,2", "5-1", "1-2-3", "1-9:0", "1-10000000"])
    def test_what_is_none_is_refused(self, text: str) -> None:
        with pytest.raises(BadFrames):
            parse_frames(text)


class TestSayFrames:
    @given(st.sets(st.integers(min_value=-50, max_value=200), min_size=1))
    def test_what_is_said_is_read_as_the_same(self, frames: set[int]) -> None:
        assert parse_frames(say_frames(frames)) == sorted(frames)

    def test_runs_are_said_as_ranges(self) -> None:
        assert say_frames([7, 1, 2, 3]) == "1-3,7"

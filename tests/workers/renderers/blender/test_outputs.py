"""Names, formats, depths, sizes and frames, without Blender."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openjd.model import IntRangeExpr

from workers.renderers.blender import expected_outputs
from workers.renderers.blender.outputs import (
    FORMATS,
    ImpossibleDepth,
    MalformedFrames,
    UnknownFormat,
    compact_frames,
    frame_name,
    parse_frames,
    resolve_depth,
    resolve_format,
    resolve_size,
)

PARAMETERS = {"Scene": "", "FileFormat": "SCENE", "ColorDepth": "SCENE", "ResolutionPercent": "0"}


def scene(**changes: Any) -> dict[str, Any]:
    said = {
        "name": "Scene",
        "active": True,
        "multiview": False,
        "region": None,
        "resolution": {"x": 1920, "y": 1080, "percent": 50},
        "output": {"format": "PNG", "color_depth": 8},
    }
    return said | changes


class TestResolveFormat:
    @pytest.mark.parametrize(
        ("wanted", "said", "resolved"),
        [
            ("SCENE", "TIFF", "TIFF"),
            ("SCENE", "FFMPEG", "PNG"),  # a movie
            ("SCENE", "AVIF", "PNG"),  # nobody here reads it back
            ("JPEG", "PNG", "JPEG"),
        ],
    )
    def test_the_wanted_one_or_the_scenes_or_png(self, wanted: str, said: str, resolved: str) -> None:
        assert resolve_format(wanted, scene=said) == resolved

    def test_an_unknown_one_is_refused(self) -> None:
        with pytest.raises(UnknownFormat, match="no file format GIF: choose one of PNG, OPEN_EXR"):
            resolve_format("GIF", scene="PNG")


class TestResolveDepth:
    @pytest.mark.parametrize(
        ("wanted", "said", "file_format", "resolved"),
        [
            ("SCENE", 16, "PNG", 16),
            ("SCENE", 32, "PNG", 16),  # the most that PNG has
            ("SCENE", 8, "OPEN_EXR", 32),
            ("16", 8, "OPEN_EXR", 16),
        ],
    )
    def test_the_wanted_one_or_the_scenes_or_the_most(
        self, wanted: str, said: int, file_format: str, resolved: int
    ) -> None:
        assert resolve_depth(wanted, scene=said, file_format=file_format) == resolved

    def test_what_the_format_cannot_hold_is_refused(self) -> None:
        with pytest.raises(
            ImpossibleDepth, match="JPEG cannot hold 16 bits per channel: choose ColorDepth SCENE or one of 8"
        ):
            resolve_depth("16", scene=8, file_format="JPEG")


class TestResolveSize:
    def test_percent_of_the_resolution_rounded_down(self) -> None:
        assert resolve_size(scene(), 33) == (633, 356)

    def test_zero_is_the_scenes_percentage(self) -> None:
        assert resolve_size(scene(), 0) == (960, 540)

    def test_a_region_counts_if_it_crops(self) -> None:
        region = {"x": [0.25, 0.75], "y": [0.0, 0.5], "crop": True}

        assert resolve_size(scene(region=region), 100) == (960, 540)
        assert resolve_size(scene(region=region | {"crop": False}), 100) == (1920, 1080)

    def test_stereo_is_not_foretold(self) -> None:
        assert resolve_size(scene(multiview=True), 100) is None


class TestFrameName:
    @pytest.mark.parametrize(
        ("frame", "name"), [(1, "frame_000001.exr"), (-5, "frame_-00005.exr"), (1234567, "frame_1234567.exr")]
    )
    def test_the_number_is_padded_with_its_sign(self, frame: int, name: str) -> None:
        assert frame_name(frame, "OPEN_EXR") == name


class TestParseFrames:
    @pytest.mark.parametrize(
        ("text", "frames"),
        [
            ("7", [7]),
            ("1-4,9", [1, 2, 3, 4, 9]),
            ("1-10:4", [1, 5, 9]),
            ("10-1:-3", [10, 7, 4, 1]),
            ("-5--3", [-5, -4, -3]),
            (" 1 - 2 , 5 ", [1, 2, 5]),
        ],
    )
    def test_a_range_expression(self, text: str, frames: list[int]) -> None:
        assert parse_frames(text) == frames

    @pytest.mark.parametrize("text", ["", "a", "1-", "1--", "5-1", "1-9:0", "1,,2", "1-10000000", "１-３"])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(MalformedFrames):
            parse_frames(text)

    @given(st.lists(st.integers(-500, 500), min_size=1, max_size=30, unique=True))
    def test_reads_what_openjd_writes(self, frames: list[int]) -> None:
        expression = str(IntRangeExpr.from_list(frames))

        assert sorted(parse_frames(expression)) == sorted(frames)


class TestCompactFrames:
    @pytest.mark.parametrize(
        ("frames", "text"), [([], ""), ([3], "3"), ([1, 2, 3, 5], "1-3,5"), ([-2, -1, 0, 7, 8], "-2-0,7-8")]
    )
    def test_runs_are_written_as_ranges(self, frames: list[int], text: str) -> None:
        assert compact_frames(frames) == text

    @given(st.sets(st.integers(-50, 50), min_size=1))
    def test_can_be_read_again(self, frames: set[int]) -> None:
        assert parse_frames(compact_frames(sorted(frames))) == sorted(frames)


class TestExpectedOutputs:
    def test_one_file_a_frame_as_the_scene_says(self) -> None:
        found = expected_outputs(parameters=PARAMETERS, task={"Frame": "1-2"}, report={"scenes": [scene()]})

        assert found is not None
        assert [file.name for file in found] == ["frame_000001.png", "frame_000002.png"]
        assert (found[0].format, found[0].width, found[0].height, found[0].bit_depth) == ("png", 960, 540, 8)

    def test_the_named_scene_counts(self) -> None:
        other = scene(name="Other", active=False, output={"format": "OPEN_EXR", "color_depth": 16})

        found = expected_outputs(
            parameters=PARAMETERS | {"Scene": "Other"}, task={"Frame": "1"}, report={"scenes": [scene(), other]}
        )

        assert found is not None
        assert (found[0].name, found[0].format, found[0].bit_depth) == ("frame_000001.exr", "openexr", 16)

    def test_without_a_report_only_what_was_ordered_is_known(self) -> None:
        found = expected_outputs(parameters=PARAMETERS | {"FileFormat": "TIFF"}, task={"Frame": "3"}, report=None)

        assert found is not None
        assert (found[0].name, found[0].format, found[0].width, found[0].bit_depth) == (
            "frame_000003.tif",
            "tiff",
            None,
            None,
        )

    def test_a_scene_that_is_to_decide_without_a_report_foretells_nothing(self) -> None:
        assert expected_outputs(parameters=PARAMETERS, task={"Frame": "3"}, report=None) is None

    def test_every_format_of_the_template_has_an_extension(self) -> None:
        for name in ("PNG", "OPEN_EXR", "OPEN_EXR_MULTILAYER", "JPEG", "TIFF", "WEBP"):
            assert FORMATS[name].extension

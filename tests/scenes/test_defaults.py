"""What a scene says of itself, as a form's defaults."""

from __future__ import annotations

from typing import Any

import pytest

from farm.scenes.defaults import SceneDefaults, defaults_of
from tests.scenes.reports import a_dependency, a_problem, a_report, a_scene


def of(**change: Any) -> SceneDefaults:
    return defaults_of(a_report(scenes=[a_scene(**change)]))


class TestDefaultsOf:
    def test_all_that_a_form_shows(self) -> None:
        found = of()

        assert (found.scene, found.scenes) == ("Scene", ["Scene"])
        assert (found.camera, found.cameras) == ("Camera", ["Camera", "Close"])
        assert (found.view_layers, found.view_layers_on) == (["ViewLayer", "Masks"], ["ViewLayer"])
        assert (found.engine, found.engine_as_written, found.samples) == ("CYCLES", "CYCLES", 128)
        assert (found.resolution_percent, found.file_format, found.color_depth, found.is_movie) == (50, "PNG", 8, False)

    def test_the_scene_that_opens_is_meant_unless_another_is_named(self) -> None:
        report = a_report(scenes=[a_scene(name="A", active=False), a_scene(name="B")])

        assert defaults_of(report).scene == "B"
        assert defaults_of(report, {"Scene": ""}).scene == "B"
        assert defaults_of(report, {"Scene": "A"}).scene == "A"
        assert defaults_of(report, {"Scene": "C"}).scene == "B"

    @pytest.mark.parametrize(
        ("frames", "text"),
        [
            ((1, 250, 1), "1-250"),
            ((1, 250, 5), "1-250:5"),
            ((7, 7, 1), "7"),
            ((7, 7, 3), "7"),
            ((-5, 10, 1), "-5-10"),
            ((-10, -5, 2), "-10--5:2"),
            ((10, 1, 1), ""),
            ((1, 9, 0), "1-9"),
        ],
    )
    def test_frames_are_an_openjd_range(self, frames: tuple[int, int, int], text: str) -> None:
        assert of(frames=dict(zip(("start", "end", "step"), frames, strict=True))).frames == text

    @pytest.mark.parametrize(
        ("change", "needs"),
        [
            ({}, False),
            ({"camera": None}, True),
            ({"camera": None, "markers": [{"frame": 1, "camera": "Close"}]}, False),
            ({"camera": None, "markers": [{"frame": 1, "camera": None}]}, True),
            ({"camera": None, "drawn": False}, False),
        ],
    )
    def test_it_needs_a_camera_when_nothing_says_from_where_to_look(self, change: dict[str, Any], needs: bool) -> None:
        assert of(**change).needs_camera is needs

    @pytest.mark.parametrize(
        ("change", "engine"),
        [
            ({"engine": "CYCLES"}, "CYCLES"),
            ({"engine": "EEVEE"}, "EEVEE"),
            ({"engine": "LUXCORE"}, "UNKNOWN"),
            ({"engine": "LUXCORE", "drawn": False}, ""),
        ],
    )
    def test_an_engine_that_the_farm_lacks_is_unknown_unless_nothing_is_drawn(
        self, change: dict[str, Any], engine: str
    ) -> None:
        found = of(**change)

        assert (found.engine, found.engine_as_written) == (engine, change["engine"])

    def test_missing_are_needed_files_that_are_not_in_the_upload_each_once(self) -> None:
        files = [
            a_dependency("//a.png"),
            a_dependency("//b.png", state="missing"),
            a_dependency("//b.png", state="missing"),
            a_dependency("C:\\c.png", state="outside"),
            a_dependency("//d.wav", state="missing", needed=False),
        ]

        assert defaults_of(a_report(dependencies=files)).missing == ["//b.png", "C:\\c.png"]

    def test_warnings_are_of_this_scene_and_of_what_no_choice_settles(self) -> None:
        problems = [
            a_problem("render_region", params={"scene": "Scene"}),
            a_problem("frame_step", params={"scene": "Other"}),
            a_problem("scripts_present"),
            a_problem("video_output", params={"scene": "Scene"}),
        ]

        found = defaults_of(a_report(problems=problems))

        assert found.warnings == ["About render_region.", "About scripts_present."]


class TestParameters:
    def test_only_the_frames_must_be_said(self) -> None:
        assert of().parameters() == {"Frames": "1-250"}

    def test_a_scene_without_frames_says_none(self) -> None:
        assert of(frames={"start": 9, "end": 1, "step": 1}).parameters() == {}


class TestSizeAt:
    def test_at_the_scenes_percentage_or_another(self) -> None:
        assert (of().size_at(0), of().size_at(100), of().size_at(33)) == ((960, 540), (1920, 1080), (633, 356))

    def test_a_cropped_region_is_smaller(self) -> None:
        assert of(region={"x": [0.25, 0.75], "y": [0.0, 0.5], "crop": True}).size_at(100) == (960, 540)

    def test_stereo_decides_itself(self) -> None:
        assert of(multiview=True).size_at(100) is None

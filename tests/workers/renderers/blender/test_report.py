"""Problems found in reports, without Blender."""

from __future__ import annotations

from typing import Any

import pytest

from workers.renderers.blender.refusals import Unreadable
from workers.renderers.blender.report import blank_report, find_problems, refuse


def report(scene: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    said = {
        "name": "Shot",
        "drawn": True,
        "engine": "CYCLES",
        "camera": "Camera",
        "cameras": ["Camera"],
        "markers": [],
        "view_layers": [{"name": "Main", "on": True}],
        "frames": {"start": 1, "end": 10, "step": 1},
        "region": None,
        "multiview": False,
        "output": {"format": "PNG", "views": "INDIVIDUAL"},
    }
    return blank_report("a.blend") | {"scenes": [said | (scene or {})]} | changes


def dependency(**changes: Any) -> dict[str, Any]:
    return {"path": "//a.png", "state": "found", "needed": True, "absolute": False} | changes


class TestFindProblems:
    def test_a_scene_as_it_should_be_has_none(self) -> None:
        assert find_problems(report()) == []

    @pytest.mark.parametrize(
        ("scene", "code", "severity"),
        [
            ({"camera": None}, "no_camera", "error"),
            ({"camera": None, "cameras": []}, "no_camera", "error"),
            ({"engine": "OCTANE"}, "unknown_engine", "error"),
            ({"engine": "EEVEE"}, "eevee_needs_gpu", "warning"),
            ({"view_layers": [{"name": "Main", "on": False}]}, "no_layers", "error"),
            ({"frames": {"start": 5, "end": 1, "step": 1}}, "no_frames", "warning"),
            ({"frames": {"start": 1, "end": 10, "step": 2}}, "frame_step", "warning"),
            ({"output": {"format": "FFMPEG", "views": "INDIVIDUAL"}}, "video_output", "warning"),
            ({"output": {"format": "AVIF", "views": "INDIVIDUAL"}}, "unsupported_format", "warning"),
            ({"multiview": True}, "separate_views", "error"),
            ({"region": {"x": [0, 1], "y": [0, 1], "crop": False}}, "render_region", "warning"),
        ],
    )
    def test_of_a_scene(self, scene: dict[str, Any], code: str, severity: str) -> None:
        (problem,) = find_problems(report(scene))

        assert (problem["code"], problem["severity"], problem["params"]["scene"]) == (code, severity, "Shot")
        assert "{" not in problem["sentence"]

    @pytest.mark.parametrize(
        "scene",
        [
            {"camera": None, "markers": [{"frame": 1, "name": "", "camera": "B"}]},
            {"camera": None, "engine": "OCTANE", "drawn": False},  # its strips are the picture
        ],
    )
    def test_a_scene_that_can_do_without(self, scene: dict[str, Any]) -> None:
        assert find_problems(report(scene)) == []

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"state": "missing"}, "missing_files"),
            ({"state": "outside"}, "outside_files"),
            ({"absolute": True}, "absolute_paths"),
        ],
    )
    def test_of_files(self, change: dict[str, Any], code: str) -> None:
        (problem,) = find_problems(report(dependencies=[dependency(**change)]))

        assert (problem["code"], problem["params"]) == (code, {"paths": ["//a.png"]})
        assert "//a.png" in problem["sentence"]

    def test_a_missing_file_that_no_frame_needs_is_none(self) -> None:
        assert find_problems(report(dependencies=[dependency(state="missing", needed=False)])) == []

    def test_many_names_are_counted(self) -> None:
        files = [dependency(path=f"//{n}.png", state="missing") for n in range(23)]

        (problem,) = find_problems(report(dependencies=files))

        assert len(problem["params"]["paths"]) == 23
        assert "//19.png and 3 more" in problem["sentence"]

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"missing_data": ["Mesh A of //lib.blend"]}, "missing_data"),
            ({"scripts": {"texts": ["rig.py"], "blocked": None}}, "scripts_present"),
            ({"unbaked": ["Cloth: sim"]}, "unbaked_simulation"),
            ({"file_outputs": ["File Output of Comp"]}, "file_outputs"),
        ],
    )
    def test_of_the_rest(self, change: dict[str, Any], code: str) -> None:
        assert [problem["code"] for problem in find_problems(report(**change))] == [code]


class TestRefuse:
    def test_a_refusal_has_a_code_its_params_and_a_sentence(self) -> None:
        refused = refuse(blank_report("a.blend"), Unreadable(path="a.blend", detail="Missing DNA block"))

        assert refused["refusal"] == {
            "code": "unreadable",
            "params": {"path": "a.blend", "detail": "Missing DNA block"},
            "sentence": "Blender cannot read a.blend (Missing DNA block), so it is damaged or was cut off: copy it "
            "once more, or upload a backup such as a .blend1.",
        }

"""What the demo decides from what the farm answers, and how it stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.local import demo
from infra.local.demo import Choices, choose, is_few, reasons, remedy
from infra.local.folder import ROOT, Folder


def report(**scene: Any) -> dict[str, Any]:
    blank = {"active": True, "engine": "CYCLES", "samples": 5, "frames": {"start": 1, "end": 48, "step": 1}}
    return {"scenes": [{"active": False}, {**blank, **scene}]}


class TestChoose:
    def test_the_sample_has_frames_of_its_own(self) -> None:
        assert choose(report(), frames="", file_format="", is_sample=True) == Choices("1-24")

    def test_a_long_scene_is_cut_short_and_that_is_said(self) -> None:
        found = choose(report(), frames="", file_format="", is_sample=False)

        assert found.frames == "1-24"
        assert found.said == ["The scene has frames 1-48; the demo renders 1-24, unless told FRAMES=…"]

    @pytest.mark.parametrize(("start", "end", "frames"), [(5, 9, "5-9"), (7, 7, "7"), (9, 1, "9")])
    def test_a_short_one_is_rendered_whole(self, start: int, end: int, frames: str) -> None:
        scene = report(frames={"start": start, "end": end, "step": 1})

        assert choose(scene, frames="", file_format="", is_sample=False) == Choices(frames)

    def test_frames_that_a_person_named_are_theirs(self) -> None:
        assert choose(report(), frames="3", file_format="", is_sample=False) == Choices("3")

    def test_many_samples_become_few_and_that_is_said(self) -> None:
        found = choose(report(samples=4096), frames="1", file_format="", is_sample=False)

        assert found.options == ["-p", "Samples=16"]
        assert found.said == ["The scene asks for 4096 samples; the demo renders with 16."]

    @pytest.mark.parametrize(("word", "name"), [("exr", "OPEN_EXR"), ("PNG", "PNG"), ("jpg", "JPEG")])
    def test_a_format_is_called_as_the_template_calls_it(self, word: str, name: str) -> None:
        found = choose(report(), frames="1", file_format=word, is_sample=True)

        assert found.options == ["-p", f"FileFormat={name}"]


class TestRemedy:
    @pytest.mark.parametrize("reason", ["engine_needs_gpu", "eevee_needs_gpu", "unknown_engine"])
    def test_another_engine_is_replaced_by_one_that_every_machine_has(self, reason: str) -> None:
        found = remedy(reason, Choices("1"), "")

        assert found is not None
        assert found.options == ["-p", "Engine=CYCLES", "-p", "Samples=16"]
        assert "Cycles at 16 samples" in found.said[0]

    def test_a_newer_renderer_is_agreed_to_in_the_farms_own_words(self) -> None:
        found = remedy("renderer_newer", Choices("1"), "It was saved by 2.82.")

        assert found == Choices("1", ["--accept-newer"], ["It was saved by 2.82. The demo agrees."])

    @pytest.mark.parametrize("reason", ["missing_files", "no_camera", "renderer_too_old"])
    def test_what_only_a_person_can_mend_has_none(self, reason: str) -> None:
        assert remedy(reason, Choices("1"), "") is None


class TestReasons:
    def test_codes_and_the_reports_problems_are_named_once(self) -> None:
        error = {"code": "scene-problem", "params": {"problem": "eevee_needs_gpu"}}
        problem = {"code": "several", "params": {}, "errors": [error, {"code": "renderer-newer", "params": {}}]}

        assert {"several", "renderer_newer", "eevee_needs_gpu"} <= set(reasons(problem))
        assert len(reasons(problem)) == len(set(reasons(problem)))


class TestIsFew:
    @pytest.mark.parametrize("frames", ["1", "1-3", "1,5", "1-9:4", "7-7"])
    def test_up_to_three_need_no_scouts(self, frames: str) -> None:
        assert is_few(frames)

    @pytest.mark.parametrize("frames", ["1-4", "1,2,3,4", "1-100:5", "all", ""])
    def test_more_or_what_is_no_list_do(self, frames: str) -> None:
        assert not is_few(frames)


class TestDemo:
    def test_without_a_farm_it_says_how_to_start_one(self, tmp_path: Path) -> None:
        with pytest.raises(demo.DoesNotRun, match="make up"):
            demo.demo(Folder(tmp_path), scene="", frames="", file_format="")


class TestStage:
    @pytest.fixture
    def stage(self, tmp_path: Path) -> demo.Stage:
        return demo.Stage(Folder(tmp_path), {"FARM_URL": "http://127.0.0.1:1"}, "fh_secret")

    def test_a_command_is_shown_as_it_can_be_typed_again(
        self, stage: demo.Stage, capfd: pytest.CaptureFixture[str]
    ) -> None:
        stage.farmhand = Path("/bin/echo")

        stage.run("scene", "push", ROOT / "var/farm at dusk")

        assert capfd.readouterr().out.splitlines() == [
            "$ farmhand scene push 'var/farm at dusk'",
            "scene push var/farm at dusk",
        ]

    def test_one_that_fails_stops_the_demo_with_advice(self, stage: demo.Stage) -> None:
        stage.farmhand = Path("/bin/false")

        with pytest.raises(demo.Stopped, match=r"`farmhand job list` ended with exit code 1\.\nLook at the logs"):
            stage.run("job", "list", advice="Look at the logs.")

    def test_an_answer_is_asked_for_as_json(self, stage: demo.Stage) -> None:
        stage.farmhand = Path("/bin/echo")

        with pytest.raises(ValueError, match="Expecting value"):
            stage.ask("job", "status", "last")

    def test_the_token_is_in_no_argument(self, stage: demo.Stage) -> None:
        assert stage.env["FARMHAND_TOKEN"] == "fh_secret"


class TestFarewell:
    def test_it_names_the_way_into_the_portal_in_one_piece(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        stage = demo.Stage(Folder(tmp_path), {"FARM_URL": "http://127.0.0.1:1"}, "fh_secret")
        door = "http://127.0.0.1:1/set-password/" + "k" * 60

        demo.farewell(stage, "http://127.0.0.1:1", door, tmp_path, seconds=61)

        said = capsys.readouterr().out
        assert door in said.split()
        assert "1 min 1 s" in said

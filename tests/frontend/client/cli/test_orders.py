"""From what a person types to an order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.frontend.client.cli.conftest import Run
from tests.frontend.client.small_farm import PROJECT, SmallFarm

VERSION = "01a22ebc-17ad-7253-99c6-a09bb683b378"
JOB = "01a22ebc-17ae-7000-8000-000000000000"


@pytest.fixture(autouse=True)
def _scene(small: SmallFarm) -> None:
    small.answers[f"/api/v1/scene-versions/{VERSION}"] = {"id": VERSION, "scene": "s"}
    small.answers["/api/v1/scenes/s"] = {"id": "s", "name": "Dusk", "project": "p", "latest_version": None}
    found: dict[str, Any] = {"name": "Dusk", "tasks": 2, "steps": [{"name": "Render", "tasks": 2, "fleets": ["local"]}]}
    found |= {"parameters": {"Frames": "1-2", "Scene": ""}, "warnings": ["w"]}
    small.answers["POST /api/v1/jobs/check"] = found
    real = small.answer

    def answer(method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if path in small.answers:  # before what the farm itself would know of scenes
            return 200, small.answers[path]
        return real(method, path, query, body)

    small.answer = answer  # type: ignore[method-assign]


def order(small: SmallFarm) -> dict[str, Any]:
    return dict(small.bodies[-1][1])


class TestBuildOrder:
    def test_what_is_left_out_is_as_the_scene_and_the_farm_say(self, run: Run, small: SmallFarm) -> None:
        ran = run("job", "check", VERSION)

        assert ran.code == 0
        assert order(small) == {
            "project": "p",
            "scene_version": VERSION,
            "name": "Dusk",
            "renderer": "blender",
            "parameters": {},
            "priority": 50,
            "deadline": None,
            "budget_micro": None,
            "after": [],
            "sequence": "",
            "shot": "",
            "tags": {},
            "scouts": "none",
            "fleet": "",
            "renderer_version": "",
            "accept_newer_renderer": False,
            "allow_missing_files": False,
            "suspended": False,
            "timeout_s": None,
        }

    def test_every_option_arrives(self, run: Run, small: SmallFarm) -> None:
        options = ["-p", "Samples=16", "-p", "Camera=A=B", "--frames", "1-24", "--name", "N", "--scouts", "auto"]
        options += ["--budget", "12.50", "--priority", "70", "--deadline", "2026-12-01T18:00+00:00", "--after", JOB]
        options += ["--fleet", "local", "--renderer-version", "5.0", "--accept-newer", "--allow-missing", "--suspended"]
        options += ["--project", "demo", "--sequence", "sq", "--shot", "010", "--tag", "kind=test", "--timeout", "600"]

        run("job", "check", VERSION, *options)

        assert order(small) == {
            "project": PROJECT["id"],
            "scene_version": VERSION,
            "name": "N",
            "renderer": "blender",
            "parameters": {"Samples": "16", "Camera": "A=B", "Frames": "1-24"},
            "priority": 70,
            "deadline": "2026-12-01T18:00:00+00:00",
            "budget_micro": 12_500_000,
            "after": [JOB],
            "sequence": "sq",
            "shot": "010",
            "tags": {"kind": "test"},
            "scouts": "auto",
            "fleet": "local",
            "renderer_version": "5.0",
            "accept_newer_renderer": True,
            "allow_missing_files": True,
            "suspended": True,
            "timeout_s": 600,
        }

    def test_a_template_of_ones_own_needs_no_scene(self, run: Run, small: SmallFarm, tmp_path: Path) -> None:
        (tmp_path / "job.yaml").write_text("specificationVersion: jobtemplate-2023-09")

        run("job", "check", "--template", str(tmp_path / "job.yaml"))

        assert order(small)["template"] == "specificationVersion: jobtemplate-2023-09"
        assert "renderer" not in order(small)
        assert (order(small)["scene_version"], order(small)["project"]) == (None, PROJECT["id"])

    @pytest.mark.parametrize(
        "options",
        [
            ["-p", "NoValue"],
            ["--frames", "1", "-p", "Frames=2"],
            ["--budget", "-1"],
            ["--deadline", "tomorrow"],
            ["--priority", "101"],
            ["--template", "/nowhere/job.yaml"],
        ],
        ids=" ".join,
    )
    def test_a_slip_is_told_before_the_farm_is_asked(self, run: Run, small: SmallFarm, options: list[str]) -> None:
        assert run("job", "check", VERSION, *options).code == 2
        assert small.asked == []


class TestCheck:
    def test_it_says_what_it_comes_to(self, run: Run) -> None:
        ran = run("job", "check", VERSION)

        assert "Dusk: 2 tasks, and it can be rendered." in ran.out
        assert "step Render: 2 tasks on local" in ran.out
        assert "Frames" in ran.out
        assert "Scene " not in ran.out
        assert "warning: w" in ran.err

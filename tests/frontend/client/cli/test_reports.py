"""A report as a person reads it."""

from __future__ import annotations

from typing import Any

import pytest
from farmhand.cli.reports import show_report
from farmhand.cli.terminal import Terminal

SCENE: dict[str, Any] = {
    "name": "Shot",
    "active": True,
    "engine": "CYCLES",
    "samples": 64,
    "frames": {"start": 1, "end": 24, "step": 1},
    "fps": [24000, 1001],
    "resolution": {"width": 1920, "height": 1080},
    "output": {"format": "PNG", "color_depth": 8},
    "camera": "Cam",
    "cameras": ["Cam", "Wide"],
    "markers": [],
    "view_layers": [{"name": "Main", "on": True}, {"name": "Matte", "on": False}],
}
FILE: dict[str, Any] = {
    "kind": "image",
    "name": "wood",
    "path": "//wood.png",
    "packed": False,
    "users": ["Material Floor"],
    "state": "found",
    "files": 1,
    "size": 1_500_000,
    "missing_numbers": None,
}


def shown(capsys: pytest.CaptureFixture[str], **report: Any) -> str:
    blank: dict[str, Any] = {
        "entry": "a.blend",
        "saved_by": "5.0",
        "refusal": None,
        "scenes": [],
        "dependencies": [],
        "problems": [],
    }
    show_report(Terminal(), {**blank, **report})
    return capsys.readouterr().out


class TestShowReport:
    def test_a_scene_is_described(self, capsys: pytest.CaptureFixture[str]) -> None:
        out = shown(capsys, scenes=[SCENE])

        for line in (
            "a.blend  saved by Blender 5.0",
            "engine   CYCLES, 64 samples",
            "frames   1–24 at 23.976 a second",
            "picture  1920×1080, PNG 8 bit",
            "camera   Cam (also: Wide)",
            "layers   Main, Matte (off)",
        ):
            assert line in out

    def test_cameras_that_change_are_said(self, capsys: pytest.CaptureFixture[str]) -> None:
        markers = [{"frame": 1, "camera": "Cam"}, {"frame": 10, "camera": "Wide"}, {"frame": 12, "camera": None}]

        assert "camera   Cam from 1, Wide from 10" in shown(capsys, scenes=[{**SCENE, "markers": markers}])

    def test_what_is_missing_comes_first(self, capsys: pytest.CaptureFixture[str]) -> None:
        lost = {**FILE, "path": "//lost_####.exr", "state": "missing", "files": 9, "missing_numbers": "3-4"}

        out = shown(capsys, dependencies=[FILE, lost])

        assert "Files 1 found, 1 missing, 0 outside the upload" in out
        assert out.index("✗ //lost_####.exr  image  1.5 MB  9 files  lacks 3-4  used by") < out.index("✓ //wood.png")

    def test_many_files_are_counted(self, capsys: pytest.CaptureFixture[str]) -> None:
        out = shown(capsys, dependencies=[FILE] * 30)

        assert out.count("//wood.png") == 12
        assert "and 18 more, all found" in out

    def test_problems_are_said_in_their_own_words(self, capsys: pytest.CaptureFixture[str]) -> None:
        problem = {"severity": "error", "sentence": "Scene Shot has no camera."}

        assert "✗ Scene Shot has no camera." in shown(capsys, problems=[problem])

    def test_a_refusal_is_all_there_is_to_say(self, capsys: pytest.CaptureFixture[str]) -> None:
        out = shown(capsys, saved_by=None, refusal={"sentence": "a.blend is a zip."})

        assert out.splitlines() == ["a.blend  not readable", "✗ a.blend is a zip."]

    def test_names_cannot_talk_to_the_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "\x1b" not in shown(capsys, scenes=[{**SCENE, "name": "\x1b]0;gotcha\x07"}])

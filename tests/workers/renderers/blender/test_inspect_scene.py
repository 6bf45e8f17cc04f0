"""The inspection from end to end: a session, a real Blender, a report on disk."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.workers.renderers.conftest import Blender, Sessions, save_scene, write_launcher

pytestmark = pytest.mark.timeout(300)

INPUTS = os.environ.get("FARM_BLEND_INPUTS", "")
"""A folder with the test scenes of Blender Asset Tracer; they are not ours to carry."""


def inspect(sessions: Sessions, scene: Path, *, folder: Path | None = None, **options: Any) -> dict[str, Any]:
    ended = sessions.inspect(scene, folder=folder, **options).run()
    assert ended.is_success, ended.lines
    report: dict[str, Any] = json.loads((sessions.out / "report.json").read_text())
    return report


def codes(report: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in report["problems"]]


class TestInspect:
    def test_what_is_in_a_scene(self, sessions: Sessions, blender: Blender, tmp_path: Path) -> None:
        scene_file = save_scene(
            blender,
            tmp_path / "scene/shots/a.blend",
            """
scene.frame_start, scene.frame_end, scene.frame_step = 5, 25, 2
scene.render.fps, scene.render.fps_base = 24, 1.001
scene.render.resolution_percentage = 50
scene.timeline_markers.new("cut", frame=7).camera = bpy.data.objects["Camera"]
scene.view_layers.new("Fog").use = False
settings = scene.render.image_settings
settings.file_format, settings.color_mode, settings.color_depth = "PNG", "RGBA", "16"
scene.render.filepath = "//out/####"
other = bpy.data.scenes.new("Other")
other.render.engine = "BLENDER_WORKBENCH"
""",
        )

        report = inspect(sessions, scene_file, folder=tmp_path / "scene")

        scene, other = sorted(report["scenes"], key=lambda scene: scene["name"] == "Other")
        assert (report["report"], report["entry"], report["refusal"]) == (1, "shots/a.blend", None)
        assert report["saved_by"] == ".".join(report["renderer"]["version"].split(".")[:2])
        assert report["active_scene"] == "Scene"
        assert {
            name: value for name, value in scene.items() if name not in ("multiview", "region", "drawn", "device")
        } == {
            "name": "Scene",
            "active": True,
            "engine": "CYCLES",
            "samples": 1,
            "camera": "Camera",
            "cameras": ["Camera"],
            "markers": [{"frame": 7, "name": "cut", "camera": "Camera"}],
            "view_layers": [{"name": "ViewLayer", "on": True}, {"name": "Fog", "on": False}],
            "frames": {"start": 5, "end": 25, "step": 2},
            "fps": [24000, 1001],
            "resolution": {"x": 64, "y": 36, "percent": 50, "width": 32, "height": 18},
            "output": {
                "format": "PNG",
                "movie": False,
                "color_mode": "RGBA",
                "color_depth": 16,
                "views": "INDIVIDUAL",
                "path": "//out/####",
            },
            "compositor": False,
            "sequencer": False,
        }
        assert (other["engine"], other["active"], other["camera"]) == ("WORKBENCH", False, None)
        assert codes(report) == ["no_camera", "eevee_needs_gpu", "frame_step"]

    def test_every_dependency_with_its_state(self, sessions: Sessions, blender: Blender, tmp_path: Path) -> None:
        scene = save_scene(
            blender,
            tmp_path / "a.blend",
            r"""
for name, path in (("Here", "//tex/here.png"), ("Gone", "//gone.png"), ("Away", "P:\\away.png")):
    image = bpy.data.images.new(name, 4, 4)
    image.source, image.filepath = "FILE", path
    bpy.data.materials["Material"].node_tree.nodes.new("ShaderNodeTexImage").image = image
""",
        )
        (tmp_path / "tex").mkdir()
        (tmp_path / "tex/here.png").write_bytes(b"1234")

        report = inspect(sessions, scene)

        assert [(d["name"], d["path"], d["state"], d["resolved"], d["size"]) for d in report["dependencies"]] == [
            ("Away", "P:\\away.png", "outside", None, 0),
            ("Gone", "//gone.png", "missing", "gone.png", 0),
            ("Here", "//tex/here.png", "found", "tex/here.png", 4),
        ]
        assert codes(report) == ["missing_files", "outside_files"]

    def test_a_mapped_windows_path_is_found_and_told_to_be_absolute(
        self, sessions: Sessions, blender: Blender, tmp_path: Path
    ) -> None:
        scene = save_scene(
            blender,
            tmp_path / "a.blend",
            r"""
image = bpy.data.images.new("Wood", 4, 4)
image.source, image.filepath = "FILE", "P:\\show\\wood.png"
bpy.data.materials["Material"].node_tree.nodes.new("ShaderNodeTexImage").image = image
""",
        )
        (tmp_path / "wood.png").write_bytes(b"1234")

        report = inspect(sessions, scene, windows_rules=[("P:\\show\\wood.png", str(tmp_path / "wood.png"))])

        (found,) = report["dependencies"]
        assert (found["path"], found["state"], found["resolved"]) == ("P:\\show\\wood.png", "found", "wood.png")
        assert codes(report) == ["absolute_paths"]

    def test_scripts_movies_and_file_outputs_are_told(
        self, sessions: Sessions, blender: Blender, tmp_path: Path
    ) -> None:
        scene = save_scene(
            blender,
            tmp_path / "a.blend",
            """
text = bpy.data.texts.new("rig.py"); text.use_module = True
settings = scene.render.image_settings
settings.media_type = "VIDEO"
tree = scene.compositing_node_group = bpy.data.node_groups.new("Comp", "CompositorNodeTree")
tree.nodes.new("CompositorNodeRLayers"); tree.nodes.new("CompositorNodeOutputFile")
""",
        )

        report = inspect(sessions, scene)

        assert report["scripts"]["texts"] == ["rig.py"]
        assert report["scenes"][0]["output"]["movie"] is True
        assert codes(report) == ["video_output", "scripts_present", "file_outputs"]

    def test_the_same_scene_has_the_same_report_byte_for_byte(self, sessions: Sessions, blank_scene: Path) -> None:
        inspect(sessions, blank_scene)
        first = (sessions.out / "report.json").read_bytes()

        inspect(sessions, blank_scene)

        assert (sessions.out / "report.json").read_bytes() == first


class TestRefusals:
    @pytest.mark.parametrize(
        ("data", "code", "words"),
        [
            (b"PK\x03\x04", "not_a_blend", "a zip archive, not a .blend file: upload what is inside it"),
            (b"", "not_a_blend", "is empty"),
            (b"BLENDER-v279" + bytes(24), "unreadable", "Blender cannot read a.blend"),
            (b"BLENDER17-01v0901" + b"ENDB" + bytes(28), "newer_than_renderer", "saved by Blender 9.1"),
        ],
    )
    def test_a_file_that_cannot_be_opened_has_a_report_that_says_why(
        self, sessions: Sessions, tmp_path: Path, data: bytes, code: str, words: str
    ) -> None:
        (tmp_path / "a.blend").write_bytes(data)

        report = inspect(sessions, tmp_path / "a.blend")

        assert report["refusal"]["code"] == code
        assert words in report["refusal"]["sentence"]
        assert report["scenes"] == []

    def test_a_cut_file(self, sessions: Sessions, blank_scene: Path) -> None:
        blank_scene.write_bytes(blank_scene.read_bytes()[:60_000])

        assert inspect(sessions, blank_scene)["refusal"]["code"] == "unreadable"

    def test_a_file_that_is_not_in_the_upload(self, sessions: Sessions, tmp_path: Path) -> None:
        report = inspect(sessions, tmp_path / "none.blend")

        assert report["refusal"]["code"] == "no_such_file"

    def test_a_file_that_makes_blender_crash(self, sessions: Sessions, tmp_path: Path) -> None:
        (tmp_path / "a.blend").write_bytes(b"BLENDER-v279" + struct.pack("<4sIQII", b"DNA1", 2**31, 0, 0, 1))
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/blender").write_text("#!/bin/sh\necho Read blend\nkill -SEGV $$\n")
        (tmp_path / "bin/blender").chmod(0o755)

        report = inspect(sessions, tmp_path / "a.blend", launcher=tmp_path / "bin")

        assert report["refusal"]["code"] == "unreadable"
        assert "Blender crashed while opening it" in report["refusal"]["sentence"]

    def test_too_little_memory_is_no_report(
        self, sessions: Sessions, blank_scene: Path, renderer_python: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "bin").mkdir()
        launcher = write_launcher(tmp_path / "bin", renderer_python, before="kill -KILL $$; exec")

        ended = sessions.inspect(blank_scene, launcher=launcher).run()

        assert not ended.is_success
        assert ended.end["cause"] == "out_of_memory"
        assert not (sessions.out / "report.json").exists()


EXPECTED: dict[str, tuple[str, str | None, list[str], list[tuple[str, str, str]]]] = {
    # file: saved by, refusal, problems, dependencies (kind, as spelled, state)
    "absolute_path.blend": (
        "2.80",
        None,
        ["no_camera", "eevee_needs_gpu", "missing_files", "outside_files"],
        [
            ("image", "//textures/Bricks/brick_dotted_04-color.jpg", "missing"),
            ("image", "/…/buildings_roof_04-color.png", "outside"),
        ],
    ),
    "basic_file.blend": ("2.79", None, ["no_camera", "video_output"], []),
    "basic_file_compressed.blend": ("2.79", None, ["no_camera", "video_output"], []),
    "basic_file_ñønæščii.blend": ("2.79", None, ["no_camera", "video_output"], []),
    "cgru_scene.blend": ("2.82", None, ["eevee_needs_gpu"], []),
    "corrupt_only_magic.blend": ("2.79", "unreadable", [], []),
    "doubly_linked.blend": (
        "2.79",
        None,
        ["no_camera", "video_output", "missing_files"],
        [
            ("library", "//linked_cube.blend", "found"),
            ("library", "//material_textures.blend", "missing"),
            ("library", "//basic_file.blend", "found"),
        ],
    ),
    "linked_cube.blend": ("2.79", None, ["no_camera", "video_output"], [("library", "//basic_file.blend", "found")]),
    "missing_textures.blend": (
        "2.79",
        None,
        ["no_camera", "video_output", "missing_files"],
        [
            ("image", "//textures/HDRI/Myanmar/Golden Palace 2, Old Bagan-1k.exr", "missing"),
            ("image", "//textures/Textures/Marble/marble_decoration-color.png", "missing"),
        ],
    ),
    "recursive_dependency_1.blend": (
        "2.79",
        None,
        ["no_camera", "video_output"],
        [("library", "//recursive_dependency_2.blend", "found")],
    ),
    "recursive_dependency_2.blend": (
        "2.79",
        None,
        ["no_camera", "video_output"],
        [("library", "//recursive_dependency_1.blend", "found")],
    ),
    "with_sequencer.blend": ("2.79", None, ["video_output"], []),
    "subdir/doubly_linked_up-windows.blend": (
        "2.79",
        None,
        ["no_camera", "video_output", "missing_files"],
        [
            ("library", "//..\\linked_cube.blend", "found"),
            ("library", "//..\\material_textures.blend", "missing"),
            ("library", "//../basic_file.blend", "found"),
        ],
    ),
    "particles/particle.blend": ("2.79", None, ["eevee_needs_gpu"], [("cache", "//blendcache_particle/", "found")]),
    "udim/v01_UDIM_BAT_debugging.blend": (
        "3.2",
        None,
        ["eevee_needs_gpu"],
        [("udim", "//cube_UDIM.color.<UDIM>.png", "found")],
    ),
}


@pytest.mark.skipif(not INPUTS, reason="FARM_BLEND_INPUTS names no folder with other people's scenes")
class TestOtherPeoplesScenes:
    @pytest.mark.parametrize("name", sorted(EXPECTED))
    def test_each_has_its_right_report(self, sessions: Sessions, name: str) -> None:
        saved_by, refusal, problems, dependencies = EXPECTED[name]

        report = inspect(sessions, Path(INPUTS) / name, folder=Path(INPUTS))

        assert (report["saved_by"], report["refusal"] and report["refusal"]["code"]) == (saved_by, refusal)
        assert codes(report) == problems
        found = [(d["kind"], _shortened(d["path"]), d["state"]) for d in report["dependencies"]]
        assert found == dependencies

    def test_the_table_is_complete(self) -> None:
        there = {str(file.relative_to(INPUTS)) for file in Path(INPUTS).rglob("*.blend")}

        assert there == set(EXPECTED)


def _shortened(path: str) -> str:
    """Leave out what Blender's versions word differently, and whose home it was."""
    if path.startswith("/") and not path.startswith("//"):
        return f"/…/{Path(path).name}"
    return path.replace("//particle_cache/", "//blendcache_particle/")

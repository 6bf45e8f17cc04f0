"""Opening files in a real Blender."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.renderers.conftest import Blender, save_scene

pytestmark = pytest.mark.timeout(300)

OPEN = """
import os
from pathlib import Path
from workers.renderers.blender import opening
from workers.renderers.blender.refusals import Refusal
os.chdir(folder)
try:
    log = opening.open_scene(Path(file), scripts=scripts)
    answer = {"log": log, "scene": bpy.context.scene.name, "engines": opening.unknown_engines(log),
              "ran": bpy.context.scene.get("ran")}
except Refusal as refusal:
    answer = {"cause": refusal.cause, "code": refusal.code, "sentence": refusal.sentence}
"""


def open_file(blender: Blender, file: Path, *, scripts: bool = False) -> dict[str, object]:
    found: dict[str, object] = blender.do(OPEN, folder=str(file.parent), file=str(file), scripts=scripts)
    return found


class TestOpenScene:
    def test_the_files_active_scene_is_ours(self, blender: Blender, tmp_path: Path) -> None:
        file = save_scene(blender, tmp_path / "a.blend", 'bpy.context.window.scene = bpy.data.scenes.new("Second")')

        opened = open_file(blender, file)

        assert opened["scene"] == "Second"
        assert "Read blend" in str(opened["log"])

    def test_a_compressed_file(self, blender: Blender, tmp_path: Path) -> None:
        file = save_scene(blender, tmp_path / "a.blend", compress=True)

        assert file.read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
        assert open_file(blender, file)["scene"] == "Scene"

    def test_a_cut_file_is_unreadable(self, blender: Blender, tmp_path: Path) -> None:
        file = save_scene(blender, tmp_path / "a.blend")
        file.write_bytes(file.read_bytes()[:50_000])

        refused = open_file(blender, file)

        assert (refused["cause"], refused["code"]) == ("scene_unreadable", "unreadable")
        assert str(tmp_path) not in str(refused["sentence"])

    def test_a_newer_file_is_refused_with_its_version(self, blender: Blender, tmp_path: Path) -> None:
        file = save_scene(blender, tmp_path / "a.blend")
        data = file.read_bytes()
        file.write_bytes(data[:13] + b"0901" + data[17:])

        refused = open_file(blender, file)

        assert refused["code"] == "newer_than_renderer"
        assert "saved by Blender 9.1, newer than Blender" in str(refused["sentence"])

    @pytest.mark.parametrize("scripts", [False, True])
    def test_scripts_run_if_they_may(self, blender: Blender, tmp_path: Path, scripts: bool) -> None:
        file = save_scene(
            blender,
            tmp_path / "a.blend",
            """
text = bpy.data.texts.new("setup.py")
text.use_module = True
text.write("import bpy\\nbpy.app.handlers.load_post.append(lambda *_: bpy.context.scene.__setitem__('ran', True))\\n"
           "bpy.data.scenes[0]['ran'] = True\\n")
""",
        )

        opened = open_file(blender, file, scripts=scripts)

        assert bool(opened["ran"]) is scripts


class TestUnknownEngines:
    def test_an_engine_that_this_blender_lacks_is_told_by_its_log_alone(self, blender: Blender, tmp_path: Path) -> None:
        file = save_scene(
            blender,
            tmp_path / "a.blend",
            """
class Octane(bpy.types.RenderEngine):
    bl_idname = "OCTANE"
    bl_label = "Octane"
bpy.utils.register_class(Octane)
bpy.data.scenes.new("Other").render.engine = "OCTANE"
""",
        )
        blender.do('bpy.utils.unregister_class(bpy.types.RenderEngine.bl_rna_get_subclass_py("OCTANE"))')

        assert open_file(blender, file)["engines"] == {"Other": "OCTANE"}


class TestSpelledLibraries:
    def test_blender_turns_slashes_around_and_its_log_has_the_scenes_own(self, blender: Blender) -> None:
        log = r"""
Info: Read library: '/scene/lib/a.blend', '//..\lib\a.blend', parent '<direct>'
Info: Read library: '/scene/lib/b.blend', '//b.blend', parent '/scene/lib/a.blend'
"""

        answer = blender.do(
            "from workers.renderers.blender.opening import spelled_libraries; answer = spelled_libraries(log)", log=log
        )

        assert answer == {"//../lib/a.blend": "//..\\lib\\a.blend"}

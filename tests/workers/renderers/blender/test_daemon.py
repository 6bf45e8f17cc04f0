"""The Blender template from end to end: OpenJD sessions, the keeper, a real Blender, files on disk."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO
import psutil
import pytest
import yaml
from openjd.sessions import ActionState

from tests.workers.renderers.conftest import Blender, Sessions, save_scene, write_launcher
from tests.workers.renderers.sessions import LocalSession
from workers.renderers import load_renderer

pytestmark = pytest.mark.timeout(300)


def pixels(file: Path) -> Any:
    return OpenImageIO.ImageBuf(str(file)).get_pixels(OpenImageIO.FLOAT)


def are_alike(one: Any, other: Any) -> bool:
    return bool(np.allclose(one, other, atol=0.05))


def processes_of(session: LocalSession) -> list[psutil.Process]:
    """Everything that runs in a session's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()) == session.working_directory:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def blender_of(session: LocalSession) -> psutil.Process:
    (process,) = [p for p in processes_of(session) if "workers.renderers.blender.bpy_shim" in p.cmdline()]
    return process


def wait_until_gone(session: LocalSession) -> float:
    start = time.monotonic()
    while [p for p in processes_of(session) if p.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() - start < 10
        time.sleep(0.02)
    return time.monotonic() - start


class TestSession:
    def test_a_scene_is_loaded_once_and_renders_frame_after_frame(self, sessions: Sessions, blank_scene: Path) -> None:
        session = sessions.render(blank_scene, "1-3")

        entered = session.enter()
        ended = [session.run(Frame=str(frame)) for frame in (1, 2, 3)]
        left = session.leave()

        assert entered.is_success, entered.lines
        assert [end.is_success for end in ended] == [True] * 3
        assert left is not None
        assert left.is_success
        assert sorted(file.name for file in sessions.out.iterdir()) == [f"frame_00000{n}.png" for n in (1, 2, 3)]
        assert pixels(sessions.out / "frame_000001.png").shape[:2] == (36, 64)
        assert sum("Read blend" in line for end in (entered, *ended) for line in end.lines) == 1
        wait_until_gone(session)

    def test_it_says_what_renders_how_far_it_is_and_what_it_does(self, sessions: Sessions, blank_scene: Path) -> None:
        session = sessions.render(blank_scene)

        entered, ended = session.enter(), session.run(Frame="1")

        assert "farmhand_device: CPU" in entered.lines
        assert "farmhand_device: CPU" in ended.lines
        assert "openjd_status: Rendering frame 1" in ended.lines
        assert session.progress[-1] == 100.0

    def test_a_chunk_is_all_of_its_frames(self, sessions: Sessions, blank_scene: Path) -> None:
        session = sessions.render(blank_scene, "1-9")
        session.enter()

        ended = session.run("CHUNK[INT]", Frame="-5,1-2,9")

        assert ended.is_success
        assert {file.name for file in sessions.out.iterdir()} == {
            "frame_-00005.png",
            "frame_000001.png",
            "frame_000002.png",
            "frame_000009.png",
        }

    def test_cameras_change_at_markers_unless_one_is_ordered(
        self, sessions: Sessions, blender: Blender, tmp_path: Path
    ) -> None:
        scene = save_scene(
            blender,
            tmp_path / "a.blend",
            """
other = bpy.data.objects.new("Other", bpy.data.cameras.new("Other"))
other.location = (0, 0, 30)
scene.collection.objects.link(other)
scene.timeline_markers.new("A", frame=1).camera = bpy.data.objects["Camera"]
scene.timeline_markers.new("B", frame=5).camera = other
""",
        )
        marked, fixed = sessions.render(scene, "1-5"), sessions.render(scene, "1-5", Camera="Camera")
        pictures = {}
        for name, session in (("marked", marked), ("fixed", fixed)):
            assert session.enter().is_success
            session.run("CHUNK[INT]", Frame="1,5")
            pictures[name] = [pixels(sessions.out / f"frame_00000{n}.png") for n in (1, 5)]
            session.leave()

        assert not are_alike(*pictures["marked"])
        assert are_alike(*pictures["fixed"])

    def test_frames_show_their_moment(self, sessions: Sessions, blender: Blender, tmp_path: Path) -> None:
        code = """
for frame, x in ((1, -3), (9, 3)):
    cube.location.x = x
    cube.keyframe_insert("location", frame=frame)
"""
        session = sessions.render(save_scene(blender, tmp_path / "a.blend", code), "1-9")
        session.enter()

        session.run("CHUNK[INT]", Frame="1,9")

        assert not np.allclose(
            pixels(sessions.out / "frame_000001.png"), pixels(sessions.out / "frame_000009.png"), atol=0.1
        )


class TestExpectedOutputs:
    """What `expected_outputs` foretells from a real report is what Blender writes."""

    @pytest.mark.parametrize(
        "parameters",
        [
            {},
            {"ResolutionPercent": "33"},
            {"FileFormat": "OPEN_EXR"},
            {"FileFormat": "OPEN_EXR", "ColorDepth": "16"},
            {"FileFormat": "OPEN_EXR_MULTILAYER"},
            {"FileFormat": "JPEG"},
            {"FileFormat": "TIFF", "ColorDepth": "16", "ResolutionPercent": "50"},
            {"FileFormat": "WEBP"},
            {"FileFormat": "PNG", "ColorDepth": "16"},
        ],
    )
    def test_name_format_size_and_depth(self, written: dict[str, Any], parameters: dict[str, str]) -> None:
        defaults = {"Scene": "", "FileFormat": "SCENE", "ColorDepth": "SCENE", "ResolutionPercent": "0"}
        renderer = load_renderer("blender")

        foretold = renderer.expected_outputs(
            parameters=defaults | parameters, task={"Frame": "1"}, report=written["report"]
        )

        found = written["files"][json.dumps(parameters)]
        assert foretold is not None
        (expected,) = foretold
        assert {
            "name": expected.name,
            "format": expected.format,
            "width": expected.width,
            "height": expected.height,
            "bit_depth": expected.bit_depth,
        } == found

    @pytest.fixture(scope="class")
    @staticmethod
    def written(blender: Blender, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
        """Render the same scene as each of the orders says, in one Blender, and inspect it."""
        folder = tmp_path_factory.mktemp("written")
        region = "scene.render.use_border = scene.render.use_crop_to_border = True; scene.render.border_max_x = 0.5173"
        scene = save_scene(blender, folder / "a.blend", region)
        (folder / "rules.json").write_text("{}")
        orders = TestExpectedOutputs.test_name_format_size_and_depth.pytestmark[0].args[1]
        report = blender.do(
            """
from pathlib import Path
import os
from workers.renderers.blender import daemon, inspect_scene
from workers.renderers.blender.order import read_order
from workers.renderers.blender.places import Places
os.chdir(folder)

class Silent:
    def say(self, **message): pass

DEFAULTS = {"FileFormat": "SCENE", "ColorDepth": "SCENE", "ResolutionPercent": "0"}
for number, parameters in enumerate(orders):
    p = DEFAULTS | parameters
    out = Path(folder) / str(number)
    out.mkdir()
    stage = daemon.Stage(read_order([
        f"--scene-file={file}", f"--scene-folder={folder}", f"--output-dir={out}", "--rules=rules.json", "--scene=",
        "--camera=", "--view-layers=", "--engine=SCENE", "--samples=1", f"--percent={p['ResolutionPercent']}",
        f"--file-format={p['FileFormat']}", f"--color-depth={p['ColorDepth']}",
        "--missing-assets=FAIL", "--scripts=SKIP",
    ]), Silent())
    stage.load()
    stage.render([1])
answer = inspect_scene.inspect(Path(file), Places(folder))
""",
            folder=str(folder),
            file=str(scene),
            orders=orders,
        )
        return {
            "report": report,
            "files": {json.dumps(order): _found(folder / str(n)) for n, order in enumerate(orders)},
        }


def _found(folder: Path) -> dict[str, Any]:
    (file,) = folder.iterdir()
    image = OpenImageIO.ImageInput.open(str(file))
    assert image is not None
    spec = image.spec()
    depth = spec.get_int_attribute("oiio:BitsPerSample") or spec.format.size() * 8
    return {
        "name": file.name,
        "format": image.format_name(),
        "width": spec.width,
        "height": spec.height,
        "bit_depth": depth,
    }


class TestMissingAssets:
    CODE = """
image = bpy.data.images.new("Wood", 4, 4)
image.source, image.filepath = "FILE", "//tex/wood.png"
node = bpy.data.materials["Material"].node_tree.nodes.new("ShaderNodeTexImage")
node.image = image
"""

    def test_a_missing_texture_fails_the_session_with_its_name(
        self, sessions: Sessions, blender: Blender, tmp_path: Path
    ) -> None:
        session = sessions.render(save_scene(blender, tmp_path / "a.blend", self.CODE))

        entered = session.enter()

        assert not entered.is_success
        assert "missing asset: //tex/wood.png" in entered.lines
        assert entered.end["cause"] == "missing_asset"
        assert "a file that the upload does not hold (//tex/wood.png)" in entered.end["sentence"]

    def test_unless_that_is_allowed(self, sessions: Sessions, blender: Blender, tmp_path: Path) -> None:
        session = sessions.render(save_scene(blender, tmp_path / "a.blend", self.CODE), MissingAssets="ALLOW")

        entered, ended = session.enter(), session.run(Frame="1")

        assert "missing asset: //tex/wood.png" in entered.lines
        assert ended.is_success

    def test_a_sequences_missing_file_fails_the_frame_that_shows_it(
        self, sessions: Sessions, blender: Blender, tmp_path: Path
    ) -> None:
        code = self.CODE.replace('"FILE", "//tex/wood.png"', '"SEQUENCE", "//seq/s_0001.png"')
        code += "node.image_user.frame_duration = 10\n"
        scene = save_scene(blender, tmp_path / "a.blend", code)
        blender.do(
            """
image = bpy.data.images.new("x", 4, 4)
for number in (1, 2):
    image.filepath_raw, image.file_format = f"{folder}/seq/s_000{number}.png", "PNG"
    image.save()
""",
            folder=str(tmp_path),
        )
        session = sessions.render(scene, "1-3")

        entered = session.enter()
        second, third = session.run(Frame="2"), session.run(Frame="3")

        assert entered.is_success, entered.lines
        assert second.is_success, second.lines
        assert not third.is_success
        assert third.end["cause"] == "missing_asset"
        assert "//seq/s_0003.png" in third.end["sentence"]

    def test_a_windows_path_is_read_from_where_the_upload_has_it(
        self, sessions: Sessions, blender: Blender, tmp_path: Path
    ) -> None:
        code = self.CODE.replace("//tex/wood.png", "P:\\\\show\\\\wood.png")
        code += """
tree = bpy.data.materials["Material"].node_tree
shader = tree.nodes["Principled BSDF"]
tree.links.new(node.outputs["Color"], shader.inputs["Emission Color"])
shader.inputs["Emission Strength"].default_value = 1.0
"""
        scene = save_scene(blender, tmp_path / "scene/a.blend", code)
        blender.do(
            """
image = bpy.data.images.new("green", 4, 4)
image.pixels.foreach_set([0.0, 1.0, 0.0, 1.0] * 16)
image.filepath_raw, image.file_format = file, "PNG"
image.save()
""",
            file=str(tmp_path / "scene/textures/wood.png"),
        )
        rule = ("P:\\show\\wood.png", str(tmp_path / "scene/textures/wood.png"))
        session = sessions.render(scene, windows_rules=[rule], FileFormat="OPEN_EXR")

        entered, ended = session.enter(), session.run(Frame="1")

        assert entered.is_success, entered.lines
        assert "path: P:\\show\\wood.png is textures/wood.png" in [
            line.replace("P:/show/", "P:\\show\\") for line in entered.lines
        ]
        assert ended.is_success
        middle = pixels(sessions.out / "frame_000001.exr")[18, 32]
        assert middle[1] > 0.9
        assert middle[0] < middle[1] / 2


class TestRefusals:
    @pytest.mark.parametrize(
        ("order", "cause", "words"),
        [
            ({"Scene": "Nope"}, "scene_error", "choose one of Scene"),
            ({"Engine": "EEVEE"}, "scene_error", "choose Engine CYCLES"),
        ],
    )
    def test_what_cannot_be_rendered_is_told_on_entering(
        self, sessions: Sessions, blank_scene: Path, order: dict[str, str], cause: str, words: str
    ) -> None:
        session = sessions.render(blank_scene, **order)

        entered = session.enter()

        assert not entered.is_success
        assert entered.end["cause"] == cause
        assert words in entered.end["sentence"]

    @pytest.mark.usefixtures("no_gpu_here")
    def test_cycles_without_the_promised_gpu_is_the_farms_fault(self, sessions: Sessions, blank_scene: Path) -> None:
        entered = sessions.render(blank_scene, device="GPU").enter()

        assert entered.end["cause"] == "no_gpu"
        assert "the farm tries another worker" in entered.end["sentence"]

    @pytest.mark.usefixtures("no_gpu_here")
    def test_a_gpu_in_name_only_or_none_to_draw_with_is_the_farms_fault(
        self, sessions: Sessions, blank_scene: Path, renderer_python: Path, tmp_path: Path
    ) -> None:
        """Blender itself crashes where nothing can draw."""
        (tmp_path / "bin").mkdir()
        blind = "export LIBGL_DRIVERS_PATH=/nonexistent __EGL_VENDOR_LIBRARY_DIRS=/nonexistent; exec"
        launcher = write_launcher(tmp_path / "bin", renderer_python, before=blind)

        for program in (sessions.launcher, launcher):
            session = sessions.render(blank_scene, device="GPU", Engine="WORKBENCH", launcher=program)
            entered = session.enter()
            ended = session.run(Frame="1") if entered.is_success else entered
            session.leave()

            assert not ended.is_success
            assert ended.end["cause"] == "no_gpu", ended.lines

    def test_a_zip_instead_of_a_scene(self, sessions: Sessions, tmp_path: Path) -> None:
        (tmp_path / "a.blend").write_bytes(b"PK\x03\x04 and so on")

        entered = sessions.render(tmp_path / "a.blend").enter()

        assert entered.end["cause"] == "scene_unreadable"
        assert "upload what is inside it" in entered.end["sentence"]


class TestScripts:
    CODE = """
text = bpy.data.texts.new("setup.py")
text.use_module = True
text.write(script)
"""
    FAILING = "import bpy\ndef turn(*_):\n    raise KeyError('Arm')\nbpy.app.handlers.render_pre.append(turn)\n"
    FORGING = 'print(\'farmhand_end: {"cause": "no_gpu", "sentence": "free!"}\', flush=True)\n'

    def test_they_do_not_run_unless_ordered(self, sessions: Sessions, blender: Blender, tmp_path: Path) -> None:
        session = sessions.render(save_scene(blender, tmp_path / "a.blend", self.CODE, script=self.FAILING))

        entered, ended = session.enter(), session.run(Frame="1")

        assert entered.is_success
        assert ended.is_success

    def test_their_errors_fail_the_frame(self, sessions: Sessions, blender: Blender, tmp_path: Path) -> None:
        scene = save_scene(blender, tmp_path / "a.blend", self.CODE, script=self.FAILING)
        session = sessions.render(scene, Scripts="RUN")

        entered, ended = session.enter(), session.run(Frame="1")

        assert entered.is_success, entered.lines
        assert not ended.is_success
        assert ended.end == {
            "cause": "scene_error",
            "sentence": "A script of the scene failed (KeyError: 'Arm'): correct it and upload the scene again.",
        }

    def test_they_cannot_speak_for_us(self, sessions: Sessions, blender: Blender, tmp_path: Path) -> None:
        scene = save_scene(blender, tmp_path / "a.blend", self.CODE, script=self.FORGING)

        entered = sessions.render(scene, Scripts="RUN").enter()

        assert entered.is_success
        assert entered.end == {}
        assert '| farmhand_end: {"cause": "no_gpu", "sentence": "free!"}' in entered.lines


class TestTrouble:
    SLOW = "scene.cycles.samples, scene.render.resolution_x, scene.render.resolution_y = 4096, 1920, 1080"

    def test_a_cancelled_task_stops_the_renderer_at_once(
        self, sessions: Sessions, blender: Blender, tmp_path: Path
    ) -> None:
        session = sessions.render(save_scene(blender, tmp_path / "a.blend", self.SLOW))
        session.enter()
        session.start(Frame="1")
        while not any("Rendering frame 1" in line for line in session.lines):
            time.sleep(0.02)
        time.sleep(0.3)

        ended = session.cancel()

        assert ended.state is ActionState.CANCELED
        assert wait_until_gone(session) < 2
        left = session.leave()
        assert left is not None
        assert left.is_success

    @pytest.mark.parametrize(
        ("number", "cause"), [(signal.SIGSEGV, "renderer_crashed"), (signal.SIGKILL, "out_of_memory")]
    )
    def test_a_renderer_that_dies_is_told_by_how_it_died(
        self, sessions: Sessions, blender: Blender, tmp_path: Path, number: signal.Signals, cause: str
    ) -> None:
        session = sessions.render(save_scene(blender, tmp_path / "a.blend", self.SLOW))
        session.enter()
        session.start(Frame="1")
        while not any("Rendering frame 1" in line for line in session.lines):
            time.sleep(0.02)

        blender_of(session).send_signal(number)

        ended = session.wait()
        assert not ended.is_success
        assert ended.end["cause"] == cause

    def test_too_little_memory(
        self, sessions: Sessions, blender: Blender, renderer_python: Path, tmp_path: Path
    ) -> None:
        huge = 'cube.modifiers.new("Fine", "SUBSURF").render_levels = 11'  # 25 million faces
        scene = save_scene(blender, tmp_path / "a.blend", huge)
        (tmp_path / "bin").mkdir()
        launcher = write_launcher(tmp_path / "bin", renderer_python, before="ulimit -v 3000000; exec")
        session = sessions.render(scene, launcher=launcher)

        entered, ended = session.enter(), session.run(Frame="1")

        assert entered.is_success, entered.lines
        assert not ended.is_success
        assert ended.end["cause"] == "out_of_memory"

    @pytest.mark.parametrize("file_format", ["PNG", "OPEN_EXR", "JPEG", "TIFF", "WEBP"])
    def test_a_full_disk_whatever_blender_says(
        self, full_disk: Path, file_format: str, sessions: Sessions, blender: Blender, tmp_path: Path
    ) -> None:
        noise = "scene.render.resolution_x, scene.render.resolution_y = 320, 180; scene.cycles.samples = 2"
        scene = save_scene(blender, tmp_path / "a.blend", noise)
        session = sessions.render(scene, launcher=full_disk, FileFormat=file_format)

        entered, ended = session.enter(), session.run(Frame="1")

        assert entered.is_success, entered.lines
        assert not ended.is_success
        assert ended.end["cause"] == "disk_full"

    @pytest.fixture
    @staticmethod
    def full_disk(sessions: Sessions, renderer_python: Path, tmp_path: Path) -> Path:
        """A Blender that sees a disk of a few bytes as its output folder."""
        bubble = f"bwrap --bind / / --dev /dev --proc /proc --size 8192 --tmpfs {sessions.out} --die-with-parent"
        if shutil.which("bwrap") is None or subprocess.run([*bubble.split(), "true"], check=False).returncode:
            pytest.skip("bubblewrap is not there or cannot make small disks: install bubblewrap")
        (tmp_path / "bin").mkdir()
        return write_launcher(tmp_path / "bin", renderer_python, before=f"exec {bubble}")

    def test_file_output_nodes_write_nothing(self, sessions: Sessions, blender: Blender, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        code = f"""
tree = scene.compositing_node_group = bpy.data.node_groups.new("Comp", "CompositorNodeTree")
layers, node = tree.nodes.new("CompositorNodeRLayers"), tree.nodes.new("CompositorNodeOutputFile")
node.directory = {str(elsewhere)!r}
node.file_output_items.new("RGBA", "beauty")
tree.links.new(layers.outputs["Image"], node.inputs[0])
tree.interface.new_socket("Image", in_out="OUTPUT", socket_type="NodeSocketColor")
out = tree.nodes.new("NodeGroupOutput")
tree.links.new(layers.outputs["Image"], out.inputs[0])
"""
        session = sessions.render(save_scene(blender, tmp_path / "a.blend", code))

        entered, ended = session.enter(), session.run(Frame="1")

        assert any("File Output node" in line and "is off" in line for line in entered.lines)
        assert ended.is_success, ended.lines
        assert not elsewhere.exists()
        assert [file.name for file in sessions.out.iterdir()] == ["frame_000001.png"]


class TestBundle:
    """A job bundle of the kind that studios bring: one Blender start a frame, on the command line."""

    BUNDLE = """
specificationVersion: jobtemplate-2023-09
name: A studio's own
parameterDefinitions:
- {name: Blend, type: PATH, objectType: FILE, dataFlow: IN}
- {name: Out, type: PATH, objectType: DIRECTORY, dataFlow: OUT}
- {name: Frames, type: STRING, default: "1-2"}
steps:
- name: Frames
  parameterSpace:
    taskParameterDefinitions:
    - {name: Frame, type: INT, range: "{{Param.Frames}}"}
  script:
    actions:
      onRun: {command: sh, args: ["{{Task.File.Run}}"]}
    embeddedFiles:
    - name: Run
      type: TEXT
      data: |
        set -e
        blender -b '{{Param.Blend}}' -o '{{Param.Out}}/beauty_####' -F TIFF -x 1 -f {{Task.Param.Frame}}
"""

    def test_it_renders(self, sessions: Sessions, blank_scene: Path, launcher: Path) -> None:
        template = json.dumps(yaml.safe_load(textwrap.dedent(self.BUNDLE)))
        parameters = {"Blend": str(blank_scene), "Out": str(sessions.out)}
        session = sessions.open(template, parameters, env={"PATH": f"{launcher}:/usr/bin:/bin"})

        ended = session.run(Frame="2")

        assert ended.is_success, ended.lines
        assert [file.name for file in sessions.out.iterdir()] == ["beauty_0002.tif"]

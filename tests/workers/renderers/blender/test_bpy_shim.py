"""Blender's command line on bpy."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.workers.renderers.conftest import Blender, Sessions, save_scene
from workers.renderers.blender.bpy_shim import CommandLineError, parse, parse_frame, parse_frames

pytestmark = pytest.mark.timeout(300)


class TestParse:
    def test_settings_hold_for_all_and_actions_keep_their_order(self) -> None:
        line = parse(["-o", "//x_", "-b", "a.blend", "-f", "1", "-t", "2", "-F", "PNG", "-f", "2", "--", "-f", "9"])

        assert line.settings == {"-b": "", "-t": "2"}
        assert line.actions == [("-o", "//x_"), ("", "a.blend"), ("-f", "1"), ("-F", "PNG"), ("-f", "2")]

    def test_a_negative_value_is_a_value(self) -> None:
        assert parse(["-b", "-f", "-5"]).actions == [("-f", "-5")]

    def test_debug_options_are_taken(self) -> None:
        assert parse(["--debug-cycles", "--debug-value", "3"]).settings == {"--debug-cycles": "", "--debug-value": "3"}

    @pytest.mark.parametrize(
        ("arguments", "words"), [(["-z"], "unknown option -z"), (["-b", "-f"], "option -f lacks its value")]
    )
    def test_what_blender_would_not_take_is_refused(self, arguments: list[str], words: str) -> None:
        with pytest.raises(CommandLineError, match=words):
            parse(arguments)


class TestParseFrame:
    @pytest.mark.parametrize(("text", "frame"), [("7", 7), ("+2", 12), ("-2", 18)])
    def test_from_the_start_or_before_the_end(self, text: str, frame: int) -> None:
        assert parse_frame(text, start=10, end=20) == frame

    def test_no_number(self) -> None:
        with pytest.raises(CommandLineError, match="'x' is no frame"):
            parse_frame("x", start=1, end=2)


class TestParseFrames:
    def test_lists_and_ranges(self) -> None:
        assert parse_frames("1,3,8..10,+0,-0", start=5, end=50) == [1, 3, 8, 9, 10, 5, 50]

    @pytest.mark.parametrize("text", ["", "1,", "9..8", "1...3"])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(CommandLineError):
            parse_frames(text, start=1, end=2)


class Shell:
    """A folder in which `blender` is typed."""

    def __init__(self, folder: Path, launcher: Path) -> None:
        self.folder = folder
        self.launcher = launcher

    def blender(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.launcher / "blender", *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
        )

    @property
    def files(self) -> list[str]:
        return sorted(file.name for file in self.folder.iterdir() if file.suffix in (".png", ".jpg", ".exr"))


@pytest.fixture
def shell(tmp_path: Path, launcher: Path) -> Shell:
    (tmp_path / "shell").mkdir()
    return Shell(tmp_path / "shell", launcher)


class TestMain:
    def test_version(self, shell: Shell) -> None:
        said = shell.blender("--version")

        assert said.returncode == 0
        assert said.stdout.startswith("Blender 5.")

    def test_frames_and_ranges_of_a_scene(self, shell: Shell, blank_scene: Path) -> None:
        said = shell.blender("-b", str(blank_scene), "-o", "shot_####", "-F", "JPEG", "-x", "1", "-f", "3,5..6")

        assert said.returncode == 0, said.stderr
        assert shell.files == ["shot_0003.jpg", "shot_0005.jpg", "shot_0006.jpg"]

    def test_an_animation_from_start_to_end_by_steps(self, shell: Shell, blank_scene: Path) -> None:
        said = shell.blender("-b", str(blank_scene), "-o", "f_##", "-s", "2", "-e", "6", "-j", "2", "-a")

        assert said.returncode == 0, said.stderr
        assert shell.files == ["f_02.png", "f_04.png", "f_06.png"]

    def test_the_order_of_arguments_counts(self, shell: Shell, blank_scene: Path) -> None:
        shell.blender("-b", str(blank_scene), "-o", "before_#", "-f", "1", "-o", "after_#", "-F", "OPEN_EXR", "-f", "2")

        assert shell.files == ["after_2.exr", "before_1.png"]

    def test_scene_engine_threads_and_extension(self, shell: Shell, blender: Blender, tmp_path: Path) -> None:
        scene = save_scene(blender, tmp_path / "a.blend", 'bpy.data.scenes.new("Other")')
        expression = (
            "import bpy; s = bpy.context.scene; "
            "print('IS', s.name, s.render.engine, s.render.threads_mode, s.render.threads, s.render.use_file_extension)"
        )

        said = shell.blender(
            "-b",
            str(scene),
            "-t",
            "3",
            "-S",
            "Other",
            "-E",
            "BLENDER_WORKBENCH",
            "-x",
            "0",
            "--python-expr",
            expression,
        )

        assert "IS Other BLENDER_WORKBENCH FIXED 3 False" in said.stdout

    def test_scripts_see_the_whole_command_line(self, shell: Shell) -> None:
        (shell.folder / "s.py").write_text("import sys\nprint('ARGS', __name__, sys.argv[-2:], __file__)\n")

        said = shell.blender("--background", "--factory-startup", "--python", "s.py", "--", "a", "b")

        assert "ARGS __main__ ['a', 'b'] s.py" in said.stdout

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["--python-exit-code", "7", "--python-expr", "raise KeyError(1)"], 7),
            (["--python-expr", "raise KeyError(1)"], 0),
            (["--python-expr", "raise SystemExit(3)"], 3),
        ],
    )
    def test_exit_codes_of_scripts(self, shell: Shell, arguments: list[str], code: int) -> None:
        assert shell.blender("-b", *arguments).returncode == code

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["-b", "none.blend"], "cannot read file none.blend"),
            (["-b", "-F", "GIF"], "unknown file format GIF"),
            (["-b", "-E", "OCTANE"], "there is no engine OCTANE"),
            (["-b", "-S", "Nope"], "there is no scene Nope"),
            (["-f", "1"], "add --background"),
        ],
    )
    def test_what_cannot_be_done_ends_it_with_a_sentence(self, shell: Shell, arguments: list[str], words: str) -> None:
        said = shell.blender(*arguments)

        assert said.returncode == 1
        assert words in said.stderr

    def test_a_frame_that_cannot_be_rendered_is_no_success(self, shell: Shell) -> None:
        said = shell.blender("-b", "--python-expr", "import bpy; bpy.context.scene.camera = None", "-o", "x", "-f", "1")

        assert said.returncode == 1
        assert "no camera" in said.stderr

    @pytest.mark.parametrize(("option", "allowed"), [("-y", True), ("-Y", False), ("--factory-startup", False)])
    def test_scripts_of_scenes_run_only_if_enabled(
        self, shell: Shell, blender: Blender, tmp_path: Path, option: str, allowed: bool
    ) -> None:
        code = "text = bpy.data.texts.new('t.py'); text.use_module = True; text.write('print(\"SCRIPT\" + \" RAN\")')"
        scene = save_scene(blender, tmp_path / "a.blend", code)

        said = shell.blender("-b", option, str(scene))

        assert ("SCRIPT RAN" in said.stdout) is allowed


OPENJD_INPUTS = os.environ.get("FARM_OPENJD_INPUTS", "")
"""A folder with job bundles that people use on other farms; they are not ours to carry."""


@pytest.mark.skipif(not OPENJD_INPUTS, reason="FARM_OPENJD_INPUTS names no folder with other people's bundles")
class TestOtherPeoplesBundles:
    def test_a_blender_bundle_renders_unchanged(self, sessions: Sessions, blank_scene: Path, launcher: Path) -> None:
        template = yaml.safe_load((Path(OPENJD_INPUTS) / "blender_render/template.yaml").read_text())
        parameters = {"BlenderSceneFile": str(blank_scene), "OutputDir": str(sessions.out), "Frames": "1-2"}
        session = sessions.open(json.dumps(template), parameters, env={"PATH": f"{launcher}:/usr/bin:/bin"})

        ended = [session.run(Frame=frame) for frame in ("1", "2")]

        assert [end.is_success for end in ended] == [True, True], ended[0].lines
        assert sorted(file.name for file in sessions.out.iterdir()) == ["output_0001.jpg", "output_0002.jpg"]

"""What the renderers' tests share: a real Blender, once as a launcher and once as a process that answers questions."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.workers.renderers.sessions import LocalSession, path_with
from workers.renderers import load_renderer

ROOT = Path(__file__).parents[3]
SERVER = Path(__file__).with_name("blender_server.py")


@pytest.fixture(scope="session")
def renderer_python() -> Path:
    """The Python that has bpy."""
    python = Path(os.environ.get("FARM_RENDERER_PYTHON", ROOT / ".venvs/renderer/bin/python"))
    if not python.exists():
        pytest.skip(f"no renderer: {python} is not there; run 'make env-renderer' or set FARM_RENDERER_PYTHON")
    return python


@pytest.fixture
def no_gpu_here() -> None:
    """What is tested is a machine without a GPU."""
    if any(Path("/dev").glob("nvidia[0-9]*")) or any(Path("/dev/dri").glob("renderD*")) or Path("/dev/kfd").exists():
        pytest.skip("this machine has a GPU, and its absence is what is tested")


@pytest.fixture(scope="session")
def launcher(renderer_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program `blender`, as a worker has it."""
    return write_launcher(tmp_path_factory.mktemp("bin"), renderer_python)


def write_launcher(folder: Path, renderer_python: Path, *, before: str = "exec") -> Path:
    """Write a program `blender`; `before` may set limits around it."""
    program = folder / "blender"
    program.write_text(
        f'#!/bin/sh\nexport PYTHONPATH={ROOT}\n{before} {renderer_python} -m workers.renderers.blender.bpy_shim "$@"\n'
    )
    program.chmod(0o755)
    return folder


class Blender:
    """A Blender that runs what it is given and answers with what that assigns to `answer`."""

    def __init__(self, python: Path, folder: Path) -> None:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(folder), "LANG": "C.UTF-8"}
        self._log_file = folder / "log"
        self._log = self._log_file.open("wb")
        self._process = subprocess.Popen(
            [python, SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=folder,
            env=env,
            text=True,
        )

    def do(self, code: str, **given: Any) -> Any:
        """Run code in an empty file; JSON values go in by name and come out as `answer`."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"code": textwrap.dedent(code), "given": given}) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pytest.fail("Blender ended in an earlier test")
        line = process.stdout.readline()
        if not line:
            pytest.fail(f"Blender ended: …{self._log_file.read_text(errors='replace')[-3000:]}")
        result = json.loads(line)
        if "error" in result:
            pytest.fail(result["error"])
        return result["answer"]

    def close(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


@pytest.fixture(scope="session")
def blender(renderer_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blender]:
    blender = Blender(renderer_python, tmp_path_factory.mktemp("blender"))
    yield blender
    blender.close()


@pytest.fixture
def blank_scene(blender: Blender, tmp_path: Path) -> Path:
    """A saved scene that renders in no time: Cycles, one sample, 64 × 36 pixels, a cube and a camera."""
    return save_scene(blender, tmp_path / "scene" / "blank.blend")


def save_scene(blender: Blender, file: Path, code: str = "", *, compress: bool = False, **given: Any) -> Path:
    """Save a tiny scene; `code` changes it first (`bpy`, `scene` and `cube` are there)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    save = f"""
scene = bpy.context.scene
scene.render.engine, scene.cycles.samples, scene.cycles.use_denoising = "CYCLES", 1, False
scene.render.resolution_x, scene.render.resolution_y, scene.render.resolution_percentage = 64, 36, 100
cube = bpy.data.objects["Cube"]
{textwrap.dedent(code)}
bpy.context.preferences.filepaths.save_version = 0
bpy.ops.wm.save_as_mainfile(filepath={str(file)!r}, relative_remap=False, compress={compress})
"""
    blender.do(save, **given)
    return file


class Sessions:
    """Makes sessions of the farm's templates and ends them all."""

    def __init__(self, folder: Path, launcher: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.out.mkdir()
        self.launcher = launcher
        self.opened: list[LocalSession] = []

    def render(self, scene: Path, frames: str = "1", *, device: str = "CPU", **options: Any) -> LocalSession:
        rules = options.pop("windows_rules", ())
        launcher = options.pop("launcher", self.launcher)
        folder = options.pop("scene_folder", scene.parent)
        parameters = {"SceneFile": str(scene), "SceneFolder": str(folder), "OutputDir": str(self.out), "Frames": frames}
        return self.open(
            load_renderer("blender").template,
            parameters | options,
            env={"PATH": path_with(launcher), "FARMHAND_DEVICE": device},
            windows_rules=rules,
        )

    def inspect(self, scene: Path, *, folder: Path | None = None, **options: Any) -> LocalSession:
        launcher = options.pop("launcher", self.launcher)
        parameters = {"SceneFile": str(scene), "SceneFolder": str(folder or scene.parent), "OutputDir": str(self.out)}
        return self.open(
            load_renderer("blender").inspect_template, parameters, env={"PATH": path_with(launcher)}, **options
        )

    def open(self, template: str, parameters: Mapping[str, str], **options: Any) -> LocalSession:
        session = LocalSession(template, parameters, folder=self.folder, **options)
        self.opened.append(session)
        return session

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close()


@pytest.fixture
def sessions(tmp_path: Path, launcher: Path) -> Iterator[Sessions]:
    sessions = Sessions(tmp_path, launcher)
    yield sessions
    sessions.close()

"""The agent with a real Blender and the farm's own template: a scene that renders, and one that attacks."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workers.conftest import ROOT, RunningAgent
from tests.workers.fake_farm import FakeFarm
from workers.protocol import Cause, Outcome, TaskParameter
from workers.renderers import load_renderer

ATTACK = """
import os, socket, subprocess, sys
print("ATTACK RUNS", flush=True)
def attempt(name, deed):
    try:
        deed()
    except Exception as error:
        print("held:", name, type(error).__name__, flush=True)
    else:
        print("ESCAPED:", name, flush=True)
attempt("read shadow", lambda: open("/etc/shadow").read())
attempt("read the agent", lambda: open("{canary}").read())
attempt("list the work folder", lambda: os.listdir("{work}"))
attempt("write the scene", lambda: open("/scene/attack.blend", "ab").write(b"x"))
attempt("write the system", lambda: open("/usr/bin/evil", "w"))
attempt("write home", lambda: open("/home/evil", "w"))
attempt("phone home", lambda: socket.create_connection(("127.0.0.1", {port}), 2))
attempt("ask the cloud", lambda: socket.create_connection(("169.254.169.254", 80), 2))
attempt("signal the agent", lambda: os.kill({agent}, 0) if {agent} > 100 else 1 / 0)
attempt("find a token", lambda: [k for k in os.environ if "TOKEN" in k or "SECRET" in k][0])
subprocess.Popen(["setsid", "sh", "-c", "ln -sf {canary} /out/frame_000002.png; sleep 3333.25"])
"""


@pytest.fixture(scope="module")
def renderer_python() -> Path:
    python = Path(os.environ.get("FARM_RENDERER_PYTHON", ROOT / ".venvs/renderer/bin/python"))
    if not python.exists():
        pytest.skip(f"no renderer: {python} is not there; run 'make env-renderer' or set FARM_RENDERER_PYTHON")
    return python


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory, broker_url: str) -> Iterator[FakeFarm]:
    farm = FakeFarm(tmp_path_factory.mktemp("blender") / "farm", broker_url)
    yield farm
    farm.close()


@pytest.fixture(scope="module")
def agent(farm: FakeFarm, renderer_python: Path) -> Iterator[RunningAgent]:
    agent = RunningAgent(farm, farm.folder.parent / "work", "--renderer-python", str(renderer_python))
    farm.wait(lambda: farm.syncs, 60)
    yield agent
    agent.stop()


def save_scene(python: Path, file: Path, script: str = "") -> bytes:
    """Have Blender save a scene of a cube; `script` is a text in it that runs when the file is opened."""
    code = f"""
        import bpy
        scene = bpy.context.scene
        scene.render.engine = "CYCLES"
        scene.cycles.samples = 1
        scene.render.resolution_x, scene.render.resolution_y, scene.render.resolution_percentage = 64, 36, 100
        script = {script!r}
        if script:
            text = bpy.data.texts.new("attack.py")
            text.write(script)
            text.use_module = True
        bpy.ops.wm.save_as_mainfile(filepath={str(file)!r})
    """
    subprocess.run([str(python), "-c", textwrap.dedent(code)], check=True, capture_output=True, timeout=120)
    return file.read_bytes()


def add_blender_step(farm: FakeFarm, scene: bytes, **wanted: str) -> str:
    template = json.loads(load_renderer("blender").template)
    definitions = {d["name"]: d for d in template["parameterDefinitions"]}
    values = {name: str(d.get("default", "")) for name, d in definitions.items()}
    values |= {"SceneFile": "scene.blend", "Frames": "1-9", "FileFormat": "PNG", **wanted}
    version = farm.registered[0].software["blender"][0]
    return farm.add_step(
        template["steps"][0]["script"],
        environments=template["steps"][0]["stepEnvironments"],
        files={"scene.blend": scene},
        parameters={name: TaskParameter(type=definitions[name]["type"], value=value) for name, value in values.items()},
        input_paths=["SceneFile", "SceneFolder"],
        output_paths=["OutputDir"],
        software={"blender": version.rpartition(".")[0]},
    )


def assign(farm: FakeFarm, step: str, frame: int, **fields: Any) -> str:
    name = f"frame_{frame:06d}.png"
    return farm.assign(step, expected=[name], parameters={"Frame": ("INT", str(frame))}, **fields)


class TestRender:
    def test_frames_of_a_scene_come_from_one_session(
        self, farm: FakeFarm, agent: RunningAgent, renderer_python: Path, tmp_path: Path
    ) -> None:
        step = add_blender_step(farm, save_scene(renderer_python, tmp_path / "scene.blend"))

        first, second = (farm.wait_end(assign(farm, step, frame), 90) for frame in (1, 2))

        assert (first.outcome, first.sentence) == (Outcome.SUCCEEDED, "")
        assert first.setup_ms > 0
        assert second.setup_ms == 0
        assert second.device == "CPU"
        assert (second.outputs[0].width, second.outputs[0].height) == (64, 36)
        assert second.outputs[0].statistics is not None
        assert not second.outputs[0].statistics["uniform"]

    def test_a_file_that_is_no_scene_is_a_clear_refusal(self, farm: FakeFarm, agent: RunningAgent) -> None:
        step = add_blender_step(farm, b"PK\x03\x04 a zip")

        end = farm.wait_end(assign(farm, step, 1), 90)

        assert end.cause is Cause.SCENE_UNREADABLE
        assert "zip" in end.sentence


class TestAttack:
    def test_a_scene_with_scripts_enabled_gets_nowhere(
        self, farm: FakeFarm, agent: RunningAgent, renderer_python: Path, tmp_path: Path
    ) -> None:
        canary = agent.work / "canary"
        canary.write_text("the agent's secret", encoding="utf-8")
        port = int(farm.url.rpartition(":")[2])
        script = ATTACK.format(canary=canary, work=agent.work, port=port, agent=agent.process.pid)
        step = add_blender_step(farm, save_scene(renderer_python, tmp_path / "attack.blend", script), Scripts="RUN")

        first = assign(farm, step, 1)
        first_end = farm.wait_end(first, 90)
        second_end = farm.wait_end(assign(farm, step, 2), 90)

        log = farm.log(first)
        assert "ATTACK RUNS" in log
        assert "ESCAPED" not in log
        assert log.count("held:") >= 9
        assert first_end.outcome is Outcome.SUCCEEDED
        stolen = b"the agent's secret"
        assert not any(stolen in file.read_bytes() for file in (farm.folder / "store").rglob("*") if file.is_file())
        assert second_end.cause in (None, Cause.UNEXPECTED_OUTPUT)
        assert canary.read_text(encoding="utf-8") == "the agent's secret"

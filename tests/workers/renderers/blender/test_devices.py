"""What renders, on a machine without a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.renderers.conftest import Blender

pytestmark = pytest.mark.timeout(300)

USE = """
from workers.renderers.blender import devices
from workers.renderers.blender.refusals import Refusal
scene = bpy.context.scene

def use(wanted, engine, drawn=True):
    scene.render.engine = engine
    try:
        return devices.use_device(wanted, [scene], drawn=[scene] if drawn else [])
    except Refusal as refusal:
        return [refusal.cause, refusal.sentence]
"""


@pytest.fixture
def ask(blender: Blender) -> Any:
    return lambda code: blender.do(USE + code)


class TestUseDevice:
    def test_the_cpu_whatever_the_scene_prefers(self, ask: Any) -> None:
        answer = ask(
            """
scene.cycles.device, scene.render.compositor_device = "GPU", "GPU"
answer = [use("CPU", "CYCLES"), scene.cycles.device, scene.render.compositor_device]
"""
        )

        assert answer == ["CPU", "CPU", "CPU"]

    @pytest.mark.parametrize("engine", ["EEVEE", "WORKBENCH"])
    def test_engines_that_draw_need_a_gpu(self, ask: Any, engine: str) -> None:
        cause, sentence = ask(f'answer = use("CPU", "BLENDER_{engine}")')

        assert cause == "scene_error"
        assert sentence == (
            f"Scene Scene renders with {engine}, which needs a GPU, and this worker has none: choose Engine CYCLES, or "
            "a fleet with GPUs."
        )

    def test_a_scene_that_no_engine_draws_needs_none(self, ask: Any) -> None:
        assert ask('answer = use("CPU", "BLENDER_EEVEE", drawn=False)') == "CPU"

    @pytest.mark.usefixtures("no_gpu_here")
    def test_a_promised_gpu_that_is_not_there_is_the_farms_fault(self, ask: Any) -> None:
        cause, sentence = ask('answer = use("GPU", "CYCLES")')

        assert cause == "no_gpu"
        assert "none of OPTIX, CUDA, HIP, ONEAPI lists one" in sentence


class TestAssertDevice:
    @pytest.mark.usefixtures("no_gpu_here")
    def test_cycles_that_would_take_the_cpu_is_caught(self, ask: Any) -> None:
        answer = ask(
            """
scene.render.engine, scene.cycles.device = "CYCLES", "GPU"
try:
    devices.assert_device("GPU", [scene])
except Refusal as refusal:
    answer = [refusal.cause, refusal.sentence]
"""
        )

        assert answer[0] == "no_gpu"
        assert "Cycles would render scene Scene on the CPU" in answer[1]

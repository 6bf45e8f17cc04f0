"""
What renders: the GPU a task was promised, or the CPU; never one silently in place of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import bpy

from workers.renderers.blender.refusals import Refusal

GPU_ENGINES = frozenset({"BLENDER_EEVEE", "BLENDER_EEVEE_NEXT", "BLENDER_WORKBENCH"})
"""They draw with OpenGL or Vulkan; without a GPU Blender crashes or takes a minute a frame."""

_BACKENDS = ("OPTIX", "CUDA", "HIP", "ONEAPI")
_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "swiftshader", "lavapipe")


class EngineNeedsGpu(Refusal):
    """Scene {scene} renders with {engine}, which needs a GPU, and this worker has none: choose Engine CYCLES, or a
    fleet with GPUs."""

    code = "engine_needs_gpu"


class NoGpu(Refusal):
    """This worker was to render on a GPU but Blender finds none it can use ({detail}): the farm tries another
    worker."""

    cause = "no_gpu"
    code = "no_gpu"


def use_device(wanted: str, scenes: Sequence[Any], *, drawn: Sequence[Any]) -> str:
    """
    Make the scenes render on the GPU or the CPU and name it: "CPU", "OPTIX: NVIDIA L4", "" if not known yet.

    `drawn` are those of the scenes that an engine draws.

    :raises EngineNeedsGpu: a scene's engine cannot do without
    :raises NoGpu: a GPU was promised and is not there
    """
    for scene in drawn:
        if wanted != "GPU" and scene.render.engine in GPU_ENGINES:
            raise EngineNeedsGpu(scene=scene.name, engine=scene.render.engine.removeprefix("BLENDER_"))
    if wanted != "GPU":
        _use_cpu(scenes)
        return "CPU"
    named = _enable_gpus() if any(scene.render.engine == "CYCLES" for scene in drawn) else drawing_device()
    for scene in scenes:
        scene.cycles.device = "GPU"
    assert_device(wanted, drawn)
    return named


def _use_cpu(scenes: Iterable[Any]) -> None:
    for scene in scenes:
        scene.cycles.device = "CPU"
        scene.render.compositor_device = "CPU"
        if scene.cycles.denoiser == "OPTIX":
            scene.cycles.denoiser = "OPENIMAGEDENOISE"


def _enable_gpus() -> str:
    """Switch on the GPUs of the first backend that has any: factory settings have none on."""
    preferences = _cycles_preferences()
    for backend in _BACKENDS:
        try:
            preferences.compute_device_type = backend
            preferences.refresh_devices()
        except (TypeError, ValueError):
            continue  # this Blender was built without it
        names = _switch(preferences.devices, backend)
        if names:
            return f"{backend}: {', '.join(names)}"
    raise NoGpu(detail=f"none of {', '.join(_BACKENDS)} lists one")


def _switch(devices: Iterable[Any], backend: str) -> list[str]:
    names = []
    for device in devices:
        device.use = device.type == backend
        if device.use:
            names.append(device.name)
    return names


def _cycles_preferences() -> Any:
    return bpy.context.preferences.addons["cycles"].preferences


def assert_device(wanted: str, scenes: Iterable[Any]) -> None:
    """
    See that Cycles will use a GPU if one was promised: without one it takes the CPU and says nothing.

    :raises NoGpu: it would not
    """
    for scene in scenes:
        if wanted != "GPU" or scene.render.engine != "CYCLES":
            continue
        if scene.cycles.device != "GPU" or not _cycles_preferences().has_active_device():
            raise NoGpu(detail=f"Cycles would render scene {scene.name} on the CPU")


def drawing_device() -> str:
    """
    Name what EEVEE and Workbench draw with; "" as long as Blender has not drawn anything.

    :raises NoGpu: it is a GPU in name only
    """
    gpu: Any = import_module("gpu")

    try:
        if hasattr(gpu, "init"):
            gpu.init()
        name = gpu.platform.renderer_get()
    except SystemError:
        return ""
    if any(software in name.lower() for software in _SOFTWARE):
        raise NoGpu(detail=f"it draws with {name}, on the CPU")
    return f"EEVEE: {name}"

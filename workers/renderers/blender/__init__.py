"""Blender: what a job's tasks leave in their output folder. The farm asks; nothing here needs Blender."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.protocol import ExpectedOutput, OutputRole
from workers.renderers.blender.outputs import (
    FORMATS,
    frame_name,
    parse_frames,
    resolve_depth,
    resolve_format,
    resolve_size,
)


def expected_outputs(
    *, parameters: Mapping[str, str], task: Mapping[str, str], report: Mapping[str, Any] | None
) -> list[ExpectedOutput] | None:
    """
    Tell which files a task must leave, from the job's parameters, the task's own and the scene's report.

    None if that cannot be told: the scene is to decide and no report says what it does.

    :raises outputs.UnknownFormat: nobody knows the wanted format
    :raises outputs.ImpossibleDepth: the format cannot hold the wanted depth
    :raises outputs.MalformedFrames: the task's frames cannot be read
    """
    scene = chosen_scene(report, parameters["Scene"])
    wanted = parameters["FileFormat"]
    if scene is None and wanted == "SCENE":
        return None
    file_format = resolve_format(wanted, scene=scene["output"]["format"] if scene else wanted)
    size = resolve_size(scene, int(parameters["ResolutionPercent"])) if scene else None
    width, height = size or (None, None)
    return [
        ExpectedOutput(
            name=frame_name(frame, file_format),
            role=OutputRole.RENDER,
            format=FORMATS[file_format].name,
            width=width,
            height=height,
            bit_depth=_depth(parameters["ColorDepth"], scene, file_format),
        )
        for frame in parse_frames(task["Frame"])
    ]


def _depth(wanted: str, scene: Mapping[str, Any] | None, file_format: str) -> int | None:
    if scene is None and wanted == "SCENE":
        return None
    return resolve_depth(wanted, scene=scene["output"]["color_depth"] if scene else 0, file_format=file_format)


def chosen_scene(report: Mapping[str, Any] | None, name: str) -> Mapping[str, Any] | None:
    """Find a scene of a report by its name, or the active one."""
    scenes: list[Mapping[str, Any]] = [] if report is None else report["scenes"]
    return next((scene for scene in scenes if (scene["name"] == name if name else scene["active"])), None)

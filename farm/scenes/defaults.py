"""
What a scene says of itself, as the defaults of a job's form. Pure.

Most parameters of a renderer's template mean "as the scene says" when they are left alone, and it is the renderer that
reads the scene then: to write a value out would also force it on the other scenes that take part in the picture. Only
the frames must be said; the rest is here to be shown and checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from farm.scenes.reports import is_lacking
from workers.renderers.blender.outputs import resolve_size

ENGINES = ("CYCLES", "EEVEE", "WORKBENCH")
UNKNOWN_ENGINE = "UNKNOWN"
# Problems that are checked against the order, where a choice may have settled them.
SETTLED_BY_CHOICES = frozenset(
    {"no_camera", "no_frames", "unknown_engine", "eevee_needs_gpu", "video_output", "unsupported_format"}
)


@dataclass(frozen=True, kw_only=True)
class SceneDefaults:
    """What one scene of a file says of itself, and what the file offers."""

    scene: str
    scenes: list[str]
    frames: str  # an OpenJD range; "" if the scene ends before it starts
    camera: str | None
    cameras: list[str]
    needs_camera: bool  # it has none to look from: neither its own nor one that markers bind
    view_layers: list[str]
    view_layers_on: list[str]
    engine: str  # one of ENGINES, UNKNOWN, or "" if strips make the picture
    engine_as_written: str
    samples: int | None
    resolution_percent: int
    file_format: str
    color_depth: int
    is_movie: bool
    missing: list[str]  # needed files that are not in the upload, as the scene spells them
    warnings: list[str]
    described: Mapping[str, Any]  # the scene's own part of the report

    def parameters(self) -> dict[str, str]:
        """Give what a template must be told and the scene knows."""
        return {"Frames": self.frames} if self.frames else {}

    def size_at(self, percent: int) -> tuple[int, int] | None:
        """Give the frames' width and height at a percentage, 0 for the scene's; None if stereo decides them."""
        return resolve_size(self.described, percent)


def defaults_of(report: Mapping[str, Any], values: Mapping[str, str] | None = None) -> SceneDefaults:
    """Read the defaults of the scene that `values` chooses by its name, or of the one that opens."""
    scene = _chosen(report, (values or {}).get("Scene", ""))
    output = scene["output"]
    return SceneDefaults(
        scene=scene["name"],
        scenes=[each["name"] for each in report["scenes"]],
        frames=_frames(scene["frames"]),
        camera=scene["camera"],
        cameras=list(scene["cameras"]),
        needs_camera=_needs_camera(scene),
        view_layers=[layer["name"] for layer in scene["view_layers"]],
        view_layers_on=[layer["name"] for layer in scene["view_layers"] if layer["on"]],
        engine=_engine(scene),
        engine_as_written=scene["engine"],
        samples=scene["samples"],
        resolution_percent=scene["resolution"]["percent"],
        file_format=output["format"],
        color_depth=output["color_depth"],
        is_movie=output["movie"],
        missing=list(dict.fromkeys(found["path"] for found in report["dependencies"] if is_lacking(found))),
        warnings=_warnings(report, scene["name"]),
        described=scene,
    )


def _chosen(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    scenes: list[Mapping[str, Any]] = report["scenes"]
    by_name = next((scene for scene in scenes if scene["name"] == name), None)
    return by_name or next((scene for scene in scenes if scene["active"]), scenes[0])


def _frames(frames: Mapping[str, int]) -> str:
    start, end, step = frames["start"], frames["end"], frames["step"]
    if end < start:
        return ""
    if start == end:
        return str(start)
    return f"{start}-{end}" if step <= 1 else f"{start}-{end}:{step}"


def _needs_camera(scene: Mapping[str, Any]) -> bool:
    return bool(scene["drawn"]) and not scene["camera"] and not any(marker["camera"] for marker in scene["markers"])


def _engine(scene: Mapping[str, Any]) -> str:
    if not scene["drawn"]:
        return ""
    return scene["engine"] if scene["engine"] in ENGINES else UNKNOWN_ENGINE


def _warnings(report: Mapping[str, Any], scene: str) -> list[str]:
    return [
        problem["sentence"]
        for problem in report["problems"]
        if problem["code"] not in SETTLED_BY_CHOICES and problem["params"].get("scene", scene) == scene
    ]

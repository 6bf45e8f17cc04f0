"""
Look at a scene and write down what is in it and what it needs; nothing is rendered.

Runs inside Blender: `blender --background --python inspect_scene.py -- SCENE FOLDER RULES REPORT`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - the files beside this one

import bpy

from workers.renderers.blender.blendfile import read_header
from workers.renderers.blender.dependencies import Dependency, collect, missing_datablocks, remap, unbaked_simulations
from workers.renderers.blender.opening import flush, open_scene, print_by_line, spelled_libraries, unknown_engines
from workers.renderers.blender.order import is_drawn
from workers.renderers.blender.outputs import MOVIES, compact_frames
from workers.renderers.blender.places import Places, is_absolute, read_rules
from workers.renderers.blender.refusals import Refusal
from workers.renderers.blender.report import Report, blank_report, find_problems, refuse

MOST_FRAMES = 10_000
MOST_NAMED = 100


def inspect(scene_file: Path, places: Places) -> Report:
    """Open a scene and report on it, or on why it cannot be opened."""
    report = blank_report(places.shown(str(scene_file)))
    report["renderer"]["version"] = bpy.app.version_string.split()[0]
    try:
        header = read_header(scene_file)
        report["compression"] = header.compression
        report["saved_by"] = None if header.version is None else "{}.{}".format(*header.version)
        log = open_scene(scene_file, scripts=False)
    except Refusal as refusal:
        return refuse(report, refusal)
    report["saved_by"] = "{}.{}".format(*bpy.data.version)
    _look_around(report, places, log)
    report["problems"] = find_problems(report)
    return report


def _look_around(report: Report, places: Places, log: str) -> None:
    foreign = unknown_engines(log)
    spelled = remap(places, print) | spelled_libraries(log)
    scenes = [scene for scene in bpy.data.scenes if scene.library is None]
    report["active_scene"] = bpy.context.scene.name
    report["scenes"] = [_describe_scene(scene, foreign) for scene in scenes]
    frames = _frames_of(scenes)
    report["dependencies"] = [_describe_dependency(found, places) for found in collect(places, frames, spelled)]
    report["missing_data"] = missing_datablocks()
    report["unbaked"] = unbaked_simulations()
    report["scripts"] = {
        "texts": sorted(text.name for text in bpy.data.texts if text.use_module),
        "blocked": bpy.app.autoexec_fail_message if bpy.app.autoexec_fail else None,
    }
    report["file_outputs"] = sorted(
        {f"{node.name} of {tree.name}" for tree in bpy.data.node_groups for node in tree.nodes if _writes_files(node)}
    )


def _writes_files(node: Any) -> bool:
    return bool(node.type == "OUTPUT_FILE" and not node.mute)


def _frames_of(scenes: list[Any]) -> list[int]:
    """List the frames that any of the scenes renders; of very long ones the beginning."""
    frames: set[int] = set()
    for scene in scenes:
        frames.update(range(scene.frame_start, scene.frame_end + 1, max(1, scene.frame_step))[:MOST_FRAMES])
    return sorted(frames)


def _describe_scene(scene: Any, foreign: Mapping[str, str]) -> dict[str, Any]:
    render, settings = scene.render, scene.render.image_settings
    engine = foreign.get(scene.name) or render.engine.removeprefix("BLENDER_").removesuffix("_NEXT")
    return {
        "name": scene.name,
        "active": scene == bpy.context.scene,
        "drawn": is_drawn(scene),
        "engine": engine,
        "device": {"CYCLES": scene.cycles.device, "EEVEE": "GPU", "WORKBENCH": "GPU"}.get(engine),
        "samples": {"CYCLES": scene.cycles.samples, "EEVEE": scene.eevee.taa_render_samples}.get(engine),
        "camera": None if scene.camera is None else scene.camera.name,
        "cameras": sorted(thing.name for thing in scene.objects if thing.type == "CAMERA"),
        "markers": [
            {"frame": marker.frame, "name": marker.name, "camera": marker.camera and marker.camera.name}
            for marker in sorted(scene.timeline_markers, key=lambda marker: (marker.frame, marker.name))
        ],
        "view_layers": [{"name": layer.name, "on": layer.use} for layer in scene.view_layers],
        "frames": {"start": scene.frame_start, "end": scene.frame_end, "step": scene.frame_step},
        "fps": _describe_rate(render),
        "resolution": _describe_resolution(render),
        "region": _describe_region(render),
        "multiview": render.use_multiview,
        "output": {
            "format": settings.file_format,
            "movie": settings.file_format in MOVIES,
            "color_mode": settings.color_mode or None,  # a movie cannot hold every still image's
            "color_depth": int(settings.color_depth),
            "views": settings.views_format,
            "path": render.filepath,
        },
        "compositor": bool(render.use_compositing and scene.compositing_node_group),
        "sequencer": bool(render.use_sequencer and scene.sequence_editor and scene.sequence_editor.strips),
    }


def _describe_rate(render: Any) -> list[int]:
    """Give frames per second as a fraction: 24000/1001, not 23.976."""
    rate = render.fps / Fraction(render.fps_base).limit_denominator(1001)
    return [rate.numerator, rate.denominator]


def _describe_resolution(render: Any) -> dict[str, int]:
    x, y, percent = render.resolution_x, render.resolution_y, render.resolution_percentage
    return {"x": x, "y": y, "percent": percent, "width": x * percent // 100, "height": y * percent // 100}


def _describe_region(render: Any) -> dict[str, Any] | None:
    if not render.use_border:
        return None
    return {
        "x": [render.border_min_x, render.border_max_x],
        "y": [render.border_min_y, render.border_max_y],
        "crop": render.use_crop_to_border,
    }


def _describe_dependency(found: Dependency, places: Places) -> dict[str, Any]:
    there = [spot.path for spot in found.spots if spot.is_there and spot.path]
    lacking = [spot.path for spot in found.spots if not spot.is_there and spot.path]
    return {
        "kind": found.kind,
        "name": found.name,
        "path": found.path,
        "library": found.library,
        "packed": found.packed,
        "needed": found.is_needed,
        "users": found.users[:MOST_NAMED],
        "absolute": is_absolute(found.path),
        "state": _state(found),
        "resolved": places.shown((there or lacking)[0]) if there or lacking else None,
        "files": len(found.spots),
        "size": sum(os.stat(path).st_size for path in there if os.path.isfile(path)),  # noqa: PTH113, PTH116
        "numbers": None if found.numbers is None else compact_frames(sorted(found.numbers)),
        "missing_numbers": None if found.numbers is None else compact_frames(found.missing_numbers),
        "missing": [places.shown(path) for path in lacking[:MOST_NAMED]],
    }


def _state(found: Dependency) -> str:
    if found.is_outside:
        return "outside"
    return "missing" if found.is_missing else "found"


def _printable(text: str) -> str:
    """Replace what is no text: a path on Linux is bytes, and a report is read by programs that insist."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "\ufffd")


def printable(value: Any) -> Any:
    """Make sure that all text in a report is text."""
    if isinstance(value, str):
        return _printable(value)
    if isinstance(value, dict):
        return {_printable(key): printable(item) for key, item in value.items()}
    return [printable(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    scene_file, folder, rules, target = sys.argv[sys.argv.index("--") + 1 :]
    print_by_line()
    report = inspect(Path(scene_file), Places(folder, read_rules(Path(rules).read_text())))
    Path(target).write_text(json.dumps(printable(report), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
    flush()
    os._exit(0)  # Blender's own end can crash, and nobody is left to care

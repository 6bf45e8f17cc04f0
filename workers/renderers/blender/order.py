"""
What was ordered, applied to the opened scene: which scene, camera and layers, how many samples, what files.

"" , 0 and SCENE mean: as the scene says. What the farm decides itself (names of files, where they go) is set here too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy

from workers.renderers.blender.outputs import AS_SCENE, MULTILAYER, resolve_depth, resolve_format
from workers.renderers.blender.refusals import Refusal


class NoSuchScene(Refusal):
    """The file has no scene {name}: choose one of {known}."""

    code = "no_such_scene"


class NoSuchCamera(Refusal):
    """Scene {scene} has no camera {name}: choose one of {known}."""

    code = "no_such_camera"


class NoSuchLayer(Refusal):
    """Scene {scene} has no view layer {name}: choose among {known}."""

    code = "no_such_layer"


class NoCamera(Refusal):
    """Scene {scene} has no active camera: choose one of {known}, or add one in Blender and upload the scene again."""

    code = "no_camera"


class NoCameraAtAll(Refusal):
    """Scene {scene} has no camera: add one in Blender and upload the scene again."""

    code = "no_camera"


class UnknownEngine(Refusal):
    """Scene {scene} renders with {engine}, which this farm does not have: choose Engine CYCLES or EEVEE."""

    code = "unknown_engine"


class SeparateViews(Refusal):
    """Scene {scene} writes each stereo view into a file of its own, and a frame is one file here: choose FileFormat
    OPEN_EXR_MULTILAYER, or Stereo 3D as views format in Blender."""

    code = "separate_views"


@dataclass(frozen=True, kw_only=True)
class Order:
    """The job's parameters, as the template hands them over."""

    scene_file: Path
    scene_folder: Path
    output_dir: Path
    rules: Path
    scene: str
    camera: str
    view_layers: tuple[str, ...]
    engine: str
    samples: int
    percent: int
    file_format: str
    color_depth: str
    missing_assets: str
    scripts: str


def read_order(arguments: Sequence[str]) -> Order:
    """Read an order from `--name=value` arguments."""
    parser = argparse.ArgumentParser(prog="daemon", allow_abbrev=False)
    for name in ("scene-file", "scene-folder", "output-dir", "rules"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("samples", "percent"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("scene", "camera", "engine", "file-format", "color-depth", "missing-assets", "scripts"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--view-layers", required=True, type=_names)
    return Order(**vars(parser.parse_args(arguments)))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def apply_order(order: Order, *, foreign_engines: dict[str, str]) -> Any:
    """
    Make the opened file render what was ordered and return its scene.

    :raises NoSuchScene: nor NoSuchCamera, NoSuchLayer: it is not in the file
    :raises NoCamera: nothing says from where to look
    :raises UnknownEngine: this Blender lacks the scene's engine
    :raises outputs.ImpossibleDepth: the file format cannot hold it
    :raises SeparateViews: a frame would be several files
    """
    scene = _chosen_scene(order.scene)
    _choose_layers(scene, order.view_layers)
    for part in scenes_taking_part(scene):
        _choose_engine(part, order.engine, foreign_engines)
        _choose_quality(part, order)
        _leave_the_rest_to_the_farm(part)
    _choose_camera(scene, order.camera)
    _choose_file(scene, order)
    mute_file_outputs()
    return scene


def _chosen_scene(name: str) -> Any:
    if not name:
        return bpy.context.scene
    if name not in bpy.data.scenes:
        raise NoSuchScene(name=name, known=_known(bpy.data.scenes))
    return bpy.data.scenes[name]


def _known(things: Any) -> str:
    return ", ".join(sorted(thing.name for thing in things)) or "none"


def _choose_layers(scene: Any, names: tuple[str, ...]) -> None:
    if not names:
        return
    for name in names:
        if name not in scene.view_layers:
            raise NoSuchLayer(scene=scene.name, name=name, known=_known(scene.view_layers))
    for layer in scene.view_layers:
        layer.use = layer.name in names


def scenes_taking_part(scene: Any) -> list[Any]:
    """List the scene and those its compositor and its strips render."""
    found: list[Any] = []
    waiting = [scene]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.append(current)
            waiting.extend(_scenes_used_by(current))
    return found


def _scenes_used_by(scene: Any) -> Iterator[Any]:
    if scene.render.use_compositing:
        for tree in _compositor_trees(scene):
            yield from (node.scene for node in tree.nodes if node.type == "R_LAYERS" and node.scene)
    if is_sequence(scene):
        yield from (strip.scene for strip in scene.sequence_editor.strips_all if strip.type == "SCENE" and strip.scene)


def _compositor_trees(scene: Any) -> list[Any]:
    """List the scene's compositor tree and the groups in it."""
    waiting, found = [scene.compositing_node_group], []
    while waiting:
        tree = waiting.pop()
        if tree is not None and tree not in found:
            found.append(tree)
            waiting.extend(node.node_tree for node in tree.nodes if node.type == "GROUP")
    return found


def is_sequence(scene: Any) -> bool:
    """Tell whether the scene's picture is its strips', not its camera's."""
    editor = scene.sequence_editor
    if editor is None or not scene.render.use_sequencer:
        return False
    return any(strip.type != "SOUND" and not strip.mute for strip in editor.strips)


def _choose_engine(scene: Any, engine: str, foreign: dict[str, str]) -> None:
    if engine == AS_SCENE:
        if scene.name in foreign and not is_sequence(scene):
            raise UnknownEngine(scene=scene.name, engine=foreign[scene.name])
    elif engine == "CYCLES":
        scene.render.engine = engine
    else:
        scene.render.engine = f"BLENDER_{engine}"


def _choose_quality(scene: Any, order: Order) -> None:
    if order.percent:
        scene.render.resolution_percentage = order.percent
    if order.samples:
        scene.cycles.samples = order.samples
        scene.eevee.taa_render_samples = order.samples
        for layer in scene.view_layers:
            layer.samples = 0


def _leave_the_rest_to_the_farm(scene: Any) -> None:
    """Undo what an artist's machine needs and a farm must decide itself."""
    render = scene.render
    render.use_file_extension = render.use_overwrite = render.use_persistent_data = True
    render.use_placeholder = render.use_render_cache = render.use_single_layer = False
    render.use_stamp_filename = render.use_stamp_hostname = False
    render.threads_mode = "AUTO"
    scene.frame_step = 1
    if hasattr(render, "save_output"):
        render.save_output = True


def _choose_camera(scene: Any, name: str) -> None:
    cameras = [thing for thing in scene.objects if thing.type == "CAMERA"]
    if name:
        chosen = next((camera for camera in cameras if camera.name == name), None)
        if chosen is None:
            raise NoSuchCamera(scene=scene.name, name=name, known=_known(cameras))
        scene.camera = chosen
        for marker in scene.timeline_markers:
            marker.camera = None
    for part in scenes_taking_part(scene):
        if is_drawn(part) and part.camera is None and camera_at(part, part.frame_start) is None:
            raise lacks_camera(part.name, [thing.name for thing in part.objects if thing.type == "CAMERA"])


def lacks_camera(scene: str, cameras: Sequence[str]) -> Refusal:
    """Word what is missing: a choice among cameras, or any camera."""
    if not cameras:
        return NoCameraAtAll(scene=scene)
    return NoCamera(scene=scene, known=", ".join(sorted(cameras)))


def is_drawn(scene: Any) -> bool:
    """Tell whether an engine draws the scene, rather than strips or a compositor that looks at other things."""
    if is_sequence(scene):
        return False
    if not scene.render.use_compositing or scene.compositing_node_group is None:
        return True
    layers = [node for tree in _compositor_trees(scene) for node in tree.nodes if node.type == "R_LAYERS"]
    return any(node.scene in (None, scene) for node in layers)


def camera_at(scene: Any, frame: int) -> Any | None:
    """Find the camera that markers bind at a frame, as Blender does: the latest before it, else the first after."""
    bound = [m for m in scene.timeline_markers if m.camera is not None and not m.camera.hide_render]
    before = [marker for marker in bound if marker.frame <= frame]
    if before:
        return max(before, key=lambda marker: marker.frame).camera
    return min(bound, key=lambda marker: marker.frame).camera if bound else None


def _choose_file(scene: Any, order: Order) -> None:
    settings = scene.render.image_settings
    file_format = resolve_format(order.file_format, scene=settings.file_format)
    depth = resolve_depth(order.color_depth, scene=int(settings.color_depth), file_format=file_format)
    if scene.render.use_multiview and settings.views_format == "INDIVIDUAL" and file_format != MULTILAYER:
        raise SeparateViews(scene=scene.name)
    settings.media_type = "MULTI_LAYER_IMAGE" if file_format == MULTILAYER else "IMAGE"
    settings.file_format = file_format
    settings.color_depth = str(depth)
    if scene.render.use_multiview and file_format == MULTILAYER:
        settings.views_format = "MULTIVIEW"


def mute_file_outputs() -> None:
    """Switch off nodes that write files of their own: they name folders of the artist's machine."""
    for tree in bpy.data.node_groups:
        for node in tree.nodes:
            if node.type == "OUTPUT_FILE" and not node.mute:
                node.mute = True
                print(f"File Output node {node.name} of {tree.name} is off: frames are the only files here")

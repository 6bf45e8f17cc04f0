"""
Make Farmhand's own sample scene, a small farm in evening light: `blender --background --python sample.py -- FOLDER`.

Everything is made here by code: meshes, materials, the ground's texture (`textures/field.png`, a file of its own, as
real scenes have), a windmill that turns and a camera that moves. Cycles at few samples: a second or two a frame.
"""

from __future__ import annotations

import math
import os
import random
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import bpy
from mathutils import Vector

FRAMES = 48
SEED = 7
TEXTURE = "field.png"
FIELD = 80.0
"""Half the length of the ground."""

Point = tuple[float, float, float]
Color = tuple[float, float, float]

BARN_RED = (0.34, 0.035, 0.022)
CREAM = (0.80, 0.74, 0.62)
SLATE = (0.055, 0.06, 0.075)
STEEL = (0.55, 0.57, 0.60)
WOOD = (0.20, 0.12, 0.065)
STRAW = (0.62, 0.43, 0.14)
LEAVES = ((0.10, 0.17, 0.035), (0.16, 0.20, 0.03), (0.28, 0.17, 0.025))


def make_scene(folder: Path) -> Path:
    """Write the scene and its texture into a folder and return the .blend."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    rng = random.Random(SEED)  # the same farm every time
    texture = _make_texture(folder / "textures" / TEXTURE, rng)
    _build_ground(texture)
    _build_barn((0.0, 0.0))
    _build_silo((7.4, 2.2))
    wheel = _build_windmill((-10.5, 5.5))
    _plant_trees(rng)
    _scatter_bales(rng)
    _build_fence()
    _light(scene)
    _film(scene, wheel)
    target = folder / "farm.blend"
    texture.filepath = f"//textures/{TEXTURE}"
    bpy.context.preferences.filepaths.save_version = 0
    bpy.ops.wm.save_as_mainfile(filepath=str(target), compress=True, relative_remap=False)
    return target


def _make_texture(file: Path, rng: random.Random) -> Any:
    """Paint rows of a ripe field, brighter on their backs, and save them as a PNG."""
    size = 512
    noise = [[rng.random() for _ in range(64)] for _ in range(64)]
    image = bpy.data.images.new("field", size, size)
    pixels: list[float] = []
    for y in range(size):
        for x in range(size):
            row = 0.5 + 0.5 * math.sin(2 * math.pi * 16 * x / size)
            grain = 0.65 * noise[y // 8][x // 8] + 0.35 * rng.random()
            light = 0.55 + 0.35 * row + 0.25 * grain
            pixels += [0.86 * light, 0.66 * light * (0.85 + 0.15 * grain), 0.30 * light, 1.0]
    image.pixels.foreach_set(pixels)
    file.parent.mkdir(parents=True, exist_ok=True)
    image.filepath_raw, image.file_format = str(file), "PNG"
    image.save()
    image.source, image.filepath = "FILE", str(file)
    return image


def _height(x: float, y: float) -> float:
    """Let the land roll, flat where the farm stands."""
    flat = min(1.0, max(0.0, (math.hypot(x, y) - 14.0) / 22.0))
    return flat * (1.6 * math.sin(x / 13.0 + 0.6) + 2.2 * math.sin(y / 19.0 - 0.4) + 0.03 * max(0.0, y))


def _build_ground(texture: Any) -> None:
    steps = 64
    line = [-FIELD + 2 * FIELD * i / steps for i in range(steps + 1)]
    points = [(x, y, _height(x, y)) for y in line for x in line]
    width = steps + 1
    faces = [
        (i + j * width, i + 1 + j * width, i + 1 + (j + 1) * width, i + (j + 1) * width)
        for j in range(steps)
        for i in range(steps)
    ]
    ground = _add_mesh("Ground", points, faces, _field_material(texture))
    layer = ground.data.uv_layers.new(name="UVMap")
    for loop in ground.data.loops:
        x, y, _ = points[loop.vertex_index]
        layer.data[loop.index].uv = ((x * 0.94 + y * 0.34) / 9.0, (y * 0.94 - x * 0.34) / 9.0)
    _smooth(ground)


def _field_material(texture: Any) -> Any:
    """Show the field's texture, worn to grass where the farm stands."""
    material, shader, nodes, links = _material("Field", (1.0, 1.0, 1.0), roughness=0.9)
    picture = nodes.new("ShaderNodeTexImage")
    picture.image = texture
    place = nodes.new("ShaderNodeNewGeometry")
    distance = nodes.new("ShaderNodeVectorMath")
    distance.operation = "LENGTH"
    ramp = nodes.new("ShaderNodeMapRange")
    ramp.inputs["From Min"].default_value, ramp.inputs["From Max"].default_value = 13.0, 17.0
    mix = nodes.new("ShaderNodeMix")
    mix.data_type = "RGBA"
    grass, straw, mixed = mix.inputs[6], mix.inputs[7], mix.outputs[2]  # the colours among its many sockets
    grass.default_value = (0.17, 0.22, 0.055, 1.0)
    links.new(place.outputs["Position"], distance.inputs[0])
    links.new(distance.outputs["Value"], ramp.inputs["Value"])
    links.new(ramp.outputs["Result"], mix.inputs[0])
    links.new(picture.outputs["Color"], straw)
    links.new(mixed, shader.inputs["Base Color"])
    return material


def _build_barn(at: tuple[float, float]) -> None:
    x, y = at
    walls, trim, roof = _paint("Barn", BARN_RED), _paint("Trim", CREAM), _paint("Roof", SLATE)
    half_width, half_length, eaves, ridge = 3.2, 4.6, 3.6, 6.0
    profile = [(-half_width, 0.0), (half_width, 0.0), (half_width, eaves), (0.0, ridge), (-half_width, eaves)]
    _add_prism("Barn walls", profile, x, y, half_length, walls)
    for side in (-1, 1):
        low, high = (side * (half_width + 0.45), eaves - 0.32), (0.0, ridge + 0.08)
        slope = [low, high, (high[0], high[1] + 0.2), (low[0], low[1] + 0.2)]
        _add_prism(f"Roof {side}", slope, x, y, half_length + 0.45, roof)
        _add_box(f"Corner {side}", (x + side * half_width, y - half_length, eaves / 2), (0.13, 0.07, eaves / 2), trim)
    front = y - half_length - 0.06
    _add_box("Door", (x, front, 1.3), (1.15, 0.05, 1.3), trim)
    _add_box("Door inside", (x, front - 0.03, 1.3), (1.0, 0.04, 1.16), walls)
    for tilt in (-1, 1):
        _add_box(f"Brace {tilt}", (x, front - 0.09 - 0.01 * tilt, 1.3), (0.09, 0.03, 1.5), trim, roll=tilt * 0.71)
    _add_box("Hatch", (x, front, 4.35), (0.55, 0.05, 0.6), trim)
    _add_box("Hatch inside", (x, front - 0.03, 4.35), (0.43, 0.04, 0.48), _paint("Dark", (0.02, 0.015, 0.012)))
    for i in range(3):
        _add_box(f"Window {i}", (x + half_width, y - 2.7 + 2.7 * i, 1.9), (0.06, 0.5, 0.5), trim)
        _add_box(f"Pane {i}", (x + half_width + 0.04, y - 2.7 + 2.7 * i, 1.9), (0.05, 0.38, 0.38), _glow())


def _glow() -> Any:
    """Light a window: somebody is still at work."""
    material = bpy.data.materials.get("Lamp light")
    if material is None:
        material, shader, _, _ = _material("Lamp light", (1.0, 0.72, 0.32), roughness=0.3)
        shader.inputs["Emission Color"].default_value = (1.0, 0.55, 0.16, 1.0)
        shader.inputs["Emission Strength"].default_value = 2.5
        material.cycles.emission_sampling = "NONE"  # it shines, but lights nothing
    return material


def _build_silo(at: tuple[float, float]) -> None:
    x, y = at
    steel = _paint("Steel", STEEL, metallic=0.8, roughness=0.38)
    radius, height = 1.7, 7.6
    rings = [(radius, 0.0), (radius, height)]
    rings += [(radius * math.cos(a), height + radius * math.sin(a)) for a in (0.35, 0.7, 1.05, 1.35)]
    _smooth(_add_lathe("Silo", rings, x, y, steel))
    for i in range(5):
        hoop = [(radius + 0.06, 1.0 + 1.5 * i), (radius + 0.06, 1.12 + 1.5 * i)]
        _add_lathe(f"Hoop {i}", hoop, x, y, _paint("Roof", SLATE))


def _build_windmill(at: tuple[float, float]) -> Any:
    """Build a wind pump and return its wheel."""
    x, y = at
    wood, steel, top = _paint("Wood", WOOD), _paint("Steel", STEEL), 8.4
    for sx in (-1, 1):
        for sy in (-1, 1):
            foot, head = (x + 1.1 * sx, y + 1.1 * sy, 0.0), (x + 0.16 * sx, y + 0.16 * sy, top)
            _add_beam(f"Leg {sx} {sy}", foot, head, 0.09, wood)
    for level in (0.22, 0.45, 0.66, 0.83):
        reach, z = 1.1 - level * 0.94, level * top
        corners = [(x + reach * cx, y + reach * cy, z) for cx, cy in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        for i, corner in enumerate(corners):
            _add_beam(f"Rung {level} {i}", corner, corners[(i + 1) % 4], 0.05, wood)
    hub = (x, y - 0.75, top + 0.15)
    _add_beam("Axle", (x, y + 0.5, hub[2]), hub, 0.13, steel)
    _add_box("Tail", (x, y + 1.7, hub[2]), (0.04, 0.9, 0.5), _paint("Barn", BARN_RED))
    _add_beam("Tail rod", (x, y + 0.4, hub[2]), (x, y + 1.0, hub[2]), 0.06, steel)
    return _build_wheel(hub, steel)


def _build_wheel(hub: Point, steel: Any) -> Any:
    """Set the vanes of the wind pump around its hub, each tilted into the wind."""
    points: list[Point] = []
    faces: list[tuple[int, ...]] = []
    count = 14
    for i in range(count):
        angle = 2 * math.pi * i / count
        out, across = (math.cos(angle), math.sin(angle)), (-math.sin(angle), math.cos(angle))
        base = len(points)
        for reach, width in ((0.45, 0.12), (1.95, 0.34)):
            for side in (-1, 1):
                tip = [out[axis] * reach + across[axis] * width * side for axis in (0, 1)]
                points.append((tip[0], 0.65 * side * width, tip[1]))
        faces.append((base, base + 1, base + 3, base + 2))
    wheel = _add_mesh("Wheel", points, faces, steel)
    wheel.location = hub
    return wheel


def _plant_trees(rng: random.Random) -> None:
    meshes = [_crown_mesh(i, color, rng) for i, color in enumerate(LEAVES)]
    bark = _paint("Wood", WOOD)
    places: list[tuple[float, float]] = [(-17, 14), (-13, 20), (-20, 6), (15, 15), (19, 9), (12, 22), (24, 17)]
    places += [(-27, 18), (3, 26), (-5, 31), (29, 27)]
    places += [(rng.uniform(-60, 60), rng.uniform(34, 74)) for _ in range(46)]
    for i, (x, y) in enumerate(places):
        size, ground = rng.uniform(0.8, 1.5), _height(x, y)
        crown = bpy.data.objects.new(f"Tree {i}", rng.choice(meshes))
        crown.location = (x, y, ground + 3.1 * size)
        crown.scale = (size, size, size * rng.uniform(1.05, 1.5))
        crown.rotation_euler = (0.0, 0.0, rng.uniform(0, 6.3))
        bpy.context.scene.collection.objects.link(crown)
        if y < 34:
            _add_beam(f"Trunk {i}", (x, y, ground - 0.3), (x, y, ground + 2.6 * size), 0.22 * size, bark)


def _crown_mesh(number: int, color: Color, rng: random.Random) -> Any:
    """Shape a crown: a ball of triangles, pushed in and out."""
    points, faces = _ball(rings=9, sides=14)
    lumps = [(rng.uniform(-1, 1), rng.uniform(-1, 1), rng.uniform(-1, 1)) for _ in range(9)]
    shaped = []
    for x, y, z in points:
        lump = max(x * a + y * b + z * c for a, b, c in lumps)
        reach = 1.55 + 0.45 * lump + rng.uniform(-0.08, 0.08)
        shaped.append((x * reach, y * reach, z * reach))
    crown = _add_mesh(f"Crown {number}", shaped, faces, _paint(f"Leaves {number}", color, roughness=0.8))
    bpy.data.objects.remove(crown)
    return bpy.data.meshes[f"Crown {number}"]


def _ball(*, rings: int, sides: int) -> tuple[list[Point], list[tuple[int, ...]]]:
    points: list[Point] = []
    for r in range(rings + 1):
        polar = math.pi * (r + 0.02) / (rings + 0.04)
        for s in range(sides):
            turn = 2 * math.pi * (s + 0.5 * (r % 2)) / sides
            points.append((math.sin(polar) * math.cos(turn), math.sin(polar) * math.sin(turn), math.cos(polar)))
    faces: list[tuple[int, ...]] = []
    for r in range(rings):
        for s in range(sides):
            a, b = r * sides + s, r * sides + (s + 1) % sides
            faces.append((a, a + sides, b + sides, b))
    return points, faces


def _scatter_bales(rng: random.Random) -> None:
    straw = _paint("Straw", STRAW, roughness=0.95)
    places = [(9.5, -6.5), (11.4, -5.6), (-8.2, -7.2), (-14.5, -2.6), (16.2, -1.2), (13.3, -11.5), (-19.0, -8.0)]
    for i, (x, y) in enumerate(places):
        bale = _add_lathe(f"Bale {i}", [(0.0, -0.6), (0.78, -0.6), (0.8, 0.6), (0.0, 0.6)], 0.0, 0.0, straw)
        bale.location = (x, y, _height(x, y) + 0.78)
        bale.rotation_euler = (math.pi / 2, 0.0, rng.uniform(-0.9, 0.9))


def _build_fence() -> None:
    wood = _paint("Fence", (0.42, 0.36, 0.28))
    posts = [(-13.0 + 2.6 * i, -9.6 + 0.05 * (i - 4) ** 2) for i in range(11) if i != 5]
    tops = [(x, y, _height(x, y)) for x, y in posts]
    for i, (x, y, z) in enumerate(tops):
        _add_beam(f"Post {i}", (x, y, z - 0.2), (x, y, z + 1.15), 0.1, wood)
    for i, (left, right) in enumerate(pairwise(tops)):
        if right[0] - left[0] > 3:
            continue  # the gate
        for lift in (0.45, 0.9):
            ends = [(p[0], p[1], p[2] + lift) for p in (left, right)]
            _add_beam(f"Rail {i} {lift}", ends[0], ends[1], 0.05, wood)


def _light(scene: Any) -> None:
    sun = bpy.data.lights.new("Sun", "SUN")
    sun.energy, sun.angle, sun.color = 4.2, math.radians(1.5), (1.0, 0.66, 0.36)
    lamp = bpy.data.objects.new("Sun", sun)
    lamp.rotation_euler = (math.radians(73), 0.0, math.radians(-58))
    scene.collection.objects.link(lamp)
    scene.world = _sky()


def _sky() -> Any:
    """Fade the sky from a warm horizon to an evening blue."""
    world = bpy.data.worlds.new("Evening")
    nodes, links = world.node_tree.nodes, world.node_tree.links
    nodes.clear()
    place, split = nodes.new("ShaderNodeTexCoord"), nodes.new("ShaderNodeSeparateXYZ")
    ramp, background = nodes.new("ShaderNodeValToRGB"), nodes.new("ShaderNodeBackground")
    output = nodes.new("ShaderNodeOutputWorld")
    horizon, haze, middle, top = (0.95, 0.55, 0.28), (0.98, 0.70, 0.45), (0.50, 0.58, 0.72), (0.10, 0.20, 0.44)
    stops = [(0.0, horizon), (0.06, haze), (0.22, middle), (0.75, top)]
    while len(ramp.color_ramp.elements) < len(stops):
        ramp.color_ramp.elements.new(0.5)
    for element, (position, color) in zip(ramp.color_ramp.elements, stops, strict=True):
        element.position, element.color = position, (*color, 1.0)
    background.inputs["Strength"].default_value = 0.75
    world.cycles.sampling_method = "NONE"
    links.new(place.outputs["Generated"], split.inputs[0])
    links.new(split.outputs["Z"], ramp.inputs[0])
    links.new(ramp.outputs["Color"], background.inputs["Color"])
    links.new(background.outputs["Background"], output.inputs["Surface"])
    return world


def _film(scene: Any, wheel: Any) -> None:
    """Set the camera on its way, the wheel turning, and the render going."""
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    camera.data.lens = 36
    focus = bpy.data.objects.new("Focus", None)
    for thing in (camera, focus):
        scene.collection.objects.link(thing)
    track = camera.constraints.new("TRACK_TO")
    track.target, track.track_axis, track.up_axis = focus, "TRACK_NEGATIVE_Z", "UP_Y"
    scene.camera = camera
    scene.frame_start, scene.frame_end = 1, FRAMES
    for frame, turn, reach, rise in ((1, -60, 26.0, 3.0), (FRAMES, -106, 24.5, 5.2)):
        angle = math.radians(turn)
        camera.location = (reach * math.cos(angle), reach * math.sin(angle), rise)
        camera.keyframe_insert("location", frame=frame)
        focus.location = (-1.0 if frame == 1 else -2.2, 1.0, 3.6)
        focus.keyframe_insert("location", frame=frame)
        wheel.rotation_euler = (0.0, math.radians(200) * (frame - 1) / (FRAMES - 1), 0.0)
        wheel.keyframe_insert("rotation_euler", frame=frame)
    _set_up_render(scene)


def _set_up_render(scene: Any) -> None:
    render, cycles = scene.render, scene.cycles
    render.engine, render.fps = "CYCLES", 24
    render.resolution_x, render.resolution_y, render.resolution_percentage = 1280, 720, 50
    render.image_settings.file_format, render.image_settings.color_mode = "PNG", "RGB"
    render.filepath = "//frames/farm_"
    cycles.samples, cycles.use_adaptive_sampling, cycles.use_light_tree = 5, False, False
    cycles.max_bounces, cycles.diffuse_bounces, cycles.glossy_bounces = 2, 1, 2
    cycles.use_denoising, cycles.denoising_prefilter = True, "FAST"
    cycles.caustics_reflective = cycles.caustics_refractive = False
    scene.view_settings.look = "AgX - Medium High Contrast"


def _material(name: str, color: Color, *, roughness: float) -> tuple[Any, Any, Any, Any]:
    material = bpy.data.materials.new(name)
    tree = material.node_tree
    shader = next(node for node in tree.nodes if node.type == "BSDF_PRINCIPLED")
    shader.inputs["Base Color"].default_value = (*color, 1.0)
    shader.inputs["Roughness"].default_value = roughness
    material.diffuse_color = (*color, 1.0)
    return material, shader, tree.nodes, tree.links


def _paint(name: str, color: Color, *, metallic: float = 0.0, roughness: float = 0.7) -> Any:
    """Give the material of that name, mixed when first asked for."""
    if name in bpy.data.materials:
        return bpy.data.materials[name]
    material, shader, _, _ = _material(name, color, roughness=roughness)
    shader.inputs["Metallic"].default_value = metallic
    return material


def _add_mesh(name: str, points: Sequence[Point], faces: Iterable[Sequence[int]], material: Any) -> Any:
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(points, [], list(faces))
    mesh.materials.append(material)
    mesh.validate()
    thing = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(thing)
    return thing


def _smooth(thing: Any) -> None:
    thing.data.polygons.foreach_set("use_smooth", [True] * len(thing.data.polygons))


def _add_prism(
    name: str, profile: Sequence[tuple[float, float]], x: float, y: float, half_length: float, material: Any
) -> Any:
    """Draw a profile (across, up) out along y."""
    count = len(profile)
    points = [(x + px, y + side * half_length, pz) for side in (-1, 1) for px, pz in profile]
    faces: list[tuple[int, ...]] = [tuple(range(count)), tuple(range(2 * count - 1, count - 1, -1))]
    faces += [(i, (i + 1) % count, (i + 1) % count + count, i + count) for i in range(count)]
    return _add_mesh(name, points, faces, material)


def _add_box(name: str, at: Point, half: Point, material: Any, *, roll: float = 0.0) -> Any:
    profile = [(-half[0], -half[2]), (half[0], -half[2]), (half[0], half[2]), (-half[0], half[2])]
    box = _add_prism(name, profile, 0.0, 0.0, half[1], material)
    box.location, box.rotation_euler = at, (0.0, roll, 0.0)
    return box


def _add_lathe(name: str, profile: Sequence[tuple[float, float]], x: float, y: float, material: Any) -> Any:
    """Turn a profile (radius, up) around the vertical."""
    sides = 28
    points = [
        (x + r * math.cos(2 * math.pi * s / sides), y + r * math.sin(2 * math.pi * s / sides), z)
        for r, z in profile
        for s in range(sides)
    ]
    faces = [
        (ring * sides + s, ring * sides + (s + 1) % sides, (ring + 1) * sides + (s + 1) % sides, (ring + 1) * sides + s)
        for ring in range(len(profile) - 1)
        for s in range(sides)
    ]
    return _add_mesh(name, points, faces, material)


def _add_beam(name: str, start: Point, end: Point, thickness: float, material: Any) -> Any:
    """Lay a square beam from one point to another."""
    direction = Vector(end) - Vector(start)
    beam = _add_box(name, (0.0, 0.0, 0.0), (thickness, thickness, direction.length / 2), material)
    beam.location = (Vector(start) + Vector(end)) / 2
    beam.rotation_euler = direction.to_track_quat("Z", "Y").to_euler()
    return beam


if __name__ == "__main__":
    print(f"made {make_scene(Path(sys.argv[sys.argv.index('--') + 1]).resolve())}")
    sys.stdout.flush()
    os._exit(0)  # Blender's own end can crash, and the scene is saved

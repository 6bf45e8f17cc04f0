"""
Every file outside the opened .blend that its scenes need, and the correcting of paths spelled on another machine.

Runs inside Blender (5.0 or newer). What Blender itself knows of paths (`file_path_foreach`) is the base, so that no
kind is forgotten; sequences, tiles, strips and simulation caches are then spelled out file by file.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import bpy

from workers.renderers.blender.places import Places, Spot, is_absolute, is_windows, numbered, tile_path

HARMLESS_KINDS = frozenset({"sound", "script"})
"""Kinds that no frame shows."""

_EDITORS = ("Brush", "Palette", "PaintCurve", "Screen", "WindowManager", "WorkSpace")
_MOST_PASSES = 16


@dataclass
class Dependency:
    """A thing outside the .blend: one file, or the numbered files of a sequence, tile set or cache."""

    kind: str  # image sequence udim library font sound movie cache volume script geometry other
    name: str
    path: str  # as the scene spells it
    library: str | None = None  # the linked .blend that spells it
    packed: bool = False
    users: list[str] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)
    numbers: list[int] | None = None  # of each spot: its frame or tile

    @property
    def is_outside(self) -> bool:
        return not self.packed and any(spot.is_outside for spot in self.spots)

    @property
    def is_missing(self) -> bool:
        return not self.packed and not all(spot.is_there for spot in self.spots)

    @property
    def is_needed(self) -> bool:
        """Tell whether a frame could look different without it."""
        return bool(self.users) and self.kind not in HARMLESS_KINDS

    @property
    def missing_numbers(self) -> list[int]:
        return sorted(n for n, spot in zip(self.numbers or [], self.spots, strict=False) if not spot.is_there)


def collect(places: Places, frames: Sequence[int], spelled: Mapping[str, str]) -> list[Dependency]:
    """
    List what the opened .blend needs to render these frames, in the order of kind, name and path.

    Without frames the files of sequences are left out: `Sequences` tells them frame by frame.
    `spelled` is what `remap` returned: what the scene itself called the paths that were corrected.
    """
    walk = _Walk(places, frames)
    found = [*walk.datablocks(), *walk.strips(), *walk.caches()]
    for dependency in found:
        dependency.path = as_spelled(dependency.path, spelled)
        if dependency.library is not None:
            dependency.library = as_spelled(dependency.library, spelled)
    return sorted(found, key=lambda d: (d.kind, d.name, d.path, d.library or ""))


def as_spelled(path: str, spelled: Mapping[str, str]) -> str:
    """Give a path as its scene spells it: before it was corrected, and with the slashes that Blender turned around."""
    path = spelled.get(path, path)
    return path.replace("/", "\\") if is_windows(path) else path


class _Walk:
    """One look at all data-blocks, for one range of frames."""

    def __init__(self, places: Places, frames: Sequence[int]) -> None:
        self.places = places
        self.frames = frames
        self.image_users = _image_users()
        self.linked = _linked_from_libraries()

    def datablocks(self) -> Iterator[Dependency]:
        seen = _visited_paths()
        users = _users([owner for owner, _ in seen])
        for owner, path in seen:
            dependency = self._datablock(owner, path)
            if dependency is not None:
                dependency.users = dependency.users or users.get(owner, [])
                yield dependency

    def _datablock(self, owner: Any, path: str) -> Dependency | None:
        describe = getattr(self, f"_{type(owner).__name__.lower()}", self._other)
        if owner.id_type in ("SCENE", "OBJECT"):
            return None  # strips and caches: looked at one by one below
        found: Dependency | None = describe(owner, path)
        return found

    def _one(self, kind: str, owner: Any, path: str) -> Dependency:
        packed = bool(getattr(owner, "packed_file", None) or getattr(owner, "packed_files", None))
        return Dependency(
            kind, owner.name, path, _library_path(owner), packed, spots=[] if packed else [self._spot(owner, path)]
        )

    def _many(self, kind: str, owner: Any, path: str, files: Iterable[tuple[int, str]]) -> Dependency:
        dependency = self._one(kind, owner, path)
        named = list(files)
        if named and not dependency.packed:
            dependency.numbers = [number for number, _ in named]
            dependency.spots = [self._spot(owner, file) for _, file in named]
        return dependency

    def _shown(self, kind: str, owner: Any, path: str, numbers: Iterable[int | None]) -> Dependency:
        """Describe a sequence by the files that its frames show, or by the one it names if none is known to."""
        files = _at(path, {number for number in numbers if number is not None})
        found = self._many(kind, owner, path, files)
        if not self.frames:
            found.spots, found.numbers = [], []
        return found

    def _spot(self, owner: Any, path: str) -> Spot:
        return self.places.resolve(path, base=_folder_of(owner, self.places))

    def _library(self, library: Any, path: str) -> Dependency | None:
        if getattr(library, "is_archive", False):
            return None  # data packed from a library, no file
        found = self._one("library", library, path)
        found.library = None if library.parent is None else library.parent.filepath
        found.users = sorted(self.linked.get(library, ()))
        return found

    def _image(self, image: Any, path: str) -> Dependency | None:
        if image.source == "TILED":
            return self._many("udim", image, path, ((t.number, tile_path(path, t.number)) for t in image.tiles))
        if image.source == "SEQUENCE":
            users = [user for owner, user in self.image_users if owner == image]
            return self._shown("sequence", image, path, (frame_of_user(u, f) for u in users for f in self.frames))
        if image.source in ("VIEWER", "GENERATED"):
            return None
        return self._one("movie" if image.source == "MOVIE" else "image", image, path)

    def _vectorfont(self, font: Any, path: str) -> Dependency | None:
        return None if path == "<builtin>" else self._one("font", font, path)

    def _sound(self, sound: Any, path: str) -> Dependency:
        return self._one("sound", sound, path)

    def _text(self, text: Any, path: str) -> Dependency:
        return self._one("script", text, path)

    def _movieclip(self, clip: Any, path: str) -> Dependency:
        if clip.source != "SEQUENCE":
            return self._one("movie", clip, path)
        return self._shown("sequence", clip, path, (frame_of_clip(clip, path, frame) for frame in self.frames))

    def _volume(self, volume: Any, path: str) -> Dependency:
        if not volume.is_sequence:
            return self._one("volume", volume, path)
        return self._shown("volume", volume, path, (frame_of_volume(volume, frame) for frame in self.frames))

    def _cachefile(self, cache: Any, path: str) -> Dependency:
        return self._one("cache", cache, path)

    def _other(self, owner: Any, path: str) -> Dependency:
        kinds = {".vdb": "volume", ".osl": "script", ".oso": "script", ".py": "script", ".ies": "other"}
        kinds |= dict.fromkeys((".obj", ".stl", ".ply", ".csv", ".txt", ".usd", ".usdc", ".abc"), "geometry")
        dependency = self._one(kinds.get(posixpath.splitext(path)[1].lower(), "other"), owner, path)
        dependency.packed, dependency.users = False, [_called(owner)]
        if dependency.kind == "script":
            dependency.kind = "other"  # a shader the frame needs, unlike a text in the editor
        return dependency

    def strips(self) -> Iterator[Dependency]:
        for scene in bpy.data.scenes:
            for strip in scene.sequence_editor.strips_all if scene.sequence_editor else ():
                yield from self._strip(scene, strip)

    def _strip(self, scene: Any, strip: Any) -> Iterator[Dependency]:
        users = [] if strip.mute or not scene.render.use_sequencer else [_called(scene)]
        if strip.type == "MOVIE":
            found = self._one("movie", scene, strip.filepath)
        elif strip.type == "IMAGE":
            files = [posixpath.join(strip.directory, element.filename) for element in strip.elements]
            several = len(files) > 1
            numbered_files = list(enumerate(files, start=1))
            found = self._many("sequence" if several else "image", scene, files[0], numbered_files if several else ())
        else:
            return
        found.name, found.users = strip.name, users
        yield found

    def caches(self) -> Iterator[Dependency]:
        for thing in bpy.data.objects:
            for system in thing.particle_systems:
                yield from self._point_cache(thing, system.name, system.point_cache)
            for modifier in thing.modifiers:
                yield from self._modifier(thing, modifier)
        for scene in bpy.data.scenes:
            if scene.rigidbody_world is not None:
                yield from self._point_cache(scene, "Rigid bodies", scene.rigidbody_world.point_cache)

    def _modifier(self, thing: Any, modifier: Any) -> Iterator[Dependency]:
        if (modifier.type == "MESH_CACHE" and modifier.filepath) or (modifier.type == "OCEAN" and modifier.is_cached):
            yield self._cache(thing, modifier.name, modifier.filepath)
        elif _is_fluid(modifier) and _is_fluid_baked(modifier.domain_settings):
            yield self._cache(thing, modifier.name, modifier.domain_settings.cache_directory)
        elif modifier.type == "NODES":
            for path in _bake_folders(modifier):
                yield self._cache(thing, modifier.name, path)
        elif modifier.type == "DYNAMIC_PAINT" and modifier.canvas_settings:
            for surface in modifier.canvas_settings.canvas_surfaces:
                yield from self._point_cache(thing, surface.name, surface.point_cache)
        elif getattr(modifier, "point_cache", None) and modifier.type != "PARTICLE_SYSTEM":
            yield from self._point_cache(thing, modifier.name, modifier.point_cache)

    def _cache(self, thing: Any, name: str, path: str) -> Dependency:
        found = self._one("cache", thing, path)
        found.name, found.packed, found.users = name, False, [_called(thing)]
        return found

    def _point_cache(self, thing: Any, name: str, cache: Any) -> Iterator[Dependency]:
        for entry in cache.point_caches:
            if (entry.use_disk_cache and entry.is_baked) or entry.use_external:
                yield self._disk_cache(thing, name, entry)

    def _disk_cache(self, thing: Any, name: str, cache: Any) -> Dependency:
        folder = cache.filepath if cache.use_external else f"//blendcache_{Path(bpy.data.filepath).stem}/"
        stem = cache.name or "".join(f"{byte:02X}" for byte in thing.name.encode())
        found = self._cache(thing, name, folder)
        found.numbers = _cached_frames(cache)
        found.spots = [
            self._spot(thing, posixpath.join(folder, f"{stem}_{frame:06d}_{max(0, cache.index):02d}.bphys"))
            for frame in found.numbers
        ]
        return found


def _visited_paths() -> list[tuple[Any, str]]:
    seen: dict[tuple[Any, str], None] = {}

    def visit(owner: Any, path: str, _: object) -> None:
        if path:
            seen[owner, path] = None

    bpy.data.file_path_foreach(visit, flags={"SKIP_WEAK_REFERENCES"})
    return list(seen)


def _users(owners: list[Any]) -> dict[Any, list[str]]:
    found = bpy.data.user_map(subset=list(dict.fromkeys(owners))) if owners else {}
    return {
        owner: sorted({_called(user) for user in users if type(user).__name__ not in _not_users(owner)})
        for owner, users in found.items()
    }


def _not_users(owner: Any) -> tuple[str, ...]:
    """Name who refers to a data-block without any frame showing it; a scene's hold on an image is a paint canvas."""
    return (*_EDITORS, "Scene") if type(owner).__name__ == "Image" else _EDITORS


def _called(datablock: Any) -> str:
    return f"{type(datablock).__name__} {datablock.name}"


def every_datablock() -> Iterator[Any]:
    """Go through all data-blocks of the opened file, linked ones included."""
    for collection in bpy.data.bl_rna.properties:
        if collection.type == "COLLECTION":
            yield from getattr(bpy.data, collection.identifier)


def _linked_from_libraries() -> dict[Any, set[str]]:
    linked: dict[Any, set[str]] = {}
    for datablock in every_datablock():
        if datablock.library is not None:
            linked.setdefault(datablock.library, set()).add(_called(datablock))
    return linked


def _library_path(owner: Any) -> str | None:
    return None if owner.library is None else str(owner.library.filepath)


def _folder_of(owner: Any, places: Places) -> str:
    """Give the folder that a data-block's relative paths start from: its .blend's own."""
    main: str = posixpath.dirname(bpy.data.filepath)
    library = _library_path(owner)
    if library is None or type(owner).__name__ == "Library":
        return main
    return posixpath.dirname(places.resolve(library, base=main).path or main)


def _image_users() -> list[tuple[Any, Any]]:
    """List who shows which image how: a sequence's frames depend on the one who shows it."""
    nodes = (node for tree in _node_trees() for node in tree.nodes)
    shown = [(node.image, node.image_user) for node in nodes if getattr(node, "image_user", None) and node.image]
    compositor = [
        (node.image, node)
        for tree in bpy.data.node_groups
        for node in tree.nodes
        if node.bl_idname == "CompositorNodeImage" and node.image
    ]
    empties = [(o.data, o.image_user) for o in bpy.data.objects if o.type == "EMPTY" and o.data is not None]
    textures = [(t.image, t.image_user) for t in bpy.data.textures if t.type == "IMAGE" and t.image]
    return shown + compositor + empties + textures


def _node_trees() -> Iterator[Any]:
    yield from bpy.data.node_groups
    for owners in (bpy.data.materials, bpy.data.worlds, bpy.data.lights, bpy.data.linestyles, bpy.data.textures):
        yield from (owner.node_tree for owner in owners if owner.node_tree is not None)


def frame_of_user(user: Any, frame: int) -> int:
    """Compute which file number of a sequence is shown at a frame, as Blender does."""
    length: int = user.frame_duration
    if not length:
        return 0
    number = frame - int(user.frame_start) + 1
    if user.use_cyclic:
        number = number % length or length
    return max(0, min(number, length)) + int(user.frame_offset)


def frame_of_volume(volume: Any, frame: int) -> int | None:
    """Compute which file number of a volume sequence is shown at a frame; None where it shows nothing."""
    length: int = volume.frame_duration
    number: int = frame - volume.frame_start
    if not length:
        return None
    if volume.sequence_mode == "CLIP" and not 0 <= number < length:
        return None
    if volume.sequence_mode == "EXTEND":
        number = max(0, min(number, length - 1))
    elif volume.sequence_mode == "REPEAT":
        number %= length
    elif volume.sequence_mode == "PING_PONG" and length > 1:
        number %= length * 2 - 2
        number = min(number, length * 2 - 2 - number)
    return number + 1 + int(volume.frame_offset)


def frame_of_clip(clip: Any, path: str, frame: int) -> int | None:
    """Compute which file number of a clip's sequence is shown at a frame; None before and after it."""
    if not clip.frame_start <= frame < clip.frame_start + clip.frame_duration:
        return None
    return _own_number(path) + frame - int(clip.frame_start) + int(clip.frame_offset)


def _own_number(path: str) -> int:
    name = numbered(path)
    return int(path[len(name.head) : len(name.head) + name.digits] or 0)


class Sequences:
    """The numbered files that frames show, to be looked for as the frames come."""

    def __init__(self, places: Places, spelled: Mapping[str, str]) -> None:
        self._places = places
        self._spelled = spelled
        self._shows: list[tuple[Any, str, Callable[[int], int | None]]] = []
        for image, user in _image_users():
            if image.source == "SEQUENCE" and not image.packed_files:
                self._shows.append((image, image.filepath, partial(frame_of_user, user)))
        for volume in bpy.data.volumes:
            if volume.is_sequence and not volume.packed_file:
                self._shows.append((volume, volume.filepath, partial(frame_of_volume, volume)))
        for clip in bpy.data.movieclips:
            if clip.source == "SEQUENCE":
                self._shows.append((clip, clip.filepath, partial(frame_of_clip, clip, clip.filepath)))

    def missing_at(self, frame: int) -> list[str]:
        """Name, as the scene would spell them, the files that this frame shows and that are not there."""
        missing = []
        for owner, path, number_at in self._shows:
            number = number_at(frame)
            if number is None or self._is_there(owner, numbered(path).at(number)):
                continue
            missing.append(as_spelled(numbered(self._spelled.get(path, path)).at(number), {}))
        return sorted(set(missing))

    def _is_there(self, owner: Any, path: str) -> bool:
        return self._places.resolve(path, base=_folder_of(owner, self._places)).is_there


def _at(path: str, numbers: Iterable[int]) -> list[tuple[int, str]]:
    name = numbered(path)
    return [(number, name.at(number)) for number in sorted(numbers)]


def _cached_frames(cache: Any) -> list[int]:
    return sorted({*range(cache.frame_start, cache.frame_end + 1, max(1, cache.frame_step)), cache.frame_end})


def _is_fluid(modifier: Any) -> bool:
    return bool(modifier.type == "FLUID" and modifier.fluid_type == "DOMAIN")


def _is_fluid_baked(domain: Any) -> bool:
    return bool(domain.has_cache_baked_any or domain.has_cache_baked_data)


def _bake_folders(modifier: Any) -> list[str]:
    folders = [modifier.bake_directory] if modifier.bake_target == "DISK" else []
    folders += [bake.directory for bake in modifier.bakes if bake.use_custom_path and bake.bake_target != "PACKED"]
    return [folder for folder in dict.fromkeys(folders) if folder]


def missing_datablocks() -> list[str]:
    """Name what is linked from a library that is there but no longer holds it."""
    return sorted(
        {
            f"{_called(datablock)} of {datablock.library.filepath}"
            for datablock in every_datablock()
            if datablock.is_missing and datablock.library and not datablock.library.is_missing
        }
    )


def unbaked_simulations() -> list[str]:
    """Name simulations that are computed frame after frame and have no baked cache."""
    of_objects = (f"{thing.name}: {name}" for thing in bpy.data.objects for name in _unbaked_of(thing))
    of_scenes = (f"{scene.name}: rigid bodies" for scene in bpy.data.scenes if _has_unbaked_bodies(scene))
    return sorted([*of_objects, *of_scenes])


def _unbaked_of(thing: Any) -> Iterator[str]:
    for modifier in thing.modifiers:
        is_cloth = modifier.type in ("CLOTH", "SOFT_BODY")
        if is_cloth and not modifier.point_cache.is_baked:
            yield modifier.name
        if _is_fluid(modifier) and not _is_fluid_baked(modifier.domain_settings):
            yield modifier.name
    for system in thing.particle_systems:
        if system.settings.type == "EMITTER" and not system.point_cache.is_baked:
            yield system.name


def _has_unbaked_bodies(scene: Any) -> bool:
    world = scene.rigidbody_world
    if world is None or not world.enabled or world.collection is None:
        return False
    return bool(world.collection.objects) and not world.point_cache.is_baked


def remap(places: Places, say: Callable[[str], None]) -> dict[str, str]:
    """Lead paths this machine would not find to where their files are, linked ones too; return what they were."""
    spelled: dict[str, str] = {}

    def correct(path: str, base: str) -> str | None:
        corrected = _corrected(path, places, base)
        if corrected is not None:
            say(f"path: {path} is {places.shown(corrected)}")
            spelled.setdefault(corrected, path)
        return corrected

    def visit(owner: Any, path: str, _: object) -> str | None:
        if not path or type(owner).__name__ == "Library":
            return None
        return correct(path, _folder_of(owner, places))

    for _ in range(_MOST_PASSES):
        if not _reload_one_library(correct):
            break
    bpy.data.file_path_foreach(visit, flags={"SKIP_WEAK_REFERENCES", "SKIP_PACKED", "RELOAD_EDITED"})
    return spelled


def _reload_one_library(correct: Callable[[str, str], str | None]) -> bool:
    """Reload a library from where it is; what it links in turn shows only then, so one is done at a time."""
    for library in bpy.data.libraries:
        if getattr(library, "is_archive", False) or library.packed_file:
            continue
        path = correct(library.filepath, posixpath.dirname(bpy.data.filepath))
        if path is not None:
            library.filepath = path
            library.reload()
            return True
    return False


def _corrected(path: str, places: Places, base: str) -> str | None:
    """Give the place of a path that Blender would look for elsewhere; None if it finds it, or nothing is there."""
    spot = places.resolve(path, base=base)
    if spot.path is None or spot.path == _as_blender_reads(path, base):
        return None
    there = spot.is_there or Path(spot.path).parent.is_dir()  # a sequence or tile set is spelled as no file
    return spot.path if there and path != "<builtin>" else None


def _as_blender_reads(path: str, base: str) -> str | None:
    if is_windows(path) or not (path.startswith("//") or is_absolute(path)):
        return None
    if is_absolute(path):
        return posixpath.normpath(path)
    return posixpath.normpath(posixpath.join(base, path.removeprefix("//").replace("\\", "/")))

"""What scenes need, asked of a real Blender."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workers.renderers.conftest import Blender, save_scene

IMAGE = """
def show(image):
    tree = bpy.data.materials["Material"].node_tree
    node = tree.nodes.new("ShaderNodeTexImage")
    node.image = image
    return node.image_user

def picture(name, path, source="FILE"):
    image = bpy.data.images.new(name, 4, 4)
    image.source, image.filepath = source, path
    return image
"""

COLLECT = """
import os
from workers.renderers.blender import dependencies, opening, places
from pathlib import Path
os.chdir(workdir)
log = opening.open_scene(Path(file), scripts=False)
where = places.Places(folder, [places.Rule(*rule) for rule in rules])
spelled = dependencies.remap(where, lambda line: None) | opening.spelled_libraries(log)
answer = [
    {
        "kind": d.kind, "name": d.name, "path": d.path, "library": d.library, "packed": d.packed, "users": d.users,
        "needed": d.is_needed, "missing": d.is_missing, "outside": d.is_outside,
        "numbers": d.numbers, "missing_numbers": d.missing_numbers,
    }
    for d in dependencies.collect(where, frames, spelled)
]
"""


def collect(
    blender: Blender, file: Path, *, frames: list[int] | None = None, rules: Any = (), folder: Path | None = None
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = blender.do(
        COLLECT,
        file=str(file),
        folder=str(folder or file.parent),
        frames=frames or [1, 2, 3],
        rules=[list(rule) for rule in rules],
        workdir=str(file.parent),
    )
    return found


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


class TestCollect:
    def test_one_of_each_kind(self, blender: Blender, tmp_path: Path) -> None:
        file = save_scene(
            blender,
            tmp_path / "a.blend",
            IMAGE
            + """
show(picture("Wood", "//tex/wood.png"))
show(picture("Clip", "//clip.mp4", "MOVIE"))
volume = bpy.data.volumes.new("Smoke"); volume.filepath = "//smoke.vdb"
scene.collection.objects.link(bpy.data.objects.new("Smoke", volume))
cube.modifiers.new("Points", "MESH_CACHE").filepath = "//points.pc2"
node = bpy.data.materials["Material"].node_tree.nodes.new("ShaderNodeTexIES")
node.mode, node.filepath = "EXTERNAL", "//lamp.ies"
text = bpy.data.texts.new("notes"); text.filepath = "//notes.py"
""",
        )

        found = {d["kind"]: d for d in collect(blender, file)}

        assert {kind: d["path"] for kind, d in found.items()} == {
            "cache": "//points.pc2",
            "image": "//tex/wood.png",
            "movie": "//clip.mp4",
            "other": "//lamp.ies",
            "script": "//notes.py",
            "volume": "//smoke.vdb",
        }
        assert found["image"]["users"] == ["Material Material"]
        assert [kind for kind, d in found.items() if not d["needed"]] == ["script"]
        assert all(d["missing"] and not d["outside"] for d in found.values())

    def test_files_that_are_there_are_found(self, blender: Blender, tmp_path: Path) -> None:
        file = save_scene(blender, tmp_path / "a.blend", IMAGE + 'show(picture("Wood", "//tex/wood.png"))')
        touch(tmp_path, "tex/wood.png")

        (found,) = collect(blender, file)

        assert not found["missing"]

    def test_an_image_that_only_a_fake_user_holds_is_not_needed(self, blender: Blender, tmp_path: Path) -> None:
        file = save_scene(blender, tmp_path / "a.blend", IMAGE + 'picture("Old", "//old.png").use_fake_user = True')

        (found,) = collect(blender, file)

        assert (found["needed"], found["users"]) == (False, [])

    def test_packed_images_need_no_file(self, blender: Blender, tmp_path: Path) -> None:
        code = """
image = bpy.data.images.new("Wood", 4, 4)
image.filepath_raw, image.file_format = wood, "PNG"
image.save()
image.source, image.filepath = "FILE", wood
image.pack()
image.filepath_raw = "//gone.png"
show(image)
"""
        file = save_scene(blender, tmp_path / "a.blend", IMAGE + code, wood=str(tmp_path / "wood.png"))

        (found,) = collect(blender, file)

        assert (found["packed"], found["missing"], found["outside"]) == (True, False, False)

    def test_every_tile_of_a_udim_set(self, blender: Blender, tmp_path: Path) -> None:
        code = 'image = picture("Skin", "//skin.<UDIM>.png", "TILED"); image.tiles.new(1012); show(image)'
        file = save_scene(blender, tmp_path / "a.blend", IMAGE + code)
        touch(tmp_path, "skin.1001.png")

        (found,) = collect(blender, file)

        assert (found["kind"], found["numbers"], found["missing_numbers"]) == ("udim", [1001, 1012], [1012])

    def test_a_sequence_is_the_files_that_its_frames_show(self, blender: Blender, tmp_path: Path) -> None:
        code = """
user = show(picture("Seq", "//seq/s_0001.png", "SEQUENCE"))
user.frame_start, user.frame_duration, user.frame_offset = 1, 5, 100
"""
        file = save_scene(blender, tmp_path / "a.blend", IMAGE + code)
        touch(tmp_path, "seq/s_0102.png")

        (found,) = collect(blender, file, frames=[1, 2, 3])

        assert (found["kind"], found["numbers"], found["missing_numbers"]) == ("sequence", [101, 102, 103], [101, 103])

    def test_strips(self, blender: Blender, tmp_path: Path) -> None:
        file = save_scene(
            blender,
            tmp_path / "a.blend",
            """
strips = scene.sequence_editor_create().strips
images = strips.new_image("Plates", "//plates/p_0001.png", 1, 1)
images.elements.append("p_0002.png")
strips.new_sound("Voice", "//voice.wav", 2, 1)
""",
        )
        touch(tmp_path, "plates/p_0001.png")

        plates, voice = collect(blender, file)

        assert (plates["kind"], plates["name"], plates["missing_numbers"]) == ("sequence", "Plates", [2])
        assert (voice["kind"], voice["needed"]) == ("sound", False)

    def test_a_disk_cache_is_its_files(self, blender: Blender, tmp_path: Path) -> None:
        file = save_scene(
            blender,
            tmp_path / "a.blend",
            """
cube.modifiers.new("Dust", "PARTICLE_SYSTEM")
cache = cube.particle_systems[0].point_cache
cache.use_external, cache.filepath, cache.name = True, "//caches", "dust"
cache.index = 0
cache.frame_start, cache.frame_end = 1, 3
""",
        )
        touch(tmp_path, "caches/dust_000001_00.bphys", "caches/dust_000003_00.bphys")

        (found,) = collect(blender, file)

        assert (found["kind"], found["path"]) == ("cache", "//caches")
        assert found["missing_numbers"] == [n for n in found["numbers"] if n not in (1, 3)]

    def test_libraries_of_libraries_and_what_is_in_them(self, blender: Blender, tmp_path: Path) -> None:
        """main links a prop from lib/, which links a material from deep/, which has a texture of its own."""
        save_scene(blender, tmp_path / "deep/paint.blend", IMAGE + 'show(picture("Wood", "//wood.png"))')
        link = """
with bpy.data.libraries.load(source, link=True, relative=True) as (there, here):
    setattr(here, kind, [name])
"""
        deep, prop = str(tmp_path / "deep/paint.blend"), str(tmp_path / "lib/prop.blend")
        (tmp_path / "lib").mkdir()
        save_scene(
            blender,
            tmp_path / "lib/prop.blend",
            f"bpy.ops.wm.save_as_mainfile(filepath={prop!r})\nbpy.data.materials.remove(bpy.data.materials['Material'])\n"
            + link
            + "cube.data.materials.append(bpy.data.materials['Material'])\ncube.name = 'Prop'",
            source=deep,
            kind="materials",
            name="Material",
        )
        main = tmp_path / "main.blend"
        save_scene(
            blender,
            main,
            f"bpy.ops.wm.save_as_mainfile(filepath={str(main)!r})\n"
            + link
            + "scene.collection.objects.link(bpy.data.objects['Prop'])",
            source=prop,
            kind="objects",
            name="Prop",
        )

        image, library, deeper = sorted(
            collect(blender, main), key=lambda d: (d["kind"], d["path"] != "//lib/prop.blend")
        )

        assert (image["path"], image["library"], image["missing"]) == ("//wood.png", "//deep/paint.blend", True)
        assert (library["path"], library["library"], library["missing"]) == ("//lib/prop.blend", None, False)
        assert (deeper["path"], deeper["library"], deeper["missing"]) == (
            "//deep/paint.blend",
            "//lib/prop.blend",
            False,
        )
        touch(tmp_path, "deep/wood.png")
        assert not any(d["missing"] for d in collect(blender, main))


class TestRemap:
    def test_a_windows_texture_is_read_from_where_it_was_laid_out(self, blender: Blender, tmp_path: Path) -> None:
        file = save_scene(blender, tmp_path / "a.blend", IMAGE + r'show(picture("Wood", "P:\\show\\wood.png"))')
        touch(tmp_path, "tex/wood.png")

        before = collect(blender, file)
        after = collect(blender, file, rules=[("P:\\show\\wood.png", str(tmp_path / "tex/wood.png"), True)])

        assert [(d["path"], d["outside"]) for d in before] == [("P:\\show\\wood.png", True)]
        assert [(d["path"], d["outside"], d["missing"]) for d in after] == [("P:\\show\\wood.png", False, False)]

    def test_a_library_is_reloaded_and_what_it_holds_is_there(self, blender: Blender, tmp_path: Path) -> None:
        library = save_scene(blender, tmp_path / "lib.blend", IMAGE + r'show(picture("Wood", "Q:\\wood.png"))')
        file = save_scene(
            blender,
            tmp_path / "a.blend",
            f"""
bpy.data.objects.remove(cube)
with bpy.data.libraries.load({str(library)!r}, link=True) as (there, here):
    here.objects = ["Cube"]
scene.collection.objects.link(bpy.data.objects["Cube"])
bpy.data.libraries[0].filepath = "P:\\\\libs\\\\lib.blend"
""",
        )
        touch(tmp_path, "wood.png")
        rules = [("P:\\libs\\lib.blend", str(library), True), ("Q:\\wood.png", str(tmp_path / "wood.png"), True)]

        lost, found = collect(blender, file), collect(blender, file, rules=rules)

        assert [(d["kind"], d["outside"]) for d in lost] == [("library", True)]
        assert [(d["kind"], d["missing"], d["outside"]) for d in found] == [
            ("image", False, False),
            ("library", False, False),
        ]


class TestFrameOfUser:
    def test_as_blender_itself_computes_it(self, blender: Blender) -> None:
        answer = blender.do(
            IMAGE
            + """
import itertools
from workers.renderers.blender.dependencies import frame_of_user
user = show(picture("Seq", "//s_0001.png", "SEQUENCE"))
user.use_auto_refresh = True
scene = bpy.context.scene
answer = []
for start, length, offset, cyclic in itertools.product((1, 5), (1, 4), (0, 10), (False, True)):
    user.frame_start, user.frame_duration, user.frame_offset, user.use_cyclic = start, length, offset, cyclic
    for frame in range(-3, 14):
        scene.frame_set(frame)
        tree = bpy.data.materials["Material"].evaluated_get(bpy.context.evaluated_depsgraph_get()).node_tree
        node = next(n for n in tree.nodes if n.type == "TEX_IMAGE")
        answer.append((frame_of_user(user, frame), node.image_user.frame_current, frame, start, length, offset, cyclic))
"""
        )

        assert len(answer) > 200
        assert [case for case in answer if case[0] != case[1]] == []


class TestFrameOfVolume:
    def test_as_blender_itself_computes_it(self, blender: Blender) -> None:
        answer = blender.do(
            """
import itertools
from workers.renderers.blender.dependencies import frame_of_volume
MODES = ("CLIP", "EXTEND", "REPEAT", "PING_PONG")
scene = bpy.context.scene
volume = bpy.data.volumes.new("Smoke")
scene.collection.objects.link(bpy.data.objects.new("Smoke", volume))
volume.filepath, volume.is_sequence = "//smoke_0003.vdb", True
answer = []
for mode, start, length, offset in itertools.product(MODES, (1, 5), (2, 4), (0, 7)):
    volume.sequence_mode, volume.frame_start, volume.frame_duration, volume.frame_offset = mode, start, length, offset
    for frame in range(-3, 14):
        scene.frame_set(frame)
        bpy.context.evaluated_depsgraph_get()
        answer.append((frame_of_volume(volume, frame), volume.grids.frame, frame, mode, start, length, offset))
"""
        )
        none = 2**31 - 1  # Blender's word for a frame that shows nothing

        assert len(answer) > 200
        assert [case for case in answer if (none if case[0] is None else case[0]) != case[1]] == []


class TestUnbakedSimulations:
    def test_cloth_and_particles_without_a_cache_are_named(self, blender: Blender) -> None:
        answer = blender.do(
            """
from workers.renderers.blender.dependencies import unbaked_simulations
cube = bpy.data.objects["Cube"]
cube.modifiers.new("Sheet", "CLOTH")
cube.modifiers.new("Dust", "PARTICLE_SYSTEM")
answer = unbaked_simulations()
"""
        )

        assert answer == ["Cube: Dust", "Cube: Sheet"]

    def test_a_still_scene_has_none(self, blender: Blender) -> None:
        code = "from workers.renderers.blender.dependencies import unbaked_simulations; answer = unbaked_simulations()"

        assert blender.do(code) == []


class TestMissingDatablocks:
    def test_what_a_library_no_longer_holds_is_named(self, blender: Blender, tmp_path: Path) -> None:
        library = save_scene(blender, tmp_path / "lib.blend")
        file = save_scene(
            blender,
            tmp_path / "a.blend",
            f"""
with bpy.data.libraries.load({str(library)!r}, link=True) as (there, here):
    here.meshes = ["Cube"]
cube.data = next(mesh for mesh in bpy.data.meshes if mesh.library)
""",
        )
        save_scene(blender, tmp_path / "lib.blend", 'cube.data.name = "Renamed"')

        answer = blender.do(
            """
from workers.renderers.blender.dependencies import missing_datablocks
bpy.ops.wm.open_mainfile(filepath=file, load_ui=False)
answer = missing_datablocks()
""",
            file=str(file),
        )

        assert answer == [f"Mesh Cube of {library}"]


pytestmark = pytest.mark.timeout(300)

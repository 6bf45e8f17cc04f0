"""Orders applied to scenes in a real Blender."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.renderers.conftest import Blender

pytestmark = pytest.mark.timeout(300)

APPLY = """
from workers.renderers.blender import order as ordering
from workers.renderers.blender.refusals import Refusal
ARGUMENTS = dict.fromkeys(("scene-file", "scene-folder", "output-dir", "rules"), "/nowhere") | dict.fromkeys(
    ("scene", "camera", "view-layers"), ""
) | {
    "engine": "SCENE", "samples": 0, "percent": 0, "file-format": "SCENE", "color-depth": "SCENE",
    "missing-assets": "FAIL", "scripts": "SKIP",
}
scene = bpy.context.scene
scene.render.engine = "CYCLES"
camera = bpy.data.objects["Camera"]

def camera_named(name, of=scene):
    made = bpy.data.objects.new(name, bpy.data.cameras.new(name))
    of.collection.objects.link(made)
    return made

def apply(foreign=None, **changes):
    arguments = ARGUMENTS | {name.replace("_", "-"): value for name, value in changes.items()}
    order = ordering.read_order([f"--{name}={value}" for name, value in arguments.items()])
    return ordering.apply_order(order, foreign_engines=foreign or {})

def refused(**changes):
    try:
        apply(**changes)
    except Refusal as refusal:
        return [refusal.cause, refusal.code, refusal.sentence]
"""


@pytest.fixture
def ask(blender: Blender) -> Any:
    return lambda code: blender.do(APPLY + code)


class TestApplyOrder:
    def test_nothing_ordered_is_as_the_scene_says(self, ask: Any) -> None:
        answer = ask(
            """
scene.cycles.samples, scene.render.resolution_percentage = 7, 40
scene.render.image_settings.file_format = "TIFF"
apply()
answer = [scene.render.engine, scene.cycles.samples, scene.render.resolution_percentage, scene.camera.name,
          scene.render.image_settings.file_format, scene.render.image_settings.color_depth]
"""
        )

        assert answer == ["CYCLES", 7, 40, "Camera", "TIFF", "8"]

    def test_quality_as_ordered(self, ask: Any) -> None:
        answer = ask(
            """
scene.view_layers[0].samples = 99
apply(samples=3, percent=25, engine="EEVEE")
answer = [scene.render.engine, scene.cycles.samples, scene.eevee.taa_render_samples, scene.view_layers[0].samples,
          scene.render.resolution_percentage]
"""
        )

        assert answer == ["BLENDER_EEVEE", 3, 3, 0, 25]

    def test_another_scene(self, ask: Any) -> None:
        answer = ask(
            """
other = bpy.data.scenes.new("Other")
camera_named("B", other)
answer = apply(scene="Other", camera="B").name
"""
        )

        assert answer == "Other"

    def test_a_scene_that_is_not_there_is_refused_with_those_that_are(self, ask: Any) -> None:
        answer = ask('bpy.data.scenes.new("Other"); answer = refused(scene="Nope")')

        assert answer == ["scene_error", "no_such_scene", "The file has no scene Nope: choose one of Other, Scene."]

    def test_a_camera_for_all_frames(self, ask: Any) -> None:
        answer = ask(
            """
other = camera_named("Other")
scene.timeline_markers.new("A", frame=1).camera = camera
apply(camera="Other")
answer = [scene.camera.name, ordering.camera_at(scene, 5)]
"""
        )

        assert answer == ["Other", None]

    def test_a_camera_that_is_not_there_is_refused_with_those_that_are(self, ask: Any) -> None:
        answer = ask('answer = refused(camera="Cube")')

        assert answer == ["scene_error", "no_such_camera", "Scene Scene has no camera Cube: choose one of Camera."]

    def test_no_camera_at_all(self, ask: Any) -> None:
        answer = ask(
            "scene.camera = None; some = refused(); bpy.data.objects.remove(camera); answer = [some[2], refused()[2]]"
        )

        assert answer == [
            "Scene Scene has no active camera: choose one of Camera, or add one in Blender and upload the scene again.",
            "Scene Scene has no camera: add one in Blender and upload the scene again.",
        ]

    def test_cameras_of_markers_are_enough(self, ask: Any) -> None:
        answer = ask(
            'scene.camera = None; scene.timeline_markers.new("A", frame=9).camera = camera; answer = apply().name'
        )

        assert answer == "Scene"

    def test_strips_need_no_camera(self, ask: Any) -> None:
        answer = ask(
            """
scene.camera = None
scene.sequence_editor_create().strips.new_effect("Red", "COLOR", 1, frame_start=1, length=10)
answer = apply().name
"""
        )

        assert answer == "Scene"

    def test_view_layers(self, ask: Any) -> None:
        answer = ask(
            """
for name in ("Fog", "Sky"):
    scene.view_layers.new(name)
apply(view_layers=" Fog , Sky")
answer = {layer.name: layer.use for layer in scene.view_layers}
"""
        )

        assert answer == {"ViewLayer": False, "Fog": True, "Sky": True}

    def test_a_layer_that_is_not_there_is_refused_with_those_that_are(self, ask: Any) -> None:
        answer = ask('answer = refused(view_layers="ViewLayer,Nope")')

        assert answer == ["scene_error", "no_such_layer", "Scene Scene has no view layer Nope: choose among ViewLayer."]

    @pytest.mark.parametrize(
        ("said", "ordered", "written"),
        [
            (("IMAGE", "PNG", "8"), {}, ["PNG", "8"]),
            (("VIDEO", "FFMPEG", "8"), {}, ["PNG", "8"]),
            (("IMAGE", "OPEN_EXR", "32"), {"file_format": "PNG"}, ["PNG", "16"]),
            (("IMAGE", "PNG", "8"), {"file_format": "OPEN_EXR_MULTILAYER"}, ["OPEN_EXR_MULTILAYER", "32"]),
            (("IMAGE", "PNG", "16"), {"file_format": "OPEN_EXR", "color_depth": "16"}, ["OPEN_EXR", "16"]),
            (("MULTI_LAYER_IMAGE", "OPEN_EXR_MULTILAYER", "16"), {"file_format": "WEBP"}, ["WEBP", "8"]),
        ],
    )
    def test_files(self, blender: Blender, said: tuple[str, ...], ordered: dict[str, str], written: list[str]) -> None:
        answer = blender.do(
            APPLY
            + """
settings = scene.render.image_settings
settings.media_type, settings.file_format, settings.color_depth = said
apply(**ordered)
answer = [settings.file_format, settings.color_depth]
""",
            said=said,
            ordered=ordered,
        )

        assert answer == written

    def test_a_depth_that_the_format_lacks_is_refused(self, ask: Any) -> None:
        answer = ask('answer = refused(file_format="JPEG", color_depth="16")')

        assert answer[1:] == [
            "impossible_depth",
            "JPEG cannot hold 16 bits per channel: choose ColorDepth SCENE or one of 8.",
        ]

    def test_an_engine_the_farm_lacks_is_refused_unless_another_is_ordered(self, ask: Any) -> None:
        answer = ask(
            """
foreign = {"Scene": "OCTANE"}
answer = [refused(foreign=foreign)[1:], apply(foreign=foreign, engine="CYCLES").render.engine]
"""
        )

        assert answer == [
            [
                "unknown_engine",
                "Scene Scene renders with OCTANE, which this farm does not have: choose Engine CYCLES or EEVEE.",
            ],
            "CYCLES",
        ]

    def test_stereo_views_in_files_of_their_own_are_refused_unless_layers_hold_them(self, ask: Any) -> None:
        answer = ask(
            """
scene.render.use_multiview = True
scene.render.image_settings.views_format = "INDIVIDUAL"
answer = [refused()[1], apply(file_format="OPEN_EXR_MULTILAYER").render.image_settings.views_format]
"""
        )

        assert answer == ["separate_views", "MULTIVIEW"]

    def test_what_a_farm_must_decide_itself(self, ask: Any) -> None:
        answer = ask(
            """
render = scene.render
render.use_overwrite, render.use_placeholder, render.use_file_extension = False, True, False
render.use_stamp_filename = render.use_stamp_hostname = True
render.threads_mode, scene.frame_step = "FIXED", 3
apply()
answer = [render.use_overwrite, render.use_placeholder, render.use_file_extension, render.use_persistent_data,
          render.use_stamp_filename, render.use_stamp_hostname, render.threads_mode, scene.frame_step]
"""
        )

        assert answer == [True, False, True, True, False, False, "AUTO", 1]

    def test_file_output_nodes_are_off(self, ask: Any) -> None:
        answer = ask(
            """
tree = scene.compositing_node_group = bpy.data.node_groups.new("Comp", "CompositorNodeTree")
node = tree.nodes.new("CompositorNodeOutputFile")
apply()
answer = node.mute
"""
        )

        assert answer is True

    def test_the_engine_of_a_scene_in_a_strip_is_chosen_too(self, ask: Any) -> None:
        answer = ask(
            """
shot = bpy.data.scenes.new("Shot"); shot.camera = camera_named("B", shot); shot.render.engine = "BLENDER_EEVEE"
scene.sequence_editor_create().strips.new_scene("Shot", shot, 1, 1)
apply(engine="CYCLES", samples=2)
answer = [part.name for part in ordering.scenes_taking_part(scene)] + [shot.render.engine, shot.cycles.samples]
"""
        )

        assert answer == ["Scene", "Shot", "CYCLES", 2]


class TestCameraAt:
    def test_as_blender_itself_switches(self, ask: Any) -> None:
        answer = ask(
            """
for name, frame in (("A", 5), ("B", 10), ("C", 7)):
    scene.timeline_markers.new(name, frame=frame).camera = camera_named(name)
bpy.data.objects["C"].hide_render = True
scene.timeline_markers.new("note", frame=8)
answer = []
for frame in range(1, 13):
    scene.frame_set(frame)
    answer.append([frame, ordering.camera_at(scene, frame).name, scene.camera.name])
"""
        )

        assert [ours for _, ours, _ in answer] == ["A"] * 9 + ["B"] * 3
        assert [case for case in answer if case[1] != case[2]] == []

"""What an order comes to: filled in from its scene, compared with it, and with who could render it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from farm.core.errors import Refusal, Refusals
from farm.fleet.models import Fleet
from farm.fleet.requirements import UnknownCapability
from farm.jobs import orders
from farm.jobs.moves import Purpose
from farm.jobs.orders import JobOrder, Plan, plan
from farm.scenes.models import SceneVersion
from tests.farm import TEMPLATE, local_fleet
from tests.jobs.conftest import MakeVersion
from tests.scenes.reports import a_problem, a_scene

pytestmark = pytest.mark.django_db

INPUTS = os.environ.get("FARM_TEST_INPUTS", "")  # a folder of scenes and templates that the project does not ship


def planned(version: SceneVersion | None = None, **wish: Any) -> Plan:
    if "template" not in wish:
        wish.setdefault("renderer", "blender")
    return plan(JobOrder(**wish), version=version)


def refusal_of(version: SceneVersion | None = None, **wish: Any) -> Refusal:
    with pytest.raises(Refusal) as raised:
        planned(version, **wish)
    return raised.value


def values(found: Plan) -> dict[str, str]:
    return {name: value["value"] for name, value in found.expansion.parameters.items()}


class TestWhatIsOrdered:
    def test_a_renderer_and_a_template_are_one_too_many(self, make_version: MakeVersion) -> None:
        refusal = refusal_of(make_version(), renderer="blender", template=TEMPLATE)

        assert (refusal.code, refusal.field) == ("template-needed", "renderer")

    def test_neither_is_one_too_few(self) -> None:
        assert refusal_of(renderer="").code == "template-needed"

    def test_an_unknown_renderer_is_refused_with_those_there_are(self, make_version: MakeVersion) -> None:
        with pytest.raises(orders.UnknownRenderer, match="It has: blender"):
            planned(make_version(), renderer="maya")

    def test_a_renderer_needs_a_scene(self, farm: None) -> None:
        assert refusal_of().code == "scene-needed"

    def test_a_template_that_opens_no_file_needs_none(self, farm: None) -> None:
        assert planned(template=TEMPLATE).expansion.task_count == 3

    def test_a_scene_that_lacks_files_cannot_be_rendered(self, make_version: MakeVersion) -> None:
        version = make_version(is_inspected=False)
        version.status = "uploading"

        assert refusal_of(version).code == "scene-not-whole"

    def test_a_refused_scene_says_why(self, make_version: MakeVersion) -> None:
        refusal = {"code": "not_blender", "sentence": "It is a zip.", "params": {}}

        with pytest.raises(orders.SceneRefused, match="It is a zip"):
            planned(make_version(refusal=refusal))


class TestWhatTheSceneSays:
    def test_frames_and_the_file_that_opens_are_filled_in_and_nothing_is_forced(
        self, make_version: MakeVersion
    ) -> None:
        found = planned(make_version())

        assert found.expansion.task_count == 250
        assert values(found)["SceneFile"] == "shots/a.blend"
        assert values(found)["Frames"] == "1-250"
        assert (values(found)["Engine"], values(found)["FileFormat"]) == ("SCENE", "SCENE")
        assert found.warnings == []

    def test_a_step_of_frames_is_kept(self, make_version: MakeVersion) -> None:
        version = make_version(scenes=[a_scene(frames={"start": -4, "end": 8, "step": 4})])

        assert [p.frames for p in planned(version).steps] == [[-4, 0, 4, 8]]

    def test_what_a_person_says_goes_first(self, make_version: MakeVersion) -> None:
        found = planned(make_version(), parameters={"Frames": "5", "Camera": "Close", "ViewLayers": "Masks, ViewLayer"})

        assert found.steps[0].frames == [5]
        assert values(found)["Camera"] == "Close"

    def test_another_scene_of_the_file_is_chosen_by_name(self, make_version: MakeVersion) -> None:
        scenes = [a_scene(), a_scene(name="Alt", active=False, frames={"start": 7, "end": 9, "step": 1})]

        found = planned(make_version(scenes=scenes), parameters={"Scene": "Alt"})

        assert found.steps[0].frames == [7, 8, 9]

    @pytest.mark.parametrize(
        ("parameters", "what"),
        [({"Scene": "Nope"}, "scene"), ({"Camera": "Nope"}, "camera"), ({"ViewLayers": "Masks,Nope"}, "view layer")],
    )
    def test_what_the_scene_has_not_is_refused_with_what_it_has(
        self, make_version: MakeVersion, parameters: dict[str, str], what: str
    ) -> None:
        refusal = refusal_of(make_version(), parameters=parameters)

        assert refusal.code == "unknown-choice"
        assert refusal.field == f"parameters.{next(iter(parameters))}"
        assert f"The scene has no {what} 'Nope'. It has: " in refusal.sentence

    @pytest.mark.parametrize(
        ("code", "answer"),
        [
            ("no_camera", {"Camera": "Camera"}),
            ("unknown_engine", {"Engine": "CYCLES"}),
            ("eevee_needs_gpu", {"Engine": "CYCLES"}),
            ("no_layers", {"ViewLayers": "Masks"}),
            ("video_output", {"FileFormat": "PNG"}),
            ("unsupported_format", {"FileFormat": "OPEN_EXR"}),
            ("separate_views", {"FileFormat": "PNG"}),
            ("no_frames", {"Frames": "1-3"}),
        ],
    )
    def test_a_problem_of_the_report_is_refused_until_its_parameter_answers_it(
        self, make_version: MakeVersion, code: str, answer: dict[str, str]
    ) -> None:
        version = make_version(problems=[a_problem(code, severity="error", params={"scene": "Scene", "count": 3})])

        refusal = refusal_of(version)

        (name,) = answer
        assert (refusal.code, refusal.field) == ("scene-problem", f"parameters.{name}")
        assert refusal.sentence.startswith(f"About {code}.")
        assert refusal.params["problem"] == code
        assert refusal.params["count"] == 3
        assert planned(version, parameters=answer).warnings == []

    def test_saying_as_the_scene_is_no_answer(self, make_version: MakeVersion) -> None:
        version = make_version(problems=[a_problem("unknown_engine", severity="error")])

        assert refusal_of(version, parameters={"Engine": "SCENE"}).code == "scene-problem"

    def test_a_problem_of_another_scene_of_the_file_is_none(self, make_version: MakeVersion) -> None:
        problem = a_problem("no_camera", severity="error", params={"scene": "Alt"})
        scenes = [a_scene(), a_scene(name="Alt", active=False)]

        version = make_version(problems=[problem], scenes=scenes)

        assert planned(version).expansion.task_count == 250
        assert refusal_of(version, parameters={"Scene": "Alt"}).code == "scene-problem"

    def test_warnings_are_passed_on(self, make_version: MakeVersion) -> None:
        found = planned(make_version(problems=[a_problem("huge_frames"), a_problem("scripts_skipped")]))

        assert found.warnings == ["About huge_frames.", "About scripts_skipped."]

    def test_all_that_is_wrong_is_told_at_once(self, make_version: MakeVersion) -> None:
        version = make_version(
            problems=[a_problem("no_layers", severity="error"), a_problem("no_camera", severity="error")]
        )

        refusal = refusal_of(version, parameters={"Camera": "Nope"})

        assert isinstance(refusal, Refusals)
        assert [r.field for r in refusal.refusals] == ["parameters.Camera", "parameters.ViewLayers"]

    @pytest.mark.parametrize("code", ["missing_files", "outside_files", "missing_data"])
    def test_missing_files_are_refused_unless_they_are_allowed(self, make_version: MakeVersion, code: str) -> None:
        version = make_version(problems=[a_problem(code, severity="error")])

        assert (refusal_of(version).code, refusal_of(version).field) == ("scene-problem", "scene_version")
        allowed = planned(version, allow_missing_files=True)
        assert values(allowed)["MissingAssets"] == "ALLOW"
        assert values(planned(make_version()))["MissingAssets"] == "FAIL"

    @pytest.mark.parametrize("engine", ["EEVEE", "WORKBENCH"])
    def test_an_engine_that_needs_a_gpu_is_refused_where_there_is_none(
        self, make_version: MakeVersion, engine: str
    ) -> None:
        with pytest.raises(orders.EngineNeedsGpu, match="Choose Engine=CYCLES"):
            planned(make_version(), parameters={"Engine": engine})

        local_fleet(settings={"promises": {"gpu_model": "NVIDIA L4", "vram_mib": 24_000}})
        assert planned(make_version(), parameters={"Engine": engine}).steps[0].fleets == ["local"]


class TestBeforeTheReport:
    @pytest.mark.parametrize(
        ("parameters", "missing"),
        [({}, "Frames"), ({"Frames": "1-3"}, "FileFormat"), ({"Frames": "1", "FileFormat": "SCENE"}, "FileFormat")],
    )
    def test_what_only_the_report_knows_must_be_said(
        self, make_version: MakeVersion, parameters: dict[str, str], missing: str
    ) -> None:
        refusal = refusal_of(make_version(is_inspected=False), parameters=parameters)

        assert (refusal.code, refusal.field) == ("scene-not-inspected", f"parameters.{missing}")

    def test_with_it_said_the_job_is_planned(self, make_version: MakeVersion) -> None:
        wish = {"Frames": "1-3", "FileFormat": "PNG"}
        found = planned(make_version(is_inspected=False), parameters=wish, allow_missing_files=True)

        assert found.expansion.task_count == 3
        assert values(found)["MissingAssets"] == "ALLOW"

    def test_an_inspection_needs_nothing(self, make_version: MakeVersion) -> None:
        found = plan(JobOrder(renderer="blender"), version=make_version(is_inspected=False), purpose=Purpose.INSPECTION)

        assert found.expansion.task_count == 1
        assert found.steps[0].scouts == set()


class TestFiles:
    def test_a_file_that_was_not_uploaded_is_refused(self, make_version: MakeVersion) -> None:
        refusal = refusal_of(make_version(), parameters={"SceneFile": "shots/b.blend"})

        assert (refusal.code, refusal.field) == ("file-not-uploaded", "parameters.SceneFile")

    def test_one_that_was_is_found_however_it_is_spelt(self, make_version: MakeVersion) -> None:
        assert (
            values(planned(make_version(), parameters={"SceneFile": "shots//a.blend"}))["SceneFile"] == "shots/a.blend"
        )

    def test_a_template_that_opens_a_file_needs_an_upload(self, farm: None) -> None:
        text = TEMPLATE.replace(
            "parameterDefinitions:\n",
            "parameterDefinitions:\n- {name: In, type: PATH, objectType: FILE, dataFlow: IN, default: a.txt}\n",
        )

        assert refusal_of(template=text).code == "scene-needed"


class TestRendererVersions:
    @pytest.fixture
    def offer(self, farm: None) -> Any:
        def offer(*versions: str) -> None:
            local_fleet(software={"blender": list(versions)})

        return offer

    def software(self, found: Plan) -> Any:
        return found.steps[0].requirements.attributes.get("farmhand:blender")

    def test_the_scene_s_own_is_asked_for(self, make_version: MakeVersion, offer: Any) -> None:
        offer("4.5.3", "5.0.1", "5.1.0")

        assert self.software(planned(make_version())) == ["5.0"]

    def test_a_newer_one_only_when_a_person_agrees(self, make_version: MakeVersion, offer: Any) -> None:
        offer("4.5.3", "5.2.3", "5.10.0")
        version = make_version()

        with pytest.raises(orders.NewerRenderer, match=r"5\.0; the farm offers 4\.5, 5\.2, 5\.10\."):
            planned(version)
        assert self.software(planned(version, accept_newer_renderer=True)) == ["5.2"]

    def test_never_an_older_one(self, make_version: MakeVersion, offer: Any) -> None:
        offer("4.2.0", "4.5.3")

        for more in ({}, {"accept_newer_renderer": True}):
            assert refusal_of(make_version(), **more).code == "renderer-too-old"

    def test_one_that_a_person_names_is_agreed_to(self, make_version: MakeVersion, offer: Any) -> None:
        offer("5.0.1", "5.2.3")

        assert self.software(planned(make_version(), renderer_version="5.2.3")) == ["5.2"]

    def test_an_older_one_that_a_person_names_is_refused(self, make_version: MakeVersion, offer: Any) -> None:
        offer("4.5.3", "5.0.1")

        refusal = refusal_of(make_version(), renderer_version="4.5")

        assert (refusal.code, refusal.field) == ("renderer-older", "renderer_version")

    def test_one_that_no_fleet_has_is_refused_with_those_they_have(self, make_version: MakeVersion, offer: Any) -> None:
        offer("5.0.1")

        with pytest.raises(orders.RendererNotOffered, match=r"no blender 6\.0\. It offers: 5\.0\."):
            planned(make_version(), renderer_version="6.0")

    def test_an_inspection_runs_on_whichever_there_is(self, make_version: MakeVersion, offer: Any) -> None:
        offer("4.5.3")

        found = plan(JobOrder(renderer="blender"), version=make_version(), purpose=Purpose.INSPECTION)

        assert self.software(found) is None


class TestFleets:
    def test_an_unknown_fleet_is_refused_with_those_there_are(self, make_version: MakeVersion) -> None:
        with pytest.raises(orders.UnknownFleet, match=r"no fleet 'mars'\. It has: local"):
            planned(make_version(), fleet="mars")

    def test_a_fleet_that_is_asked_for_is_required(self, make_version: MakeVersion) -> None:
        found = planned(make_version(), fleet="local")

        assert found.steps[0].requirements.attributes["farmhand:fleet"] == ["local"]

    def test_when_none_could_run_it_each_says_what_it_lacks(self, make_version: MakeVersion) -> None:
        Fleet.objects.create(name="inspectors", provider="local", purposes=["inspection"])
        host = "  hostRequirements: {amounts: [{name: amount.worker.gpu, min: 1}]}\n"

        with pytest.raises(
            orders.NoFleet, match=r"the step 'Count': inspectors does not take .*render.*; local has no GPU"
        ):
            planned(template=TEMPLATE + host)

    def test_a_capability_the_farm_does_not_know_is_refused_with_those_it_knows(self, farm: None) -> None:
        host = "  hostRequirements: {attributes: [{name: attr.custom.floor, anyOf: [third]}]}\n"

        with pytest.raises(UnknownCapability, match=r"attr\.custom\.floor, which .* Known: attr\.worker\.os\.family"):
            planned(template=TEMPLATE + host)


class TestFrames:
    @pytest.mark.parametrize("frame", ["1048575", "-1048575", "99999999999"])
    def test_frames_beyond_what_the_renderer_counts_are_refused(self, make_version: MakeVersion, frame: str) -> None:
        refusal = refusal_of(make_version(), parameters={"Frames": frame})

        assert (refusal.code, refusal.params["limit"]) == ("frame-too-far", 1_048_574)

    def test_the_last_one_it_counts_is_rendered(self, make_version: MakeVersion) -> None:
        found = planned(make_version(), parameters={"Frames": "-1048574,1048574"})

        assert found.steps[0].frames == [-1_048_574, 1_048_574]

    def test_a_template_of_one_s_own_may_count_further(self, farm: None) -> None:
        assert planned(template=TEMPLATE, parameters={"Frames": "2147483647"}).steps[0].frames == [2_147_483_647]
        assert refusal_of(template=TEMPLATE, parameters={"Frames": "2147483648"}).code == "frame-too-far"


class TestScouts:
    def scouts(self, frames: str, wish: str) -> list[int | None]:
        found = planned(template=TEMPLATE, parameters={"Frames": frames}, scouts=wish).steps[0]
        return [found.frames[i] for i in sorted(found.scouts)]

    @pytest.mark.parametrize(
        ("frames", "wish", "scouts"),
        [
            ("1-100", "none", []),
            ("1-100", "", []),
            ("1-100", "auto", [1, 50, 100]),
            ("1-4", "auto", [1, 2, 4]),
            ("1-3", "auto", []),
            ("1-100", "7, 90", [7, 90]),
            ("1-3", "2", [2]),
            ("1-2", "1,2", []),
            ("5", "auto", []),
        ],
    )
    def test_they_are_the_first_middle_and_last_or_those_named(
        self, farm: None, frames: str, wish: str, scouts: list[int]
    ) -> None:
        assert self.scouts(frames, wish) == scouts

    @pytest.mark.parametrize("wish", ["101", "0", "x", "1,,2", "1-3", "5.0"])
    def test_one_that_is_no_frame_of_the_job_is_refused(self, farm: None, wish: str) -> None:
        refusal = refusal_of(template=TEMPLATE, parameters={"Frames": "1-100"}, scouts=wish)

        assert (refusal.code, refusal.field) == ("unknown-frame", "scouts")

    def test_without_frames_there_are_none_to_send_ahead(self, farm: None) -> None:
        text = TEMPLATE.replace("name: Frame,", "name: Tile,").replace("Task.Param.Frame", "Task.Param.Tile")

        assert refusal_of(template=text, scouts="auto").code == "no-scouts"


class TestScoutsOfSeveralSteps:
    TEXT = """
specificationVersion: jobtemplate-2023-09
name: Steps
steps:
- {name: Unpack, script: {actions: {onRun: {command: echo}}}}
- name: Render
  dependencies: [{dependsOn: Unpack}]
  parameterSpace: {taskParameterDefinitions: [{name: Frame, type: INT, range: "1-9"}]}
  script: {actions: {onRun: {command: echo}}}
- name: Denoise
  dependencies: [{dependsOn: Render}]
  parameterSpace: {taskParameterDefinitions: [{name: Frame, type: INT, range: "1-9"}]}
  script: {actions: {onRun: {command: echo}}}
- {name: Tidy, dependencies: [{dependsOn: Denoise}], script: {actions: {onRun: {command: echo}}}}
- {name: Note, script: {actions: {onRun: {command: echo}}}}
"""

    def test_frames_that_need_no_other_frames_go_ahead_with_what_they_need(self, farm: None) -> None:
        found = planned(template=self.TEXT, scouts="auto")

        scouts = {step.name: more.scouts for step, more in zip(found.expansion.steps, found.steps, strict=True)}
        assert scouts == {"Unpack": {0}, "Render": {0, 4, 8}, "Denoise": set(), "Tidy": set(), "Note": set()}


@pytest.mark.skipif(not INPUTS, reason="FARM_TEST_INPUTS names no folder of templates")
class TestTemplatesOfOthers:
    """OpenJD templates as they lie about: each expands, or is refused in a sentence."""

    def text(self, name: str) -> str:
        return (Path(INPUTS) / "openjd" / name).read_text()

    @pytest.mark.parametrize("name", ["stdout-messages.yaml", "simple_job/template.yaml"])
    def test_what_opens_no_file_is_planned(self, farm: None, name: str) -> None:
        assert planned(template=self.text(name)).expansion.task_count == 1

    def test_a_render_of_frames_has_a_task_for_each(self, make_version: MakeVersion) -> None:
        wish = {"BlenderSceneFile": "shots/a.blend", "Frames": "1-5"}
        found = planned(make_version(), template=self.text("blender_render/template.yaml"), parameters=wish)

        assert found.steps[0].frames == [1, 2, 3, 4, 5]
        assert found.expansion.output_paths == ["OutputDir"]

    def test_a_render_and_its_movie_are_two_steps(self, make_version: MakeVersion) -> None:
        wish = {"BlenderFile": "shots/a.blend"}
        found = planned(make_version(), template=self.text("blender-ffmpeg.yaml"), parameters=wish)

        assert [(s.name, s.depends_on) for s in found.expansion.steps] == [
            ("RenderScene", []),
            ("CreateVideoFromRender", ["RenderScene"]),
        ]

    def test_without_its_scene_it_is_refused(self, farm: None) -> None:
        assert refusal_of(template=self.text("blender-ffmpeg.yaml")).code == "scene-needed"

    def test_a_studio_s_own_capabilities_are_refused_by_name(self, farm: None) -> None:
        with pytest.raises(UnknownCapability, match=r"attr\.custom\.host_config"):
            planned(template=self.text("host-requirements.yaml"))

    def test_no_template_there_is_forgotten(self) -> None:
        names = sorted(
            f.relative_to(Path(INPUTS) / "openjd").as_posix() for f in (Path(INPUTS) / "openjd").rglob("*.yaml")
        )

        assert names == [
            "blender-ffmpeg.yaml",
            "blender_render/template.yaml",
            "host-requirements.yaml",
            "simple_job/template.yaml",
            "stdout-messages.yaml",
        ]

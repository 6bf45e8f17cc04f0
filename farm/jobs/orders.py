"""From what a person orders to what shall be done: filled in from the scene, checked, expanded. Creates nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from farm.core.errors import Refusal, raise_all
from farm.fleet.requirements import (
    Requirements,
    lack_in_words,
    minor,
    parse_host_requirements,
    version_key,
)
from farm.fleet.selectors import Offer, able_among, offers
from farm.jobs.expansion import ExpandedStep, Expansion, expand
from farm.jobs.moves import Purpose
from farm.jobs.outputs import expected_outputs, inspection_rule, render_rule
from farm.jobs.ripples import halving_ranks
from farm.scenes.defaults import SceneDefaults, defaults_of
from farm.scenes.models import ManifestEntry, SceneVersion
from workers.renderers import Renderer, load_renderer, renderer_names

MAX_FRAME = 2**31 - 1
MAX_RENDERER_FRAME = 1_048_574  # Blender's own; beyond it renders another frame than it was asked for


class UnknownRenderer(Refusal):
    """The farm has no renderer {name!r}. It has: {known}. Or send an OpenJD template of your own."""

    code = "unknown-renderer"
    status = 422


class TemplateNeeded(Refusal):
    """A job needs either a renderer of the farm's or an OpenJD template, not both and not neither."""

    code = "template-needed"
    status = 422


class SceneNeeded(Refusal):
    """This template opens a file, but the order names no scene version. Upload the scene first."""

    code = "scene-needed"
    status = 422


class NoSuchFile(Refusal):
    """The scene version has no file {value!r}, which the parameter {name} names. Its paths are written as uploaded."""

    code = "file-not-uploaded"
    status = 422


class SceneNotWhole(Refusal):
    """The scene version still lacks files. Upload them, then submit again."""

    code = "scene-not-whole"


class SceneRefused(Refusal):
    """The scene cannot be rendered: {why}"""

    code = "scene-refused"


class SceneNotInspected(Refusal):
    """The scene's report is not there yet, so {name} must be given, or wait a moment for the report."""

    code = "scene-not-inspected"


class UnknownChoice(Refusal):
    """The scene has no {what} {value!r}. It has: {known}."""

    code = "unknown-choice"
    status = 422


# What to say in the order, where the report's own words, made without knowing this farm, leave it open.
_ANSWERS = {"video_output": "Say which: FileFormat=PNG, or another image format."}


class SceneProblem(Refusal):
    """{sentence}"""

    code = "scene-problem"
    status = 422

    def __init__(self, problem: Mapping[str, Any], field: str) -> None:
        answer = _ANSWERS.get(problem["code"], "")
        sentence = f"{problem['sentence']} {answer}".strip()
        super().__init__(field=field, sentence=sentence, problem=problem["code"], **_numbers(problem["params"]))


class EngineNeedsGpu(Refusal):
    """{engine} needs a GPU, and no fleet that could take this job has one. Choose Engine=CYCLES."""

    code = "engine-needs-gpu"
    status = 422


class NewerRenderer(Refusal):
    """The scene was saved by {renderer} {saved}; the farm offers {offered}. A newer one may change the picture: agree to it (accept_newer_renderer), or save the scene in it."""  # noqa: E501

    code = "renderer-newer"


class NoRendererNewEnough(Refusal):
    """The scene was saved by {renderer} {saved}, newer than any the farm offers ({offered}). Save it for one of these."""  # noqa: E501

    code = "renderer-too-old"


class OlderRenderer(Refusal):
    """The scene was saved by {renderer} {saved}; {wanted} is older and may not read all of it. Choose {saved} or newer."""  # noqa: E501

    code = "renderer-older"
    status = 422


class RendererNotOffered(Refusal):
    """The farm offers no {renderer} {wanted}. It offers: {offered}."""

    code = "renderer-not-offered"
    status = 422


class UnknownFleet(Refusal):
    """The farm has no fleet {name!r}. It has: {known}."""

    code = "unknown-fleet"
    status = 422


class NoFleet(Refusal):
    """No fleet of this farm could run the step {step!r}: {why}."""

    code = "no-fleet"


class FrameTooFar(Refusal):
    """The frame {frame} is too far from 0: frames go from -{limit:,} to {limit:,} here."""

    code = "frame-too-far"
    status = 422


class UnknownFrame(Refusal):
    """The scout frame {frame!r} is not among the job's frames."""

    code = "unknown-frame"
    status = 422


class NoScouts(Refusal):
    """This job has no frames to send ahead. Leave scouts out, or give its template an INT task parameter called Frame."""  # noqa: E501

    code = "no-scouts"
    status = 422


ORDINARY_MIB = 1024  # a picture below this needs no machine of its own kind


@dataclass(frozen=True, kw_only=True)
class JobOrder:
    """What a person orders. Either `renderer` (one of the farm's) or `template` (OpenJD text of their own)."""

    name: str = ""
    renderer: str = ""
    template: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    priority: int = 50
    deadline: datetime | None = None
    budget_micro: int | None = None
    after: Sequence[UUID] = ()
    sequence: str = ""
    shot: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    scouts: str = "none"  # none | auto (first, middle, last) | frames such as "1,12,24"
    fleet: str = ""
    renderer_version: str = ""
    accept_newer_renderer: bool = False
    allow_missing_files: bool = False
    suspended: bool = False
    timeout_s: int | None = None
    no_progress_s: int = 1800


@dataclass(frozen=True)
class PlannedStep:
    requirements: Requirements
    offers: list[Offer]  # of the fleets that could run it
    outputs: dict[str, Any] | None
    frames: list[int | None]
    ranks: list[int]
    scouts: set[int]  # positions

    @property
    def fleets(self) -> list[str]:
        return list(dict.fromkeys(offer.fleet for offer in self.offers))

    @property
    def worker_classes(self) -> list[str]:
        return sorted({offer.worker_class for offer in self.offers})


@dataclass(frozen=True)
class Plan:
    """What an order comes to: the steps laid out, what each needs, and who could run it."""

    template: str
    expansion: Expansion
    steps: list[PlannedStep]
    warnings: list[str] = field(default_factory=list)

    @property
    def worker_classes(self) -> list[str]:
        return sorted({c for step in self.steps for c in step.worker_classes})


def plan(order: JobOrder, *, version: SceneVersion | None, purpose: Purpose = Purpose.RENDER) -> Plan:
    """
    Work out what an order comes to, without creating anything.

    :raises Refusal: one of those above, or of `expansion`; several together as `Refusals`
    """
    if bool(order.renderer) == bool(order.template):
        raise TemplateNeeded(field="renderer")
    renderer = _renderer(order.renderer) if order.renderer else None
    if version is not None:
        _require_whole(version)
    elif renderer is not None:
        raise SceneNeeded(field="scene_version")
    offered = offers()
    if order.fleet and order.fleet not in {offer.fleet for offer in offered}:
        raise UnknownFleet(name=order.fleet, known=", ".join(o.fleet for o in offered) or "none", field="fleet")
    filled = _fill(order, renderer, version, purpose, offered)
    expansion = expand(filled.template, filled.values)
    _check_files(expansion, version)
    software = _software(order, renderer, version, purpose, offered)
    rule = _output_rule(renderer, expansion, filled.scene, purpose)
    frames = [_frames(step, limit=MAX_RENDERER_FRAME if renderer else MAX_FRAME) for step in expansion.steps]
    scouts = _choose_scouts(order.scouts if purpose is Purpose.RENDER else "", expansion.steps, frames)
    steps = [
        _plan_step(order, step, rule, software, purpose, offered, frames=of_step, scouts=ahead)
        for step, of_step, ahead in zip(expansion.steps, frames, scouts, strict=True)
    ]
    return Plan(filled.template, expansion, steps, filled.warnings)


def _renderer(name: str) -> Renderer:
    if name not in renderer_names():
        raise UnknownRenderer(name=name, known=", ".join(renderer_names()), field="renderer")
    return load_renderer(name)


def _require_whole(version: SceneVersion) -> None:
    if version.status == "uploading":
        raise SceneNotWhole(field="scene_version")
    if version.status == "refused":
        raise SceneRefused(why=version.refusal or "see its report", field="scene_version")


# --- what the scene says


@dataclass(frozen=True)
class _Filled:
    """A template and its values, what the scene leaves to be known, and what a person should know."""

    template: str
    values: dict[str, str]
    scene: SceneDefaults | None = None
    warnings: list[str] = field(default_factory=list)


# Which parameter answers a problem of the report: given, the problem is none any more.
_ANSWERED_BY = {
    "no_camera": "Camera",
    "unknown_engine": "Engine",
    "eevee_needs_gpu": "Engine",
    "no_layers": "ViewLayers",
    "video_output": "FileFormat",
    "unsupported_format": "FileFormat",
    "separate_views": "FileFormat",
    "no_frames": "Frames",
}
_ANSWERED_BY_ALLOWING = frozenset({"missing_files", "outside_files", "missing_data"})
_NEEDS_GPU = frozenset({"EEVEE", "WORKBENCH"})
AS_SCENE = frozenset({"", "SCENE"})


def _fill(
    order: JobOrder,
    renderer: Renderer | None,
    version: SceneVersion | None,
    purpose: Purpose,
    offered: Sequence[Offer],
) -> _Filled:
    """Fill in from the scene what the order leaves open, and check the rest against it."""
    values = dict(order.parameters)
    if renderer is None or version is None:
        return _Filled(order.template, values)
    values.setdefault("SceneFile", version.entry)
    if purpose is Purpose.INSPECTION:
        return _Filled(renderer.inspect_template, values)
    if order.allow_missing_files:
        values["MissingAssets"] = "ALLOW"
    if version.report is None:
        for name in ("Frames", "FileFormat"):
            if values.get(name, "") in AS_SCENE:
                raise SceneNotInspected(name=name, field=f"parameters.{name}")
        return _Filled(renderer.template, values)
    scene = defaults_of(version.report, values)
    warnings = _check_against(scene, version.report, order, values, has_gpu=_has_gpu(order, offered))
    return _Filled(renderer.template, scene.parameters() | values, scene, warnings)


def _check_against(
    scene: SceneDefaults,
    report: Mapping[str, Any],
    order: JobOrder,
    values: Mapping[str, str],
    *,
    has_gpu: bool,
) -> list[str]:
    """Check an order against its scene; give what is only a warning."""
    wanted = values.get("Scene", "")
    if wanted not in {"", *scene.scenes}:
        known = ", ".join(scene.scenes)
        raise UnknownChoice(what="scene", value=wanted, known=known, field="parameters.Scene")
    found = [p for p in report["problems"] if _is_open(p, order, values, scene)]
    refused = [p for p in found if p["severity"] == "error" or _is_refused(p, has_gpu=has_gpu)]
    choices = _check_choices(values, scene)
    if values.get("Engine") in _NEEDS_GPU and not has_gpu:
        choices.append(EngineNeedsGpu(engine=values["Engine"], field="parameters.Engine"))
    raise_all([*choices, *(SceneProblem(p, _field_of(p["code"])) for p in refused)])
    return [p["sentence"] for p in found]


def _is_open(problem: Mapping[str, Any], order: JobOrder, values: Mapping[str, str], scene: SceneDefaults) -> bool:
    """Say whether a problem is one of the scene to be rendered, and the order does not answer it."""
    if problem["params"].get("scene", scene.scene) != scene.scene:
        return False
    if problem["code"] in _ANSWERED_BY_ALLOWING:
        return not order.allow_missing_files
    return values.get(_ANSWERED_BY.get(problem["code"], ""), "") in AS_SCENE


def _is_refused(problem: Mapping[str, Any], *, has_gpu: bool) -> bool:
    """Some warnings of a report are refusals here: a movie is no frame, and EEVEE draws on GPUs only."""
    return problem["code"] == "video_output" or (problem["code"] == "eevee_needs_gpu" and not has_gpu)


def _field_of(code: str) -> str:
    name = _ANSWERED_BY.get(code)
    return f"parameters.{name}" if name else "scene_version"


def _check_choices(values: Mapping[str, str], scene: SceneDefaults) -> list[Refusal]:
    asked = [("camera", "Camera", values.get("Camera", ""), scene.cameras)]
    layers = values.get("ViewLayers", "").split(",")
    asked += [("view layer", "ViewLayers", layer.strip(), scene.view_layers) for layer in layers]
    return [
        UnknownChoice(what=what, value=value, known=", ".join(known) or "none", field=f"parameters.{name}")
        for what, name, value, known in asked
        if value and value not in known
    ]


def _numbers(params: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what a sentence in another language may need, but not the names that a refusal has itself."""
    return {name: value for name, value in params.items() if name not in {"sentence", "problem", "field"}}


def _has_gpu(order: JobOrder, offered: Sequence[Offer]) -> bool:
    return any(o.capabilities.amounts["worker.gpu"] for o in offered if order.fleet in {"", o.fleet})


def _check_files(expansion: Expansion, version: SceneVersion | None) -> None:
    """
    Look the job's input files up in the upload.

    :raises SceneNeeded: there is none to look in
    :raises NoSuchFile: one is not in it
    """
    named = {name: expansion.parameters[name]["value"] for name in expansion.input_files}
    if not named:
        return
    if version is None:
        raise SceneNeeded(field="scene_version")
    there = set(
        ManifestEntry.objects.filter(version=version, path__in=set(named.values())).values_list("path", flat=True)
    )
    raise_all(
        [
            NoSuchFile(name=name, value=value, field=f"parameters.{name}")
            for name, value in named.items()
            if value not in there
        ]
    )


# --- who could run it


def _software(
    order: JobOrder,
    renderer: Renderer | None,
    version: SceneVersion | None,
    purpose: Purpose,
    offered: Sequence[Offer],
) -> dict[str, list[str]]:
    """
    Give the renderer versions that may run this: the scene's own, or the next newer one once a person agreed.

    Never an older one. A version that a person names is agreed to.
    """
    if renderer is None or version is None:
        return {}
    known = sorted(
        {v for o in offered for v in o.capabilities.attributes.get(f"farmhand:{renderer.name}", ())}, key=version_key
    )
    saved = minor((version.report or {}).get("saved_by") or "")
    words = {"renderer": renderer.name, "saved": saved, "offered": ", ".join(known) or "none"}
    if order.renderer_version:
        wanted = minor(order.renderer_version)
        if saved and version_key(wanted) < version_key(saved):
            raise OlderRenderer(wanted=wanted, field="renderer_version", **words)
        if wanted not in known:
            raise RendererNotOffered(wanted=wanted, field="renderer_version", **words)
        return {renderer.name: [wanted]}
    if purpose is Purpose.INSPECTION or not saved or not known:
        return {}
    newer = [v for v in known if version_key(v) >= version_key(saved)]
    if not newer:
        raise NoRendererNewEnough(field="scene_version", **words)
    if newer[0] != saved and not order.accept_newer_renderer:
        raise NewerRenderer(field="accept_newer_renderer", **words)
    return {renderer.name: [newer[0]]}


def _output_rule(
    renderer: Renderer | None, expansion: Expansion, scene: SceneDefaults | None, purpose: Purpose
) -> dict[str, Any] | None:
    """Give the rule of what tasks must leave; None for a studio's own template."""
    if renderer is None:
        return None
    if purpose is Purpose.INSPECTION:
        return inspection_rule(renderer)
    parameters = {name: value["value"] for name, value in expansion.parameters.items()}
    return render_rule(renderer, parameters, scene.described if scene else None)


def _plan_step(
    order: JobOrder,
    step: ExpandedStep,
    rule: dict[str, Any] | None,
    software: dict[str, list[str]],
    purpose: Purpose,
    offered: Sequence[Offer],
    *,
    frames: list[int | None],
    scouts: set[int],
) -> PlannedStep:
    needed = parse_host_requirements(step.host_requirements)
    amounts = dict(needed.amounts)
    if (memory := _picture_mib(rule, step)) > ORDINARY_MIB:
        amounts["worker.memory"] = max(memory, amounts.get("worker.memory", 0))
    attributes = dict(needed.attributes) | {f"farmhand:{name}": versions for name, versions in software.items()}
    if order.fleet:
        attributes["farmhand:fleet"] = [order.fleet]
    requirements = Requirements(amounts, attributes)
    able, lacking = able_among(offered, requirements, purpose=str(purpose))
    if not able:
        why = "; ".join(f"{name} {lack_in_words(*lack)}" for name, lack in lacking.items()) or "there is none"
        raise NoFleet(step=step.name, why=why, field="fleet" if order.fleet else None)
    return PlannedStep(
        requirements=requirements,
        offers=able,
        outputs=rule,
        frames=frames,
        ranks=halving_ranks(len(step.points)),
        scouts=scouts,
    )


def _picture_mib(rule: Mapping[str, Any] | None, step: ExpandedStep) -> float:
    """Give the MiB that a picture of this size takes at the least: four floats a pixel, once drawn and once written."""
    files = expected_outputs(rule, dict(zip(step.names, step.points[0], strict=True))) or []
    pixels = max(((f.width or 0) * (f.height or 0) for f in files), default=0)
    return pixels * 4 * 4 * 2 / 2**20


# --- frames


def _frames(step: ExpandedStep, *, limit: int) -> list[int | None]:
    """
    Give the frame of each task, where the step has a task parameter Frame that is one number.

    :raises FrameTooFar: the renderer would render another one
    """
    for position, (name, kind) in enumerate(zip(step.names, step.types, strict=True)):
        if name.lower() == "frame" and kind == "INT":
            frames = [int(point[position]) for point in step.points]
            farthest = max(frames, key=abs)
            if abs(farthest) > limit:
                raise FrameTooFar(frame=farthest, limit=limit, field="parameters")
            return list(frames)
    return [None] * len(step.points)


FEW = 3  # frames: that few are not split into scouts and the rest


def _choose_scouts(wish: str, steps: Sequence[ExpandedStep], frames: Sequence[Sequence[int | None]]) -> list[set[int]]:
    """
    Give the places of the tasks that go ahead, for each step.

    They are frames of steps that need no other frames; what these steps need, goes ahead whole.

    :raises UnknownFrame: one that is named is none of the job's
    :raises NoScouts: no step has frames
    """
    if wish in {"", "none"}:
        return [set() for _ in steps]
    if all(of_step[0] is None for of_step in frames):
        raise NoScouts(field="scouts")
    chosen: dict[str, set[int]] = {}
    after_frames: set[str] = set()  # what depends on frames waits for the approval
    for step, of_step in zip(steps, frames, strict=True):
        waits = not after_frames.isdisjoint(step.depends_on)
        chosen[step.name] = set() if waits or of_step[0] is None else _scouts(wish, of_step)
        if waits or of_step[0] is not None:
            after_frames.add(step.name)
    needed = {name for step in steps if chosen[step.name] for name in _all_needed(step, steps)}
    return [set(range(len(s.points))) if s.name in needed else chosen[s.name] for s in steps]


def _all_needed(step: ExpandedStep, steps: Sequence[ExpandedStep]) -> set[str]:
    """Give all that a step depends on, at first hand or not."""
    found = set(step.depends_on)
    for other in reversed(steps):  # what a step depends on comes before it
        if other.name in found:
            found |= set(other.depends_on)
    return found


def _scouts(wish: str, frames: Sequence[int | None]) -> set[int]:
    if wish == "auto":
        return {0, (len(frames) - 1) // 2, len(frames) - 1} if len(frames) > FEW else set()
    places = {str(frame): place for place, frame in enumerate(frames)}
    found = set()
    for frame in (part.strip() for part in wish.split(",")):
        if frame not in places:
            raise UnknownFrame(frame=frame, field="scouts")
        found.add(places[frame])
    return found if len(frames) > len(found) else set()

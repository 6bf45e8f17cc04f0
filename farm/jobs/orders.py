"""From what a person orders to what shall be done: filled in from the scene, checked, expanded. Creates nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from farm.core.errors import Refusal, raise_all
from farm.fleet import selectors as fleet
from farm.fleet.requirements import Requirements, minor, parse_host_requirements, version_key
from farm.jobs.expansion import ExpandedStep, Expansion, expand
from farm.jobs.moves import Purpose
from farm.jobs.outputs import inspection_rule, render_rule
from farm.jobs.ripples import halving_ranks
from farm.scenes.models import SceneVersion
from workers.renderers import Renderer, load_renderer, renderer_names


class UnknownRenderer(Refusal):
    """The farm has no renderer {name!r}. It has: {known}. Or send an OpenJD template of your own."""

    code = "unknown-renderer"
    status = 422


class TemplateNeeded(Refusal):
    """A job needs either a renderer of the farm's or an OpenJD template, not both and not neither."""

    code = "template-needed"
    status = 422


class SceneNeeded(Refusal):
    """This template opens a scene, but the order names no scene version. Upload the scene first."""

    code = "scene-needed"
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


class SceneProblem(Refusal):
    """{sentence}"""

    code = "scene-problem"
    status = 422

    def __init__(self, problem: Mapping[str, Any], field: str) -> None:
        super().__init__(
            field=field, sentence=problem["sentence"], problem=problem["code"], **_numbers(problem["params"])
        )


class EngineNeedsGpu(Refusal):
    """{engine} needs a GPU, and no fleet that could take this job has one. Choose Engine=CYCLES."""

    code = "engine-needs-gpu"
    status = 422


class RendererTooNew(Refusal):
    """The scene was saved by {renderer} {saved}; the farm offers {offered}. A newer one may change the picture: agree to it (accept_newer_renderer) or re-save the scene."""  # noqa: E501

    code = "renderer-newer"


class RendererTooOld(Refusal):
    """The scene was saved by {renderer} {saved}, newer than any the farm offers ({offered}). Save it in an older version's format."""  # noqa: E501

    code = "renderer-too-old"


class NoFleet(Refusal):
    """No fleet of this farm could run the step {step!r}: {why}."""

    code = "no-fleet"


class UnknownFrame(Refusal):
    """The scout frame {frame} is not among the job's frames."""

    code = "unknown-frame"
    status = 422


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
    fleets: list[str]
    worker_classes: list[str]
    outputs: dict[str, Any] | None
    frames: list[int | None]
    ranks: list[int]
    scouts: set[int]  # positions


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
    template = order.template
    if renderer:
        template = renderer.inspect_template if purpose is Purpose.INSPECTION else renderer.template
    values = dict(order.parameters)
    warnings: list[str] = []
    if version is not None:
        _require_whole(version)
    if renderer:
        if version is None:
            raise SceneNeeded(field="scene_version")
        values.setdefault("SceneFile", version.entry)
        if purpose is Purpose.RENDER:
            values, warnings = _fill(order, values, version.report)
    expansion = expand(template, values)
    software = _software(order, renderer, version, purpose)
    rule = _output_rule(renderer, expansion, version, purpose)
    steps = [_plan_step(order, step, rule, software, purpose) for step in expansion.steps]
    return Plan(template, expansion, steps, warnings)


def _renderer(name: str) -> Renderer:
    if name not in renderer_names():
        raise UnknownRenderer(name=name, known=", ".join(renderer_names()), field="renderer")
    return load_renderer(name)


def _require_whole(version: SceneVersion) -> None:
    if version.status == "uploading":
        raise SceneNotWhole(field="scene_version")
    if version.status == "refused":
        raise SceneRefused(why=version.refusal or "see its report", field="scene_version")


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
    order: JobOrder, values: dict[str, str], report: Mapping[str, Any] | None
) -> tuple[dict[str, str], list[str]]:
    """Fill in from the scene's report what the order leaves open, check it against the scene; give warnings too."""
    if report is None:
        for name in ("Frames", "FileFormat"):
            if values.get(name, "") in AS_SCENE:
                raise SceneNotInspected(name=name, field=f"parameters.{name}")
        return values, []
    scene = scene_of(report, values.get("Scene", ""))
    if scene is None:
        known = ", ".join(s["name"] for s in report["scenes"])
        raise UnknownChoice(what="scene", value=values.get("Scene", ""), known=known, field="parameters.Scene")
    open_problems = [p for p in report["problems"] if _is_open(p, order, values, scene)]
    refused = [p for p in open_problems if p["severity"] == "error" or _is_refused(p, order)]
    raise_all(
        [
            *_check_choices(values, scene),
            *_check_engine(order, values),
            *(SceneProblem(p, _field_of(p["code"])) for p in refused),
        ]
    )
    frames = scene["frames"]
    values.setdefault("Frames", _range(frames["start"], frames["end"], frames["step"]))
    if order.allow_missing_files:
        values["MissingAssets"] = "ALLOW"
    return values, [p["sentence"] for p in open_problems if p not in refused]


def scene_of(report: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Give a scene of a report by its name, or the one that opens."""
    return next((s for s in report["scenes"] if (s["name"] == name if name else s["active"])), None)


def _is_open(problem: Mapping[str, Any], order: JobOrder, values: Mapping[str, str], scene: Mapping[str, Any]) -> bool:
    """Say whether a problem is one of the scene to be rendered, and the order does not answer it."""
    about = problem["params"].get("scene")
    if about is not None and about != scene["name"]:
        return False
    if problem["code"] in _ANSWERED_BY_ALLOWING:
        return not order.allow_missing_files
    return values.get(_ANSWERED_BY.get(problem["code"], ""), "") in AS_SCENE


def _is_refused(problem: Mapping[str, Any], order: JobOrder) -> bool:
    """Some warnings of a report are refusals here: a movie is no frame, and EEVEE draws on GPUs only."""
    return problem["code"] == "video_output" or (problem["code"] == "eevee_needs_gpu" and not _any_gpu(order))


def _field_of(code: str) -> str:
    name = _ANSWERED_BY.get(code)
    return f"parameters.{name}" if name else "scene_version"


def _check_choices(values: Mapping[str, str], scene: Mapping[str, Any]) -> list[Refusal]:
    layers = [layer["name"] for layer in scene["view_layers"]]
    asked = [("camera", "Camera", values.get("Camera", ""), scene["cameras"])]
    asked += [("view layer", "ViewLayers", part.strip(), layers) for part in values.get("ViewLayers", "").split(",")]
    return [
        UnknownChoice(what=what, value=value, known=", ".join(known) or "none", field=f"parameters.{name}")
        for what, name, value, known in asked
        if value and value not in known
    ]


def _check_engine(order: JobOrder, values: Mapping[str, str]) -> list[Refusal]:
    engine = values.get("Engine", "")
    if engine in _NEEDS_GPU and not _any_gpu(order):
        return [EngineNeedsGpu(engine=engine, field="parameters.Engine")]
    return []


def _range(start: int, end: int, step: int) -> str:
    return f"{start}-{end}" + (f":{step}" if step > 1 else "") if end > start else str(start)


def _numbers(params: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what a sentence in another language may need, but not the names that a refusal has itself."""
    return {name: value for name, value in params.items() if name not in {"sentence", "problem", "field"}}


def _any_gpu(order: JobOrder) -> bool:
    return any(
        offer.capabilities.amounts["worker.gpu"]
        for offer in fleet.offers()
        if not order.fleet or offer.fleet == order.fleet
    )


def _software(
    order: JobOrder, renderer: Renderer | None, version: SceneVersion | None, purpose: Purpose
) -> dict[str, list[str]]:
    """Give the renderer versions that may run this: the scene's own, or the next newer one once a person agreed; never older."""  # noqa: E501
    if renderer is None:
        return {}
    offered = fleet.offered_versions(renderer.name)
    if order.renderer_version:
        return {renderer.name: [minor(order.renderer_version)]}
    saved = minor((version.report or {}).get("saved_by") or "") if version is not None else ""
    if purpose is Purpose.INSPECTION or not saved or not offered:
        return {}
    newer = [v for v in offered if version_key(v) >= version_key(saved)]
    if not newer:
        raise RendererTooOld(renderer=renderer.name, saved=saved, offered=", ".join(offered), field="renderer_version")
    if newer[0] != saved and not order.accept_newer_renderer:
        raise RendererTooNew(
            renderer=renderer.name, saved=saved, offered=", ".join(offered), field="accept_newer_renderer"
        )
    return {renderer.name: [newer[0]]}


def _output_rule(
    renderer: Renderer | None, expansion: Expansion, version: SceneVersion | None, purpose: Purpose
) -> dict[str, Any] | None:
    """Give the rule of what tasks must leave; None for a studio's own template."""
    if renderer is None:
        return None
    if purpose is Purpose.INSPECTION:
        return inspection_rule(renderer)
    parameters = {name: value["value"] for name, value in expansion.parameters.items()}
    report = version.report if version else None
    return render_rule(renderer, parameters, scene_of(report, parameters["Scene"]) if report else None)


def _plan_step(
    order: JobOrder, step: ExpandedStep, rule: dict[str, Any] | None, software: dict[str, list[str]], purpose: Purpose
) -> PlannedStep:
    needed = parse_host_requirements(step.host_requirements)
    attributes = dict(needed.attributes)
    for name, versions in software.items():
        attributes[f"farmhand:{name}"] = versions
    if order.fleet:
        attributes["farmhand:fleet"] = [order.fleet]
    requirements = Requirements(needed.amounts, attributes)
    able, lacking = fleet.fleets_for(requirements, purpose=str(purpose))
    if not able:
        why = (
            "; ".join(f"{name} lacks {lack} {value}" for name, (lack, value) in lacking.items()) or "there is no fleet"
        )
        raise NoFleet(step=step.name, why=why)
    frames = _frames(step)
    scouts = _scouts(order.scouts, frames) if purpose is Purpose.RENDER else set()
    ranks = halving_ranks(len(step.points))
    return PlannedStep(
        requirements, [o.fleet for o in able], sorted({o.worker_class for o in able}), rule, frames, ranks, scouts
    )


def _frames(step: ExpandedStep) -> list[int | None]:
    """Give the frame of each task, where the step has a task parameter Frame that is one number."""
    for position, (name, kind) in enumerate(zip(step.names, step.types, strict=True)):
        if name.lower() == "frame" and kind == "INT":
            return [int(point[position]) for point in step.points]
    return [None] * len(step.points)


def _scouts(wish: str, frames: Sequence[int | None]) -> set[int]:
    if wish == "none" or len(frames) <= 3:
        return set()
    if wish == "auto":
        return {0, (len(frames) - 1) // 2, len(frames) - 1}
    positions = {str(frame): i for i, frame in enumerate(frames)}
    found = set()
    for frame in wish.split(","):
        if frame.strip() not in positions:
            raise UnknownFrame(frame=frame.strip(), field="scouts")
        found.add(positions[frame.strip()])
    return found

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
from farm.jobs.expansion import Expansion, expand, parameter_definitions
from farm.jobs.moves import Purpose
from farm.jobs.ripples import halving_ranks
from farm.scenes.defaults import SceneDefaults, defaults_of
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


class VideoOutput(Refusal):
    """The scene writes a video ({format}). The farm renders single frames, which can be repeated one by one, and makes the movie itself: choose FileFormat=PNG or another image format."""  # noqa: E501

    code = "video-output"
    status = 422


class NoCamera(Refusal):
    """The scene {scene!r} has no camera, so there is nothing to render. Add a camera, or choose another scene with Scene=…."""  # noqa: E501

    code = "no-camera"
    status = 422


class EngineNeedsGpu(Refusal):
    """{engine} needs a GPU, and no fleet that could take this job has one. Choose Engine=CYCLES, which also runs on CPUs."""  # noqa: E501

    code = "engine-needs-gpu"
    status = 422


class UnknownEngine(Refusal):
    """The scene asks for the render engine {engine}, which the farm does not have. Choose Engine=CYCLES."""

    code = "unknown-engine"
    status = 422


class MissingFiles(Refusal):
    """The scene needs {count} files that are not in the upload: {names}. Add them, or submit with missing files allowed."""  # noqa: E501

    code = "missing-files"


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
    defaults = None
    if version is not None:
        _require_whole(version)
    if renderer:
        if version is None:
            raise SceneNeeded(field="scene_version")
        names = {d["name"] for d in parameter_definitions(template)}
        values.setdefault("SceneFile", version.entry)
        if purpose is Purpose.RENDER:
            defaults = defaults_of(version.report, values) if version.report else None
            values, warnings = _fill(order, values, defaults, names)
    expansion = expand(template, values)
    software = _software(order, renderer, version, purpose)
    steps = [_plan_step(order, step, renderer, defaults, software, purpose) for step in expansion.steps]
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


def _fill(
    order: JobOrder, values: dict[str, str], scene: SceneDefaults | None, names: set[str]
) -> tuple[dict[str, str], list[str]]:
    """Fill in from the scene's report what the order leaves open, and check it against the scene."""
    if scene is None:
        for name in ("Frames", "FileFormat"):
            if not values.get(name) or values[name] == "SCENE":
                raise SceneNotInspected(name=name, field=f"parameters.{name}")
        return values, []
    raise_all([*_check_choices(values, scene), *_check_scene(order, values, scene)])
    filled = {name: value for name, value in scene.parameters().items() if name in names}
    given = {
        name: value
        for name, value in values.items()
        if value not in {"", "SCENE"} and not (name in filled and value == "0")
    }
    if order.allow_missing_files and "MissingAssets" in names:
        given["MissingAssets"] = "ALLOW"
    return {**filled, **given}, list(scene.warnings)


def _check_choices(values: Mapping[str, str], scene: SceneDefaults) -> list[Refusal]:
    found: list[Refusal] = []
    lists = {"Scene": scene.scenes, "Camera": scene.cameras}
    for name, choices in lists.items():
        if values.get(name) and values[name] not in choices:
            found.append(
                UnknownChoice(
                    what=name.lower(),
                    value=values[name],
                    known=", ".join(choices) or "none",
                    field=f"parameters.{name}",
                )
            )
    layers = [part.strip() for part in values.get("ViewLayers", "").split(",") if part.strip()]
    known = ", ".join(scene.view_layers)
    found.extend(
        UnknownChoice(what="view layer", value=layer, known=known, field="parameters.ViewLayers")
        for layer in layers
        if layer not in scene.view_layers
    )
    return found


def _check_scene(order: JobOrder, values: Mapping[str, str], scene: SceneDefaults) -> list[Refusal]:
    found: list[Refusal] = []
    if not scene.cameras and not values.get("Camera") and scene.needs_camera:
        found.append(NoCamera(scene=scene.scene, field="parameters.Camera"))
    if scene.is_movie and values.get("FileFormat", "SCENE") in {"", "SCENE"}:
        found.append(VideoOutput(format=scene.file_format, field="parameters.FileFormat"))
    engine = values.get("Engine", "SCENE")
    if engine in {"", "SCENE"}:
        if scene.engine == "UNKNOWN":
            found.append(UnknownEngine(engine=scene.engine_as_written, field="parameters.Engine"))
        engine = scene.engine
    if engine in {"EEVEE", "WORKBENCH"} and not _any_gpu(order):
        found.append(EngineNeedsGpu(engine=engine, field="parameters.Engine"))
    if scene.missing and not order.allow_missing_files:
        names = ", ".join(scene.missing[:5]) + (" …" if len(scene.missing) > 5 else "")
        found.append(MissingFiles(count=len(scene.missing), names=names, field="scene_version"))
    return found


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
    saved = minor((version.report or {}).get("saved_by", "")) if version is not None else ""
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


def _plan_step(
    order: JobOrder,
    step: Any,
    renderer: Renderer | None,
    scene: SceneDefaults | None,
    software: dict[str, list[str]],
    purpose: Purpose,
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
        requirements, [o.fleet for o in able], sorted({o.worker_class for o in able}), outputs, frames, ranks, scouts
    )


def _frames(step: Any) -> list[int | None]:
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

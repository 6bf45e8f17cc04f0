"""
The form of an inspection's report, and what in it a person should know before paying. Pure, standard library only.

`README.md` beside this file describes every field; "report": 1 is the number of this form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from workers.renderers.blender.outputs import FORMATS, MOVIES
from workers.renderers.blender.refusals import Refusal

FORM = 1
NAMED = 20
ENGINES = {"CYCLES": False, "EEVEE": True, "WORKBENCH": True}
"""The engines of the farm, and whether they need a GPU."""

Report = dict[str, Any]


def blank_report(entry: str) -> Report:
    """Begin a report with every field there is, nothing known."""
    return {
        "report": FORM,
        "entry": entry,
        "renderer": {"name": "blender", "version": None},
        "saved_by": None,
        "compression": None,
        "refusal": None,
        "active_scene": None,
        "scenes": [],
        "dependencies": [],
        "missing_data": [],
        "unbaked": [],
        "scripts": {"texts": [], "blocked": None},
        "file_outputs": [],
        "problems": [],
    }


def refuse(report: Report, refusal: Refusal) -> Report:
    """Say in a report why the file cannot be opened."""
    params = {name: str(value) for name, value in refusal.params.items()}
    report["refusal"] = {"code": refusal.code, "params": params, "sentence": refusal.sentence}
    return report


class Problem(Refusal):
    """Something to know before rendering."""

    severity = "warning"
    """"error": frames will fail as things are; "warning": they may not look as they do at home."""

    def __init__(self, params: Mapping[str, Any] | None = None, **words: object) -> None:
        super().__init__(**words)
        self.shown = dict(params) if params is not None else dict(words)

    def as_entry(self) -> dict[str, Any]:
        return {"code": self.code, "severity": self.severity, "params": self.shown, "sentence": self.sentence}


class NoCamera(Problem):
    """Scene {scene} has no active camera: choose one of {known}, or add one in Blender and upload the scene again."""

    code, severity = "no_camera", "error"


class NoCameraAtAll(Problem):
    """Scene {scene} has no camera: add one in Blender and upload the scene again."""

    code, severity = "no_camera", "error"


class NoLayers(Problem):
    """No view layer of scene {scene} is on for rendering: name those to render, or switch one on in Blender."""

    code, severity = "no_layers", "error"


class NoFrames(Problem):
    """Scene {scene} ends at frame {end} before it starts at {start}: name the frames to render."""

    code = "no_frames"


class UnknownEngine(Problem):
    """Scene {scene} renders with {engine}, which this farm does not have: choose Engine CYCLES or EEVEE."""

    code, severity = "unknown_engine", "error"


class EngineNeedsGpu(Problem):
    """Scene {scene} renders with {engine}, which needs a GPU: choose a fleet with GPUs, or Engine CYCLES."""

    code = "eevee_needs_gpu"


class VideoOutput(Problem):
    """Scene {scene} is set to write a movie ({format}): frames are written as PNG unless you choose a format, and the
    farm makes the movie from them."""

    code = "video_output"


class UnsupportedFormat(Problem):
    """Scene {scene} writes {format}, which the farm cannot check: frames are written as PNG unless you choose another
    format."""

    code = "unsupported_format"


class SeparateViews(Problem):
    """Scene {scene} writes each stereo view into a file of its own, and a frame is one file here: choose FileFormat
    OPEN_EXR_MULTILAYER, or Stereo 3D as views format in Blender."""

    code, severity = "separate_views", "error"


class RenderRegion(Problem):
    """Scene {scene} renders only a region of the picture: that is kept; switch Render Region off in Blender if it is
    left over from a test."""

    code = "render_region"


class FrameStep(Problem):
    """Scene {scene} renders only every {step}. frame: here the frames you name count, such as {start}-{end}:{step}."""

    code = "frame_step"


class MissingFiles(Problem):
    """Missing in the upload: {named}. Upload them too, or allow missing assets."""

    code, severity = "missing_files", "error"


class OutsideFiles(Problem):
    """Used but lying outside the upload: {named}. Upload them too (the Blender extension does), or make their paths
    relative in Blender."""

    code, severity = "outside_files", "error"


class AbsolutePaths(Problem):
    """Spelled with the paths of one machine: {named}. They were found by where they were uploaded from; relative paths
    would work anywhere."""

    code = "absolute_paths"


class MissingData(Problem):
    """Linked from libraries that no longer hold it: {named}. Relink it in Blender and upload the scene again."""

    code, severity = "missing_data", "error"


class ScriptsPresent(Problem):
    """The scene holds Python that does not run here unless you allow it ({named}): rigs and drivers that rely on it
    stand still."""

    code = "scripts_present"


class UnbakedSimulation(Problem):
    """Simulated but not baked: {named}. Frames render alone, on many machines: bake to disk and upload the caches."""

    code = "unbaked_simulation"


class FileOutputs(Problem):
    """File Output nodes are off here ({named}): choose FileFormat OPEN_EXR_MULTILAYER to get the passes."""

    code = "file_outputs"


def find_problems(report: Report) -> list[dict[str, Any]]:
    """List what a person should know, the scenes' first, then the files'."""
    found: list[Problem] = []
    for scene in report["scenes"]:
        found.extend(_of_scene(scene))
    found.extend(_of_files(report["dependencies"]))
    found.extend(_of_the_rest(report))
    return [problem.as_entry() for problem in found]


def _of_scene(scene: Mapping[str, Any]) -> Iterator[Problem]:
    name, frames, output = scene["name"], scene["frames"], scene["output"]
    if scene["drawn"]:
        yield from _of_drawn_scene(scene)
    if not any(layer["on"] for layer in scene["view_layers"]):
        yield NoLayers(scene=name)
    if frames["end"] < frames["start"]:
        yield NoFrames(scene=name, start=frames["start"], end=frames["end"])
    elif frames["step"] > 1:
        yield FrameStep(scene=name, **frames)
    if output["format"] in MOVIES:
        yield VideoOutput(scene=name, format=output["format"])
    elif output["format"] not in FORMATS:
        yield UnsupportedFormat(scene=name, format=output["format"])
    if scene["multiview"] and output["views"] == "INDIVIDUAL":
        yield SeparateViews(scene=name)
    if scene["region"] is not None:
        yield RenderRegion(scene=name)


def _of_drawn_scene(scene: Mapping[str, Any]) -> Iterator[Problem]:
    name = scene["name"]
    if scene["camera"] is None and not any(marker["camera"] for marker in scene["markers"]):
        cameras = scene["cameras"]
        params = {"scene": name, "cameras": cameras}
        yield NoCamera(params, scene=name, known=", ".join(cameras)) if cameras else NoCameraAtAll(params, scene=name)
    if scene["engine"] not in ENGINES:
        yield UnknownEngine(scene=name, engine=scene["engine"])
    elif ENGINES[scene["engine"]]:
        yield EngineNeedsGpu(scene=name, engine=scene["engine"])


def _of_files(dependencies: Iterable[Mapping[str, Any]]) -> Iterator[Problem]:
    dependencies = list(dependencies)
    needed = [file for file in dependencies if file["needed"]]
    if paths := _paths(file for file in needed if file["state"] == "missing"):
        yield MissingFiles({"paths": paths}, named=_named(paths))
    if paths := _paths(file for file in needed if file["state"] == "outside"):
        yield OutsideFiles({"paths": paths}, named=_named(paths))
    if paths := _paths(file for file in dependencies if file["absolute"] and file["state"] == "found"):
        yield AbsolutePaths({"paths": paths}, named=_named(paths))


def _paths(files: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(file["path"] for file in files))


def _of_the_rest(report: Report) -> Iterator[Problem]:
    if names := report["missing_data"]:
        yield MissingData({"names": names}, named=_named(names))
    texts, blocked = report["scripts"]["texts"], report["scripts"]["blocked"]
    if texts or blocked:
        yield ScriptsPresent({"texts": texts, "blocked": blocked}, named=_named([*texts, *filter(None, [blocked])]))
    if names := report["unbaked"]:
        yield UnbakedSimulation({"names": names}, named=_named(names))
    if names := report["file_outputs"]:
        yield FileOutputs({"names": names}, named=_named(names))


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more

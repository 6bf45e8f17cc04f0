"""
`make demo`: a scene goes through the whole farm, by nothing but the command line that everybody has.

Every command is printed as it is run, so that a person can type it again. What is decided on the way (other frames, an
engine that this machine can render with) is said before it is done.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.local.folder import ROOT, Folder
from infra.local.refusals import Refusal
from infra.local.state import read_report, read_variables

SAMPLE = ROOT / "workers/renderers/blender/sample.py"
SAMPLE_FRAMES = "1-24"
MOST_FRAMES = 24  # of a scene whose frames nobody named
SCOUTED = 3  # a job of so many frames or fewer needs no scouts
FEW_SAMPLES = 16
MANY_SAMPLES = 64
WAITS_FOR_A_PERSON = 5  # the exit code of `farmhand job watch` when scouts are done
FORMATS = {"EXR": "OPEN_EXR", "OPENEXR": "OPEN_EXR", "JPG": "JPEG", "TIF": "TIFF", "MULTILAYER": "OPEN_EXR_MULTILAYER"}


class DoesNotRun(Refusal):
    """The farm does not run. `make demo` starts it; `make up` alone says why it does not start."""


class Stopped(Refusal):
    """The demo stopped: `{command}` ended with exit code {code}.\n{advice}"""


class CannotBeRendered(Refusal):
    """The scene cannot be rendered as it is: {why}\n{advice}"""


class NoSample(Refusal):
    """The sample scene could not be made by {program}:\n{why}"""


class NoScene(Refusal):
    """There is no scene {path}. Give a .blend, or the folder that holds it with all it needs: SCENE=/path/shot."""


@dataclass(frozen=True)
class Choices:
    """How the scene is ordered, and what a person should know of each choice."""

    frames: str
    options: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def plus(self, *options: str, because: str = "") -> "Choices":
        return Choices(self.frames, [*self.options, *options], [*self.said, *([because] if because else [])])


# --- what is decided, from what the farm answers ---------------------------------------------------------------------


def choose(report: Mapping[str, Any], *, frames: str, file_format: str, is_sample: bool) -> Choices:
    """Choose frames and format as a person said, or as the scene says within what a demo should take."""
    scene = next((scene for scene in report["scenes"] if scene["active"]), None)
    choices = Choices(frames or SAMPLE_FRAMES) if is_sample or not scene else _choose_for(scene, frames)
    if file_format:
        name = file_format.upper()
        return choices.plus("-p", f"FileFormat={FORMATS.get(name, name)}")
    return choices


def _choose_for(scene: Mapping[str, Any], frames: str) -> Choices:
    start, end = scene["frames"]["start"], scene["frames"]["end"]
    last = max(start, min(end, start + MOST_FRAMES - 1))
    choices = Choices(frames or (str(start) if last == start else f"{start}-{last}"))
    if not frames and last < end:
        why = f"The scene has frames {start}-{end}; the demo renders {start}-{last}, unless told FRAMES=…"
        choices = choices.plus(because=why)
    if scene["engine"] == "CYCLES" and (scene["samples"] or 0) > MANY_SAMPLES:
        why = f"The scene asks for {scene['samples']} samples; the demo renders with {FEW_SAMPLES}."
        choices = choices.plus("-p", f"Samples={FEW_SAMPLES}", because=why)
    return choices


def reasons(problem: Mapping[str, Any]) -> list[str]:
    """Name what a refusal is about: its codes, and what the scene's report calls the problems."""
    errors = [problem, *problem["errors"]]
    codes = [error["code"] for error in errors] + [str((error.get("params") or {}).get("problem")) for error in errors]
    return list(dict.fromkeys(code.replace("-", "_") for code in codes))


def remedy(reason: str, choices: Choices, detail: str) -> Choices | None:
    """Give the choices that do what a refusal asks for, or nothing where only a person can."""
    cycles = ("-p", "Engine=CYCLES", "-p", f"Samples={FEW_SAMPLES}")
    so = f"so it is rendered with Cycles at {FEW_SAMPLES} samples."
    match reason:
        case "engine_needs_gpu" | "eevee_needs_gpu":
            return choices.plus(*cycles, because=f"The scene's engine needs a GPU, which this farm lacks, {so}")
        case "unknown_engine":
            return choices.plus(*cycles, because=f"The scene's engine is none that the farm has, {so}")
        case "renderer_newer":
            return choices.plus("--accept-newer", because=f"{detail} The demo agrees.")
        case "video_output":
            return choices.plus("-p", "FileFormat=PNG", because="The scene writes a video. The frames are PNG instead.")
    return None


def is_few(frames: str) -> bool:
    """Say whether a list names so few frames that scouts would be most of them; what is no list is not few."""
    count = 0
    for part in frames.split(","):
        if not (match := re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?\s*", part)):
            return False
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        count += max(0, last - first) // max(1, step) + 1
    return count <= SCOUTED


# --- what is done ----------------------------------------------------------------------------------------------------


class Stage:
    """Where the demo's words go, and the command line it types."""

    def __init__(self, folder: Folder, variables: Mapping[str, str], token: str) -> None:
        self.farmhand = Path(sys.executable).with_name("farmhand")
        self.place = folder.path / "demo"
        # What `last` means here is the demo's own business, and so are its token, its profile and its project.
        own = {"FARMHAND_URL": variables["FARM_URL"], "FARMHAND_TOKEN": token, "FARMHAND_PROJECT": "Demo"}
        self.env = os.environ | own | {"FARMHAND_PROFILE": "", "XDG_STATE_HOME": str(self.place / "state")}
        self.number = 0
        self.colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    def title(self, text: str) -> None:
        self.number += 1
        print(self._styled(f"\n{self.number}  {text}", "1"), flush=True)

    def say(self, text: str) -> None:
        print(_wrapped(text, indent="   "), flush=True)

    def run(self, *arguments: str | Path, fine: Sequence[int] = (0,), advice: str = "") -> int:
        """
        Type a command and let it speak.

        :raises Stopped: it ended with a code that is not fine
        """
        shown = [_near(argument) for argument in arguments]
        typed = shlex.join(["farmhand", *shown])
        print(self._styled(f"$ {typed}", "36"), flush=True)
        code = subprocess.call([self.farmhand, *shown], env=self.env, cwd=ROOT)
        if code not in fine:
            raise Stopped(command=typed, code=code, advice=advice or "What it said above tells what to do.")
        return code

    def ask(self, *arguments: str) -> tuple[int, Any]:
        """Run a command for its answer; give its exit code too."""
        done = subprocess.run([self.farmhand, *arguments, "--json"], env=self.env, capture_output=True, text=True)
        if not done.stdout.strip():
            raise Stopped(command=f"farmhand {' '.join(arguments)}", code=done.returncode, advice=done.stderr.strip())
        return done.returncode, json.loads(done.stdout)

    def _styled(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text


def _wrapped(text: str, *, indent: str = "") -> str:
    """Break lines between words where the terminal ends; nothing that a person may want to copy is broken."""
    width = shutil.get_terminal_size((10_000, 0)).columns  # a file has no edge
    wrap = textwrap.TextWrapper(
        width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(wrap.fill(line) for line in text.splitlines())


def _near(argument: str | Path) -> str:
    """Write a path below the checkout as a person who stands there would."""
    if isinstance(argument, Path) and argument.is_relative_to(ROOT):
        return str(argument.relative_to(ROOT))
    return str(argument)


def bootstrap(variables: Mapping[str, str]) -> tuple[str, str]:
    """Have a studio with a project; give a token for it, and the address that lets its owner into the portal."""
    command = [sys.executable, "manage.py", "bootstrap", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True)
    if done.returncode:
        raise Stopped(command="manage.py bootstrap", code=done.returncode, advice=done.stderr.strip())
    shown = json.loads(done.stdout.strip().splitlines()[-1])
    return str(shown["token"]), str(shown["portal"])


def make_sample(stage: Stage, variables: Mapping[str, str]) -> Path:
    """
    Have Blender make the sample scene, unless an earlier demo did.

    :raises NoSample: Blender could not
    """
    folder = stage.place / "farm at dusk"
    scene = folder / "farm.blend"
    if not scene.exists() or scene.stat().st_mtime < SAMPLE.stat().st_mtime:
        stage.say("Blender makes the sample scene; this takes a few seconds.")
        folder.mkdir(parents=True, exist_ok=True)
        if blender := variables.get("FARM_BLENDER"):
            command = [blender, "--background", "--python-exit-code", "1", "--python", str(SAMPLE)]
        else:
            command = [variables["FARM_RENDERER_PYTHON"], str(SAMPLE)]
        done = subprocess.run([*command, "--", str(folder)], capture_output=True, text=True, cwd=stage.place)
        if done.returncode or not scene.exists():
            raise NoSample(program=command[0], why=(done.stderr or done.stdout).strip()[-2000:])
    return folder


def send(stage: Stage, path: Path, name: str) -> Mapping[str, Any]:
    """Send the scene, show what is in it, and give the report."""
    stage.title("The scene goes to the farm, and is looked at before it costs anything")
    stage.run("scene", "push", path, "--scene", name, "--wait-report")
    _, report = stage.ask("scene", "report", "last")
    if refusal := report["refusal"]:
        raise CannotBeRendered(why=refusal["sentence"], advice="Mend the scene, or try another: make demo SCENE=…")
    return report  # type: ignore[no-any-return]


def agree(stage: Stage, choices: Choices) -> Choices:
    """
    Try the order, and do what the farm asks for as long as that is not a person's to decide.

    :raises CannotBeRendered: it is
    """
    detail, why = "", []
    for _ in range(5):
        code, answer = stage.ask("job", "check", "last", "--frames", choices.frames, *choices.options)
        if not code:
            return choices
        detail, why = answer["error"]["detail"], reasons(answer["error"])
        better = choices
        for reason in why:
            better = remedy(reason, better, detail) or better
        if better == choices:
            break
        choices = better
    raise CannotBeRendered(why=detail, advice=_advice(why))


def _advice(why: Sequence[str]) -> str:
    if {"missing_files", "outside_files"} & set(why):
        return "Give the folder that holds the scene with all it needs: make demo SCENE=/path/of/the/folder"
    return "Mend the scene, or order it by hand: farmhand job submit --help"


def render(stage: Stage, choices: Choices) -> None:
    """Render it: with more than a few frames, scouts first, then the rest once the range is known."""
    for sentence in choices.said:
        stage.say(sentence)
    order = ["job", "submit", "last", "--frames", choices.frames, *choices.options]
    failed = "`farmhand job logs` shows what the renderer said; `make status` shows whether the farm is well."
    if is_few(choices.frames):
        stage.title("The frames are rendered, one by one")
        stage.run(*order, "--watch", advice=failed)
        return
    stage.title("Three scout frames are rendered, to know what the rest will cost")
    code = stage.run(*order, "--scouts", "auto", "--watch", fine=(0, WAITS_FOR_A_PERSON), advice=failed)
    if code == WAITS_FOR_A_PERSON:
        stage.title("The range is known, so the rest is rendered")
        stage.run("job", "continue", "last", "--watch", advice=failed)


def fetch(stage: Stage) -> Path:
    """Fetch movie and frames to a folder of the job's own."""
    _, job = stage.ask("job", "status", "last")
    target = stage.place / str(job["id"])
    target.mkdir(parents=True, exist_ok=True)
    stage.title("A movie is made of them")
    stage.run("job", "movie", "last", target / "movie.mp4", "--wait")
    stage.title("The statement: each line leads to a frame")
    stage.run("bill", "show", "--job", "last")
    stage.title("The frames are fetched, each verified")
    stage.run("job", "pull", "last", target / "frames")
    return target


def demo(folder: Folder, *, scene: str, frames: str, file_format: str) -> int:
    """
    Show the whole way of a scene through the running farm.

    :raises DoesNotRun, NoScene, CannotBeRendered, Stopped: as they say
    """
    report = read_report(folder)
    variables = read_variables(folder)
    if not report or not variables or not folder.is_supervised():
        raise DoesNotRun
    if scene and not Path(scene).exists():
        raise NoScene(path=scene)
    began = time.monotonic()
    token, door = bootstrap(variables)
    stage = Stage(folder, variables, token)
    stage.place.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = Path(scene).absolute() if scene else make_sample(stage, variables)
    found = send(stage, path, path.stem)
    choices = agree(stage, choose(found, frames=frames, file_format=file_format, is_sample=not scene))
    render(stage, choices)
    target = fetch(stage)
    farewell(stage, variables["FARM_URL"], door, target, seconds=time.monotonic() - began)
    return 0


def farewell(stage: Stage, url: str, door: str, target: Path, *, seconds: float) -> None:
    """Say where everything is."""
    stage.title(f"Done in {seconds // 60:.0f} min {seconds % 60:.0f} s; the farm keeps running")
    stage.say(f"movie and frames  {_near(target)}")
    stage.say(f"in your browser   {door}")
    stage.say("                  (lets you into the portal once, as the demo's owner, to set a password)")
    stage.say(f"the API           {url}/api/docs")
    stage.say("your own scene    make demo SCENE=/path/shot.blend FRAMES=1-24")
    stage.say("stop the farm     make down")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description="Render a scene through the running farm.")
    parser.add_argument("--scene", default="", help="a .blend, or the folder of one (default: a sample scene)")
    parser.add_argument("--frames", default="", help=f"frames such as 1-24 (default: {SAMPLE_FRAMES}, or the scene's)")
    parser.add_argument("--format", default="", help="PNG, EXR, JPEG, TIFF, WEBP (default: as the scene says)")
    return parser.parse_args(arguments)


def main() -> int:
    asked = parse(sys.argv[1:])
    try:
        return demo(Folder.from_environment(), scene=asked.scene, frames=asked.frames, file_format=asked.format)
    except Refusal as refusal:
        print(f"\n{_wrapped(str(refusal))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nYou stopped the demo. The farm keeps running, and so does a job that was ordered.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

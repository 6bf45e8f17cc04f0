"""
Have Blender inspect a scene, and make a report even of a file that is no scene or makes Blender crash.

`inspection.py OUTPUT_FOLDER -- COMMAND… -- SCENE FOLDER RULES`: COMMAND runs `inspect_scene.py`. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - -I leaves it out

from workers.renderers.blender.blendfile import read_header
from workers.renderers.blender.log_watch import MEMORY_SENTENCE, LogWatch
from workers.renderers.blender.places import Places
from workers.renderers.blender.refusals import Refusal, Unreadable
from workers.renderers.blender.report import Report, blank_report, refuse

OURS = re.compile(r"(openjd|farmhand)_")
CRASHED = "Blender crashed while opening it"


def inspect(command: list[str], scene_file: Path, folder: str, target: Path) -> int:
    """Write the report to `target` and return the exit code: 0 if there is one, be it a refusal."""
    report = blank_report(Places(folder).shown(str(scene_file)))
    try:
        read_header(scene_file)
    except Refusal as refusal:
        return _write(refuse(report, refusal), target)
    draft = Path("report.json")
    draft.unlink(missing_ok=True)
    code, watch = run_blender([*command, str(draft.absolute())])
    if code == 0 and draft.is_file():
        target.write_bytes(draft.read_bytes())
        return 0
    if watch.cause is not None or code == -signal.SIGKILL:
        cause, sentence = watch.cause or ("out_of_memory", MEMORY_SENTENCE)
        return _end(cause, sentence)
    if code < 0:
        return _write(refuse(report, Unreadable(path=scene_file.name, detail=CRASHED)), target)
    return _end("renderer_crashed", f"The inspection failed (exit code {code}, last words: {watch.last}): try again.")


def run_blender(command: list[str]) -> tuple[int, LogWatch]:
    """Run Blender, pass its log on so that no line of it can pass for one of ours, and return how it ended."""
    watch = LogWatch()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            watch.hear(line.rstrip("\n"))
            print(f"| {line}" if OURS.match(line) else line, end="", flush=True)
    code = process.returncode
    return (128 - code if code > 128 else code), watch  # a launcher reports its child's signal n as 128 + n


def _write(report: Report, target: Path) -> int:
    target.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"refused: {report['refusal']['sentence']}")
    return 0


def _end(cause: str, sentence: str) -> int:
    print("farmhand_end:", json.dumps({"cause": cause, "sentence": sentence}))
    return 1


def main() -> int:
    output, _, *command = sys.argv[1:]
    scene_file, folder, _rules = command[-3:]
    return inspect(command, Path(scene_file), folder, Path(output) / "report.json")


if __name__ == "__main__":
    sys.exit(main())

"""
Blender as a server: opens the ordered scene once and renders frames as its keeper asks for them.

Runs inside Blender: `blender --background --python daemon.py -- --line=FD --scene-file=…`, and speaks JSON lines on
the inherited socket FD, as `keeper.py` says. An end of file ends it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - before pathlib's friends

import bpy

from workers.renderers.blender.dependencies import Sequences, collect, missing_datablocks, remap
from workers.renderers.blender.devices import assert_device, drawing_device, use_device
from workers.renderers.blender.opening import flush, open_scene, print_by_line, spelled_libraries, unknown_engines
from workers.renderers.blender.order import Order, apply_order, camera_at, is_drawn, read_order, scenes_taking_part
from workers.renderers.blender.outputs import frame_name, parse_frames
from workers.renderers.blender.places import Places, read_rules
from workers.renderers.blender.refusals import Refusal

_FULL = 64 * 1024
_NAMED = 3
_SAY_EVERY_S = 0.25
_SAMPLE = re.compile(r"Sample (\d+)/(\d+)|Rendered (\d+)/(\d+) Tiles")


class AssetsMissing(Refusal):
    """The scene needs {count} that the upload does not hold ({named}): add what is missing and upload again, or allow
    missing assets."""

    cause = "missing_asset"
    code = "missing_asset"


class DiskFull(Refusal):
    """The disk of this worker is full, so frame {frame} could not be written: the farm tries another worker."""

    cause = "disk_full"


class OutOfMemory(Refusal):
    """Frame {frame} needs more memory than this worker has: choose a fleet with more memory, or a smaller frame,
    fewer subdivisions or smaller textures."""

    cause = "out_of_memory"


class NotWritten(Refusal):
    """Blender finished frame {frame} but left no picture ({reason}): see the log for what it says before that."""

    cause = "missing_output"


class RenderFailed(Refusal):
    """Blender could not render frame {frame} ({reason}): correct that in the scene and upload it again."""


class ScriptFailed(Refusal):
    """The farm's own script failed in Blender ({reason}): the log has the place; tell the farm's operator."""

    cause = "renderer_crashed"


class Line:
    """The keeper's end of the conversation."""

    def __init__(self, number: int) -> None:
        self._stream = socket.socket(fileno=number).makefile("rw", encoding="utf-8", newline="\n")

    def say(self, **message: Any) -> None:
        flush()  # the log lines that belong before it
        self._stream.write(json.dumps(message) + "\n")
        self._stream.flush()

    def ask(self) -> dict[str, Any] | None:
        """Wait for the keeper's next wish; None when it has hung up."""
        text = self._stream.readline()
        return json.loads(text) if text else None


class Stage:
    """The opened scene, ready to render its frames."""

    def __init__(self, order: Order, line: Line) -> None:
        self.order = order
        self.line = line
        self.wanted_device = os.environ.get("FARMHAND_DEVICE", "CPU")
        self.device = ""
        self.progress = Progress(line)

    def load(self) -> None:
        """
        Open the scene, correct its paths, apply the order, take the device and look for what is missing.

        :raises Refusal: it cannot be rendered as ordered
        """
        order = self.order
        log = open_scene(order.scene_file, scripts=order.scripts == "RUN")
        self.places = Places(str(order.scene_folder), read_rules(order.rules.read_text()))
        self.spelled = remap(self.places, print) | spelled_libraries(log)
        self.scene = apply_order(order, foreign_engines=unknown_engines(log))
        self.parts = scenes_taking_part(self.scene)
        self.drawn = [part for part in self.parts if is_drawn(part)]
        self.device = use_device(self.wanted_device, self.parts, drawn=self.drawn)
        self.sequences = Sequences(self.places, self.spelled)
        self._refuse_missing(self._missing_assets())
        bpy.app.handlers.render_stats.append(self.progress.hear)

    def _missing_assets(self) -> list[str]:
        needed = [d for d in collect(self.places, [], self.spelled) if d.is_needed]
        return [*dict.fromkeys(d.path for d in needed if d.is_missing), *missing_datablocks()]

    def _refuse_missing(self, names: list[str]) -> None:
        """
        Log what is missing, and give up over it unless the order allows it.

        :raises AssetsMissing: something that a frame needs is not there
        """
        names = [_on_one_line(name) for name in names]
        for name in names:
            print(f"missing asset: {name}")
        if names and self.order.missing_assets != "ALLOW":
            raise AssetsMissing(
                count="a file" if len(names) == 1 else f"{len(names)} files",
                named=", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else ""),
            )

    def render(self, frames: list[int]) -> None:
        """
        Render frames one after another.

        :raises Refusal: one of them failed; those after it were not begun
        """
        for index, frame in enumerate(frames):
            self.progress.begin(index, len(frames))
            self.line.say(status=f"Rendering frame {frame}")
            self._refuse_missing(self.sequences.missing_at(frame))
            self._render_frame(frame)
            self._name_device()
        self.progress.end()

    def _render_frame(self, frame: int) -> None:
        self._go_to(frame)
        assert_device(self.wanted_device, self.drawn)
        file = self.order.output_dir / frame_name(frame, self.scene.render.image_settings.file_format)
        self.scene.render.filepath = str(file)
        try:
            with bpy.context.temp_override(scene=self.scene):
                bpy.ops.render.render(write_still=True)
        except MemoryError:
            raise OutOfMemory(frame=frame) from None
        except RuntimeError as error:
            raise self._failure(frame, str(error)) from error
        self._check_file(frame, file)

    def _go_to(self, frame: int) -> None:
        """
        Move to a frame without `frame_set`, which evaluates the whole scene once more than the render does; a camera
        that is bound to a marker is then for us to follow.
        """
        for part in self.parts:
            part.frame_current, part.frame_subframe = frame, 0.0
            camera = camera_at(part, frame)
            if camera is not None:
                part.camera = camera

    def _failure(self, frame: int, words: str) -> Refusal:
        """Tell from Blender's own words why a frame failed."""
        if "No space left" in words or ("cannot save" in words and self._is_full()):
            return DiskFull(frame=frame)
        if "memory" in words.lower():
            return OutOfMemory(frame=frame)
        reason = _on_one_line(words.strip().removeprefix("Error: "))
        return (
            NotWritten(frame=frame, reason=reason)
            if "cannot save" in words
            else RenderFailed(frame=frame, reason=reason)
        )

    def _check_file(self, frame: int, file: Path) -> None:
        """
        Look at what was written: on a full disk Blender says "Saved" and FINISHED over an empty or cut file.

        :raises DiskFull: there was no room
        :raises NotWritten: there is no file, or an empty one
        """
        if self._is_full():
            raise DiskFull(frame=frame)
        if not file.is_file() or file.stat().st_size == 0:
            raise NotWritten(frame=frame, reason="it said it was done")

    def _is_full(self) -> bool:
        disk = os.statvfs(self.order.output_dir)
        return disk.f_blocks > 0 and disk.f_bavail * disk.f_frsize < _FULL

    def _name_device(self) -> None:
        """Say what drew the first frame, where that can be known only now."""
        if not self.device:
            self.device = drawing_device()
            self.line.say(device=self.device)


class Progress:
    """How far the wanted frames are, from what Blender says while it renders."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._done = self._count = 0
        self._said_at = 0.0

    def begin(self, done: int, count: int) -> None:
        self._done, self._count = done, count

    def hear(self, words: str, *_: object) -> None:
        """Be Blender's `render_stats` handler."""
        match = _SAMPLE.search(words)
        if match is not None and time.monotonic() - self._said_at > _SAY_EVERY_S:
            done, of = (int(group) for group in match.groups() if group is not None)
            self._say(done / max(1, of))
        elif words.startswith("Time:"):
            print(words)

    def end(self) -> None:
        self._done = self._count
        self._say(0.0)

    def _say(self, part_of_frame: float) -> None:
        self._said_at = time.monotonic()
        self._line.say(progress=round((self._done + part_of_frame) / self._count, 4))


def _on_one_line(text: str) -> str:
    return " ".join(text.encode("utf-8", "replace").decode().split())


def main() -> None:
    """Open, render, answer, until the keeper hangs up."""
    number, *arguments = sys.argv[sys.argv.index("--") + 1 :]
    line = Line(int(number.removeprefix("--line=")))
    print_by_line()
    stage = Stage(read_order(arguments), line)
    if _answered(line, stage.load):
        line.say(device=stage.device, loaded=True)
    while (wish := line.ask()) is not None:
        frames: str = wish["render"]
        if _answered(line, lambda frames=frames: stage.render(parse_frames(frames))):  # type: ignore[misc]
            line.say(rendered=True)


def _answered(line: Line, work: Callable[[], None]) -> bool:
    """Do some work; if it fails tell why and say False."""
    try:
        work()
    except Refusal as refusal:
        line.say(failed={"cause": refusal.cause, "sentence": refusal.sentence})
    except MemoryError:
        line.say(failed={"cause": OutOfMemory.cause, "sentence": str(OutOfMemory(frame="it"))})
    except Exception as error:
        traceback.print_exc()
        failure = ScriptFailed(reason=_on_one_line(f"{type(error).__name__}: {error}"))
        line.say(failed={"cause": failure.cause, "sentence": failure.sentence})
    else:
        return True
    return False


if __name__ == "__main__":
    main()
    flush()
    os._exit(0)  # Blender's own end can crash, and nobody is left to care

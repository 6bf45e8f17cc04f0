"""
A fresh sandbox for each run of the encoder: pictures come from strangers, and so may what is made of them.

In it: this machine's programs and libraries, the farm's Python, the encoder's one file and the run's own inputs, all
read-only; two files to write; no network, no environment, no process of anybody else's; limits on memory, time and
size. The agent's sandbox is larger (renderers, devices, folders to write) and its room is not the farm's to import.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

logger = logging.getLogger(__name__)

ENCODER = Path(__file__).with_name("encoder.py")
MEMORY_MIB = 3072
PROCESSOR_S = 240  # of all threads together
OPEN_FILES = 256
STALLED_S = 10  # nobody honest's small picture takes that long to open
FATAL = {128 + s for s in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGXCPU)}
MOST_TOLD = 1024**2
LAST_WORDS = 2000


class EncoderFailed(Exception):
    """The encoder did not do its work: {why}."""

    def __init__(self, why: str) -> None:
        super().__init__((self.__doc__ or "").format(why=why))


class SandboxUnusable(EncoderFailed):
    """Movies are made in a sandbox, which does not start: {why}."""


class UnreadablePictures(Exception):
    """Pictures cannot be opened; `why` has the reason of each file."""

    def __init__(self, why: Mapping[str, str]) -> None:
        super().__init__(", ".join(why))
        self.why = dict(why)


@dataclass(frozen=True)
class Run:
    """One run: a folder with `order.json` and its inputs, beside which the output is written."""

    folder: Path
    seconds: float
    most_bytes: int

    @property
    def inputs(self) -> Path:
        return self.folder / "in"

    @property
    def output(self) -> Path:
        return self.folder / "out.mp4"

    @property
    def told(self) -> Path:
        return self.folder / "told"

    @property
    def words(self) -> Path:
        return self.folder / "words"


def run_encoder(run: Run, order: Mapping[str, Any]) -> int:
    """
    Let the encoder do one thing; give how many frames it counted in `run.output`.

    :raises UnreadablePictures: some of its pictures cannot be opened
    :raises SandboxUnusable: there is no sandbox on this machine
    :raises EncoderFailed: it did not end in time, or not well
    """
    (run.inputs / "order.json").write_text(json.dumps(order))
    for file in (run.output, run.told, run.words):
        file.touch()
    return _outcome(run, _run(_command(run), run))


def _run(command: list[str], run: Run) -> int | None:
    """Run a command to its end; None if that did not come in time."""
    with run.words.open("wb") as words:
        try:
            process = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                timeout=run.seconds,
                env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
                cwd="/",
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
    return process.returncode


def _outcome(run: Run, code: int | None) -> int:
    """
    Read what the encoder told. Nothing of it is believed but a whole answer of a known form.

    :raises UnreadablePictures: it named them, or died of one
    :raises EncoderFailed: anything else but success
    """
    told = _last_told(run.told)
    if isinstance(why := told.get("unreadable"), dict) and why:
        raise UnreadablePictures({str(file): str(reason)[:300] for file, reason in why.items()})
    if isinstance(file := told.get("opening"), str) and _was_fatal(run, code):
        raise UnreadablePictures({file: "the decoder does not survive it"})
    if code == 0 and type(frames := told.get("frames")) is int:
        return frames
    said = run.words.read_bytes()[-LAST_WORDS:].decode(errors="replace").strip()
    if said.startswith("bwrap:"):
        raise SandboxUnusable(said)
    how = "it takes too long" if code is None else f"it ended with {code}"
    raise EncoderFailed(f"{str(told.get('error') or how)[:300]} {said}".strip())


def _last_told(told: Path) -> dict[str, Any]:
    if told.stat().st_size > MOST_TOLD:
        return {}
    lines = told.read_text(errors="replace").splitlines()
    with contextlib.suppress(ValueError, RecursionError):
        last = json.loads(lines[-1]) if lines else {}
        return last if isinstance(last, dict) else {}
    return {}


def _was_fatal(run: Run, code: int | None) -> bool:
    """Say whether it was the picture that killed the encoder, and not a busy machine or somebody else."""
    if code is None:
        return time.time() - run.told.stat().st_mtime > STALLED_S
    return (128 - code if code < 0 else code) in FATAL


def _command(run: Run) -> list[str]:
    python = [sys.executable, "-I"]
    limits = (
        f"ulimit -c 0; ulimit -n {OPEN_FILES}; ulimit -v {MEMORY_MIB * 1024}; ulimit -t {PROCESSOR_S}; "
        f'ulimit -f {run.most_bytes // 512}; exec nice -n 5 "$@"'
    )
    shell = ["/bin/sh", "-c", limits, "encoder"]
    if settings.FARM_TRUST_SCENES:
        logger.warning("a movie is made outside a sandbox, because FARM_TRUST_SCENES is set")
        return [*shell, *python, str(ENCODER), str(run.inputs), str(run.output), str(run.told)]
    if shutil.which("bwrap") is None:
        raise SandboxUnusable("bubblewrap is not installed; install the package `bubblewrap`")
    return [*shell, "bwrap", *_walls(run), "--", *python, "/encoder.py", "/in", "/out.mp4", "/told"]


def _walls(run: Run) -> list[str]:
    words = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
             "--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
             "--clearenv", "--setenv", "LANG", "C.UTF-8", "--hostname", "sandbox"]  # fmt: skip
    words += ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        place = Path("/") / name
        if place.is_symlink():
            words += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            words += ["--ro-bind", str(place), str(place)]
    words += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc", "--dev", "/dev"]
    # The kernel lets root write its settings (core_pattern is one) even without a single capability.
    words += ["--ro-bind", "/proc/sys", "/proc/sys"]
    for folder in _python_places():
        words += ["--ro-bind", folder, folder]
    words += ["--ro-bind", str(ENCODER), "/encoder.py", "--ro-bind", str(run.inputs), "/in"]
    words += ["--bind", str(run.output), "/out.mp4", "--bind", str(run.told), "/told"]
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]


def _python_places() -> list[str]:
    """Name the folders of this Python: its environment, and the interpreter that was made from."""
    found = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    found |= {os.path.realpath(place) for place in found}
    outside = sorted(place for place in found if place != "/usr" and not place.startswith("/usr/"))
    return [p for p in outside if not any(p.startswith(q + "/") for q in outside)]

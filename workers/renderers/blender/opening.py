"""
Open a .blend inside Blender: what goes wrong becomes a refusal, and what Blender says meanwhile is kept to be read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bpy

from workers.renderers.blender.blendfile import Header, read_header
from workers.renderers.blender.refusals import NewerThanRenderer, Unreadable

_READ_LIBRARY = re.compile(r"^Info: Read library:? +'.*', '(?P<spelled>.*)', parent '", re.MULTILINE)
_UNKNOWN_ENGINE = re.compile(r"Engine '(?P<engine>.*)' not available for scene '(?P<scene>.*)' \(")


LOADING_LOG = "loading.log"
"""Where, in the session's folder, Blender's words lie while it opens a scene."""


def open_scene(path: Path, *, scripts: bool) -> str:
    """
    Open a .blend and return what Blender logged about it.

    :raises blendfile.NotABlend: it is none
    :raises NewerThanRenderer: a later Blender wrote it
    :raises Unreadable: Blender cannot make sense of it
    """
    header = read_header(path)
    refuse_newer(path, header)
    log = Path(LOADING_LOG)
    with captured_log(log):
        try:
            bpy.ops.wm.open_mainfile(filepath=str(path), load_ui=False, use_scripts=scripts)
        except RuntimeError as error:
            raise Unreadable(path=path.name, detail=_reason(error)) from error
    return log.read_text(errors="replace")


def refuse_newer(path: Path, header: Header) -> None:
    """
    Let only files of this Blender or an older one pass: a newer file opens with things silently gone.

    :raises NewerThanRenderer: a later Blender wrote it
    """
    if header.version is not None and header.version > bpy.app.version[:2]:
        version = "{}.{}".format(*header.version)
        raise NewerThanRenderer(path=path.name, version=version, reader=bpy.app.version_string)


def _reason(error: RuntimeError) -> str:
    """Take Blender's own words for why a file failed, without the path of this machine."""
    return str(error).strip().rsplit("': ", 1)[-1].rstrip(".")


def unknown_engines(log: str) -> dict[str, str]:
    """Find the scenes whose engine this Blender lacks: it opens them as EEVEE scenes and only the log tells."""
    return {match["scene"]: match["engine"] for match in _UNKNOWN_ENGINE.finditer(log)}


def spelled_libraries(log: str) -> dict[str, str]:
    """Find how the scene spells its libraries' paths: once open, Blender shows them with its own slashes."""
    spelled = (match["spelled"] for match in _READ_LIBRARY.finditer(log))
    return {path.replace("\\", "/"): path for path in spelled if "\\" in path}


@contextmanager
def captured_log(file: Path) -> Iterator[None]:
    """Send what Blender's C code prints to a file, and print it after: should Blender crash, the file still has it."""
    flush()
    outputs = os.dup(1), os.dup(2)
    with file.open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        flush()
        for saved, number in zip(outputs, (1, 2), strict=True):
            os.dup2(saved, number)
            os.close(saved)
        sys.stdout.write(file.read_text(errors="replace"))
        sys.stdout.flush()


def flush() -> None:
    """Write out what Python and C still hold back."""
    sys.stdout.flush()
    sys.stderr.flush()
    _libc().fflush(None)


def print_by_line() -> None:
    """Make C's standard output appear line by line, as on a terminal: a frame's log is read while it renders."""
    import ctypes

    libc = _libc()
    line_buffered = 1
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, line_buffered, 0)


def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None)

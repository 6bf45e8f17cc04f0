"""Tiny OpenJD scripts for the agent's tests."""

from __future__ import annotations

from typing import Any

PNG = """
import struct, sys, zlib
def png(width=64, height=36):
    rows = b"".join(b"\\0" + bytes((x * 3) % 256 for x in range(width * 3)) for _ in range(height))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
"""


def python(text: str, *arguments: str) -> dict[str, Any]:
    """A step script that runs a piece of Python; `png()` is at hand."""
    return _script("python3", PNG + text, arguments)


def shell(text: str, *arguments: str) -> dict[str, Any]:
    return _script("sh", text, arguments)


def _script(command: str, text: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    return {
        "actions": {"onRun": {"command": command, "args": ["{{Task.File.Run}}", *arguments]}},
        "embeddedFiles": [{"name": "Run", "type": "TEXT", "data": text}],
    }


def environment(name: str, *, on_enter: str, on_exit: str = "true") -> dict[str, Any]:
    return {
        "name": name,
        "script": {
            "actions": {
                "onEnter": {"command": "sh", "args": ["-c", on_enter]},
                "onExit": {"command": "sh", "args": ["-c", on_exit]},
            }
        },
    }


RENDER = python('open(f"/out/{sys.argv[1]}.png", "wb").write(png())', "{{Task.Param.Frame}}")
"""Writes one small, good PNG, named after the frame."""

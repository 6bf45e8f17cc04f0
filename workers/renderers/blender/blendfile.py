"""
What the first bytes of a file say: is it a .blend, how is it packed, which Blender wrote it.

Pure, standard library only (a zstd file needs `zstandard`, which Blender brings, to tell its version).
"""

from __future__ import annotations

import gzip
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.renderers.blender.refusals import NoSuchFile, NotABlend, Unreadable

_HEADER = re.compile(rb"BLENDER(?:\d\d-\d\dv(?P<new>\d{4})|[_-][vV](?P<old>\d{3}))")
_LONGEST = 17
_EXTRACT = "upload what is inside it, not the archive"
_EXPORT = "upload the .blend file it belongs to"

_OTHERS = (
    (b"PK\x03\x04", "a zip archive", _EXTRACT),
    (b"PK\x05\x06", "a zip archive", _EXTRACT),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _EXTRACT),
    (b"Rar!", "a rar archive", _EXTRACT),
    (b"BZh", "a bzip2 archive", _EXTRACT),
    (b"\xfd7zXZ", "an xz archive", _EXTRACT),
    (b"Kaydara FBX", "an FBX model", _EXPORT),
    (b"PXR-USDC", "a USD scene", _EXPORT),
    (b"#usda", "a USD scene", _EXPORT),
    (b"glTF", "a glTF model", _EXPORT),
    (b"\x89PNG", "a PNG image", _EXPORT),
    (b"\xff\xd8\xff", "a JPEG image", _EXPORT),
    (b"v/1\x01", "an OpenEXR image", _EXPORT),
)


@dataclass(frozen=True)
class Header:
    """How a .blend file is compressed, and the Blender that wrote it (major, minor); None if that cannot be told."""

    compression: str
    version: tuple[int, int] | None


def read_header(path: Path) -> Header:
    """
    Read what a .blend file says of itself.

    :raises NoSuchFile: it is not there
    :raises NotABlend: it is something else
    :raises Unreadable: it begins like a .blend and breaks off
    """
    if not path.is_file():
        raise NoSuchFile(path=path.name)
    with path.open("rb") as file:
        start = file.read(64)
    if start.startswith(b"\x1f\x8b"):
        return _compressed_header(path, "gzip", _gunzip_start(path))
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return _compressed_header(path, "zstd", _unzstd_start(path))
    version = _version(start)
    if version is None:
        raise _what_else(path.name, start)
    return Header("none", version)


def _compressed_header(path: Path, compression: str, start: bytes | None) -> Header:
    if start is None:
        return Header(compression, None)
    version = _version(start)
    if version is None:
        raise NotABlend(path=path.name, what=f"a {compression} archive", advice=_EXTRACT)
    return Header(compression, version)


def _version(start: bytes) -> tuple[int, int] | None:
    match = _HEADER.match(start)
    if match is None:
        return None
    number = int(match["new"] or match["old"])
    return divmod(number, 100)


def _what_else(name: str, start: bytes) -> NotABlend:
    if not start:
        return NotABlend(path=name, what="empty", advice="save it in Blender once more and upload it again")
    for magic, what, advice in _OTHERS:
        if start.startswith(magic):
            return NotABlend(path=name, what=what, advice=advice)
    return NotABlend(path=name, what="something else", advice="choose the .blend that opens the scene")


def _gunzip_start(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            return file.read(_LONGEST)
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(path=path.name, detail=f"broken gzip data: {error}") from error


def _unzstd_start(path: Path) -> bytes | None:
    try:
        import zstandard
    except ImportError:
        return None
    with path.open("rb") as file:
        try:
            stream: Any = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            return bytes(stream.read(_LONGEST))
        except zstandard.ZstdError as error:
            raise Unreadable(path=path.name, detail=f"broken zstd data: {error}") from error

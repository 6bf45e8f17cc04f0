"""
What a frame's file is called and how it is encoded: from the job's parameters and what the scene says, nothing else.

Pure, standard library only: the farm asks it what to expect, and the renderer, which carries this file inside the
template, obeys it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workers.renderers.blender.refusals import Refusal

AS_SCENE = "SCENE"
MAX_FRAMES = 200_000


@dataclass(frozen=True)
class FileFormat:
    """A still image format: its extension, its name at OpenImageIO, and the bit depths Blender writes."""

    extension: str
    name: str
    depths: tuple[int, ...]


FORMATS = {
    "PNG": FileFormat("png", "png", (8, 16)),
    "OPEN_EXR": FileFormat("exr", "openexr", (16, 32)),
    "OPEN_EXR_MULTILAYER": FileFormat("exr", "openexr", (16, 32)),
    "JPEG": FileFormat("jpg", "jpeg", (8,)),
    "TIFF": FileFormat("tif", "tiff", (8, 16)),
    "WEBP": FileFormat("webp", "webp", (8,)),
    "BMP": FileFormat("bmp", "bmp", (8,)),
    "TARGA": FileFormat("tga", "targa", (8,)),
    "TARGA_RAW": FileFormat("tga", "targa", (8,)),
    "IRIS": FileFormat("rgb", "sgi", (8,)),
    "JPEG2000": FileFormat("jp2", "jpeg2000", (8, 12, 16)),
    "HDR": FileFormat("hdr", "hdr", (32,)),
    "CINEON": FileFormat("cin", "cineon", (10,)),
    "DPX": FileFormat("dpx", "dpx", (8, 10, 12, 16)),
}
"""By Blender's name: the formats a worker can also read back to prove a frame. Movies and the rest become PNG."""

MOVIES = frozenset({"FFMPEG", "AVI_JPEG", "AVI_RAW", "H264", "XVID", "THEORA", "FRAMESERVER"})
MULTILAYER = "OPEN_EXR_MULTILAYER"


class UnknownFormat(Refusal):
    """There is no file format {format}: choose one of {known}."""

    code = "unknown_format"


class ImpossibleDepth(Refusal):
    """{format} cannot hold {depth} bits per channel: choose ColorDepth SCENE or one of {depths}."""

    code = "impossible_depth"


class MalformedFrames(Refusal):
    """{text} is no list of frames such as 1-10,20,30-40:2, or names more than {limit}: write another."""

    code = "malformed_frames"


def resolve_format(wanted: str, *, scene: str) -> str:
    """
    Name the format frames are written in: the wanted one, or the scene's where it can be proved, or PNG.

    :raises UnknownFormat: nobody knows the wanted format
    """
    if wanted == AS_SCENE:
        return scene if scene in FORMATS else "PNG"
    if wanted not in FORMATS:
        raise UnknownFormat(format=wanted, known=", ".join(FORMATS))
    return wanted


def resolve_depth(wanted: str, *, scene: int, file_format: str) -> int:
    """
    Give the bits per channel: the wanted ones, or the scene's, or, where the format lacks those, its most (as Blender).

    :raises ImpossibleDepth: the format cannot hold the wanted depth
    """
    depths = FORMATS[file_format].depths
    if wanted == AS_SCENE:
        return scene if scene in depths else depths[-1]
    if int(wanted) not in depths:
        raise ImpossibleDepth(format=file_format, depth=wanted, depths=", ".join(map(str, depths)))
    return int(wanted)


def resolve_size(scene: Mapping[str, Any], percent: int) -> tuple[int, int] | None:
    """Compute width and height as Blender does, region cropped; None for stereo, whose layout decides."""
    if scene["multiview"]:
        return None
    percent = percent or scene["resolution"]["percent"]
    width, height = scene["resolution"]["x"] * percent // 100, scene["resolution"]["y"] * percent // 100
    region = scene["region"]
    if region is None or not region["crop"]:
        return width, height
    (left, right), (bottom, top) = region["x"], region["y"]
    return int(right * width) - int(left * width), int(top * height) - int(bottom * height)


def frame_name(frame: int, file_format: str) -> str:
    """Name the file of a frame: frame_000001.png, frame_-00005.exr."""
    return f"frame_{frame:06d}.{FORMATS[file_format].extension}"


_RANGE = re.compile(r"\s*(-?\d+)\s*(?:-\s*(-?\d+)\s*(?::\s*(-?\d+)\s*)?)?", re.ASCII)


def parse_frames(text: str) -> list[int]:
    """
    Read an OpenJD range expression ("7", "1-4,9", "10-1:-3") into frames, in its order.

    :raises MalformedFrames: it is none, is empty, or names too many frames
    """
    frames: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise MalformedFrames(text=text, limit=MAX_FRAMES)
        span = _span(*match.groups())
        if not span or len(frames) + len(span) > MAX_FRAMES:
            raise MalformedFrames(text=text, limit=MAX_FRAMES)
        frames.extend(span)
    return frames


def _span(first: str, last: str | None, step: str | None) -> range:
    if last is None:
        return range(int(first), int(first) + 1)
    stride = int(step or 1)
    if stride == 0:
        return range(0)
    return range(int(first), int(last) + (1 if stride > 0 else -1), stride)


def compact_frames(frames: list[int]) -> str:
    """Write ascending frames as briefly as they can be read: 1-4,9."""
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in _runs(frames))


def _runs(frames: list[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for frame in frames:
        if first is None or last is None or frame != last + 1:
            if first is not None and last is not None:
                yield first, last
            first = frame
        last = frame
    if first is not None and last is not None:
        yield first, last

"""
What a movie shows at each place, how it is cut into segments, and when a segment is worth encoding again. Pure.

A place whose frame has no picture holds the picture before it, marked; before the first picture there is a slate.
A segment is encoded once it is whole. Before that it is encoded again only when twice as many of its frames are there
or when it has been out of date for a while, so that a movie of an unfinished job costs little, however long it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction

SEGMENT_FRAMES = 48
ENCODING = "h264-1"  # goes up with every change of the encoder that shows: segments are then made anew
LEAST_PAUSE = timedelta(seconds=60)
PAUSE_PER_SEGMENT = timedelta(seconds=15)
JOIN_PAUSE_PER_SEGMENT = timedelta(seconds=1)
LARGEST_SIDE = 4096

Size = tuple[int, int]


class Mark(StrEnum):
    """What is drawn over a picture that is not the frame's own."""

    NONE = ""
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Proxy:
    """A frame's small picture."""

    digest: str
    key: str
    width: int | None
    height: int | None

    @property
    def size(self) -> Size | None:
        """Its width and height, if they are those of a proxy at all."""
        if not self.width or not self.height or max(self.width, self.height) > LARGEST_SIDE:
            return None
        return self.width, self.height


@dataclass(frozen=True)
class Still:
    """What a movie shows for one frame: a picture, its own or the one held, or nothing but a slate."""

    frame: int
    mark: Mark
    proxy: Proxy | None
    shown: int | None  # the frame whose picture that is


@dataclass(frozen=True)
class Segment:
    """Some places in a row, encoded together. `inputs` changes whenever what is to be seen in it does."""

    index: int
    first: int
    stills: tuple[Still, ...]
    size: Size
    format: str
    inputs: str

    @property
    def own(self) -> int:
        """How many frames are shown by their own picture."""
        return sum(still.mark is Mark.NONE for still in self.stills)

    @property
    def is_whole(self) -> bool:
        return self.own == len(self.stills)


@dataclass(frozen=True)
class Encoded:
    """What is remembered of a segment that was encoded."""

    format: str
    inputs: str
    own: int
    at: datetime


def lay_out(frames: Sequence[int], proxies: Mapping[int, Proxy], unreadable: Collection[str] = ()) -> list[Still]:
    """Say what is shown at each place; `frames` are the job's, in order, `unreadable` digests nobody could open."""
    stills: list[Still] = []
    held: Proxy | None = None
    held_frame: int | None = None
    for frame in frames:
        proxy = proxies.get(frame)
        mark = _mark(proxy, unreadable)
        if mark is Mark.NONE:
            held, held_frame = proxy, frame
        stills.append(Still(frame, mark, held, held_frame))
    return stills


def _mark(proxy: Proxy | None, unreadable: Collection[str]) -> Mark:
    if proxy is None:
        return Mark.MISSING
    return Mark.UNREADABLE if proxy.digest in unreadable or proxy.size is None else Mark.NONE


def picture_size(stills: Sequence[Still]) -> Size | None:
    """Give the size of the first picture: the movie's. None while there is none."""
    return next((still.proxy.size for still in stills if still.mark is Mark.NONE and still.proxy), None)


def odd_ones(stills: Sequence[Still], size: Size) -> list[tuple[int, Size]]:
    """Name the frames whose pictures have another size than the movie."""
    return [
        (still.frame, still.proxy.size)
        for still in stills
        if still.mark is Mark.NONE and still.proxy and still.proxy.size and still.proxy.size != size
    ]


def padded(size: Size) -> Size:
    """Give the size of the encoded picture: H.264 with half the colour resolution has even sides only."""
    return size[0] + size[0] % 2, size[1] + size[1] % 2


def cut(stills: Sequence[Still], *, size: Size, rate: Fraction, encoder: str) -> list[Segment]:
    """Cut a movie into segments; `encoder` names the library and version that makes them."""
    form = f"{ENCODING} {encoder} {size[0]}x{size[1]} {rate.numerator}/{rate.denominator}"
    segments = []
    for index, first in enumerate(range(0, len(stills), SEGMENT_FRAMES)):
        part = tuple(stills[first : first + SEGMENT_FRAMES])
        segments.append(Segment(index, first, part, size, form, _inputs(form, part)))
    return segments


def _inputs(form: str, stills: Sequence[Still]) -> str:
    shown = [[s.frame, s.mark, s.proxy.digest if s.proxy else None, s.shown] for s in stills]
    return hashlib.sha256(json.dumps([form, shown]).encode()).hexdigest()


def encode_at(
    segment: Segment, encoded: Encoded | None, *, segments: int, is_quiet: bool, now: datetime
) -> datetime | None:
    """
    Say when a segment shall be encoded: now, later, or (None) not until something changes.

    `is_quiet`: nothing more is coming for the time being, so that there is nothing to wait for.
    """
    if encoded is None or encoded.format != segment.format:
        return now
    if encoded.inputs == segment.inputs:
        return None
    if is_quiet or segment.is_whole or segment.own >= max(1, 2 * encoded.own):
        return now
    return max(now, encoded.at + max(LEAST_PAUSE, segments * PAUSE_PER_SEGMENT))


def join_at(*, segments: int, last: datetime | None, final: bool, now: datetime) -> datetime:
    """Say when encoded segments shall be joined: at once for the first time and the last, between them now and then."""
    if last is None or final:
        return now
    return max(now, last + segments * JOIN_PAUSE_PER_SEGMENT)

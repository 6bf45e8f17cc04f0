"""Frame ranges as people write them: `1-24`, `1,5,9-12`, `1-100:5`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from farmhand.errors import Refused

MOST = 200_000
_PART = re.compile(r"\s*(-?\d{1,9})(?:\s*-\s*(-?\d{1,9})(?:\s*[:x]\s*(\d{1,9}))?)?\s*")


class BadFrames(Refused):
    """{text!r} is no list of frames: {why}. Write frames such as 1-24, 3,7-9 or 1-100:5."""

    code = "bad-frames"


def parse_frames(text: str) -> list[int]:
    """
    Give the frames a range names, each once, in order.

    :raises BadFrames: it is none, runs backwards, or names too many
    """
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if not match:
            raise BadFrames(text=text, why=f"{part.strip()!r} is neither a frame nor a range")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step:
            raise BadFrames(text=text, why=f"{part.strip()!r} leads nowhere")
        if (last - first) // step >= MOST:
            raise BadFrames(text=text, why=f"{part.strip()!r} has more than {MOST:,} frames")
        found.update(range(first, last + 1, step))
    return sorted(found)


def say_frames(frames: Iterable[int]) -> str:
    """Write frames as short as people do: `1-4,7`."""
    runs: list[list[int]] = []
    for frame in sorted(set(frames)):
        if runs and runs[-1][1] == frame - 1:
            runs[-1][1] = frame
        else:
            runs.append([frame, frame])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)

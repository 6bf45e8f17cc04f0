"""
What looks wrong with frames, told from the statistics that were measured when they were proved. Pure.

Nothing here fails a frame: a black one may be a fade. It is a list for a person to look through.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, pairwise
from statistics import median
from typing import Any

BLACK = 1 / 255  # the brightest value of a black frame
LEAST_JUMP = 0.02  # of brightness, 0..1
RELATIVE_JUMP = 0.25  # of the brightness around
TYPICAL_JUMPS = 6  # times what frames of this series differ from each other


class Kind(StrEnum):
    """What can look wrong with a frame."""

    NAN = "nan"
    TRANSPARENT = "transparent"
    BLACK = "black"
    UNIFORM = "uniform"
    OUTLIER = "outlier"
    SIZE = "size"


SENTENCES = {
    Kind.NAN: "Frame {frame} has {count} pixel values that are no number or infinite.",
    Kind.TRANSPARENT: "Frame {frame} is fully transparent.",
    Kind.BLACK: "Frame {frame} is black.",
    Kind.UNIFORM: "Frame {frame} has one colour everywhere.",
    Kind.OUTLIER: "Frame {frame} has a brightness of {brightness:.3f}; the frames around it {around:.3f}.",
    Kind.SIZE: "Frame {frame} is {width} × {height}; most frames are {usual_width} × {usual_height}.",
}


@dataclass(frozen=True)
class Picture:
    """A frame's file as it was measured. Only pictures of one series are compared with each other."""

    series: Hashable
    frame: int
    task: str
    width: int | None
    height: int | None
    statistics: Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """Something to look at."""

    kind: Kind
    frame: int
    task: str
    params: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        return SENTENCES[self.kind].format(frame=self.frame, **self.params)


def check(pictures: Iterable[Picture]) -> list[Finding]:
    """Look through a job's pictures; the findings are in order of frame."""
    rows = sorted(pictures, key=lambda p: (str(p.series), p.frame))
    found = [finding for picture in rows for finding in _alone(picture)]
    for _, group in groupby(rows, key=lambda p: str(p.series)):
        series = list(group)
        found += _sizes(series)
        found += _outliers(series)
    return sorted(found, key=lambda f: (f.frame, f.kind))


def _alone(picture: Picture) -> list[Finding]:
    """Check one picture by itself; of several words for the same sight the strongest is used."""
    numbers, found = picture.statistics, []
    if broken := _count(numbers.get("nan")) + _count(numbers.get("inf")):
        found.append(_finding(Kind.NAN, picture, count=broken))
    alpha = numbers.get("alpha")
    brightest = max(_values(numbers.get("max")), default=None)
    if isinstance(alpha, Mapping) and alpha.get("covered") == 0:
        found.append(_finding(Kind.TRANSPARENT, picture))
    elif brightest is not None and brightest <= BLACK:
        found.append(_finding(Kind.BLACK, picture))
    elif numbers.get("uniform") is True:
        found.append(_finding(Kind.UNIFORM, picture))
    return found


def _sizes(series: Sequence[Picture]) -> list[Finding]:
    sizes = [(p.width, p.height) for p in series if p.width and p.height]
    if len(set(sizes)) < 2:
        return []
    usual = max(dict.fromkeys(sizes), key=sizes.count)
    return [
        _finding(Kind.SIZE, p, width=p.width, height=p.height, usual_width=usual[0], usual_height=usual[1])
        for p in series
        if p.width and p.height and (p.width, p.height) != usual
    ]


def _outliers(series: Sequence[Picture]) -> list[Finding]:
    """
    Find frames that differ from both their neighbours by far more than neighbours here usually do.

    A cut is none: there a frame is like one of its neighbours.
    """
    lit = [(p, level) for p in series if (level := _brightness(p.statistics)) is not None]
    if len(lit) < 4:
        return []
    levels = [level for _, level in lit]
    jumps = [abs(b - a) for a, b in pairwise(levels)]
    usual = TYPICAL_JUMPS * median(jumps)
    found = []
    for place, (picture, level) in enumerate(lit):
        near = [levels[n] for n in _neighbours(place, len(levels))]
        around = median(near)
        limit = max(LEAST_JUMP, RELATIVE_JUMP * around, usual)
        if min(abs(level - other) for other in near) > limit:
            found.append(_finding(Kind.OUTLIER, picture, brightness=level, around=around))
    return found


def _neighbours(place: int, count: int) -> tuple[int, int]:
    if place == 0:
        return 1, 2
    return (count - 2, count - 3) if place == count - 1 else (place - 1, place + 1)


def _brightness(numbers: Mapping[str, Any]) -> float | None:
    means = _values(numbers.get("mean"))
    if len(means) == 3:
        return 0.2126 * means[0] + 0.7152 * means[1] + 0.0722 * means[2]
    return means[0] if len(means) == 1 else None


def _values(value: object) -> list[float]:
    """Take numbers from what a worker reported; a channel without a single finite pixel has none."""
    return [float(v) for v in value if isinstance(v, int | float)] if isinstance(value, list) else []


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _finding(kind: Kind, picture: Picture, **params: Any) -> Finding:
    return Finding(kind, picture.frame, picture.task, params)

"""
What frames will take that nobody has rendered yet: a wide range, and what it rests on. Pure.

Frames of the same scene say most; how much larger or finer the new ones are is taken from their pixels and samples.
Other frames of the studio say little, and the catalogue alone says only what a frame usually takes. Each step away from
the scene itself widens the range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from farm.dispatch.predicting import Prediction, quantile


class Basis(StrEnum):
    """What a range rests on, the best first."""

    SCENE = "scene"  # frames of the same scene
    STUDIO = "studio"  # frames of other scenes
    CATALOGUE = "catalogue"  # nothing of this studio's: what a frame usually takes


WIDER = {Basis.SCENE: 1.5, Basis.STUDIO: 4.0, Basis.CATALOGUE: 1.0}
WIDER_BY_SPEED = 1.5  # a GPU that rendered none of the frames
WIDER_BY_GUESS = 4.0  # one whose speed nobody measured

# A frame of film and its samples on an NVIDIA L4, in milliseconds. Set by Farmhand: most take seconds to minutes.
USUAL = Prediction(p10=3_000, p50=45_000, p90=600_000, p95=1_200_000)
USUAL_PIXELS = 1920 * 1080
USUAL_SAMPLES = 128
LEAST_MS = 50
MOST_RATIO = 200.0


@dataclass(frozen=True)
class Size:
    """How much there is to draw in a frame; None where nobody knows."""

    pixels: int | None = None
    samples: int | None = None


@dataclass(frozen=True)
class Seen:
    """Frames that were rendered: of which worth, on which class of worker, in how many milliseconds each."""

    basis: Basis
    worker_class: str
    size: Size
    recent_ms: Sequence[int]


@dataclass(frozen=True)
class Wide:
    """A range of one frame, what it rests on, and how many frames that are."""

    basis: Basis
    frames: int
    prediction: Prediction


def foresee(seen: Sequence[Seen], *, worker_class: str, size: Size, speeds: dict[str, float | None]) -> Wide:
    """Foresee one frame of a size on a class of worker, from the best frames there are; `speeds` are relative."""
    for basis in (Basis.SCENE, Basis.STUDIO):
        of_basis = [each for each in seen if each.basis is basis and each.recent_ms]
        same = [each for each in of_basis if each.worker_class == worker_class]
        if chosen := same or of_basis:
            return _from_frames(basis, chosen, worker_class, size, speeds)
    return _from_nothing(worker_class, size, speeds)


def _from_frames(
    basis: Basis, chosen: Sequence[Seen], worker_class: str, size: Size, speeds: dict[str, float | None]
) -> Wide:
    wider = WIDER[basis]
    times: list[int] = []
    for each in chosen:
        ratio = ratio_of(each.size, size)
        if each.worker_class != worker_class:
            faster, more = _speed_ratio(speeds.get(each.worker_class), speeds.get(worker_class))
            ratio, wider = ratio / faster, max(wider, WIDER[basis] * more)
        times += [max(LEAST_MS, round(ms * ratio)) for ms in each.recent_ms]
    return Wide(basis, len(times), _widened(times, wider))


def _from_nothing(worker_class: str, size: Size, speeds: dict[str, float | None]) -> Wide:
    faster, more = _speed_ratio(1.0, speeds.get(worker_class))
    ratio = ratio_of(Size(USUAL_PIXELS, USUAL_SAMPLES), size) / faster
    low, middle, high = USUAL.p10 * ratio / more, USUAL.p50 * ratio, USUAL.p90 * ratio * more
    return Wide(Basis.CATALOGUE, 0, _prediction(low, middle, high))


def ratio_of(known: Size, wanted: Size) -> float:
    """Say how many times as much the wanted frame is to draw; what is unknown of either counts as equal."""
    ratio = 1.0
    for ours, theirs in ((known.pixels, wanted.pixels), (known.samples, wanted.samples)):
        if ours and theirs:
            ratio *= theirs / ours
    return min(MOST_RATIO, max(1 / MOST_RATIO, ratio))


def _speed_ratio(ours: float | None, theirs: float | None) -> tuple[float, float]:
    """Give how much faster another class is, and how much wider the range must be for it."""
    if ours and theirs:
        return theirs / ours, WIDER_BY_SPEED
    return 1.0, WIDER_BY_GUESS


def _widened(times: Sequence[int], wider: float) -> Prediction:
    middle = quantile(times, 0.5)
    wider *= 1 + 0.5 / math.sqrt(len(times))  # few frames know little
    low, high = min(quantile(times, 0.1), middle) / wider, max(quantile(times, 0.9), middle) * wider
    return _prediction(low, middle, high)


def _prediction(low: float, middle: float, high: float) -> Prediction:
    p10, p50, p90 = max(1, math.floor(low)), max(1, round(middle)), max(1, math.ceil(high))
    return Prediction(p10, p50, p90, max(p90, round(p90 * 1.5)))

"""How long a task will take: quantiles from the step's own finished frames. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RECENT = 50
ENOUGH = 5
FIRST_TIMEOUT_S = 6 * 3600
LEAST_TIMEOUT_S = 10 * 60
TIMEOUT_MEDIANS = 5


@dataclass(frozen=True)
class Prediction:
    """Milliseconds of one task."""

    p10: int
    p50: int
    p90: int
    p95: int


def quantile(values: Sequence[int], q: float) -> float:
    """Give the quantile `q` of values by linear interpolation between order statistics (Hyndman & Fan type 7)."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def predict(recent_ms: Sequence[int]) -> Prediction | None:
    """Predict one task from the latest finished ones; None without any. Few frames widen the range."""
    if not recent_ms:
        return None
    # With n frames seen the true quantiles lie further out than theirs: widen by 1 + 0.5/√n on a log scale.
    wider = 1 + 0.5 / math.sqrt(len(recent_ms))
    middle = max(1.0, quantile(recent_ms, 0.5))
    return Prediction(
        p10=math.floor(min(quantile(recent_ms, 0.1), middle) / wider),
        p50=round(middle),
        p90=math.ceil(max(quantile(recent_ms, 0.9), middle) * wider),
        p95=math.ceil(max(quantile(recent_ms, 0.95), middle) * wider),
    )


def timeout_s(recent_ms: Sequence[int], asked: int | None) -> int:
    """Give a task's time limit: what a person asked, else 5 × the median of five or more frames, else 6 hours."""
    if asked:
        return asked
    if len(recent_ms) < ENOUGH:
        return FIRST_TIMEOUT_S
    return max(LEAST_TIMEOUT_S, math.ceil(TIMEOUT_MEDIANS * quantile(recent_ms, 0.5) / 1000))


def queue_depth(p50_ms: int | None) -> int:
    """
    Say how many attempts a slot may hold, the running one included.

    Short frames are queued ahead, so that the slot never waits for the next one: fetching and starting it takes about
    a tenth of a second. Frames of a few seconds are queued two ahead, so that one round with the farm tells of an end,
    of the start after it, and of the frame after that. Frames of a minute and more are not queued: nothing is won, and
    fairness and the tail are lost.
    """
    if p50_ms is None or p50_ms >= 60_000:
        return 1
    if p50_ms >= 5_000:
        return 2
    return 3 if p50_ms >= 1_000 else 6


def expected_ms(task: int, seen: Sequence[tuple[int, int]]) -> float:
    """
    Say how long one task of a step will take, from finished ones as (place in the step, milliseconds).

    Frames are like their neighbours: each weighs by the square of how near it is.
    """
    if not seen:
        return 0.0
    weights = [1 / (1 + abs(place - task)) ** 2 for place, _ in seen]
    return sum(w * ms for w, (_, ms) in zip(weights, seen, strict=True)) / sum(weights)


def scaled(p50_ms: Mapping[str, int], speeds: Mapping[str, float | None]) -> dict[str, int]:
    """
    Give the times of one task on more classes of worker: where none was measured, from the one nearest in speed.

    Classes whose speed nobody knows stay unknown.
    """
    known = [(name, s) for name in p50_ms if (s := speeds.get(name))]
    found = dict(p50_ms)
    for name, speed in speeds.items():
        if name not in found and speed and known:
            like, its = min(known, key=lambda item: (abs(math.log(item[1] / speed)), item[0]))
            found[name] = max(1, round(p50_ms[like] * its / speed))
    return found

"""What all benchmarks share: alternated runs, medians with their spread, and the closing JSON line."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def alternate(runs: Mapping[str, Callable[[], float]], *, times: int) -> dict[str, list[float]]:
    """Run each in turn, A B A B …, so that a machine whose speed drifts is fair to all; give their numbers."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(times):
        for name, run in runs.items():
            found[name].append(run())
            print(f"  {turn + 1}/{times} {name}: {found[name][-1]:.3f}", flush=True)
    return found


def spread(numbers: Sequence[float]) -> str:
    return f"{statistics.median(numbers):.3f} ({min(numbers):.3f} – {max(numbers):.3f})"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Give the median of the ratios of neighbouring runs."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def close(name: str, value: float, *, goal: float, better: str = "lower", also: bool = True, **detail: Any) -> None:
    """Print the last line of a benchmark. `also`: what must hold beside the number for the goal to be met."""
    met = also and (value <= goal if better == "lower" else value >= goal)
    print(
        json.dumps(
            {"name": name, "value": round(value, 3), "goal": goal, "better": better, "met": met, "detail": detail}
        )
    )

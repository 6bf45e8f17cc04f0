"""What is to be rendered: jobs of steps of tasks, made up, read from a file, or handed in from a farm's history."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class StepPlan:
    """A step: how long its tasks really take on a GPU of speed 1, and what the farm believes beforehand."""

    seconds: Sequence[float]
    predicted: Sequence[float] = ()  # (): nothing is known until a task has ended
    setup_s: float = 60.0  # of a slot's first task: open the scene
    after: tuple[int, ...] = ()  # places of steps of the same job that end first


@dataclass(frozen=True)
class JobPlan:
    name: str
    studio: str
    steps: Sequence[StepPlan]
    submitted_s: float = 0.0
    deadline_s: float | None = None  # after the beginning, as `submitted_s`
    priority: int = 50
    project: str = ""
    is_inspection: bool = False

    @property
    def work_s(self) -> float:
        return sum(math.fsum(step.seconds) for step in self.steps)


@dataclass(frozen=True)
class Workload:
    jobs: Sequence[JobPlan]
    weights: Mapping[str, int] = field(default_factory=dict)  # of studios; 100 unless said

    @property
    def tasks(self) -> int:
        return sum(len(step.seconds) for job in self.jobs for step in job.steps)

    @property
    def work_s(self) -> float:
        return sum(job.work_s for job in self.jobs)


def lognormal(rng: random.Random, mean: float, sigma: float) -> float:
    """Draw from a log-normal distribution with this mean."""
    return mean * math.exp(rng.gauss(-sigma * sigma / 2, sigma))


@dataclass(frozen=True)
class Doubt:
    """How wrong the farm's beliefs are: of all of a step's tasks by a common factor, of each by what it was told."""

    bias: float = 0.10  # uniform, ±
    sigma: float = 0.30  # of each hint, log-normal around the truth


def make_step(
    rng: random.Random,
    *,
    tasks: int,
    mean_s: float,
    sigma: float = 0.5,
    setup_s: float = 60.0,
    doubt: Doubt | None = None,
) -> StepPlan:
    """Make up a step of frames with log-normal render times, and what an earlier version of the scene tells of them."""
    doubt = doubt or Doubt()
    bias = 1 + rng.uniform(-doubt.bias, doubt.bias)
    seconds = [lognormal(rng, mean_s, sigma) for _ in range(tasks)]
    hints = [s * bias * math.exp(rng.gauss(0, doubt.sigma)) for s in seconds]
    return StepPlan(seconds, calibrated(hints, mean_s * bias, sigma, doubt.sigma), setup_s)


def calibrated(hints: Sequence[float], mean: float, sigma: float, doubt: float) -> list[float]:
    """
    Give what to expect of each after its hint: hints far from the middle are mostly wrong ones.

    With ln x ~ N(m, σ²) and ln hint = ln x + N(0, ν²): E[x | hint] = exp(m + k (ln hint - m) + σ²(1 - k)/2), where
    k = σ²/(σ² + ν²) (the conditional mean of a bivariate normal).
    """
    if not sigma:
        return [mean] * len(hints)
    middle = math.log(mean) - sigma * sigma / 2
    slope = sigma**2 / (sigma**2 + doubt**2)
    return [math.exp(middle + slope * (math.log(h) - middle) + sigma**2 * (1 - slope) / 2) for h in hints]


def from_csv(path: Path, *, seed: int = 1) -> Workload:
    """
    Read jobs of one step each: job, studio, submitted_s, deadline_s ("" for none), tasks, mean_s and sigma (0.5).

    :raises KeyError: a column is missing
    :raises ValueError: a cell is no number
    """
    rng = random.Random(seed)
    with path.open(newline="", encoding="utf-8") as file:
        return Workload([_read(row, rng) for row in csv.DictReader(file)])


def _read(row: Mapping[str, str], rng: random.Random) -> JobPlan:
    frames = make_step(rng, tasks=int(row["tasks"]), mean_s=float(row["mean_s"]), sigma=float(row.get("sigma") or 0.5))
    return JobPlan(
        name=row["job"],
        studio=row["studio"],
        steps=[frames],
        submitted_s=float(row["submitted_s"]),
        deadline_s=float(row["deadline_s"]) if row["deadline_s"] else None,
    )


def make_workload(*, jobs: int, deadline_s: float, seed: int = 1) -> Workload:
    """Make up jobs of three studios over the first hour, each with a deadline so long after its submission."""
    rng = random.Random(seed)
    found = []
    for number in range(jobs):
        at = rng.uniform(0, 3600)
        step = make_step(rng, tasks=rng.randint(100, 400), mean_s=rng.uniform(60, 600))
        studio = f"Studio {'ABC'[number % 3]}"
        found.append(JobPlan(f"job {number + 1}", studio, [step], submitted_s=at, deadline_s=at + deadline_s))
    return Workload(found)

"""What came of a simulated run: money, deadlines, and what the machines were paid for. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from farm.simulation.engine import HOUR_S, SimJob, SimMachine, Simulation


@dataclass(frozen=True)
class StudioOutcome:
    """A studio's jobs."""

    jobs: int
    unfinished: int
    missed: int  # deadlines
    makespan_s: float  # from its first submission to its last end; of unfinished ones, to the end of the run


@dataclass(frozen=True)
class Outcome:
    """A whole run."""

    usd: float
    machine_s: float  # paid for
    useful_s: float  # of tasks that ended
    load_s: float  # scenes opened for them
    tasks: int
    cold: int  # that had to open the scene
    lost_tasks: int
    launches: int
    lost_machines: int
    studios: Mapping[str, StudioOutcome]

    @property
    def missed(self) -> int:
        return sum(studio.missed for studio in self.studios.values())

    @property
    def utilisation(self) -> float:
        """Give the share of paid machine time in which tasks ran that ended well."""
        return self.useful_s / self.machine_s if self.machine_s else 0.0


def outcome_of(run: Simulation) -> Outcome:
    """Sum up a run that has ended."""
    by_studio: dict[str, list[SimJob]] = defaultdict(list)
    for job in run.jobs:
        by_studio[job.plan.studio].append(job)
    return Outcome(
        usd=sum(paid_usd(machine, run.scenario.start_s) for machine in run.gone),
        machine_s=sum(lived_s(machine) * len(machine.slots) for machine in run.gone),
        useful_s=run.useful_s,
        load_s=run.load_s,
        tasks=run.done,
        cold=run.cold,
        lost_tasks=run.lost_tasks,
        launches=run.launches,
        lost_machines=run.lost_machines,
        studios={name: _studio(jobs, run.now) for name, jobs in sorted(by_studio.items())},
    )


def lived_s(machine: SimMachine) -> float:
    assert machine.ended_s is not None
    return machine.ended_s - machine.launched_s


def paid_usd(machine: SimMachine, start_s: float) -> float:
    """Give what a machine cost from its launch to its end, by the second, at the prices of each moment."""
    zone = machine.pool.zone
    if not machine.pool.is_spot:
        return lived_s(machine) * zone.on_demand_usd / HOUR_S
    assert machine.ended_s is not None
    return zone.spot_usd.area(start_s + machine.launched_s, start_s + machine.ended_s) / HOUR_S


def _studio(jobs: Sequence[SimJob], end_s: float) -> StudioOutcome:
    ends = [end_s if job.ended_s is None else job.ended_s for job in jobs]
    return StudioOutcome(
        jobs=len(jobs),
        unfinished=sum(job.ended_s is None for job in jobs),
        missed=sum(is_late(job) for job in jobs),
        makespan_s=max(ends) - min(job.plan.submitted_s for job in jobs),
    )


def is_late(job: SimJob) -> bool:
    deadline = job.plan.deadline_s
    return deadline is not None and (job.ended_s is None or job.ended_s > deadline)

"""Try policies on work and a market before money is spent on them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from farm.fleet.pools import FleetMarket
from farm.fleet.providers import replay
from farm.fleet.situation import FleetRules
from farm.rehearsals.selectors import past_work
from farm.simulation import markets, policies
from farm.simulation.engine import FleetPlan, Scenario, Simulation, World
from farm.simulation.outcomes import Outcome, outcome_of
from farm.simulation.workloads import Workload, from_csv, make_workload

BAR = 30


class Command(BaseCommand):
    help = (
        "Simulate this farm's policy beside simple ones: cost, deadlines, utilisation, and each studio's makespan. "
        "Work is made up, from a file (job,studio,submitted_s,deadline_s,tasks,mean_s[,sigma]) or this farm's own past."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--work", type=Path, help="a file of jobs; made up unless said")
        parser.add_argument("--past-days", type=float, help="take this farm's jobs of so many last days instead")
        parser.add_argument("--jobs", type=int, default=6, help="how many to make up, of three studios (6)")
        parser.add_argument("--deadline-hours", type=float, default=6.0, help="of those made up (6)")
        parser.add_argument("--counts", type=Path, default=replay.COUNTS, help="a trace of machines by zone")
        parser.add_argument("--prices", type=Path, default=replay.PRICES, help="its prices by region")
        parser.add_argument("--start-hours", type=float, default=0.0, help="where to begin in the trace")
        parser.add_argument("--machines", type=int, default=100, help="at most (100)")
        parser.add_argument("--boot-seconds", type=float, default=180.0)
        parser.add_argument("--policies", help=f"separated by commas, of {', '.join(known())}; all unless said")
        parser.add_argument("--seed", type=int, default=1)

    def handle(self, *args: Any, **options: Any) -> None:
        scenario = self._scenario(options)
        names = options["policies"].split(",") if options["policies"] else list(known())
        if unknown := sorted(set(names) - known().keys()):
            raise CommandError(f"There is no policy {unknown[0]!r}; there are {', '.join(known())}.")
        outcomes = {}
        for place, name in enumerate(names):
            progress = Progress(self.stderr, name, scenario.workload.tasks, begun=place, of=len(names))
            outcomes[name] = run(scenario, known()[name], seed=options["seed"], progress=progress)
        for line in table(outcomes):
            self.stdout.write(line)

    def _scenario(self, options: Mapping[str, Any]) -> Scenario:
        workload = self._workload(options)
        if not workload.jobs:
            raise CommandError("There is no work: nothing was rendered in that time.")
        market = markets.from_counts(options["counts"], options["prices"])
        rules = FleetRules(0, options["machines"], timedelta(0), False, FleetMarket.SPOT_OR_ON_DEMAND)
        return Scenario(
            workload=workload,
            market=market,
            fleets=[FleetPlan("rehearsal", tuple(market.zones), rules)],
            world=World(boot_s=options["boot_seconds"]),
            start_s=options["start_hours"] * 3600,
            until_s=market.ends_s,
        )

    def _workload(self, options: Mapping[str, Any]) -> Workload:
        if options["past_days"]:
            now = timezone.now()
            return past_work(since=now - timedelta(days=options["past_days"]), until=now)
        if options["work"]:
            try:
                return from_csv(options["work"], seed=options["seed"])
            except (OSError, ValueError, KeyError) as error:
                raise CommandError(f"{options['work']} is no file of jobs: {error!r}") from error
        return make_workload(jobs=options["jobs"], deadline_s=options["deadline_hours"] * 3600, seed=options["seed"])


def known() -> dict[str, policies.Make]:
    return {"farm": policies.the_farms, **policies.MAKERS}


class Progress:
    """A bar on the terminal, over all policies; nothing where nobody looks."""

    def __init__(self, out: Any, name: str, tasks: int, *, begun: int, of: int) -> None:
        self.out, self.name, self.tasks, self.begun, self.of = out, name, tasks, begun, of
        self.is_seen = bool(getattr(out, "isatty", lambda: False)())
        self.told_at = 0.0

    def __call__(self, done: int) -> None:
        if not self.is_seen or (time.monotonic() - self.told_at < 0.1 and done < self.tasks):
            return
        self.told_at = time.monotonic()
        share = (self.begun + done / max(1, self.tasks)) / self.of
        bar = "#" * round(share * BAR)
        end = "\n" if share >= 1 else ""
        self.out.write(f"\r[{bar:<{BAR}}] {share:4.0%}  {self.name:<24}", ending=end)
        self.out.flush()


def run(scenario: Scenario, make: policies.Make, *, seed: int, progress: Progress) -> Outcome:
    policy = make()
    simulation: Simulation

    def watched(snapshot: Any, now: Any) -> Any:
        progress(simulation.done)
        return policy(snapshot, now)

    simulation = Simulation(scenario, watched, seed=seed)
    simulation.run()
    progress(simulation.done)
    return outcome_of(simulation)


def table(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Lay out a line for each policy, with the makespan of each studio."""
    studios = sorted({name for outcome in outcomes.values() for name in outcome.studios})
    yield f"{'policy':24}{'cost $':>10}{'missed':>8}{'used':>7}{'lost':>6}{'machines':>10}" + "".join(
        f"{name[:14]:>16}" for name in studios
    )
    for name, found in outcomes.items():
        spans = "".join(f"{clock(found.studios[s].makespan_s):>16}" for s in studios)
        yield (
            f"{name:24}{found.usd:10.2f}{found.missed:8d}{found.utilisation:7.0%}{found.lost_tasks:6d}"
            f"{found.launches:10d}{spans}"
        )


def clock(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02d} h"

"""
Scale-out: 500 machines run, work for 2,000 arrives. How long until 95 % of the capacity is there, ÷ the bound.

The real code decides, asks EC2 through boto3 and HTTP, keeps its rows in PostgreSQL and audits; the other side is the
fault server with EC2's own limits: 1,000 instances at once, then two a second in a region, a bucket for each kind of
call. Boots take 90 s in the median (log-normal), one in a hundred never comes up. Answers are lost after the work was
done, calls are throttled, one pool is sold out early. Only idle time is skipped: while the farm works, the server's
clock runs as the wall's does.

The bound launches as fast as the API allows and boots the same machines in the same times, without any fault.
Afterwards, time goes on until nothing changes: no machine may run that no worker is, and no launch may have been done
twice. `RUNS` and `MACHINES` shrink it for a first look.
"""

from __future__ import annotations

import logging
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parents[2]
RUNS = int(os.environ.get("RUNS", "3"))
MACHINES = int(os.environ.get("MACHINES", "2000"))
BEFORE = MACHINES // 4
SHARE = 0.95
BOOT_S, SPREAD, NEVER = 90.0, 0.25, 0.01
FAULTS = 0.2  # of passes, while it grows
WORTH = 10  # tasks for each machine that is to come, so that the policy finds it worth its start-up
PASS_S, AUDIT_S = 5.0, 30.0
START = datetime(2026, 12, 1, tzinfo=UTC)
TYPES = ("g6.xlarge", "g5.xlarge", "g4dn.xlarge")


class Clock:
    """Runs with the wall while the farm works, and is moved on when it waits."""

    def __init__(self, at: float) -> None:
        self.at = at
        self._since: float | None = None

    def __call__(self) -> float:
        return self.at + (time.perf_counter() - self._since if self._since is not None else 0)

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self())

    @contextmanager
    def working(self) -> Iterator[None]:
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self.at, self._since = self(), None


def boots(seed: int, *, never: float = NEVER) -> Iterator[float]:
    """Give how long one machine after the other takes to boot; infinity: it never does."""
    rng = random.Random(seed)
    while True:
        boot = rng.lognormvariate(0, SPREAD) * BOOT_S
        yield float("inf") if rng.random() < never else boot


def bound(seed: int, regions: int) -> float:
    """Give the seconds until enough are there, launched as fast as the API allows."""
    more, bucket = MACHINES - BEFORE, 1000 * regions
    starts = (max(0.0, (number - bucket) / (2.0 * regions)) for number in range(1, more + 1))
    comes = sorted(start + boot for start, boot in zip(starts, boots(seed), strict=False))
    return comes[needed() - 1]


def needed() -> int:
    """How many of the new machines make it 95 %."""
    return round(SHARE * MACHINES) - BEFORE


class Run:
    """A farm that is asked to grow, in one or two regions."""

    def __init__(self, number: int, seed: int, regions: int) -> None:
        from tests.cloud.ec2_server import Cloud, Ec2Server

        self.clock = Clock(number * 1e6)  # long after the run before
        self.rng = random.Random(seed)
        self.seed, self.number = seed, number
        self.regions = [f"us-east-{n + 1}" for n in range(regions)]
        self.cloud = Cloud(clock=self.clock)
        self.server = Ec2Server(self.cloud)
        self.boots = boots(seed + 1000, never=0)
        self.boot_s: dict[str, float] = {}
        self.registered: set[str] = set()
        self.decided_s: list[float] = []
        self.passes_s: list[float] = []
        self.has_faults = False

    def measure(self) -> float:
        """Grow to a quarter, then to the whole; give the seconds until enough of the new machines are there."""
        self.prepare()
        self.allow(BEFORE)
        self.want(BEFORE)
        self.until(BEFORE)
        self.clock.at += 1000  # the buckets are full again
        self.allow(MACHINES)
        self.boots, self.has_faults = boots(self.seed), True
        began = self.clock()
        self.want(MACHINES - BEFORE)
        self.until(BEFORE + needed())
        return self.clock() - began

    # --- the farm

    def prepare(self) -> None:
        """Put the run before away, and open a fleet in each region."""
        from farm.fleet.models import Farm, Fleet, Launch, Pool, Worker
        from farm.fleet.providers import provider
        from farm.fleet.selectors import the_farm
        from farm.fleet.supply import refresh_pools
        from farm.jobs.models import Job
        from tests.farm import local_fleet, open_customer

        os.environ.update(self.server.environment)
        provider.cache_clear()
        the_farm()
        Farm.objects.update(
            max_machines=None, max_launches_per_hour=None, max_micro_per_hour=None, max_micro_per_day=None
        )
        Worker.objects.update(status="gone")
        Launch.objects.update(forgotten_at=self.clock.now, status="answered")
        Pool.objects.all().delete()
        Job.objects.update(status="cancelled")
        Fleet.objects.update(is_paused=True, provider="local", region="over", max_machines=0)
        local_fleet(max_machines=0)
        for name in self.regions:
            Fleet.objects.create(
                name=f"{name} {self.number}", provider="ec2", region=name, purposes=["render"], market="spot",
                instance_types=list(TYPES), sharing="studio",
                settings={"image": "ami-0123456789abcdef0"},
            )  # fmt: skip
        with self.clock.working():
            for fleet in Fleet.objects.filter(provider="ec2"):
                refresh_pools(fleet, now=self.clock.now)
        self.customer = open_customer(f"Studio {self.number}")
        self.customer.project.machine_regions = self.regions
        self.customer.project.save(update_fields=["machine_regions"])

    def allow(self, machines: int) -> None:
        """Each region gets its part: fleets that could do the same work would each want all of it."""
        from farm.fleet.models import Fleet

        Fleet.objects.filter(provider="ec2").update(max_machines=machines // len(self.regions))

    def want(self, tasks: int) -> None:
        from tests.farm import submit

        submit(self.customer, frames=f"1-{tasks * WORTH}", now=self.clock.now)

    def until(self, enough: int) -> None:
        """Let the farm's beat run until so many have registered; between its passes, machines boot."""
        next_audit = self.clock() + AUDIT_S
        while len(self.registered) < enough:
            self.one_pass()
            if self.clock() >= next_audit:
                self.audit()
                next_audit = self.clock() + AUDIT_S
            tick = (self.clock.at // PASS_S + 1) * PASS_S
            self.arrive(until=tick, enough=enough)

    def one_pass(self) -> None:
        from farm.dispatch.reconcilers import provide
        from farm.fleet.launches import settle_launches

        if self.has_faults and self.rng.random() < FAULTS:
            self.hurt()
        self.cloud.asked_at.clear()
        began = time.perf_counter()
        with self.clock.working():
            provide(now=self.clock.now)
            self.passes_s.append(time.perf_counter() - began)
            settle_launches(now=self.clock.now)
        if self.cloud.asked_at:
            self.decided_s.append(self.cloud.asked_at[0] - began)

    def audit(self) -> None:
        from farm.fleet.audits import audit

        with self.clock.working():
            for name in self.regions:
                audit("ec2", name, now=self.clock.now)

    def hurt(self) -> None:
        """Order the next fault."""
        fault = self.rng.choice(["lost", "broken", "throttled", "sold out"])
        if fault == "sold out":
            self.cloud.capacity[TYPES[0], f"{self.rng.choice(self.regions)}a", "spot"] = 150
        elif fault == "throttled":
            self.cloud.throttled["CreateFleet"] = 1
        else:
            getattr(self.cloud, fault)["CreateFleet"] = 2  # one more than boto3 asks again by itself

    # --- the machines

    def arrive(self, *, until: float, enough: int) -> None:
        """Register machines whose boot is over before the next pass, one after the other, as time goes on."""
        due = []
        for instance in self.cloud.live():
            boot = self.boot_s.setdefault(instance.id, -1.0)
            if boot < 0:
                boot = self.boot_s[instance.id] = next(self.boots)
            if instance.id not in self.registered and instance.launched_at + boot <= until:
                due.append((instance.launched_at + boot, instance.id))
        for at, name in sorted(due):
            self.clock.at = max(self.clock.at, at)
            self.register(name)
            if len(self.registered) >= enough:
                return
        self.clock.at = max(self.clock.at, until)

    def register(self, name: str) -> None:
        from farm.fleet.services import UnknownSecret, register
        from tests.fleet.registering import introduction

        script = self.cloud.instances[name].user_data
        secret = next(line for line in script.splitlines() if line.startswith("BOOT_SECRET=")).partition("=")[2]
        try:
            register(introduction(secret.strip("'"), machine_id=name, boot_id=name), now=self.clock.now)
        except UnknownSecret:
            return  # it will power itself off, as one that may not come in does
        self.registered.add(name)

    # --- afterwards

    def settle(self) -> tuple[int, int]:
        """Let an hour pass; give how many machines no worker is, and how many were launched beyond their launch."""
        from farm.fleet.launches import settle_launches
        from farm.fleet.models import Fleet, Launch, Worker

        Fleet.objects.update(is_paused=True)
        self.has_faults = False
        for _ in range(12):
            with self.clock.working():
                settle_launches(now=self.clock.now)
            self.audit()
            self.arrive(until=self.clock.at + 300, enough=sys.maxsize)
        known = set(Worker.objects.exclude(status="gone").values_list("machine_id", flat=True))
        orphans = [i.id for i in self.cloud.live() if i.id not in known]
        per_launch = Counter(i.tags["farmhand:launch"] for i in self.cloud.instances.values())
        asked = {str(row.id): row.count for row in Launch.objects.all()}
        return len(orphans), sum(max(0, count - asked.get(launch, 0)) for launch, count in per_launch.items())


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "farm.settings")
    subprocess.run([sys.executable, ROOT / "manage.py", "migrate", "--verbosity=0"], check=True)
    django.setup()
    logging.disable(logging.ERROR)  # the faults are ordered
    import farm.celery  # noqa: F401  (makes it the current app)
    from tests.benchmarks.measure import close, spread

    found: dict[int, list[float]] = {1: [], 2: []}
    decided: list[float] = []
    passes: list[float] = []
    orphans = doubles = unheard = 0
    for number in range(2 * RUNS):
        seed, regions = 1 + number // 2, 1 + number % 2
        run = Run(number + 1, seed, regions)
        took, limit = run.measure(), bound(seed, regions)
        found[regions].append(took / limit)
        decided += run.decided_s
        passes += run.passes_s
        stray, double = run.settle()
        run.server.close()
        orphans, doubles, unheard = orphans + stray, doubles + double, unheard + run.cloud.unheard
        print(
            f"  seed {seed}, {regions} region(s): {took:.1f} s, bound {limit:.1f} s, ratio {took / limit:.3f}; orphans "
            f"{stray}, double launches {double}, answers lost {run.cloud.unheard}, refused {dict(run.cloud.refused)}",
            flush=True,
        )
    value = statistics.median(found[1])
    print(f"{BEFORE} → {MACHINES} machines, time to {SHARE:.0%} ÷ bound: one region {spread(found[1])}, ", end="")
    print(f"two regions {spread(found[2])}")
    print(f"seconds from a pass's begin to its first call at EC2 {spread(decided)}, whole passes {spread(passes)}")
    close(
        "scale-out", value, goal=1.10, machines=MACHINES, runs=RUNS, one_region=spread(found[1]),
        two_regions=spread(found[2]), decision_s=spread(decided), decision_goal_s=1.0,
        decision_met=max(decided) <= 1.0, orphans=orphans, double_launches=doubles, answers_lost=unheard,
    )  # fmt: skip
    if orphans or doubles:
        sys.exit(1)


if __name__ == "__main__":
    main()

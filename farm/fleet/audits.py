"""Our rows against the provider's machines, both ways: what nobody knows is ended, what is gone is gone."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from farm.fleet.decisions import record
from farm.fleet.launches import bind, give_up
from farm.fleet.models import Fleet, Launch, Worker
from farm.fleet.moves import LIVE_WORKERS, PRESENT_WORKERS, STARTING_WORKERS, LaunchStatus
from farm.fleet.providers import Machine, provider
from farm.fleet.selectors import the_farm
from farm.fleet.services import end_workers
from farm.fleet.spending import pay_up

logger = logging.getLogger(__name__)

LATE = timedelta(minutes=10)  # beyond its lifetime, for a machine that should have ended itself


@dataclass
class Audit:
    """One provider's machines in one region, and the workers that should be them."""

    provider: str
    region: str
    now: datetime
    gone: list[UUID] = field(default_factory=list)

    @property
    def where(self) -> str:
        return f"{self.provider} in {self.region}"

    @property
    def lag(self) -> timedelta:
        return provider(self.provider, self.region).lag

    @property
    def workers(self) -> list[Worker]:
        mine = {"fleet__provider": self.provider, "fleet__region": self.region}
        return list(Worker.objects.filter(**mine, status__in=PRESENT_WORKERS).select_related("fleet", "launch"))

    def run(self) -> list[UUID]:
        """Compare; give the workers that turned out to be gone."""
        machines = provider(self.provider, self.region).machines(the_farm().id)
        self._bind(machines)
        self._give_up_lost()
        workers = self.workers
        self._end_strangers(machines, {w.machine_id for w in workers})
        self._end_missing(machines, workers)
        pay_up(now=self.now)
        return self.gone

    def _bind(self, machines: Sequence[Machine]) -> None:
        """Machines of launches whose answer was lost become their workers'."""
        known = set(Worker.objects.filter(machine_id__in=[m.id for m in machines]).values_list("machine_id", flat=True))
        by_launch: dict[str, list[Machine]] = defaultdict(list)
        for machine in machines:
            if machine.id not in known and machine.launch:
                by_launch[machine.launch].append(machine)
        for row in Launch.objects.filter(pk__in=[i for i in by_launch if _is_id(i)]):
            bind(row, by_launch[str(row.id)], now=self.now)

    def _give_up_lost(self) -> None:
        """What a launch that was never answered has not brought by now, it will not bring."""
        mine = {"fleet__provider": self.provider, "fleet__region": self.region}
        for row in Launch.objects.filter(**mine, status=LaunchStatus.LOST, forgotten_at=None):
            give_up(row)

    def _end_strangers(self, machines: Sequence[Machine], known: set[str]) -> None:
        """End what carries our name and is no present worker's: launched too often, or of a worker that is gone."""
        strangers = [m for m in machines if m.id not in known or not m.is_running]
        if not strangers:
            return
        ids = [m.id for m in strangers]
        logger.warning("%s: ending %d machines that no worker is: %s", self.where, len(ids), ids[:20])
        provider(self.provider, self.region).terminate(ids)
        fleet = Fleet.objects.filter(provider=self.provider, region=self.region).order_by("created_at").first()
        if fleet is not None:
            launches = sorted({m.launch for m in strangers})
            record(fleet, "end", "no worker is this machine", count=len(ids), machines=ids[:20], launches=launches[:20])

    def _end_missing(self, machines: Sequence[Machine], workers: Sequence[Worker]) -> None:
        there = {m.id for m in machines if m.is_running}
        reasons: dict[str, list[Worker]] = defaultdict(list)
        for worker in workers:
            if reason := self._verdict(worker, is_there=worker.machine_id in there):
                reasons[reason].append(worker)
        for reason, ended in reasons.items():
            self._end(ended, reason)

    def _verdict(self, worker: Worker, *, is_there: bool) -> str:
        """Say why a worker has to go; "" when it may stay."""
        age = self.now - worker.requested_at
        if not is_there and age > self.lag and not self._may_still_come(worker) and not self._was_heard_of(worker):
            return "its machine is gone"
        if worker.status in STARTING_WORKERS and age > timedelta(seconds=worker.fleet.boot_timeout_s):
            return "it never registered"
        if age > timedelta(seconds=worker.fleet.max_life_s) + LATE:
            return "it outlived its fleet's limit"
        return ""

    def _may_still_come(self, worker: Worker) -> bool:
        """The launch is still being asked for."""
        return not worker.machine_id and worker.launch is not None and worker.launch.status == LaunchStatus.ASKED

    def _was_heard_of(self, worker: Worker) -> bool:
        """Who spoke so lately is there, whatever the provider's list says."""
        return worker.last_seen_at is not None and self.now - worker.last_seen_at < self.lag

    def _end(self, workers: Sequence[Worker], reason: str) -> None:
        if reason == "its machine is gone":
            taken = [w.id for w in workers if w.status in LIVE_WORKERS and w.market == "spot"]
            Worker.objects.filter(pk__in=taken).update(was_taken_back=True)
        by_fleet: dict[Fleet, list[UUID]] = defaultdict(list)
        for worker in workers:
            by_fleet[worker.fleet].append(worker.id)
            self.gone.append(worker.id)
        for fleet, ids in by_fleet.items():
            end_workers(fleet, ids, reason=reason, now=self.now)


def audit(provider_name: str, region: str, *, now: datetime) -> list[UUID]:
    """
    Compare our workers with a provider's machines in a region, both ways; give the workers that turned out to be gone.

    A machine that is no present worker's is ended; a worker without a machine is gone; one that did not register in
    time, or lives too long, is ended.

    :raises ProviderError: the provider does not tell
    """
    return Audit(provider_name, region, now).run()


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True

"""What the scaling policy sees of the farm: work that waits, machines that are there, pools and what they answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection

from farm.dispatch.matching import StepDemand
from farm.dispatch.predicting import predict, scaled
from farm.fleet import supply
from farm.fleet.catalogue import speed
from farm.fleet.models import Fleet, Pool, Worker
from farm.fleet.moves import PRESENT_WORKERS, WorkerStatus
from farm.fleet.pools import Market, PoolKey
from farm.fleet.requirements import shortfall
from farm.fleet.scaling import Snapshot
from farm.fleet.selectors import Offer
from farm.fleet.services import rules_of
from farm.fleet.situation import UNKNOWN_TASK_S, Busy, Demand, FleetView, MachineStatus, MachineView, PoolView
from farm.jobs.moves import Purpose

DAY = timedelta(hours=24)
BOOT_S, LOCAL_BOOT_S = 120.0, 3.0
READ = (
    "id", "status", "studio_id", "machine_id", "instance_type", "zone", "market", "slots", "requested_at", "idle_since",
    "launch__pools",
)  # fmt: skip
STATUS = {
    WorkerStatus.REQUESTED: MachineStatus.STARTING,
    WorkerStatus.BOOTING: MachineStatus.STARTING,
    WorkerStatus.READY: MachineStatus.READY,
    WorkerStatus.DRAINING: MachineStatus.LEAVING,
}

_BUSY = """
SELECT a.worker_id, a.step_id, min(coalesce(a.started_at, a.claimed_at)), max(p.recent_ms)
  FROM dispatch_attempt a LEFT JOIN dispatch_pace p ON p.step_id = a.step_id AND p.worker_class = a.worker_class
 WHERE a.status IN ('assigned', 'started') GROUP BY a.worker_id, a.slot, a.step_id
"""

# Of each pool's machines in the last 24 hours: how many the cloud took back, and for how long they were there in all.
_FATES = """
SELECT f.provider, f.region, w.instance_type, w.zone, w.market, count(*) FILTER (WHERE w.was_taken_back),
       sum(extract(epoch FROM coalesce(w.gone_at, %(now)s) - greatest(w.requested_at, %(since)s))) / 3600
  FROM fleet_worker w JOIN fleet_fleet f ON f.id = w.fleet_id
 WHERE w.machine_id <> '' AND (w.status <> 'gone' OR w.gone_at > %(since)s) GROUP BY 1, 2, 3, 4, 5
"""

Fate = tuple[float, float]  # machines taken back, machine-hours


@dataclass(frozen=True)
class _Known:
    """What is asked once for all fleets."""

    now: datetime
    busy: Mapping[UUID, Sequence[Busy]]  # by worker
    fates: Mapping[tuple[str, str, PoolKey], Fate]


def look(fleets: Sequence[Fleet], demand: Iterable[StepDemand], offered: Sequence[Offer], *, now: datetime) -> Snapshot:
    """Look at these fleets and at what they could run."""
    known = _Known(now, _busy(), _fates(now))
    return Snapshot(
        demand=[d for d in (_demand(step, fleets, offered) for step in demand) if d.fleets],
        fleets=[_fleet(row, [o for o in offered if o.fleet == row.name], known) for row in fleets],
    )


# --- work


def _demand(step: StepDemand, fleets: Sequence[Fleet], offered: Sequence[Offer]) -> Demand:
    able = [o for o in offered if step.purpose in o.purposes and shortfall(step.requirements, o.capabilities) is None]
    names = {o.fleet for o in able}
    return Demand(
        step=step.step,
        studio=step.studio,
        fleets=frozenset(f.id for f in fleets if f.name in names and _is_open(f, step)),
        ready=step.ready,
        deadline=step.deadline,
        seconds=seconds_on({o.worker_class for o in able}, step.p50_ms),
        is_urgent=step.purpose == Purpose.INSPECTION,
    )


def _is_open(fleet: Fleet, step: StepDemand) -> bool:
    """Say whether a fleet serves the step's studio, where its project's machines may run."""
    is_theirs = not fleet.studios or step.studio in fleet.studios
    return is_theirs and (not step.regions or fleet.region in step.regions)


def seconds_on(classes: Iterable[str], p50_ms: Mapping[str, int]) -> dict[str, float]:
    """Give the seconds of a task by class of worker: measured there, else scaled by speed, else like the slowest."""
    names = set(classes)
    known = scaled(p50_ms, {name: speed(name) for name in names | p50_ms.keys()})
    usual = max(p50_ms.values()) / 1000 if p50_ms else UNKNOWN_TASK_S
    return {name: known[name] / 1000 if name in known else usual for name in names}


# --- machines


def _busy() -> dict[UUID, list[Busy]]:
    """Give the tasks at work by worker, with how long each is expected to take."""
    found: dict[UUID, list[Busy]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_BUSY)
        for worker, step, since, recent in cursor.fetchall():
            known = predict(recent) if recent else None
            found[worker].append(Busy(step, since, known.p50 / 1000 if known else UNKNOWN_TASK_S))
    return found


def _fates(now: datetime) -> dict[tuple[str, str, PoolKey], Fate]:
    with connection.cursor() as cursor:
        cursor.execute(_FATES, {"now": now, "since": now - DAY})
        return {
            (provider, region, PoolKey(kind, zone, Market(market))): (float(lost), max(0.0, float(hours or 0)))
            for provider, region, kind, zone, market, lost, hours in cursor.fetchall()
        }


def _machine(worker: Worker, known: _Known) -> MachineView:
    pool = PoolKey(worker.instance_type, worker.zone, Market(worker.market))
    if not worker.machine_id and worker.launch and worker.launch.pools:  # asked for: most likely of the first pool
        kind, zone, market = worker.launch.pools[0]
        pool = PoolKey(kind, zone, Market(market))
    slots = max(1, len(worker.slots))
    return MachineView(
        id=worker.id,
        pool=pool,
        status=STATUS[WorkerStatus(worker.status)],
        requested_at=worker.requested_at,
        slots=slots,
        busy=tuple(known.busy.get(worker.id, ())[:slots]),
        idle_since=worker.idle_since,
        studio=worker.studio_id,
        worker_class=worker.worker_class if worker.slots else "",
    )


# --- pools


def _fleet(row: Fleet, offered: Sequence[Offer], known: _Known) -> FleetView:
    present = Worker.objects.filter(fleet=row, status__in=PRESENT_WORKERS).select_related("launch").order_by("pk")
    present = present.only(*READ)
    return FleetView(
        id=row.id,
        rules=rules_of(row),
        pools=[_pool(row, pool, offered, known) for pool in supply.pools_of(row, now=known.now)],
        machines=[_machine(worker, known) for worker in present],
        shares_machines=row.sharing == "farm",
    )


def _pool(row: Fleet, pool: Pool, offered: Sequence[Offer], known: _Known) -> PoolView:
    key = supply.key_of(pool)
    lost, hours = known.fates.get((row.provider, row.region, key), (0.0, 0.0))
    only = offered[0].worker_class if len({o.worker_class for o in offered}) == 1 else None
    is_local = row.provider == "local"
    return PoolView(
        key=key,
        worker_class=(only if only and (is_local or not pool.gpu) else pool.gpu) or "cpu",
        slots=pool.slots,
        price_micro=0 if is_local else pool.price_micro,
        on_demand_micro=pool.on_demand_micro,
        boot_s=LOCAL_BOOT_S if is_local else BOOT_S,
        refused_until=pool.refused_until,
        refused_at=pool.refused_at,
        granted_at=pool.granted_at,
        refusals=pool.refusals,
        granted=pool.granted,
        refused=pool.refused,
        lost=lost,
        machine_hours=hours,
    )

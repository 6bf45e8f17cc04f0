"""
The simulated farm: jobs come, machines are bought, boot, work, are taken back; the pure rules decide who works on what
and what is bought. Events in a heap; nothing happens between them. Seconds count from the beginning.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

from farm.dispatch.matching import Slot, StepDemand, match
from farm.dispatch.predicting import RECENT, predict
from farm.dispatch.turns import Shares
from farm.fleet.pools import HALF_LIFE, MARKETS, Market, PoolKey, wait_after
from farm.fleet.requirements import Capabilities, Requirements
from farm.fleet.situation import (
    Busy,
    Decision,
    Demand,
    FleetRules,
    FleetView,
    MachineStatus,
    MachineView,
    PoolView,
    Snapshot,
)
from farm.simulation.markets import Market as Trace
from farm.simulation.markets import Zone
from farm.simulation.queues import TaskQueue
from farm.simulation.workloads import JobPlan, StepPlan, Workload, lognormal

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
MICRO = 1_000_000
HOUR_S = 3600.0

Policy = Callable[[Snapshot, datetime], Mapping[UUID, Decision]]


def moment(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


@dataclass(frozen=True)
class FleetPlan:
    name: str
    zones: tuple[str, ...]
    rules: FleetRules
    shares_machines: bool = True


@dataclass(frozen=True)
class World:
    """What surrounds the farm: times it takes, and what goes wrong."""

    boot_s: float = 180.0
    boot_sigma: float = 0.0  # log-normal
    never_boots: float = 0.0  # share of machines
    boot_timeout_s: float = 900.0
    notice_s: float = 0.0  # before a spot machine is taken back
    on_demand_refused: float = 0.0  # share of askings
    pass_s: float = 60.0  # between a policy's passes
    again_s: float = 5.0  # after one that was refused something, or lost something


@dataclass(frozen=True)
class Scenario:
    workload: Workload
    market: Trace
    fleets: Sequence[FleetPlan]
    world: World = field(default_factory=World)
    start_s: float = 0.0  # into the trace
    until_s: float = math.inf  # after the beginning: given up


@dataclass(slots=True)
class SimSlot:
    machine: SimMachine
    index: int
    step: SimStep | None = None  # in memory
    task: int | None = None
    since_s: float = 0.0
    load_s: float = 0.0
    run: int = 0  # goes up with each task, so that an end of an earlier one is known as such


@dataclass(slots=True, eq=False)
class SimMachine:
    id: UUID
    pool: SimPool
    launched_s: float
    slots: list[SimSlot] = field(default_factory=list)
    status: MachineStatus = MachineStatus.STARTING
    ended_s: float | None = None
    idle_s: float | None = None  # since when all its slots are idle
    studio: UUID | None = None
    useful_s: float = 0.0  # of ended tasks
    view: MachineView | None = None  # as it was when it last changed

    @property
    def is_idle(self) -> bool:
        return all(slot.task is None for slot in self.slots)


@dataclass(slots=True, eq=False)
class SimPool:
    key: PoolKey
    zone: Zone
    fleet: int
    machines: list[SimMachine] = field(default_factory=list)
    granted: float = 0.0
    refused: float = 0.0
    counted_s: float = 0.0
    granted_s: float | None = None
    refused_s: float | None = None
    refusals: int = 0
    refused_until_s: float | None = None
    lost: int = 0
    machine_s: float = 0.0
    machine_at_s: float = 0.0

    @property
    def is_spot(self) -> bool:
        return self.key.market is Market.SPOT

    def pass_time(self, now: float) -> None:
        """Count machine-seconds; call before machines come or go."""
        self.machine_s += len(self.machines) * (now - self.machine_at_s)
        self.machine_at_s = now

    def remember(self, granted: int, missing: int, now: float) -> None:
        """Note an answer as the product's pools do."""
        fade = 0.5 ** ((now - self.counted_s) / HALF_LIFE.total_seconds())
        self.granted, self.refused, self.counted_s = self.granted * fade + granted, self.refused * fade + missing, now
        if granted:
            self.granted_s, self.refusals, self.refused_until_s = now, 0, None
        if missing:
            self.refusals += 1
            self.refused_s, self.refused_until_s = now, now + wait_after(self.refusals).total_seconds()


@dataclass(slots=True, eq=False)
class SimStep:
    id: UUID
    job: SimJob
    plan: StepPlan
    queue: TaskQueue
    unfinished: int
    blocked_by: int
    recent_ms: dict[str, list[int]] = field(default_factory=dict)
    actual_s: float = 0.0  # of ended tasks, and what was predicted of them
    foreseen_s: float = 0.0
    ended: int = 0
    p50_ms: dict[str, int] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        return bool(self.plan.predicted) or self.ended > 0

    @property
    def correction(self) -> float:
        """Give how much longer tasks take than was predicted, by those that have ended; three say little."""
        doubt = 3 * self.foreseen_s / self.ended if self.ended else 1.0
        return (self.actual_s + doubt) / (self.foreseen_s + doubt)


@dataclass(slots=True, eq=False)
class SimJob:
    id: UUID
    plan: JobPlan
    studio: UUID
    project: UUID
    age: int
    steps: list[SimStep] = field(default_factory=list)
    unfinished: int = 0
    ended_s: float | None = None


class Simulation:
    """One run of a scenario under a policy."""

    def __init__(self, scenario: Scenario, policy: Policy, *, seed: int) -> None:
        self.scenario, self.policy, self.world = scenario, policy, scenario.world
        self.rng = random.Random(seed)
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._ids = 0
        self.fleet_ids = [self._id() for _ in scenario.fleets]
        self.pools: list[dict[PoolKey, SimPool]] = [self._pools(n) for n in range(len(scenario.fleets))]
        self.machines: dict[UUID, SimMachine] = {}
        self.gone: list[SimMachine] = []
        self.free: dict[tuple[UUID, int], SimSlot] = {}
        self.running: dict[UUID, int] = defaultdict(int)
        self.weight: dict[UUID, int] = {}
        self.parties: dict[str, UUID] = {}
        self.jobs: list[SimJob] = []
        self.steps: dict[UUID, SimStep] = {}  # with work left and nothing before them
        self.unfinished = 0
        self.has_news = False
        self.next_pass_s = math.inf
        self.launches = self.lost_machines = self.lost_tasks = 0
        self.passes = self.cold = self.done = self.events_seen = 0
        self.lost_s = self.useful_s = self.load_s = 0.0
        self._capabilities: dict[int, Capabilities] = {}

    def _id(self) -> UUID:
        """Give a new id. A number will do: the rules only compare ids, and that is much faster."""
        self._ids += 1
        return cast(UUID, self._ids)

    def _pools(self, number: int) -> dict[PoolKey, SimPool]:
        plan = self.scenario.fleets[number]
        keys = [PoolKey("replay", z, m) for z in plan.zones for m in MARKETS[plan.rules.market]]
        return {key: SimPool(key, self.scenario.market.zones[key.zone], number) for key in keys}

    # --- the clock

    def at(self, when: float, act: Callable[..., None], *what: object) -> None:
        self._ids += 1
        heapq.heappush(self.events, (when, self._ids, act, what))

    def run(self) -> Simulation:
        self._begin()
        events, until = self.events, self.scenario.until_s
        while events and events[0][0] <= until and (self.unfinished or self.machines):
            when, _, act, what = heapq.heappop(events)
            self.now = when
            self.events_seen += 1
            act(*what)
            if self.has_news and (not events or events[0][0] > when):
                self._dispatch()
        for machine in list(self.machines.values()):
            self._end_machine(machine)
        return self

    def _begin(self) -> None:
        plan = self.scenario
        for age, job in enumerate(plan.workload.jobs):
            self.unfinished += 1
            self.at(job.submitted_s, self._submit, job, age)
        for change in plan.market.changes:
            if change > plan.start_s:
                self.at(change - plan.start_s, self._market_changes)
        self._pass_at(0.0)

    def _pass_at(self, when: float) -> None:
        """Let the policy look at this moment, unless it does earlier anyway."""
        if when < self.next_pass_s:
            self.next_pass_s = when
            self.at(when, self._pass, when)

    # --- work

    def _party(self, name: str, weight: int = 100) -> UUID:
        if name not in self.parties:
            self.parties[name] = self._id()
            self.weight[self.parties[name]] = weight
        return self.parties[name]

    def _submit(self, plan: JobPlan, age: int) -> None:
        weight = self.scenario.workload.weights.get(plan.studio, 100)
        studio, project = self._party(plan.studio, weight), self._party(f"{plan.studio}/{plan.project}")
        job = SimJob(self._id(), plan, studio, project, age)
        for step_plan in plan.steps:
            believed = step_plan.predicted or [1.0] * len(step_plan.seconds)
            step = SimStep(
                self._id(), job, step_plan, TaskQueue(believed), len(step_plan.seconds), len(step_plan.after)
            )
            job.steps.append(step)
        job.unfinished = len(job.steps)
        self.jobs.append(job)
        for step in job.steps:
            if not step.blocked_by:
                self._open(step)
        self._pass_at(self.now)

    def _open(self, step: SimStep) -> None:
        step.queue.fill()
        self.steps[step.id] = step
        self.has_news = True

    def _dispatch(self) -> None:
        """Lend waiting tasks to free slots, as the dispatcher does."""
        self.has_news = False
        waiting = [step for step in self.steps.values() if len(step.queue)]
        if not waiting or not self.free:
            return
        slots = [self._slot_view(slot) for slot in self.free.values()]
        found = match(
            slots, [self._step_view(s) for s in waiting], Shares(self.weight, self.running), now=moment(self.now)
        )
        lent: dict[UUID, list[SimSlot]] = defaultdict(list)
        for assignment in found:
            slot = self.free.get((assignment.worker, assignment.slot))
            if slot is not None:
                lent[assignment.step].append(slot)
        for step_id, places in lent.items():
            step = self.steps[step_id]
            places.sort(
                key=lambda s: s.machine.pool.is_spot
            )  # those that cannot be redone in time go first, and on demand
            for slot in places:
                if slot.task is None:
                    self._start(step, slot)

    def _slot_view(self, slot: SimSlot) -> Slot:
        machine = slot.machine
        fleet = machine.pool.fleet
        plan = self.scenario.fleets[fleet]
        if fleet not in self._capabilities:
            self._capabilities[fleet] = Capabilities({}, {})
        return Slot(
            worker=machine.id, index=slot.index, worker_class=machine.pool.zone.worker_class,
            capabilities=self._capabilities[fleet], purposes=("render", "inspection"), studio=machine.studio,
            binds=not plan.shares_machines, step=slot.step.id if slot.step else None, scene_versions=frozenset(),
            held=0, price_micro=self._price_micro(machine.pool), is_safe=not machine.pool.is_spot,
        )  # fmt: skip

    def _step_view(self, step: SimStep) -> StepDemand:
        job = step.job
        deadline = job.plan.deadline_s
        return StepDemand(
            step=step.id, job=job.id, project=job.project, studio=job.studio,
            purpose="inspection" if job.plan.is_inspection else "render", priority=job.plan.priority,
            deadline=moment(deadline) if deadline is not None else None, age=job.age, ready=len(step.queue),
            requirements=NO_REQUIREMENTS, scene_version=None, p50_ms=step.p50_ms,
        )  # fmt: skip

    def _start(self, step: SimStep, slot: SimSlot) -> None:
        task = step.queue.take()
        if task is None:
            return
        machine = slot.machine
        del self.free[machine.id, slot.index]
        load = 0.0 if slot.step is step else step.plan.setup_s
        self.cold += slot.step is not step
        slot.step, slot.task, slot.since_s, slot.load_s, slot.run = step, task, self.now, load, slot.run + 1
        if not self.scenario.fleets[machine.pool.fleet].shares_machines:
            machine.studio = step.job.studio
        machine.idle_s, machine.view = None, None
        for party in (step.job.studio, step.job.project, step.job.id):
            self.running[party] += 1
        seconds = step.plan.seconds[task] / machine.pool.zone.speed
        self.at(self.now + load + seconds, self._end_task, slot, slot.run)

    def _leave_task(self, slot: SimSlot) -> SimStep:
        step = slot.step
        assert step is not None
        for party in (step.job.studio, step.job.project, step.job.id):
            self.running[party] -= 1
        slot.task = None
        slot.machine.view = None
        self.has_news = True
        return step

    def _end_task(self, slot: SimSlot, run: int) -> None:
        if slot.run != run or slot.task is None:
            return
        task, machine = slot.task, slot.machine
        step = self._leave_task(slot)
        seconds = self.now - slot.since_s - slot.load_s
        self.done += 1
        self.useful_s += seconds
        self.load_s += slot.load_s
        machine.useful_s += seconds
        step.ended += 1
        step.actual_s += seconds * machine.pool.zone.speed
        step.foreseen_s += step.queue.predicted[task]
        self._learn(step, machine.pool.zone.worker_class, seconds)
        step.unfinished -= 1
        if not step.unfinished:
            self._end_step(step)
        self._free(slot)

    def _learn(self, step: SimStep, worker_class: str, seconds: float) -> None:
        recent = step.recent_ms.setdefault(worker_class, [])
        recent.append(round(seconds * 1000))
        if len(recent) > RECENT:
            del recent[0]
        if step.ended < 6 or step.ended % 25 == 0:
            prediction = predict(recent)
            assert prediction is not None
            step.p50_ms[worker_class] = prediction.p50

    def _end_step(self, step: SimStep) -> None:
        del self.steps[step.id]
        job = step.job
        job.unfinished -= 1
        place = job.steps.index(step)
        for later in job.steps:
            if place in later.plan.after:
                later.blocked_by -= 1
                if not later.blocked_by:
                    self._open(later)
        if not job.unfinished:
            job.ended_s = self.now
            self.unfinished -= 1

    def _free(self, slot: SimSlot) -> None:
        machine = slot.machine
        if machine.status is MachineStatus.LEAVING:
            if machine.is_idle:
                self._end_machine(machine)
            return
        self.free[machine.id, slot.index] = slot
        if machine.is_idle:
            machine.idle_s = self.now
            machine.view = None

    # --- machines

    def _buy(self, pool: SimPool, count: int) -> int:
        granted = min(count, self._left(pool))
        pool.remember(granted, count - granted, self.now)
        pool.pass_time(self.now)
        for _ in range(granted):
            self._launch(pool)
        return granted

    def _left(self, pool: SimPool) -> int:
        if not pool.is_spot:
            return 0 if self.rng.random() < self.world.on_demand_refused else 1_000_000
        capacity = int(pool.zone.capacity.at(self.scenario.start_s + self.now))
        return max(0, capacity - len(self._held(pool.key)))

    def _held(self, key: PoolKey) -> list[SimMachine]:
        """Give the machines of a pool, whichever fleet they are of."""
        return [machine for pools in self.pools if key in pools for machine in pools[key].machines]

    def _launch(self, pool: SimPool) -> None:
        machine = SimMachine(self._id(), pool, self.now)
        machine.slots = [SimSlot(machine, n) for n in range(pool.zone.slots)]
        self.machines[machine.id] = machine
        pool.machines.append(machine)
        self.launches += 1
        if self.rng.random() < self.world.never_boots:
            self.at(self.now + self.world.boot_timeout_s, self._give_up, machine)
        else:
            boot = self.world.boot_s
            if self.world.boot_sigma:
                boot = lognormal(self.rng, boot, self.world.boot_sigma)
            self.at(self.now + boot, self._register, machine)

    def _register(self, machine: SimMachine) -> None:
        if machine.ended_s is not None:
            return
        if machine.status is MachineStatus.LEAVING:
            self._end_machine(machine)
            return
        machine.status, machine.view = MachineStatus.READY, None
        machine.idle_s = self.now
        self.has_news = True
        for slot in machine.slots:
            self.free[machine.id, slot.index] = slot

    def _give_up(self, machine: SimMachine) -> None:
        if machine.ended_s is None:
            self._end_machine(machine)
            self._pass_at(self.now + self.world.again_s)

    def _end_machine(self, machine: SimMachine) -> None:
        """End it now; what ran on it is lost and waits again."""
        if machine.ended_s is not None:
            return
        for slot in machine.slots:
            self.free.pop((machine.id, slot.index), None)
            if slot.task is not None:
                task = slot.task
                self.lost_tasks += 1
                self.lost_s += self.now - slot.since_s
                self._leave_task(slot).queue.put_back(task)
        machine.pool.pass_time(self.now)
        machine.pool.machines.remove(machine)
        machine.ended_s = self.now
        del self.machines[machine.id]
        self.gone.append(machine)

    def _market_changes(self) -> None:
        """Zones that give fewer than are held take the rest back, at random."""
        at = self.scenario.start_s + self.now
        for key in {key: None for pools in self.pools for key, pool in pools.items() if pool.is_spot}:
            held = self._held(key)
            excess = len(held) - int(self.scenario.market.zones[key.zone].capacity.at(at))
            if excess > 0:
                for machine in self.rng.sample(held, excess):
                    self._take_back(machine)

    def _take_back(self, machine: SimMachine) -> None:
        machine.pool.lost += 1
        self.lost_machines += 1
        machine.pool.remember(0, 1, self.now)
        if self.world.notice_s <= 0:
            self._end_machine(machine)
        else:
            self._leave(machine)
            self.at(self.now + self.world.notice_s, self._end_machine, machine)
        self._pass_at(self.now + self.world.again_s)

    def _leave(self, machine: SimMachine) -> None:
        if machine.status is MachineStatus.LEAVING:
            return
        machine.status, machine.view = MachineStatus.LEAVING, None
        for slot in machine.slots:
            self.free.pop((machine.id, slot.index), None)
        if machine.is_idle:
            self._end_machine(machine)

    # --- the policy

    def _pass(self, when: float) -> None:
        if when != self.next_pass_s:
            return
        self.next_pass_s = math.inf
        if self.has_news:
            self._dispatch()
        self.passes += 1
        is_short = False
        for fleet_id, decision in self.policy(self.snapshot(), moment(self.now)).items():
            is_short |= self._carry_out(self.fleet_ids.index(fleet_id), decision)
        if self.unfinished or self.machines:
            self._pass_at(self.now + (self.world.again_s if is_short else self.world.pass_s))

    def _carry_out(self, fleet: int, decision: Decision) -> bool:
        """Do what was decided; say whether something was refused."""
        for name in decision.end:
            machine = self.machines.get(name)
            if machine and machine.is_idle:
                self._end_machine(machine)
        for name in decision.drain:
            if machine := self.machines.get(name):
                self._leave(machine)
        is_short = False
        for launch in decision.launches:
            left = launch.count
            for key in launch.pools:
                pool = self.pools[fleet][key]
                if left and (pool.refused_until_s is None or pool.refused_until_s <= self.now):
                    left -= self._buy(pool, left)
            is_short |= left > 0
        return is_short

    def snapshot(self) -> Snapshot:
        """Give what the policy may see."""
        fleets = [
            FleetView(
                id=self.fleet_ids[n],
                rules=plan.rules,
                pools=[self._pool_view(pool) for pool in self.pools[n].values()],
                machines=[m.view or self._machine_view(m) for pool in self.pools[n].values() for m in pool.machines],
                shares_machines=plan.shares_machines,
            )
            for n, plan in enumerate(self.scenario.fleets)
        ]
        everywhere = frozenset(self.fleet_ids)
        return Snapshot([self._demand(s, everywhere) for s in self.steps.values() if len(s.queue)], fleets)

    def _price_micro(self, pool: SimPool) -> int:
        usd = pool.zone.spot_usd.at(self.scenario.start_s + self.now) if pool.is_spot else pool.zone.on_demand_usd
        return round(usd * MICRO)

    def _pool_view(self, pool: SimPool) -> PoolView:
        pool.pass_time(self.now)
        zone = pool.zone
        return PoolView(
            key=pool.key, worker_class=zone.worker_class, slots=zone.slots, price_micro=self._price_micro(pool),
            on_demand_micro=round(zone.on_demand_usd * MICRO), boot_s=self.world.boot_s,
            refused_until=moment(pool.refused_until_s) if pool.refused_until_s is not None else None,
            refused_at=moment(pool.refused_s) if pool.refused_s is not None else None,
            granted_at=moment(pool.granted_s) if pool.granted_s is not None else None,
            refusals=pool.refusals, granted=pool.granted, refused=pool.refused,
            lost=pool.lost, machine_hours=pool.machine_s / HOUR_S,
        )  # fmt: skip

    def _machine_view(self, machine: SimMachine) -> MachineView:
        machine.view = MachineView(
            id=machine.id, pool=machine.pool.key, status=machine.status, requested_at=moment(machine.launched_s),
            slots=len(machine.slots), busy=tuple(self._busy(s) for s in machine.slots if s.task is not None),
            idle_since=moment(machine.idle_s) if machine.idle_s is not None else None, studio=machine.studio,
        )  # fmt: skip
        return machine.view

    def _busy(self, slot: SimSlot) -> Busy:
        step, task = slot.step, slot.task
        assert step is not None
        assert task is not None
        seconds = step.queue.predicted[task] * step.correction / slot.machine.pool.zone.speed
        return Busy(step.id, moment(slot.since_s), slot.load_s + seconds)

    def _demand(self, step: SimStep, fleets: frozenset[UUID]) -> Demand:
        job, queue = step.job, step.queue
        mean = queue.predicted_s / len(queue)
        sizes = [s / mean for s in queue.longest(200)] if step.plan.predicted else ()
        speeds = {z.worker_class: z.speed for z in self.scenario.market.zones.values()}
        return Demand(
            step=step.id, studio=job.studio, fleets=fleets, ready=len(queue),
            deadline=moment(job.plan.deadline_s) if job.plan.deadline_s is not None else None,
            seconds={c: mean * step.correction / v for c, v in speeds.items()} if step.is_known else {},
            sizes=sizes, setup_s=step.plan.setup_s, is_urgent=job.plan.is_inspection,
        )  # fmt: skip


NO_REQUIREMENTS = Requirements({}, {})

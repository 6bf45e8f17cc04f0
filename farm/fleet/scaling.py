"""
How many machines, where and on which market: a snapshot of all fleets in, decisions with reasons out. Pure.

The policy in five sentences. Work is covered deadline by deadline with the cheapest supply that is expected to do it in
time; what a machine costs is its price ÷ the useful part of its hours, so that start-up and interruptions are in it.
A pool that refused counts as one that comes back, later the longer it has refused (a Pareto law), so a cheap zone is
waited for while there is time. On demand is bought for the rest only, and as late as it still helps. Work without a
deadline gets as many machines as keep start-up a small share of the bill. Machines are let go, dearest first, once the
others cover what is left.

Times are seconds from now; money is millionths of a dollar; `need` and supply count tasks of the step they are for.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from farm.fleet.pools import FleetMarket, Market, PoolKey, wait_after
from farm.fleet.situation import (
    UNKNOWN_TASK_S,
    Decision,
    Demand,
    FleetRules,
    FleetView,
    Launch,
    MachineStatus,
    MachineView,
    PoolView,
    Snapshot,
)

__all__ = ["Decision", "Demand", "FleetRules", "FleetView", "Launch", "MachineView", "PoolView", "Snapshot", "decide"]

HOUR_S = 3600.0
MARGIN = 1.03  # this much of what is predicted to be left is bought for …
COVER = 1.10  # … and machines are let go when the others do this much of it
EDGE = 0.97  # spot that costs more than this share of on demand is not worth its interruptions
LOST_PER_HOUR, LOST_DOUBT_H = (
    0.15,
    4.0,
)  # interruptions to expect of a pool nobody knows, and hours until we know better
BACK = 0.6  # share of the time in which a pool gives again what it took back or refused
DOWN_S = 1440.0  # how long a pool that has just refused is expected to go on
HOPED = 6  # machines that a pool that refuses is expected to give when it comes back
UNTRIED, TRIED_S = 0.8, 900.0  # what a pool is counted for that gave nothing for so long
PATIENCE = 3.0  # start-ups before the end at which on demand is bought for what is not covered
PACKED = 0.25  # share of the room on demand may need: the fewer start, the more each does for its start-up
OVERRUN = 0.15  # of a task that takes longer than was predicted, this much is always left
STARTUP_SHARE = 0.10  # of the bill, without a deadline …
LEAST_BREADTH = 4  # … but a few machines may start for little work, for a person waits
GIVES_UP = 4  # refusals in a row of all spot pools; then work without a deadline goes on demand
REDO, REDO_S = 1.0, 60.0  # left at the end of spot's span, in tasks and seconds: what is taken back last is done again
LEAST_TASKS = 0.5  # of a new machine, on average: below it comes too late
TAIL = 200  # waiting tasks of a step up to which the end is planned task by task
DOUBT = 1.6  # a task may well take this much longer than was predicted
WAIT_S = 120.0  # two passes: a task that can still begin in time after them need not be decided on now
ALIKE = 1.03  # a pool whose tasks cost no more than this much of another's is as good
LAST_S = 30.0  # to tell of a task's end, and for passes


@dataclass(eq=False)
class _Machine:
    """A machine that is there, or one that is to be asked for: what it can still do."""

    fleet: FleetView
    pool: PoolView
    free_s: list[float]  # of each slot: when it could begin a task, its scene not yet loaded
    studio: UUID | None = None
    view: MachineView | None = None
    promised_s: float = 0.0  # slot-seconds that earlier deadlines need
    kept_s: float = 0.0  # the same, while counting what may be let go
    is_kept: bool = False
    is_weighed: bool = False  # for work that waits: what is not kept is not needed
    claimed: int = 0  # slots

    @property
    def spare(self) -> int:
        """Say how many of its slots are free, or will be when it has booted, and nobody has claimed."""
        return len(self.free_s) - (len(self.view.busy) if self.view else 0) - self.claimed

    @property
    def is_reserve(self) -> bool:
        return _is_reserve(self.fleet, self.pool)


@dataclass(frozen=True)
class _Offer:
    """A pool that a step could use, and what a task costs there on a new machine."""

    cost: float
    fleet: FleetView
    pool: PoolView
    is_askable: bool

    @property
    def is_reserve(self) -> bool:
        return _is_reserve(self.fleet, self.pool)

    def is_like(self, other: _Offer) -> bool:
        """Say whether this pool would do as well as another of the same fleet."""
        is_same = self.fleet is other.fleet and self.pool.key.market is other.pool.key.market
        fits = is_same and self.is_askable and self.pool.slots == other.pool.slots
        return fits and other.cost <= self.cost <= ALIKE * other.cost


@dataclass
class _Wish:
    """Machines wanted of a pool."""

    count: int
    reason: str
    price: float
    alternates: tuple[PoolKey, ...] = ()


def decide(snapshot: Snapshot, *, now: datetime) -> dict[UUID, Decision]:
    """Say what each fleet is to launch, drain and end now."""
    return _Plan(snapshot, now).decisions()


# --- what a pool is worth


def _is_reserve(fleet: FleetView, pool: PoolView) -> bool:
    """On demand beside spot is for what spot cannot do in time."""
    return pool.key.market is Market.ON_DEMAND and fleet.rules.market is FleetMarket.SPOT_OR_ON_DEMAND


def price_of(pool: PoolView) -> int:
    return pool.price_micro if pool.price_micro is not None else pool.on_demand_micro or 0


def hazard(pool: PoolView) -> float:
    """Give the interruptions to expect in a machine-second."""
    if pool.key.market is Market.ON_DEMAND:
        return 0.0
    return (pool.lost + LOST_PER_HOUR * LOST_DOUBT_H) / (pool.machine_hours + LOST_DOUBT_H) / HOUR_S


def overhead(lost: float, task_s: float, startup_s: float) -> float:
    """Give paid seconds ÷ useful seconds: tasks that are lost and done again, and machines that start again."""
    risk = lost * task_s
    again = math.expm1(min(risk, 50.0)) / risk if risk > 1e-9 else 1.0
    return again * (1 + lost * startup_s)


def running_s(span_s: float, lost: float) -> float:
    """Give the seconds that a machine that runs now, or another in its place, is expected to run in a span."""
    if span_s <= 0:
        return 0.0
    first = -math.expm1(-lost * span_s) / lost if lost * span_s > 1e-9 else span_s
    return first + BACK * (span_s - first)


def hoped_s(span_s: float, refused_s: float) -> float:
    """Give the same of a pool that has refused for so long: what lasts goes on lasting (Pareto, exponent 1)."""
    if span_s <= 0:
        return 0.0
    return BACK * (span_s - refused_s * math.log1p(span_s / refused_s))


class _Plan:
    """One pass: what is there, what is wanted of it, and what is missing."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.now = now
        self.fleets = {fleet.id: fleet for fleet in snapshot.fleets}
        self.demand = sorted(snapshot.demand, key=self._urgency)
        self.pools = {(f.id, p.key): p for f in snapshot.fleets for p in f.pools}
        self.present = [m for f in snapshot.fleets for m in self._machines_of(f)]
        self.asked: list[_Machine] = []
        self.wishes: dict[UUID, dict[PoolKey, _Wish]] = defaultdict(dict)
        self.room = {f.id: self._room(f) for f in snapshot.fleets}
        self.told: dict[UUID, dict[str, int | float | str]] = defaultdict(dict)
        self.waits: set[UUID] = set()
        self.cut: set[UUID] = set()  # fleets without room for more

    def _urgency(self, demand: Demand) -> tuple[bool, float]:
        return not demand.is_urgent, self._left_s(demand)

    def _left_s(self, demand: Demand) -> float:
        """Give the seconds to a deadline. One that has passed is none any more: haste would only cost."""
        left = (demand.deadline - self.now).total_seconds() if demand.deadline else 0.0
        return left if left > 0 else math.inf

    def _room(self, fleet: FleetView) -> int:
        """Give how many machines may still be asked for."""
        room = fleet.rules.max_machines - len(fleet.machines)
        return 0 if fleet.rules.is_paused else max(0, room if fleet.room is None else min(room, fleet.room))

    # --- what is there

    def _machines_of(self, fleet: FleetView) -> Iterable[_Machine]:
        for view in fleet.machines:
            pool = self.pools.get((fleet.id, view.pool)) or PoolView(view.pool, slots=view.slots)
            if view.worker_class and view.worker_class != pool.worker_class:
                pool = replace(pool, worker_class=view.worker_class)
            if view.status is not MachineStatus.LEAVING:
                yield _Machine(fleet, pool, self._free_s(view, pool), view.studio, view)

    def _free_s(self, view: MachineView, pool: PoolView) -> list[float]:
        if view.status is MachineStatus.STARTING:
            booted = pool.boot_s - (self.now - view.requested_at).total_seconds()
            return [max(0.0, booted)] * view.slots
        rest = [self._rest_s(busy.seconds, busy.since) for busy in view.busy]
        return rest + [0.0] * (view.slots - len(rest))

    def _rest_s(self, seconds: float, since: datetime) -> float:
        return max(seconds - (self.now - since).total_seconds(), OVERRUN * seconds)

    # --- what it can do

    def _can_run(self, demand: Demand, pool: PoolView) -> bool:
        return not demand.seconds or pool.worker_class in demand.seconds

    def _task_s(self, demand: Demand, pool: PoolView) -> float:
        """Give the seconds of one task in a pool, as far as is known."""
        return demand.seconds.get(pool.worker_class, UNKNOWN_TASK_S)

    def _may_serve(self, machine: _Machine, demand: Demand) -> bool:
        is_ours = machine.studio in {None, demand.studio}
        return is_ours and machine.fleet.id in demand.fleets and self._can_run(demand, machine.pool)

    def _span_s(self, demand: Demand, pool: PoolView) -> float:
        """Give the time in which tasks may begin so that the last ends in time: on spot, even if it is lost once."""
        task_s = self._task_s(demand, pool)
        left = self._left_s(demand) - task_s / 2 - LAST_S
        if pool.key.market is Market.SPOT:
            left -= REDO * task_s + REDO_S
        return left

    def _does(self, machine: _Machine, demand: Demand, spent_s: float, *, spare_s: float = 0.0) -> float:
        """Give how many tasks of a step a machine is expected to do in time, after so many seconds of others."""
        task_s = self._task_s(demand, machine.pool)
        span, lost = self._span_s(demand, machine.pool) - spare_s, hazard(machine.pool)
        loads = 0.0 if machine.view and machine.view.busy else demand.setup_s
        useful = sum(running_s(span - free - loads, lost) for free in machine.free_s)
        return max(0.0, useful / overhead(lost, task_s, machine.pool.boot_s + demand.setup_s) - spent_s) / task_s

    def _cost(self, pool: PoolView, demand: Demand, *, is_new: bool) -> float:
        """Give what a task costs in a pool, start-up and interruptions in it."""
        task_s, startup_s = self._task_s(demand, pool), pool.boot_s + demand.setup_s
        lost, span = hazard(pool), self._span_s(demand, pool)
        cost = price_of(pool) * overhead(lost, task_s, startup_s) * task_s / HOUR_S / max(1, pool.slots)
        share = max(1 / max(span, task_s), lost)  # of a start-up, by how long it will be of use
        return cost * (1 + startup_s * share) if is_new else cost

    def _is_askable(self, fleet: FleetView, pool: PoolView) -> bool:
        cap = fleet.rules.price_cap_micro
        if cap is not None and (pool.price_micro is None or pool.price_micro > cap * pool.slots):
            return False
        return pool.refused_until is None or pool.refused_until <= self.now

    # --- what is wanted

    def decisions(self) -> dict[UUID, Decision]:
        for demand in self.demand:
            if demand.is_urgent:
                self._at_once(demand)
            elif self._left_s(demand) < math.inf:
                self._in_time(demand)
            else:
                self._in_parallel(demand)
        for fleet in self.fleets.values():
            self._at_least(fleet)
        return {fleet.id: self._decision(fleet) for fleet in self.fleets.values()}

    def _able(self, demand: Demand) -> list[_Machine]:
        return [m for m in (*self.present, *self.asked) if self._may_serve(m, demand)]

    def _offers(self, demand: Demand) -> list[_Offer]:
        """Give what could be bought, or hoped for, for a step; cheapest task first."""
        found = [
            _Offer(self._cost(pool, demand, is_new=True), fleet, pool, self._is_askable(fleet, pool))
            for fleet in (self.fleets[name] for name in demand.fleets if name in self.fleets)
            for pool in fleet.pools
            if self._can_run(demand, pool)
        ]
        return sorted(found, key=lambda o: o.cost)

    def _in_time(self, demand: Demand) -> None:
        """Cover a step's tasks by its deadline, cheapest first; on demand for the rest, when it must be."""
        able, offers = self._able(demand), self._offers(demand)
        if any(not price_of(o.pool) and o.is_askable for o in offers):
            self._in_parallel(demand)  # haste costs nothing
            return
        need, got = MARGIN * demand.ready, 0.0
        for machine in able:
            if machine.is_reserve:
                got += self._promise(machine, demand, need - got)
        dearest = min((o.cost for o in offers if o.is_reserve), default=math.inf) * EDGE
        choices: list[tuple[float, int, _Machine | _Offer]] = [
            (self._cost(m.pool, demand, is_new=False), n, m) for n, m in enumerate(able) if not m.is_reserve
        ]
        choices += [(o.cost, len(able) + n, o) for n, o in enumerate(offers) if not o.is_reserve and o.cost < dearest]
        for _, _, choice in sorted(choices, key=lambda c: c[:2]):
            if got >= need:
                break
            if isinstance(choice, _Machine):
                got += self._promise(choice, demand, need - got)
            else:
                got += self._buy(choice, offers, demand, need - got)
        self._late(demand, offers, able, missing=need - got)
        self._keep(demand, able)
        self._note(demand, need=need, covered=got)

    def _promise(self, machine: _Machine, demand: Demand, most: float) -> float:
        """Count on a machine for so many tasks at most; give how many it does."""
        tasks = min(most, self._does(machine, demand, machine.promised_s))
        if tasks > 0:
            machine.promised_s += tasks * self._task_s(demand, machine.pool)
            if not machine.fleet.shares_machines:
                machine.studio = demand.studio
        return max(0.0, tasks)

    def _buy(self, offer: _Offer, offers: Sequence[_Offer], demand: Demand, missing: float) -> float:
        """Ask a pool for what is missing, or hope for it; give the tasks to expect of it."""
        new = _Machine(offer.fleet, offer.pool, [offer.pool.boot_s] * max(1, offer.pool.slots))
        if offer.is_askable:
            each = self._does(new, demand, 0.0) * self._trust(offer.pool)
            most = min(self._room_of(offer), demand.ready)
        else:
            each, most = self._hoped(offer.pool, demand), HOPED
            self.waits.add(offer.fleet.id)
        if each < LEAST_TASKS:
            return 0.0
        count = min(most, math.ceil(missing / each))
        if offer.is_askable and count > 0:
            self._wish(offer, offers, count, "in-time", demand)
        return count * each

    def _room_of(self, offer: _Offer) -> int:
        """Give the machines that a fleet may still ask for; none left is worth telling."""
        room = self.room[offer.fleet.id]
        if not room:
            self.cut.add(offer.fleet.id)
        return room

    def _trust(self, pool: PoolView) -> float:
        if pool.key.market is Market.ON_DEMAND:
            return 1.0
        is_tried = pool.granted_at is not None and (self.now - pool.granted_at).total_seconds() < TRIED_S
        return 1.0 if is_tried else UNTRIED

    def _hoped(self, pool: PoolView, demand: Demand) -> float:
        if pool.key.market is Market.ON_DEMAND or pool.refused_at is None:
            return 0.0
        task_s = self._task_s(demand, pool)
        waited = sum(wait_after(n).total_seconds() for n in range(1, pool.refusals))
        refused_s = waited + (self.now - pool.refused_at).total_seconds() + DOWN_S
        useful = hoped_s(self._span_s(demand, pool), refused_s)
        return pool.slots * useful / overhead(hazard(pool), task_s, pool.boot_s + demand.setup_s) / task_s

    # --- what must be on demand

    def _late(self, demand: Demand, offers: Sequence[_Offer], able: Sequence[_Machine], *, missing: float) -> None:
        """Buy on demand what is not covered, as late as it still helps, and what no machine that is there can end."""
        reserve = next((o for o in offers if o.is_reserve and o.is_askable), None)
        if reserve is None:
            return
        task_s = self._task_s(demand, reserve.pool)
        startup_s = reserve.pool.boot_s + demand.setup_s
        span = self._left_s(demand) - task_s / 2 - LAST_S
        room = max(1, reserve.fleet.rules.max_machines - len(reserve.fleet.machines))
        bare = demand.ready * task_s - sum(max(0.0, span - free) for m in able for free in m.free_s)
        count, reason = 0, ""
        rounds = math.ceil(missing / (PACKED * room)) + DOUBT - 1
        if missing > 0 and span <= max(PATIENCE * startup_s, startup_s + WAIT_S + (rounds - 0.5) * task_s):
            count, reason = math.ceil(missing * task_s / max(span - startup_s, startup_s)), "late"
        elif missing > 0:
            self.waits.update(demand.fleets)
        if bare > 0 and span - 2 * startup_s < bare / (0.9 * room):
            count, reason = max(count, math.ceil(bare / max(span - startup_s, startup_s))), reason or "now-or-never"
        stragglers = self._stragglers(demand, able, task_s, startup_s)
        if stragglers > count:
            count, reason = stragglers, "straggler"
        if count > 0:
            self._wish(reserve, offers, min(count, demand.ready), reason, demand)

    def _stragglers(self, demand: Demand, able: Sequence[_Machine], task_s: float, startup_s: float) -> int:
        """Give how many new machines it takes for tasks that would end too late here, and must begin now elsewhere."""
        sizes = [size * task_s for size in demand.sizes[: demand.ready]] or [task_s] * min(demand.ready, TAIL)
        left = self._left_s(demand) - LAST_S
        if demand.ready > TAIL or startup_s + DOUBT * sizes[0] + WAIT_S < left:
            return 0
        slots = sorted(free + (0.0 if m.view and m.view.busy else demand.setup_s) for m in able for free in m.free_s)
        new: list[float] = []
        for size in sizes:
            if slots and slots[0] + DOUBT * size <= left:
                heapq.heapreplace(slots, slots[0] + size)
            elif new and new[0] + DOUBT * size <= left:
                heapq.heapreplace(new, new[0] + size)
            elif startup_s + DOUBT * size + WAIT_S >= left >= startup_s + size / DOUBT:
                heapq.heappush(new, startup_s + size)
        return len(new)

    # --- without a deadline

    def _in_parallel(self, demand: Demand) -> None:
        """Run a step as broadly as start-up stays a small share of the bill."""
        able = self._able(demand)
        offers = [o for o in self._offers(demand) if o.is_askable]
        usual = [o for o in offers if not o.is_reserve]
        if not usual and self._has_given_up(demand):
            usual = offers
        free = self._claim(able, demand, demand.ready)
        self._keep_busy(able, demand.ready - free)
        self._ask(demand, usual, self._breadth(demand, able, usual[0].pool) - free if usual else 0, "in-parallel")

    def _breadth(self, demand: Demand, able: Sequence[_Machine], pool: PoolView) -> int:
        """Give how many slots the waiting tasks are to have beside those that work on the step already."""
        if not price_of(pool):
            return demand.ready
        mine = [b for m in able if m.view for b in m.view.busy if b.step == demand.step]
        work = demand.ready * self._task_s(demand, pool)
        work += sum(self._rest_s(busy.seconds, busy.since) for busy in mine)
        broad = max(LEAST_BREADTH, math.ceil(work * STARTUP_SHARE / max(1.0, pool.boot_s + demand.setup_s)))
        return min(demand.ready, max(0, broad - len(mine)))

    def _has_given_up(self, demand: Demand) -> bool:
        """All spot pools have refused so often that work would wait for ever."""
        pools = [p for name in demand.fleets if name in self.fleets for p in self.fleets[name].pools]
        return all(p.refusals >= GIVES_UP for p in pools if p.key.market is Market.SPOT)

    def _at_once(self, demand: Demand) -> None:
        """A slot for each task, whatever the market: somebody waits."""
        offers = [o for o in self._offers(demand) if o.is_askable]
        self._ask(demand, offers, demand.ready - self._claim(self._able(demand), demand, demand.ready), "urgent")

    def _claim(self, able: Sequence[_Machine], demand: Demand, wanted: int) -> int:
        """Take slots that are free, or will be when they have booted; give how many there were."""
        claimed = 0
        for machine in able:
            if claimed < wanted and machine.promised_s == 0 and (take := min(machine.spare, wanted - claimed)) > 0:
                machine.claimed += take
                machine.is_kept = True
                claimed += take
                if not machine.fleet.shares_machines:
                    machine.studio = demand.studio
        return claimed

    @staticmethod
    def _keep_busy(able: Sequence[_Machine], tasks: int) -> None:
        """Keep the machines at work that will be free first for what waits."""
        for machine in sorted((m for m in able if m.view and m.view.busy), key=lambda m: min(m.free_s)):
            if tasks <= 0:
                return
            machine.is_kept = True
            tasks -= len(machine.free_s)

    def _ask(self, demand: Demand, offers: Sequence[_Offer], slots: int, reason: str) -> None:
        """Ask for slots where a task is cheapest, as far as there is room."""
        for offer in offers:
            if slots <= 0:
                return
            before = len(self.asked)
            self._wish(offer, offers, math.ceil(slots / max(1, offer.pool.slots)), reason, demand)
            slots -= self._claim(self.asked[before:], demand, slots)

    # --- wishes

    def _wish(self, offer: _Offer, offers: Sequence[_Offer], count: int, reason: str, demand: Demand) -> None:
        fleet, pool = offer.fleet, offer.pool
        if count > self.room[fleet.id]:
            self.cut.add(fleet.id)
            count = self.room[fleet.id]
        if count <= 0:
            return
        self.room[fleet.id] -= count
        slots = [pool.boot_s] * max(1, pool.slots)
        bound = None if fleet.shares_machines else demand.studio
        self.asked += [_Machine(fleet, pool, list(slots), bound) for _ in range(count)]
        known = self.wishes[fleet.id].get(pool.key)
        if known:
            known.count += count
            return
        alike = [o.pool.key for o in offers if o.is_like(offer)]
        self.wishes[fleet.id][pool.key] = _Wish(count, reason, offer.cost, tuple(alike))

    def _at_least(self, fleet: FleetView) -> None:
        """See to it that a fleet has as many machines as a person said, from its cheapest pool."""
        there = sum(m.fleet is fleet for m in (*self.present, *self.asked))
        pools = sorted((p for p in fleet.pools if self._is_askable(fleet, p)), key=price_of)
        missing = min(fleet.rules.min_machines, fleet.rules.max_machines) - there
        count = min(missing, self.room[fleet.id])
        if count > 0 and pools:
            self.room[fleet.id] -= count
            wish = self.wishes[fleet.id].setdefault(pools[0].key, _Wish(0, "min-machines", price_of(pools[0])))
            wish.count += count

    # --- what may go

    def _keep(self, demand: Demand, able: Sequence[_Machine]) -> None:
        """Keep the cheapest machines that do the rest with something over; on demand is the first to go."""
        got, enough = 0.0, COVER * demand.ready
        order = sorted(
            (m for m in able if m.view),
            key=lambda m: (m.is_reserve, self._cost(m.pool, demand, is_new=False), -min(m.free_s)),
        )
        for machine in order:
            machine.is_weighed = True
        for machine in order:
            if got >= enough:
                break
            task_s = self._task_s(demand, machine.pool)
            tasks = min(enough - got, self._does(machine, demand, machine.kept_s, spare_s=(DOUBT - 1) * task_s))
            machine.kept_s += tasks * task_s
            machine.is_kept |= tasks > 0
            got += tasks

    def _decision(self, fleet: FleetView) -> Decision:
        numbers = self._numbers(fleet)
        if fleet.rules.is_paused:
            return Decision(reason="paused", params=numbers)
        wishes = sorted(self.wishes[fleet.id].items(), key=lambda item: (item[0].market, item[1].price))
        launches = tuple(
            Launch((key, *(k for k in wish.alternates if k != key)), wish.count, wish.reason, numbers)
            for key, wish in wishes
        )
        drain, end = self._surplus(fleet)
        return Decision(launches, drain, end, self._reason(fleet, launches, drain, end), numbers)

    def _surplus(self, fleet: FleetView) -> tuple[tuple[UUID, ...], tuple[UUID, ...]]:
        """Give the machines to drain and those to end: dearest first, never more than must stay."""
        mine = [m for m in self.present if m.fleet is fleet and m.view]
        spare = len(mine) - min(fleet.rules.min_machines, fleet.rules.max_machines)
        loose = sorted((m for m in mine if not m.is_kept and self._may_go(m)), key=lambda m: -price_of(m.pool))
        loose = loose[: max(0, spare)]
        drain = tuple(m.view.id for m in loose if m.view and m.view.busy)
        return drain, tuple(m.view.id for m in loose if m.view and not m.view.busy)

    def _may_go(self, machine: _Machine) -> bool:
        """Idle long enough; or at work, and dear enough to take nothing more."""
        view, rules = machine.view, machine.fleet.rules
        assert view is not None
        if view.busy:
            is_loose = machine.is_reserve or machine.is_weighed or not rules.idle_timeout
            return price_of(machine.pool) > 0 and is_loose
        since = view.idle_since or view.requested_at
        return machine.is_reserve or self.now - since >= rules.idle_timeout

    def _reason(self, fleet: FleetView, launches: Sequence[Launch], drain: Sequence[UUID], end: Sequence[UUID]) -> str:
        """Say in a word what was decided: of several launches the last resort."""
        if launches:
            return launches[-1].reason
        if drain or end:
            return "surplus" if drain else "idle"
        if fleet.id in self.waits:
            return "waits"  # for spot that is sold out now: there is time
        return "limit" if fleet.id in self.cut else "content"

    def _numbers(self, fleet: FleetView) -> dict[str, int | float | str]:
        ready = [m for m in fleet.machines if m.status is MachineStatus.READY]
        return {
            "ready": len(ready), "starting": sum(m.status is MachineStatus.STARTING for m in fleet.machines),
            "leaving": sum(m.status is MachineStatus.LEAVING for m in fleet.machines),
            "busy": sum(bool(m.busy) for m in ready), "max": fleet.rules.max_machines, **self.told[fleet.id],
        }  # fmt: skip

    def _note(self, demand: Demand, *, need: float, covered: float) -> None:
        """Keep the numbers of the most pressing step for those who ask why."""
        for name in demand.fleets:
            self.told[name].setdefault("waiting", demand.ready)
            self.told[name].setdefault("need", round(need, 1))
            self.told[name].setdefault("covered", round(covered, 1))
            self.told[name].setdefault("left_s", round(self._left_s(demand)))

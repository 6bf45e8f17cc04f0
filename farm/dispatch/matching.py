"""
Who gets which slot: a snapshot in, assignments out. Pure.

Order of concerns: may it run there; whose turn is it; which job; which task (here only by what order it is taken);
which slot. Inspections go first, because a person waits for the report.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from farm.dispatch.predicting import queue_depth
from farm.dispatch.turns import Shares, Turns
from farm.fleet.requirements import Capabilities, Requirements, shortfall

__all__ = ["Assignment", "Limit", "Shares", "Slot", "StepDemand", "match"]

TAIL_MS = 5_000  # shorter frames go by rank to the end: their order is not worth a look at each
REDO = 2.0  # a frame that leaves less time than this many of itself could not be rendered again


@dataclass(frozen=True)
class Slot:
    """One slot of a ready worker."""

    worker: UUID
    index: int
    worker_class: str
    capabilities: Capabilities
    purposes: tuple[str, ...]
    studio: UUID | None  # bound to
    binds: bool  # its first assignment binds the whole worker to a studio
    step: UUID | None  # in memory, or that of the last attempt it holds
    scene_versions: frozenset[UUID]  # on its disk
    held: int  # attempts it holds
    region: str = "local"
    studios: frozenset[UUID] = frozenset()  # who may use its fleet; empty: everybody
    price_micro: int = 0  # of an hour of it
    is_safe: bool = True  # the cloud does not take it back


@dataclass(frozen=True)
class StepDemand:
    """A step with ready tasks."""

    step: UUID
    job: UUID
    project: UUID
    studio: UUID
    purpose: str
    priority: int
    deadline: datetime | None
    age: int  # place in order of submission
    ready: int
    requirements: Requirements
    scene_version: UUID | None
    p50_ms: Mapping[str, int] = field(default_factory=dict)  # by worker class
    avoid: frozenset[UUID] = frozenset()  # workers on which its tasks failed, while there are others
    regions: frozenset[str] = frozenset()  # where its project's machines may run; empty: anywhere


@dataclass(frozen=True)
class Limit:
    """How much of a thing may be in use at once: licences, counted by task or by host."""

    name: str
    most: float
    is_per_host: bool = False
    used: float = 0  # by tasks at work
    hosts: frozenset[UUID] = frozenset()  # workers that use it


@dataclass(frozen=True)
class Assignment:
    """A slot lent to a step. `is_tail`: its longest task, not its next by rank, for few are left."""

    step: UUID
    worker: UUID
    slot: int
    is_tail: bool = False


def match(
    slots: Sequence[Slot],
    demand: Sequence[StepDemand],
    shares: Shares,
    *,
    now: datetime,
    limits: Sequence[Limit] = (),
) -> list[Assignment]:
    """
    Lend ready tasks to free slots: whose turn, which step, which slot.

    First to slots that hold nothing, inspections before all else; then short frames are queued behind one that runs, on
    slots that have their step in memory. O((slots + steps) · log) for each distinct set of requirements.
    """
    matching = _Matching(slots, demand, shares, limits, now)
    matching.fill(d for d in matching.demand if d.purpose == "inspection")
    matching.fill(d for d in matching.demand if d.purpose != "inspection")
    matching.queue_ahead()
    return matching.found


Kind = tuple[object, ...]
Place = tuple[UUID, int]
May = Callable[[UUID], bool]


class _Asked:
    """
    What the demand asks about, so that slots are told apart by nothing else.

    A thousand machines have a thousand different amounts of free disk; what matters is which of the wishes each meets.
    """

    def __init__(self, demand: Iterable[StepDemand]) -> None:
        amounts: dict[str, set[float]] = defaultdict(set)
        attributes: dict[str, set[str]] = defaultdict(set)
        for step in demand:
            for name, least in step.requirements.of_slot.items():
                amounts[name].add(least)
            for name, wanted in step.requirements.attributes.items():
                attributes[name].update(wanted)
        self.amounts = {name: sorted(wishes) for name, wishes in sorted(amounts.items())}
        self.attributes = dict(sorted(attributes.items()))
        self._known: dict[int, Kind] = {}

    def of(self, capabilities: Capabilities) -> Kind:
        """Give which wishes these capabilities meet."""
        found = self._known.get(id(capabilities))
        if found is None:
            has = capabilities.amounts
            amounts = tuple(bisect_right(wishes, has.get(name, 0)) for name, wishes in self.amounts.items())
            attributes = tuple(
                frozenset(wanted.intersection(capabilities.attributes.get(name, ())))
                for name, wanted in self.attributes.items()
            )
            found = self._known[id(capabilities)] = (amounts, attributes)
        return found


class _Shelf:
    """Free slots of one kind: any of them can run the same steps; they differ in what they have at hand."""

    def __init__(self, example: Slot, studio: UUID | None) -> None:
        self.example = example
        self.studio = studio  # bound to
        self.size = 0  # slots of the kind, free or not
        self.free = 0
        self.by_step: dict[UUID, list[Slot]] = defaultdict(list)
        self.by_scene: dict[UUID, list[Slot]] = defaultdict(list)
        self.all: list[Slot] = []

    def add(self, slot: Slot) -> None:
        self.free += 1
        if slot.step:
            self.by_step[slot.step].append(slot)
        for version in slot.scene_versions:
            self.by_scene[version].append(slot)
        self.all.append(slot)

    def may_serve(self, step: StepDemand) -> bool:
        slot = self.example
        return (
            self.studio in {None, step.studio}
            and step.purpose in slot.purposes
            and (not slot.studios or step.studio in slot.studios)
            and (not step.regions or slot.region in step.regions)
            and shortfall(step.requirements, slot.capabilities) is None
        )


class _Limits:
    """What is left of the limits; a pass only uses them up."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self.limits = {limit.name: limit for limit in limits}
        self.left = {limit.name: limit.most - limit.used for limit in limits}
        self.hosts = {limit.name: set(limit.hosts) for limit in limits}

    def are_met(self, step: StepDemand) -> bool:
        """Say whether one more task may use what it needs, on some host; what nobody limits is not to be had."""
        return all(self._is_met(name, needed) for name, needed in step.requirements.limits.items())

    def _is_met(self, name: str, needed: float) -> bool:
        known = self.limits.get(name)
        if known is None:
            return False
        return self.left[name] >= needed or (known.is_per_host and bool(self.hosts[name]))

    def hosts_for(self, step: StepDemand) -> May | None:
        """Say on which workers alone a limit counted by host is open; None: on all."""
        tight = [
            self.hosts[name]
            for name, needed in step.requirements.limits.items()
            if self.limits[name].is_per_host and self.left[name] < needed
        ]
        return (lambda worker: all(worker in hosts for hosts in tight)) if tight else None

    def use(self, step: StepDemand, worker: UUID) -> None:
        for name, needed in step.requirements.limits.items():
            if not self.limits[name].is_per_host:
                self.left[name] -= needed
            elif worker not in self.hosts[name]:
                self.hosts[name].add(worker)
                self.left[name] -= needed

    def is_counted_by_task(self, step: StepDemand) -> bool:
        return any(not self.limits[name].is_per_host for name in step.requirements.limits if name in self.limits)


class _Matching:
    def __init__(
        self,
        slots: Sequence[Slot],
        demand: Sequence[StepDemand],
        shares: Shares,
        limits: Sequence[Limit],
        now: datetime,
    ) -> None:
        self.now = now
        self.turns = Turns(shares, {d.project: d.studio for d in demand}, slots=len(slots))
        self.limits = _Limits(limits)
        self.left = {d.step: d.ready for d in demand}
        self.demand = sorted(demand, key=self._urgency)
        self.asked = _Asked(demand)
        self.held = {(s.worker, s.index): s.held for s in slots}
        self.step_of = {(s.worker, s.index): s.step for s in slots}
        self.bound = {s.worker: s.studio for s in slots}
        self.slots_of: dict[UUID, list[Slot]] = defaultdict(list)
        self.shelves: dict[Kind, _Shelf] = {}
        self.shelf_of: dict[Place, _Shelf] = {}  # of free slots only
        self.usable: dict[UUID, tuple[int, list[_Shelf]]] = {}
        self.many: dict[UUID, int] = {}
        self.slots = slots
        self.found: list[Assignment] = []
        # Slots with a session come first, so that those without one, at the end, are taken first by strangers to it.
        for slot in sorted(slots, key=lambda s: s.step is None):
            self.slots_of[slot.worker].append(slot)
            self._shelf(slot).size += 1
            if slot.held == 0:
                self._shelve(slot)

    # --- whose turn

    def _urgency(self, step: StepDemand) -> tuple[float, int, int]:
        """Those that would miss their deadline at their present share, by slack; then priority; then age."""
        slack = self._slack_s(step)
        return (slack if slack is not None and slack < 0 else 0.0, -step.priority, step.age)

    def _slack_s(self, step: StepDemand) -> float | None:
        if step.deadline is None or not step.p50_ms:
            return None
        work = timedelta(milliseconds=step.ready * min(step.p50_ms.values()) / max(1, self.turns.held(step.job)))
        return (step.deadline - self.now - work).total_seconds()

    def fill(self, demand: Iterable[StepDemand]) -> None:
        """
        Lend free slots, one at a time, to the studio whose turn it is, there to the project whose turn it is.

        Free slots only become fewer, so a step that found none is out for this pass, and so is a party without steps.
        """
        waiting: dict[UUID, dict[UUID, list[StepDemand]]] = defaultdict(lambda: defaultdict(list))
        for step in demand:
            waiting[step.studio][step.project].append(step)
        for projects in waiting.values():
            for steps in projects.values():
                steps.reverse()  # the most urgent is at the end, where it is cheap to drop
        queue = [(self.turns.of(studio), studio) for studio in waiting]
        heapq.heapify(queue)
        while queue and self.shelf_of:
            _, studio = heapq.heappop(queue)
            if self.turns.may_grow(studio) and self._serve(waiting[studio]):
                heapq.heappush(queue, (self.turns.of(studio), studio))

    def _serve(self, projects: dict[UUID, list[StepDemand]]) -> bool:
        """Lend one slot to a studio; False when nothing of its can be served."""
        while projects:
            project = min(projects, key=self.turns.of) if len(projects) > 1 else next(iter(projects))
            steps = projects[project]
            while steps and self.turns.may_grow(project):
                slot = self._take_slot(steps[-1]) if self.left[steps[-1].step] else None
                if slot is not None:
                    self._assign(steps[-1], slot)
                    return True
                steps.pop()
            del projects[project]
        return False

    # --- which slot

    def _shelf(self, slot: Slot) -> _Shelf:
        """Give the shelf of a slot's kind: all that any step could ask of it, and what it costs."""
        bound = self.bound[slot.worker]
        kind = (
            self.asked.of(slot.capabilities),
            slot.purposes,
            slot.region,
            slot.studios,
            bound,
            slot.worker_class,
            slot.price_micro,
            slot.is_safe,
        )
        found = self.shelves.get(kind)
        if found is None:
            found = self.shelves[kind] = _Shelf(slot, bound)
        return found

    def _shelve(self, slot: Slot) -> None:
        shelf = self._shelf(slot)
        self.shelf_of[slot.worker, slot.index] = shelf
        shelf.add(slot)

    def _usable(self, step: StepDemand) -> list[_Shelf]:
        """Give the shelves a step may take from, best first; looked up again when a worker was bound meanwhile."""
        known = self.usable.get(step.step)
        if known is None or known[0] != len(self.shelves):
            able = [shelf for shelf in self.shelves.values() if shelf.may_serve(step)]
            known = self.usable[step.step] = (len(self.shelves), sorted(able, key=lambda s: self._cost(step, s)))
        return known[1]

    def _cost(self, step: StepDemand, shelf: _Shelf) -> tuple[bool, bool, bool, float, float, bool]:
        """Order of slots: bound ones before anyone's; those in time; safe ones if it must be; then the cheapest."""
        slot = shelf.example
        p50 = step.p50_ms.get(slot.worker_class)
        left = (step.deadline - self.now).total_seconds() * 1000 if step.deadline else None
        is_late = left is not None and p50 is not None and p50 > left
        is_risky = left is not None and p50 is not None and REDO * p50 > left and not slot.is_safe
        # A slower GPU costs its price for longer; where nothing tells them apart, a GPU is left to those who need one.
        price = slot.price_micro * (p50 or 1)
        spares = slot.capabilities.amounts.get("worker.gpu", 0) > 0 and not step.requirements.needs_gpu
        return (shelf.studio is None, is_late, is_risky, price, p50 or 0, spares)

    def _take_slot(self, step: StepDemand) -> Slot | None:
        """Take the nearest free slot: step in memory, else scene on disk, else any, of the best shelf that has one."""
        if not self.limits.are_met(step):
            return None
        open_to = self.limits.hosts_for(step)
        shelves = [shelf for shelf in self._usable(step) if shelf.free]
        for may in self._choices(step, open_to):
            for stacks in self._nearest(step, shelves):
                for shelf, stack in stacks:
                    if slot := self._pop(stack, shelf, may):
                        return slot
        return None

    @staticmethod
    def _choices(step: StepDemand, open_to: May | None) -> Iterator[May | None]:
        """Workers on which it did not fail; then, better than none, those on which it did."""
        if step.avoid:
            yield lambda worker: worker not in step.avoid and (open_to is None or open_to(worker))
        yield open_to

    @staticmethod
    def _nearest(step: StepDemand, shelves: list[_Shelf]) -> Iterator[list[tuple[_Shelf, list[Slot]]]]:
        """Give stacks of slots: those with the step in memory, with the scene on disk, then all."""
        yield [(shelf, shelf.by_step[step.step]) for shelf in shelves if step.step in shelf.by_step]
        version = step.scene_version
        if version:
            yield [(shelf, shelf.by_scene[version]) for shelf in shelves if version in shelf.by_scene]
        yield [(shelf, shelf.all) for shelf in shelves]

    def _pop(self, stack: list[Slot], shelf: _Shelf, may: May | None) -> Slot | None:
        """Take a free slot off a stack; entries that were taken elsewhere, or changed their kind, fall off."""
        while stack and self.shelf_of.get((stack[-1].worker, stack[-1].index)) is not shelf:
            stack.pop()
        if not stack:
            return None
        if may is None:
            return stack.pop()
        for place in range(len(stack) - 1, -1, -1):
            slot = stack[place]
            if may(slot.worker) and self.shelf_of.get((slot.worker, slot.index)) is shelf:
                return stack.pop(place)
        return None

    def _assign(self, step: StepDemand, slot: Slot) -> None:
        place = (slot.worker, slot.index)
        self.found.append(Assignment(step.step, slot.worker, slot.index, self._is_tail(step)))
        self.left[step.step] -= 1
        self.step_of[place] = step.step
        self.limits.use(step, slot.worker)
        self.held[place] += 1
        if (shelf := self.shelf_of.pop(place, None)) is not None:
            shelf.free -= 1
            self.turns.lend(step.studio, step.project, step.job)
        if slot.binds and self.bound[slot.worker] is None:
            self._bind(slot.worker, step.studio)

    def _is_tail(self, step: StepDemand) -> bool:
        """Few are left: fewer than twice the slots that could run them; of frames that take their time."""
        if min(step.p50_ms.values(), default=0) < TAIL_MS:
            return False
        if step.step not in self.many:
            self.many[step.step] = sum(shelf.size for shelf in self._usable(step))
        return self.left[step.step] < 2 * self.many[step.step]

    def _bind(self, worker: UUID, studio: UUID) -> None:
        """A worker's first assignment binds all its slots to the studio."""
        self.bound[worker] = studio
        for slot in self.slots_of[worker]:
            if (shelf := self.shelf_of.get((worker, slot.index))) is not None:
                shelf.free -= 1
                self._shelve(slot)

    # --- short frames behind one that runs

    def queue_ahead(self) -> None:
        """
        Lend slots that have a step in memory more of its tasks, so that they never wait for the next.

        Not of a step whose licences are counted by task: what is queued would keep one from somebody who could work.
        """
        by_step = {d.step: d for d in self.demand if self.left[d.step] and not self.limits.is_counted_by_task(d)}
        others = _Others(self.demand, self.left)
        for slot in self.slots:
            place = (slot.worker, slot.index)
            in_memory = self.step_of[place]
            step = by_step.get(in_memory) if in_memory else None
            if step is None or not self.left[step.step] or self._is_tail(step):  # the last ones go where a slot is free
                continue
            depth, shelf = queue_depth(step.p50_ms.get(slot.worker_class)), self._shelf(slot)
            if self.held[place] >= depth or not shelf.may_serve(step) or self._is_forbidden(step, slot):
                continue
            if others.wait(shelf, step.studio, self.turns):
                continue
            while self.left[step.step] and self.held[place] < depth:
                self._assign(step, slot)

    def _is_forbidden(self, step: StepDemand, slot: Slot) -> bool:
        """A slot that nobody got above: its step may have no turn, or no licence here."""
        open_to = self.limits.hosts_for(step) if step.requirements.limits else None
        if open_to is not None and not open_to(slot.worker):
            return True
        is_free = (slot.worker, slot.index) in self.shelf_of
        return is_free and not (self.turns.may_grow(step.studio) and self.turns.may_grow(step.project))


class _Others:
    """Which studios have work ready that slots of a kind could run, as that work becomes less."""

    def __init__(self, demand: Sequence[StepDemand], left: Mapping[UUID, int]) -> None:
        self._demand = demand
        self._left = left
        self._able: dict[int, dict[UUID, list[StepDemand]]] = {}

    def wait(self, shelf: _Shelf, studio: UUID, turns: Turns) -> bool:
        """Say whether another studio's turn comes before this one's: the slot's next turn is its."""
        able = self._able.get(id(shelf))
        if able is None:
            able = self._able[id(shelf)] = defaultdict(list)
            for step in self._demand:
                if self._left[step.step] and shelf.may_serve(step):
                    able[step.studio].append(step)
        mine = turns.of(studio)
        return any(
            other != studio and turns.of(other) < mine and turns.may_grow(other) and self._has_some(steps)
            for other, steps in able.items()
        )

    def _has_some(self, steps: list[StepDemand]) -> bool:
        while steps and not self._left[steps[-1].step]:
            steps.pop()
        return bool(steps)

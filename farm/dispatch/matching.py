"""
Who gets which slot: a snapshot in, assignments out. Pure.

Order of concerns: may it run there; whose turn is it; which job; which slot. Which task of a step is the database's
`rank`. Inspections go first, because a person waits for the report.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from farm.dispatch.predicting import queue_depth
from farm.fleet.requirements import Capabilities, Requirements, shortfall


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


@dataclass(frozen=True)
class Assignment:
    step: UUID
    worker: UUID
    slot: int


@dataclass(frozen=True)
class Shares:
    """Weights of studios and projects (100 unless said) and how many slots each holds."""

    weight: Mapping[UUID, int]
    running: Mapping[UUID, int]


def match(slots: Sequence[Slot], demand: Sequence[StepDemand], shares: Shares, *, now: datetime) -> list[Assignment]:
    """
    Lend ready tasks to free slots: whose turn, which step, which slot.

    First to slots that hold nothing, inspections before all else; then short frames are queued behind one that runs, on
    slots that have their step in memory. O((slots + steps) · log) for each distinct set of requirements.
    """
    matching = _Matching(slots, demand, shares, now)
    inspections = [d for d in matching.demand if d.purpose == "inspection"]
    matching.fill(inspections)
    matching.fill(d for d in matching.demand if d.purpose != "inspection")
    matching.queue_ahead()
    return matching.found


Kind = tuple[object, ...]
Place = tuple[UUID, int]


class _Shelf:
    """Free slots of one kind: any of them can run the same steps; they differ in what they have at hand."""

    def __init__(self, example: Slot) -> None:
        self.example = example
        self.by_step: dict[UUID, list[Slot]] = defaultdict(list)
        self.by_scene: dict[UUID, list[Slot]] = defaultdict(list)
        self.all: list[Slot] = []

    def add(self, slot: Slot) -> None:
        if slot.step:
            self.by_step[slot.step].append(slot)
        for version in slot.scene_versions:
            self.by_scene[version].append(slot)
        self.all.append(slot)

    def nearest(self, step: StepDemand) -> Iterator[list[Slot]]:
        """Give stacks of slots: those with the step in memory, with the scene on disk, then all."""
        yield self.by_step.get(step.step, [])
        if step.scene_version:
            yield self.by_scene.get(step.scene_version, [])
        yield self.all


class _Matching:
    def __init__(self, slots: Sequence[Slot], demand: Sequence[StepDemand], shares: Shares, now: datetime) -> None:
        self.now = now
        self.weight, self.running = shares.weight, defaultdict(int, shares.running)
        self.left = {d.step: d.ready for d in demand}
        self.demand = sorted(demand, key=self._urgency)
        self.held = {(s.worker, s.index): s.held for s in slots}
        self.step_of = {(s.worker, s.index): s.step for s in slots}
        self.bound = {s.worker: s.studio for s in slots}
        self.slots_of: dict[UUID, list[Slot]] = defaultdict(list)
        self.shelves: dict[Kind, _Shelf] = {}
        self.kind_of: dict[Place, Kind] = {}  # of free slots only
        self.able: dict[tuple[UUID, Kind], bool] = {}
        self.slots = slots
        self.found: list[Assignment] = []
        # Slots with a session come first, so that those without one, at the end, are taken first by strangers to it.
        for slot in sorted(slots, key=lambda s: s.step is None):
            self.slots_of[slot.worker].append(slot)
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
        work = timedelta(milliseconds=step.ready * min(step.p50_ms.values()) / max(1, self.running[step.job]))
        return (step.deadline - self.now - work).total_seconds()

    def _load(self, party: UUID) -> float:
        return self.running[party] / max(1, self.weight.get(party, 100))

    def fill(self, demand: Iterable[StepDemand]) -> None:
        """
        Lend free slots, one at a time, to the studio that holds least of its share, there to the project that does.

        Free slots only become fewer, so a step that found none is out for this pass, and so is a party without steps.
        """
        waiting: dict[UUID, dict[UUID, list[StepDemand]]] = defaultdict(lambda: defaultdict(list))
        for step in demand:
            waiting[step.studio][step.project].append(step)
        for projects in waiting.values():
            for steps in projects.values():
                steps.reverse()  # the most urgent is at the end, where it is cheap to drop
        turns = [(self._load(studio), studio) for studio in waiting]
        heapq.heapify(turns)
        while turns:
            _, studio = heapq.heappop(turns)
            if self._serve(waiting[studio]):
                heapq.heappush(turns, (self._load(studio), studio))

    def _serve(self, projects: dict[UUID, list[StepDemand]]) -> bool:
        """Lend one slot to a studio; False when nothing of its can be served."""
        for project in sorted(projects, key=self._load):
            steps = projects[project]
            while steps:
                slot = self._take_slot(steps[-1]) if self.left[steps[-1].step] else None
                if slot is not None:
                    self._assign(steps[-1], slot)
                    return True
                steps.pop()
            del projects[project]
        return False

    # --- which slot

    def _kind(self, slot: Slot) -> Kind:
        capabilities = slot.capabilities
        amounts = tuple(sorted(capabilities.amounts.items()))
        attributes = tuple(sorted((name, tuple(values)) for name, values in capabilities.attributes.items()))
        return (amounts, attributes, slot.purposes, self.bound[slot.worker])

    def _shelve(self, slot: Slot) -> None:
        kind = self._kind(slot)
        self.kind_of[slot.worker, slot.index] = kind
        self.shelves.setdefault(kind, _Shelf(slot)).add(slot)

    def _may_run(self, step: StepDemand, kind: Kind, example: Slot) -> bool:
        key = (step.step, kind)
        if key not in self.able:
            meets = shortfall(step.requirements, example.capabilities) is None
            self.able[key] = meets and step.purpose in example.purposes and kind[-1] in {None, step.studio}
        return self.able[key]

    def _take_slot(self, step: StepDemand) -> Slot | None:
        """Take the nearest free slot: step in memory, else scene on disk, else any; bound workers before anyone's."""
        shelves = [(kind, shelf) for kind, shelf in self.shelves.items() if self._may_run(step, kind, shelf.example)]
        shelves.sort(key=lambda item: item[0][-1] is None)
        for stacks in zip(*(shelf.nearest(step) for _, shelf in shelves), strict=False):
            for (kind, _), stack in zip(shelves, stacks, strict=True):
                if slot := self._pop(stack, kind, step.avoid):
                    return slot
        for kind, shelf in shelves:  # better a worker on which it failed than none
            if slot := self._pop(shelf.all, kind, frozenset()):
                return slot
        return None

    def _pop(self, stack: list[Slot], kind: Kind, avoid: frozenset[UUID]) -> Slot | None:
        """Take a free slot off a stack; entries that were taken elsewhere, or changed their kind, fall off."""
        while stack and self.kind_of.get((stack[-1].worker, stack[-1].index)) != kind:
            stack.pop()
        if not stack:
            return None
        if not avoid:
            return stack.pop()
        for place in range(len(stack) - 1, -1, -1):
            slot = stack[place]
            if slot.worker not in avoid and self.kind_of.get((slot.worker, slot.index)) == kind:
                return stack.pop(place)
        return None

    def _assign(self, step: StepDemand, slot: Slot) -> None:
        place = (slot.worker, slot.index)
        self.found.append(Assignment(step.step, slot.worker, slot.index))
        self.left[step.step] -= 1
        self.held[place] += 1
        self.step_of[place] = step.step
        self.kind_of.pop(place, None)
        for party in (step.studio, step.project, step.job):
            self.running[party] += 1
        if slot.binds and self.bound[slot.worker] is None:
            self._bind(slot.worker, step.studio)

    def _bind(self, worker: UUID, studio: UUID) -> None:
        """A worker's first assignment binds all its slots to the studio."""
        self.bound[worker] = studio
        for slot in self.slots_of[worker]:
            if (worker, slot.index) in self.kind_of:
                self._shelve(slot)

    # --- short frames behind one that runs

    def queue_ahead(self) -> None:
        by_step = {d.step: d for d in self.demand}
        for slot in self.slots:
            place = (slot.worker, slot.index)
            in_memory = self.step_of[place]
            step = by_step.get(in_memory) if in_memory else None
            if step is None or not self.left[step.step] or not self._may_run(step, self._kind(slot), slot):
                continue
            depth = queue_depth(step.p50_ms.get(slot.worker_class))
            while self.left[step.step] and self.held[place] < depth and not self._others_wait(step):
                self._assign(step, slot)

    def _others_wait(self, step: StepDemand) -> bool:
        """Another studio that holds less of its share has work ready: the slot's next turn is its."""
        mine = self._load(step.studio)
        return any(self.left[d.step] and d.studio != step.studio and self._load(d.studio) < mine for d in self.demand)

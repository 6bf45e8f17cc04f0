"""
Who gets which slot: a snapshot in, assignments out. Pure.

Order of concerns: may it run there; whose turn is it; which job; which slot. Which task of a step is the database's
`rank`. Inspections go first, because a person waits for the report.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
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
    Lend ready tasks to free slots.

    First to slots that hold nothing; then short frames are queued behind one that runs, on slots that have their step
    in memory. O((slots + steps) · log) for each distinct set of requirements.
    """
    return _Matching(slots, demand, shares, now).run()


class _Matching:
    def __init__(self, slots: Sequence[Slot], demand: Sequence[StepDemand], shares: Shares, now: datetime) -> None:
        self.now = now
        self.weight, self.running = shares.weight, defaultdict(int, shares.running)
        self.left = {d.step: d.ready for d in demand}
        self.demand = sorted(demand, key=self._urgency)
        self.bound = {s.worker: s.studio for s in slots}
        self.held = {(s.worker, s.index): s.held for s in slots}
        self.memory = {(s.worker, s.index): s.step for s in slots}
        self.slots = slots
        self.may_run: dict[tuple[UUID, object], bool] = {}
        self.found: list[Assignment] = []

    def run(self) -> list[Assignment]:
        self._fill([s for s in self.slots if s.held == 0])
        self._queue_ahead()
        return self.found

    def _urgency(self, step: StepDemand) -> tuple[int, float, int, int]:
        """Inspections; then those that would miss their deadline, by slack; then priority; then age."""
        slack = self._slack_s(step)
        late = slack if slack is not None and slack < 0 else 0.0
        return (0 if step.purpose == "inspection" else 1, late, -step.priority, step.age)

    def _slack_s(self, step: StepDemand) -> float | None:
        if step.deadline is None or not step.p50_ms:
            return None
        work = timedelta(milliseconds=step.ready * min(step.p50_ms.values()) / max(1, self.running[step.job]))
        return (step.deadline - self.now - work).total_seconds()

    def _fill(self, free: list[Slot]) -> None:
        """Give each free slot to the studio, then project, that holds least of its share; there to its most urgent step."""
        by_kind: dict[tuple[object, ...], list[Slot]] = defaultdict(list)
        for slot in free:
            by_kind[self._kind(slot)].append(slot)
        while any(by_kind.values()):
            if not self._serve_one(by_kind):
                return

    def _kind(self, slot: Slot) -> tuple[object, ...]:
        """Slots of one kind can run the same steps; they differ in what they have at hand."""
        c = slot.capabilities
        amounts = tuple(sorted(c.amounts.items()))
        attributes = tuple(sorted((k, tuple(v)) for k, v in c.attributes.items()))
        return (amounts, attributes, slot.purposes, self.bound[slot.worker], slot.binds)

    def _serve_one(self, by_kind: dict[tuple[object, ...], list[Slot]]) -> bool:
        turns = [(self._turn(step), place, step) for place, step in enumerate(self.demand) if self.left[step.step]]
        heapq.heapify(turns)
        while turns:
            _, _, step = heapq.heappop(turns)
            slot = self._best_slot(step, by_kind)
            if slot is not None:
                self._assign(step, slot)
                by_kind[self._kind_of_free(slot, by_kind)].remove(slot)
                return True
        return False

    def _kind_of_free(self, slot: Slot, by_kind: dict[tuple[object, ...], list[Slot]]) -> tuple[object, ...]:
        return next(kind for kind, slots in by_kind.items() if slot in slots)

    def _turn(self, step: StepDemand) -> tuple[float, ...]:
        first = 0.0 if step.purpose == "inspection" else 1.0
        return (first, self._load(step.studio), self._load(step.project))

    def _load(self, party: UUID) -> float:
        return self.running[party] / max(1, self.weight.get(party, 100))

    def _best_slot(self, step: StepDemand, by_kind: dict[tuple[object, ...], list[Slot]]) -> Slot | None:
        able = [s for slots in by_kind.values() if slots and self._may_run(step, slots[0]) for s in slots if self._is_free_for(step, s)]
        kind_avoided = [s for s in able if s.worker not in step.avoid] or able
        return min(kind_avoided, key=lambda s: self._distance(step, s), default=None)

    def _may_run(self, step: StepDemand, slot: Slot) -> bool:
        key = (step.step, self._kind(slot))
        if key not in self.may_run:
            self.may_run[key] = step.purpose in slot.purposes and shortfall(step.requirements, slot.capabilities) is None
        return self.may_run[key]

    def _is_free_for(self, step: StepDemand, slot: Slot) -> bool:
        return self.bound[slot.worker] in {None, step.studio}

    def _distance(self, step: StepDemand, slot: Slot) -> tuple[int, int, int]:
        """Step in memory, else scene on disk, else neither; an already bound worker before one that is anyone's."""
        if self.memory[slot.worker, slot.index] == step.step:
            near = 0
        elif step.scene_version in slot.scene_versions:
            near = 1
        else:
            near = 2
        return (near, 0 if self.bound[slot.worker] else 1, slot.index)

    def _assign(self, step: StepDemand, slot: Slot) -> None:
        self.found.append(Assignment(step.step, slot.worker, slot.index))
        self.left[step.step] -= 1
        self.held[slot.worker, slot.index] += 1
        self.memory[slot.worker, slot.index] = step.step
        for party in (step.studio, step.project, step.job):
            self.running[party] += 1
        if slot.binds:
            self.bound[slot.worker] = step.studio

    def _queue_ahead(self) -> None:
        by_step = {d.step: d for d in self.demand}
        for slot in self.slots:
            step = by_step.get(self.memory[slot.worker, slot.index]) if self.memory[slot.worker, slot.index] else None  # type: ignore[arg-type]
            if step is None or not self._may_run(step, slot) or not self._is_free_for(step, slot):
                continue
            depth = queue_depth(step.p50_ms.get(slot.worker_class))
            while self.left[step.step] and self.held[slot.worker, slot.index] < depth and not self._others_wait(step):
                self._assign(step, slot)

    def _others_wait(self, step: StepDemand) -> bool:
        """A studio that holds less of its share has work ready: the slot's next turn is its."""
        mine = self._load(step.studio)
        return any(self.left[d.step] and d.studio != step.studio and self._load(d.studio) < mine for d in self.demand)

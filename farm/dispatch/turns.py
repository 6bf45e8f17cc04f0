"""
Whose turn it is: weighted fair share with guarantees and bursts, of studios, then of their projects. Pure.

A party below what it is guaranteed goes first; then whoever holds least for its weight. A party never holds more than
its most. Where slots are fewer than parties, or weights fall between whole slots, what each got so far decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

USUAL_WEIGHT = 100
GUARANTEED_PART = 0.9  # of all slots, at most: guarantees leave some for those who have none
DEBT_S = 60.0  # so long a slot too many counts as holding one more now
HALF_LIFE_S = 3600.0  # in which half of what was too much or too little is forgotten


@dataclass(frozen=True)
class Shares:
    """
    Of studios and projects: weights (100 unless said), slots guaranteed, most slots, slots held.

    `running` has slots of jobs too. `debt`: how many slots a party counts as holding beside, or less, for its past.
    """

    weight: Mapping[UUID, int]
    running: Mapping[UUID, int]
    guaranteed: Mapping[UUID, int] = field(default_factory=dict)
    most: Mapping[UUID, int] = field(default_factory=dict)
    debt: Mapping[UUID, float] = field(default_factory=dict)


Turn = tuple[bool, float]


class Turns:
    """The order of parties, while slots are lent to them."""

    def __init__(self, shares: Shares, studio_of: Mapping[UUID, UUID], *, slots: int) -> None:
        self._shares = shares
        self._studio_of = studio_of  # of each project
        self._running = defaultdict(int, shares.running)
        studios = set(studio_of.values())
        self._all = max(slots, sum(self._running[s] for s in studios))
        self._promised: dict[UUID | None, int] = defaultdict(int)
        for party in {*studios, *studio_of}:
            self._promised[studio_of.get(party)] += shares.guaranteed.get(party, 0)

    def held(self, party: UUID) -> int:
        return self._running[party]

    def of(self, party: UUID) -> Turn:
        """Give a party's place: the smallest is next."""
        held, guaranteed = self._running[party], self._guaranteed(party)
        if held < guaranteed:
            return False, held / guaranteed
        return True, (held + self._shares.debt.get(party, 0.0)) / weight_of(party, self._shares)

    def may_grow(self, party: UUID) -> bool:
        most = self._shares.most.get(party)
        return most is None or self._running[party] < most

    def lend(self, *parties: UUID) -> None:
        """Count one slot more for a studio, its project and its job."""
        for party in parties:
            self._running[party] += 1

    def _guaranteed(self, party: UUID) -> float:
        """Give what a party may count on: if more is promised than there is, each promise shrinks alike."""
        promise = self._shares.guaranteed.get(party, 0)
        if not promise:
            return 0.0
        studio = self._studio_of.get(party)
        there = self._all if studio is None else max(1, self._running[studio])
        return promise * min(1.0, GUARANTEED_PART * there / self._promised[studio])


def weight_of(party: UUID, shares: Shares) -> int:
    return max(1, shares.weight.get(party, USUAL_WEIGHT))


def fair_slots(parties: Collection[UUID], shares: Shares, slots: float) -> dict[UUID, float]:
    """Give what weights alone would give each of these parties of so many slots, none more than its most."""
    fair: dict[UUID, float] = {}
    left, open_ = slots, set(parties)
    while open_:
        total = sum(weight_of(p, shares) for p in open_)
        due = {p: left * weight_of(p, shares) / total for p in open_}
        full = {p for p in open_ if p in shares.most and due[p] >= shares.most[p]}
        for party in full or open_:
            fair[party] = float(shares.most[party]) if full else due[party]
        left -= sum(fair[p] for p in full)
        open_ -= full or open_
    return fair


class Past:
    """
    What parties that wait held beyond their weights so far, or fell short of, in slot-seconds.

    One slot and three studios, or weights of 3 : 1 on two slots: no count of slots held now can be fair, their sum over
    time can. It corrects by one slot at most, so that who was away does not come back to a feast.
    """

    def __init__(self) -> None:
        self._excess: dict[UUID, float] = {}
        self._waiting: Mapping[UUID, UUID] = {}
        self._shares = Shares({}, {})
        self._at: datetime | None = None

    def remember(self, waiting: Mapping[UUID, UUID], shares: Shares) -> None:
        """Note what is so from now on. `waiting`: the studio of each project that has work ready."""
        self._waiting, self._shares = waiting, shares

    def pass_to(self, now: datetime) -> None:
        """Count what was held since the last call."""
        seconds = (now - self._at).total_seconds() if self._at else 0.0
        self._at = now
        if seconds <= 0:
            return
        kept = 0.5 ** (seconds / HALF_LIFE_S)
        self._excess = {p: e * kept for p, e in self._excess.items() if abs(e) >= 1}
        studios = set(self._waiting.values())
        self._count(studios, seconds)
        for studio in studios:
            self._count({p for p, s in self._waiting.items() if s == studio}, seconds)

    def _count(self, parties: Iterable[UUID], seconds: float) -> None:
        held = {p: self._shares.running.get(p, 0) for p in parties}
        for party, fair in fair_slots(held, self._shares, sum(held.values())).items():
            self._excess[party] = self._excess.get(party, 0.0) + (held[party] - fair) * seconds

    def debts(self) -> dict[UUID, float]:
        """Give how many slots each party counts as holding beside what it holds."""
        return {p: min(1.0, max(-1.0, e / DEBT_S)) for p, e in self._excess.items()}

"""Tasks of a step that wait for a slot, in the order in which they are lent."""

from __future__ import annotations

import bisect
from collections.abc import Sequence


class TaskQueue:
    """Longest predicted first; tasks that were lost before all others. Costs of a change: one bisection."""

    def __init__(self, predicted: Sequence[float]) -> None:
        self.predicted = predicted
        self._ordered: list[tuple[float, int]] = []  # shortest first
        self._again: list[tuple[float, int]] = []  # lost ones
        self.predicted_s = 0.0

    def __len__(self) -> int:
        return len(self._ordered) + len(self._again)

    def fill(self) -> None:
        self._ordered = sorted((seconds, task) for task, seconds in enumerate(self.predicted))
        self.predicted_s = sum(self.predicted)

    def put_back(self, task: int) -> None:
        bisect.insort(self._again, (self.predicted[task], task))
        self.predicted_s += self.predicted[task]

    def take(self) -> int | None:
        """Take the first task; None when there is none."""
        for tasks in (self._again, self._ordered):
            if tasks:
                seconds, task = tasks.pop()
                self.predicted_s -= seconds
                return task
        return None

    def longest(self, count: int) -> list[float]:
        """Give the predicted seconds of the longest waiting tasks, longest first."""
        found = [s for s, _ in self._ordered[-count:]] + [s for s, _ in self._again[-count:]]
        return sorted(found, reverse=True)[:count]

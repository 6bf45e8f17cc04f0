"""Tasks that wait for a slot."""

from __future__ import annotations

from farm.simulation.queues import TaskQueue


class TestTaskQueue:
    def test_the_longest_goes_first_and_lost_ones_before_all(self) -> None:
        queue = TaskQueue([1.0, 5.0, 3.0])
        queue.fill()

        first = queue.take()
        second = queue.take()
        queue.put_back(1)

        assert (first, second, queue.take(), queue.take(), queue.take()) == (1, 2, 1, 0, None)
        assert (len(queue), queue.predicted_s) == (0, 0)

    def test_it_tells_its_longest(self) -> None:
        queue = TaskQueue([1.0, 5.0, 3.0])
        queue.fill()

        assert queue.longest(2) == [5.0, 3.0]

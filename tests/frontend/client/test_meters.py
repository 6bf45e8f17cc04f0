"""Counting from many threads, room for what is under way, and ending a work early."""

from __future__ import annotations

import threading
import time

import pytest
from farmhand.meters import Meter, Progress, Room, Stage, Stopped, threads


class TestMeter:
    def test_counts_of_many_threads_add_up(self) -> None:
        seen: list[Progress] = []
        meter = Meter(Stage.SENDING, seen.append, files=400, bytes=400)

        with threads(8, meter.stop) as pool:
            list(pool.map(lambda _: meter.add(files=1, bytes=1), range(400)))

        assert seen[-1] == Progress(Stage.SENDING, 400, 400, 400, 400)
        assert [step.files_done for step in seen] == list(range(401))

    def test_who_counts_after_the_end_is_stopped(self) -> None:
        meter = Meter(Stage.SENDING, lambda step: None, files=1, bytes=1)
        meter.stop()

        with pytest.raises(Stopped):
            meter.add_bytes(1)


class TestRoom:
    def test_what_does_not_fit_waits_for_what_goes(self) -> None:
        room = Room(2, 100)
        room.take(60)
        entered = threading.Event()

        def take() -> None:
            room.take(60)
            entered.set()

        threading.Thread(target=take, daemon=True).start()

        assert not entered.wait(0.05)
        room.give_back(60)
        assert entered.wait(5)

    def test_things_are_counted_too(self) -> None:
        room = Room(1, 100)
        room.take(1)
        second = threading.Thread(target=room.take, args=(1,), daemon=True)
        second.start()

        second.join(0.05)

        assert second.is_alive()

    def test_one_thing_always_fits(self) -> None:
        Room(1, 10).take(99)


class TestThreads:
    def test_a_failure_ends_what_has_not_begun_and_tells_the_rest(self) -> None:
        begun: list[int] = []
        told = threading.Event()

        def work(number: int) -> None:
            begun.append(number)
            time.sleep(0.01)
            if number == 0:
                raise ValueError("first")

        with pytest.raises(ValueError, match="first"), threads(1, told.set) as pool:
            list(pool.map(work, range(1000)))

        assert told.is_set()
        assert len(begun) < 1000

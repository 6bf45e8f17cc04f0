"""Counting what a long work has done, from many threads, for whoever shows it; and ending such a work early."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum


class Stage(StrEnum):
    """What a transfer is at."""

    READING = "reading"  # files are read and hashed
    SENDING = "sending"
    FETCHING = "fetching"


@dataclass(frozen=True)
class Progress:
    """How far a stage is."""

    stage: Stage
    files: int = 0
    files_done: int = 0
    bytes: int = 0
    bytes_done: int = 0


Watcher = Callable[[Progress], None]


class Stopped(Exception):
    """The work was given up; only its own threads see this."""


class Meter:
    """Counts, tells the watcher, and ends the threads that count when the work is given up."""

    def __init__(self, stage: Stage, watcher: Watcher, *, files: int, bytes: int) -> None:  # noqa: A002
        self._lock = threading.Lock()
        self._now = Progress(stage, files=files, bytes=bytes)
        self._watcher = watcher
        self._stop = threading.Event()
        watcher(self._now)

    def add(self, *, files: int = 0, bytes: int = 0) -> None:  # noqa: A002
        """
        Count, also backwards.

        :raises Stopped: the work was given up
        """
        if self._stop.is_set():
            raise Stopped
        with self._lock:
            now = self._now
            self._now = replace(now, files_done=now.files_done + files, bytes_done=now.bytes_done + bytes)
            self._watcher(self._now)

    def add_bytes(self, count: int) -> None:
        self.add(bytes=count)

    def stop(self) -> None:
        self._stop.set()


class Room:
    """How much may be under way at once: so many things, of so many bytes together. One thing always fits."""

    def __init__(self, things: int, size: int) -> None:
        self._things, self._size = things, size
        self._used_things = self._used_size = 0
        self._changed = threading.Condition()

    def take(self, size: int) -> None:
        """Wait for room."""
        with self._changed:
            self._changed.wait_for(lambda: self._fits(size))
            self._used_things += 1
            self._used_size += size

    def give_back(self, size: int) -> None:
        with self._changed:
            self._used_things -= 1
            self._used_size -= size
            self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        if not self._used_things:
            return True
        return self._used_things < self._things and self._used_size + size <= self._size


@contextmanager
def threads(count: int, give_up: Callable[[], None]) -> Iterator[ThreadPoolExecutor]:
    """Have threads for a work; when it fails or is interrupted, what has not begun never does, and the rest is told."""
    pool = ThreadPoolExecutor(count, thread_name_prefix="farmhand")
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        give_up()
        pool.shutdown(cancel_futures=True)
        raise

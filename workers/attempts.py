"""The attempts this worker holds: what the farm assigned, where each is, how each ended."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import threading
import time
from collections import deque
from pathlib import Path

from workers.attempt_log import AttemptLog
from workers.protocol import (
    Assignment,
    AttemptReport,
    Cause,
    End,
    Outcome,
    Phase,
    decode,
    encode,
)
from workers.transfer import Parcel

REMEMBERED = 1000


@dataclasses.dataclass(frozen=True)
class Stop:
    """Why an attempt is to be stopped, and what is then reported; `outcome` None: nothing, nobody wants to hear."""

    outcome: Outcome | None
    cause: Cause | None
    sentence: str


UNLISTED = Stop(None, None, "the farm no longer lists it")


class Held:
    """One attempt on this worker. Written by the thread that has it; `stop` may come from any."""

    def __init__(self, assignment: Assignment, folder: Path) -> None:
        self.assignment = assignment
        self.folder = folder
        self.log = AttemptLog()
        self.phase = Phase.QUEUED
        self.progress = 0.0
        self.setup_ms = 0
        self.render_ms = 0
        self.peak_memory_mib = 0
        self.device = ""
        self.is_finishing = False  # its log is sent by the finisher from now on
        self.parcels: list[Parcel] = []  # what it sends, and sends again if the farm asks
        self.unsaved_end: End | None = None  # an end for which the disk had no room
        self._started: float | None = None
        self._stop: Stop | None = None

    @property
    def id(self) -> str:
        return self.assignment.attempt

    @property
    def results(self) -> Path:
        """Where the files it rendered are, once it has rendered."""
        return self.folder / "out"

    @property
    def stop(self) -> Stop | None:
        return self._stop

    def order_stop(self, stop: Stop) -> None:
        """Ask whoever has the attempt to stop it; the first reason counts, unless the farm unlists it."""
        if self._stop is None or stop is UNLISTED:
            self._stop = stop

    def start_clock(self) -> None:
        self.phase = Phase.RUNNING
        self._started = time.monotonic()

    def stop_clock(self) -> None:
        if self._started is not None:
            self.render_ms = self.elapsed_ms
            self._started = None

    @property
    def elapsed_ms(self) -> int:
        if self._started is None:
            return self.render_ms
        return round((time.monotonic() - self._started) * 1000)

    def end(self, *, outcome: Outcome, cause: Cause | None, sentence: str) -> End:
        """Word an end without outputs from what was measured."""
        return End(
            outcome=outcome,
            cause=cause,
            sentence=sentence,
            setup_ms=self.setup_ms,
            render_ms=self.render_ms,
            peak_memory_mib=self.peak_memory_mib,
            device=self.device,
            outputs=[],
        )

    def report(self) -> AttemptReport:
        return AttemptReport(
            attempt=self.id,
            generation=self.assignment.generation,
            phase=self.phase,
            progress=min(1.0, max(0.0, self.progress)),
            elapsed_ms=self.elapsed_ms,
            log_chunks=self.log.chunks_stored,
        )


class Attempts:
    """All attempts held, in the order in which they came. Ends wait on disk until the farm has answered them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, Held] = {}
        self._answered: deque[str] = deque(maxlen=REMEMBERED)
        self._lock = threading.Lock()
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier worker: nobody asks for it
        folder.mkdir(parents=True)
        self._number = 0

    def take(self, assignment: Assignment) -> Held | None:
        """Hold a new attempt; None if it is held already, or was once: no attempt runs twice here."""
        with self._lock:
            if assignment.attempt in self._held or assignment.attempt in self._answered:
                return None
            self._number += 1
            held = Held(assignment, self._folder / str(self._number))
            with contextlib.suppress(OSError):  # a full disk shall fail the attempt, not us
                held.folder.mkdir()
            self._held[held.id] = held
            return held

    def get(self, attempt: str) -> Held | None:
        with self._lock:
            return self._held.get(attempt)

    def all(self) -> list[Held]:
        with self._lock:
            return list(self._held.values())

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not self._held

    def end(self, held: Held, end: End) -> None:
        """Write an end to disk, to be reported until it is answered; a full disk keeps it in memory."""
        try:
            _write_whole(held.folder / "end.json", json.dumps(encode(end)))
        except OSError:
            held.unsaved_end = end
        held.progress = 1.0 if end.outcome is Outcome.SUCCEEDED else held.progress
        held.phase = Phase.ENDED

    def reopen(self, held: Held) -> End:
        """Take an end back, because the farm wants its outputs sent again."""
        end = self._read_end(held)
        held.unsaved_end = None
        held.phase = Phase.RUNNING
        return end

    def forget(self, held: Held) -> None:
        """Drop an attempt and all it left on disk."""
        with self._lock:
            if self._held.pop(held.id, None) is not None:
                self._answered.append(held.id)
        shutil.rmtree(held.folder, ignore_errors=True)

    def reports(self) -> list[AttemptReport]:
        """Say of every attempt where it is, with the ends read back from disk."""
        return [self._with_end(held) for held in self.all()]

    def _with_end(self, held: Held) -> AttemptReport:
        report = held.report()
        if report.phase is not Phase.ENDED:
            return report
        return dataclasses.replace(report, end=self._read_end(held))

    def _read_end(self, held: Held) -> End:
        if held.unsaved_end is not None:
            return held.unsaved_end
        return decode(End, json.loads((held.folder / "end.json").read_text(encoding="utf-8")))


def _write_whole(file: Path, text: str) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)

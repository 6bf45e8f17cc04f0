"""One part's life: started, looked at, started again with growing patience, ended."""

import os
import signal
import subprocess
import time

from infra.local import process
from infra.local.folder import ROOT, Folder
from infra.local.parts import Part
from infra.local.process import Process
from infra.local.refusals import Refusal
from infra.local.state import PartReport, PartState

DELAYS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)  # seconds before the next try, by failures in a row
SETTLED = 3.0  # seconds alive after which a part without a check counts as well
FORGIVEN = 60.0  # seconds well after which earlier failures no longer count
PAUSES = {PartState.STARTING: 0.2, PartState.UNWELL: 0.5, PartState.READY: 10.0}  # seconds between two looks


class Keeper:
    """Keeps one part alive. Time comes in as `now`, seconds of the monotonic clock."""

    def __init__(self, part: Part, folder: Folder) -> None:
        self.part = part
        self.folder = folder
        self.state = PartState.WAITING
        self.child: subprocess.Popen[bytes] | None = None
        self.process: Process | None = None
        self.since = time.time()
        self.restarts = 0
        self.failures = 0
        self.note = ""
        self._next_look = 0.0
        self._well_at = 0.0
        self._started_at = 0.0

    @property
    def is_ready(self) -> bool:
        return self.state in {PartState.READY, PartState.DONE}

    @property
    def pid(self) -> int:
        return self.child.pid if self.child else 0

    def report(self) -> PartReport:
        started = self.process.started if self.process else 0
        return PartReport(self.part.name, self.state, self.pid, started, self.since, self.restarts, self.note)

    def start(self, now: float) -> None:
        """
        Start the part's process.

        :raises Refusal: it cannot be prepared
        """
        self.part.prepare()
        name, value = self.folder.marker.split("=", 1)
        self.child = process.start(
            self.part.command(),
            env={**self.part.env, name: value},
            log=self.folder.log / f"{self.part.name}.log",
            folder=ROOT,
            last_wish=self.part.last_wish,
        )
        self.process = Process.of(self.child.pid)
        self._started_at = self._well_at = now
        self._move(PartState.STARTING)

    def look(self, now: float) -> None:
        """Do what is due: bury the part's process, start it again, ask it how it is."""
        if self.child and process.has_ended(self.child):
            self._bury(now)
        elif now < self._next_look:
            return
        elif self.state is PartState.DOWN:
            self._restart(now)
        elif self.child and not self.part.once:
            self._ask(now)

    def _bury(self, now: float) -> None:
        assert self.child
        status = process.bury(self.child)
        self.child = self.process = None
        if self.part.once and status == 0:
            self._move(PartState.DONE)
            return
        self._count_failure(now, f"ended with {describe(status)}")

    def _count_failure(self, now: float, note: str) -> None:
        self.failures = 1 if now - self._started_at > FORGIVEN else self.failures + 1
        self._next_look = now + DELAYS[min(self.failures, len(DELAYS)) - 1]
        self._move(PartState.DOWN, note)

    def _restart(self, now: float) -> None:
        self.restarts += 1
        try:
            self.start(now)
        except Refusal as refusal:  # what was fine at the first start may be so again later
            self._count_failure(now, str(refusal))

    def _ask(self, now: float) -> None:
        if self.part.check is None:
            if now - self._started_at >= SETTLED:
                self._move(PartState.READY)
            return
        try:
            self.part.check()
        except Exception as error:  # whatever it is, the part is not well
            self._not_well(now, " ".join(str(error).split()))
        else:
            self._well_at = now
            self._move(PartState.READY)
        self._next_look = now + PAUSES[self.state]

    def _not_well(self, now: float, note: str) -> None:
        if self.state is PartState.READY:
            self._move(PartState.UNWELL, note)
        if self.part.hung_after and now - self._well_at > self.part.hung_after and self.process:
            self.process.send(signal.SIGKILL)

    def _move(self, state: PartState, note: str = "") -> None:
        if state is not self.state:
            self.state, self.since, self.note = state, time.time(), note

    def ask_to_end(self) -> None:
        if self.child and self.process:
            self.process.send(self.part.last_wish)

    def end(self, deadline: float) -> None:
        """Wait until the part's process has ended, and kill it with its group at the deadline."""
        while self.child and not process.has_ended(self.child):
            if time.monotonic() > deadline:
                os.killpg(self.child.pid, signal.SIGKILL)
            time.sleep(0.02)
        if self.child:
            process.bury(self.child)
        self.child = self.process = None
        self._move(PartState.STOPPED, self.note)


def describe(status: int) -> str:
    return f"status {status}" if status >= 0 else signal.Signals(-status).name

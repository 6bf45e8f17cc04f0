"""The supervisor: starts the parts stage by stage, keeps them alive, and ends them in the opposite order."""

import signal
import time
from collections.abc import Callable, Sequence

from infra.local.folder import Folder
from infra.local.keeper import Keeper
from infra.local.logs import keep_small
from infra.local.parts import Layout, Stage, lay_out
from infra.local.process import Process
from infra.local.refusals import Refusal
from infra.local.state import FarmState, PartState, Report, write_report, write_variables
from infra.local.strays import end_strays

ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
WAKING = {*ENDING, signal.SIGCHLD}
FAILURES_AT_START = 3
STARTING_PAUSE, STEADY_PAUSE = 0.05, 1.0  # seconds between two rounds; the end of a child wakes us at once
LOG_PAUSE = 30.0


def run(folder: Folder, *, only_services: bool, throwaway: bool) -> int:
    """
    Supervise in this process until told to end.

    :raises AlreadyRuns: a supervisor already works in this folder
    """
    folder.make()
    with folder.in_charge():
        return Supervisor(lay_out(folder, only_services=only_services, throwaway=throwaway), folder, tell).run()


def tell(line: str) -> None:
    print(time.strftime("%Y-%m-%d %H:%M:%S"), line, flush=True)


class PartFailed(Refusal):
    """{name} does not start: {note}. Its log is {log}."""


class Supervisor:
    """All keepers of one folder, and the report about them."""

    def __init__(self, layout: Layout, folder: Folder, tell: Callable[[str], None]) -> None:
        self.layout = layout
        self.folder = folder
        self.tell = tell
        self.keepers = [Keeper(part, folder) for part in layout.parts]
        self.state = FarmState.STARTING
        self.failure = ""
        self._me = Process.mine()
        self._last: Report | None = None
        self._logs_at = 0.0

    def run(self) -> int:
        """Supervise until told to end; 0 unless the parts could not be started."""
        signal.pthread_sigmask(signal.SIG_BLOCK, WAKING)  # they are waited for, see `_until_told_to_end`
        if count := end_strays(self.folder):
            self.tell(f"ended {count} processes that an earlier supervisor left")
        write_variables(self.folder, self.layout.variables)
        self._report()
        try:
            self._until_told_to_end()
        except Refusal as refusal:
            self.failure = str(refusal)
            self.tell(self.failure)
        finally:
            self._end()
        return 1 if self.failure else 0

    def _until_told_to_end(self) -> None:
        while True:
            now = time.monotonic()
            self._start_next_stage(now)
            for keeper in self.keepers:
                keeper.look(now)
            self._judge()
            self._report()
            self._keep_logs_small(now)
            told = signal.sigtimedwait(WAKING, self._pause())
            if told and told.si_signo in ENDING:
                return

    def _start_next_stage(self, now: float) -> None:
        waiting = [keeper for keeper in self.keepers if keeper.state is PartState.WAITING]
        if waiting and all(keeper.is_ready for keeper in self.keepers if keeper not in waiting):
            stage = min(keeper.part.stage for keeper in waiting)
            for keeper in waiting:
                if keeper.part.stage is stage:
                    keeper.start(now)

    def _judge(self) -> None:
        """
        See whether the start is over.

        :raises PartFailed: a part ended too often before everything was ready once
        """
        if self.state is not FarmState.STARTING:
            return
        for keeper in self.keepers:
            if keeper.failures >= (1 if keeper.part.once else FAILURES_AT_START):
                log = self.folder.log / f"{keeper.part.name}.log"
                raise PartFailed(name=keeper.part.name, note=keeper.note, log=log)
        if all(keeper.is_ready for keeper in self.keepers):
            self.state = FarmState.UP

    def _pause(self) -> float:
        steady = self.state is FarmState.UP and all(keeper.is_ready for keeper in self.keepers)
        return STEADY_PAUSE if steady else STARTING_PAUSE

    def _report(self) -> None:
        """Write down and tell what has changed."""
        parts = [keeper.report() for keeper in self.keepers]
        report = Report(self._me, self.state, self.layout.variables["FARM_URL"], self.failure, parts)
        if report == self._last:
            return
        known = self._last.parts if self._last else []
        for part in parts:
            if part not in known:
                self.tell(f"{part.name}: {part.state}" + (f" ({part.note})" if part.note else ""))
        write_report(self.folder, report)
        self._last = report

    def _keep_logs_small(self, now: float) -> None:
        if now - self._logs_at > LOG_PAUSE:
            self._logs_at = now
            keep_small(self.folder.log)

    def _end(self) -> None:
        """End all stages, the last first. What the parts started and left, such as agents, ends before web does."""
        self.state = FarmState.FAILED if self.failure else FarmState.STOPPING
        for stage in sorted(Stage, reverse=True):
            self._end_stage([keeper for keeper in self.keepers if keeper.part.stage is stage])
            if stage is Stage.WORK:
                end_strays(self.folder, besides=[keeper.pid for keeper in self.keepers if keeper.pid])
        end_strays(self.folder, patience=1)
        self._report()

    def _end_stage(self, keepers: Sequence[Keeper]) -> None:
        asked = time.monotonic()
        for keeper in keepers:
            keeper.ask_to_end()
        for keeper in keepers:
            keeper.end(deadline=asked + keeper.part.patience)
        self._report()

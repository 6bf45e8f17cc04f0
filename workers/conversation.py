"""The sync thread: says what this worker holds, hears what it shall hold, and makes it so."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from workers.attempts import UNLISTED, Attempts, Held, Stop
from workers.cache import Cache
from workers.causes import AttemptFailed
from workers.farm_client import FarmClient, FarmRefuses, FarmUnreachable, TokenRefused, pauses
from workers.finish import Finisher, free_mib
from workers.protocol import (
    Answer,
    Assignment,
    Cause,
    EndAnswer,
    Order,
    Outcome,
    Phase,
    SlotReport,
    SyncAnswer,
    SyncRequest,
    WorkerState,
)
from workers.slot import Slot

LOG = logging.getLogger("farmhand.sync")
REFUSALS = 5  # so often outputs are sent again before the attempt is given up


class Conversation:
    """
    Level-triggered: every round says everything and obeys everything, so a lost or doubled round changes nothing.

    `run` returns when the worker shall end.
    """

    def __init__(
        self,
        farm: FarmClient,
        *,
        folder: Path,
        attempts: Attempts,
        cache: Cache,
        slots: Sequence[Slot],
        finisher: Finisher,
        interval_s: float,
        silence_s: float,
        delivery_s: float,
    ) -> None:
        self._farm = farm
        self._folder = folder
        self._attempts = attempts
        self._cache = cache
        self._slots: Mapping[int, Slot] = {slot.index: slot for slot in slots}
        self._finisher = finisher
        self._interval_s = interval_s
        self._silence_s = silence_s
        self._delivery_s = delivery_s
        self._due = 0.0  # when the next round is wanted
        self._wished = threading.Condition()
        self._heard = time.monotonic()
        self._refusals: dict[str, int] = {}
        self._wanted = WorkerState.READY
        self._draining = ""  # why we drain by our own will

    def wake(self, *, within: float = 0.0) -> None:
        """
        Sync at once, or together with whatever else is to be said within so many seconds; called from any thread.

        A round costs the farm and this machine some hundredths of a second, which frames of two seconds notice.
        """
        with self._wished:
            self._due = min(self._due, time.monotonic() + within)
            self._wished.notify()

    def _rest(self, seconds: float) -> None:
        """Wait for the next round's time."""
        self.wake(within=seconds)
        with self._wished:
            while (left := self._due - time.monotonic()) > 0:
                self._wished.wait(left)

    def drain(self, reason: str) -> None:
        """Take nothing more; end when nothing is held and the farm knows."""
        self._draining = self._draining or reason
        self.wake()

    @property
    def is_draining(self) -> bool:
        return bool(self._draining)

    def may_start(self) -> bool:
        """Say whether an attempt that waits may be started."""
        return not self._draining and self._silence < self._silence_s

    @property
    def _silence(self) -> float:
        return time.monotonic() - self._heard

    def run(self) -> None:
        """Talk until the worker shall end."""
        waits = pauses()
        while True:
            with self._wished:
                self._due = math.inf  # what is wished from here on may not be in this round
            try:
                is_over = self._round()
                waits = pauses()
                wait = self._interval_s
            except FarmUnreachable as error:
                LOG.warning("%s", error)
                is_over = self._is_forsaken()
                wait = min(self._interval_s, next(waits))
            except TokenRefused as error:
                LOG.error("%s", error)
                return
            except FarmRefuses as error:
                LOG.error("%s", error)
                is_over = error.is_final or self._is_forsaken()
                wait = self._interval_s
            except Exception:
                LOG.exception("a round failed; the next one says and hears everything again")
                is_over = self._is_forsaken()
                wait = self._interval_s
            if is_over:
                return
            self._rest(wait)

    def _round(self) -> bool:
        """Do one sync; True if the worker shall end."""
        request = self._request()
        answer = self._farm.sync(request)
        self._heard = time.monotonic()
        self._interval_s = answer.interval_s
        self._obey(answer)
        if answer.state is WorkerState.GONE:
            return True
        is_done = self.is_draining and self._attempts.is_idle
        if is_done and (request.attempts or request.state is WorkerState.READY):
            self.wake()  # once more, so that the farm knows it too
            return False
        return is_done

    def _request(self) -> SyncRequest:
        is_draining = self.is_draining or self._wanted is not WorkerState.READY
        return SyncRequest(
            state=WorkerState.DRAINING if is_draining else WorkerState.READY,
            reason=self._draining,
            free_disk_mib=free_mib(self._folder),
            scene_versions=self._cache.versions(),
            slots=[_slot_report(slot) for slot in self._slots.values()],
            attempts=self._attempts.reports(),
        )

    def _obey(self, answer: SyncAnswer) -> None:
        self._wanted = answer.state
        answered = {one.attempt for one in answer.answers}
        for one in answer.answers:
            self._settle(one)
        listed = {assignment.attempt for assignment in answer.attempts}
        for held in self._attempts.all():
            if held.id not in listed and held.id not in answered:
                self._stop(held, UNLISTED)
        if answer.state is WorkerState.GONE:
            return
        for assignment in answer.attempts:
            if assignment.order is Order.STOP:
                self._order_stop(assignment)
            elif assignment.attempt not in answered:
                self._start(assignment)

    def _settle(self, one: EndAnswer) -> None:
        """An end was answered: drop the attempt, or send its outputs again if the farm lacks them."""
        held = self._attempts.get(one.attempt)
        if held is None or held.phase is not Phase.ENDED:
            return
        if one.answer is not Answer.REFUSED:
            self._attempts.forget(held)
            self._refusals.pop(held.id, None)
            return
        self._refusals[held.id] = self._refusals.get(held.id, 0) + 1
        LOG.warning("the farm refuses the end of %s: %s", held.id, one.reason)
        if self._refusals[held.id] < REFUSALS:
            self._finisher.send_again(held)
        else:
            self._attempts.reopen(held)
            sentence = f"The store does not hold the outputs as they were sent: {one.reason}"
            self._finisher.failed(held, AttemptFailed(Cause.TRANSFER_FAILED, sentence))

    def _start(self, assignment: Assignment) -> None:
        held = self._attempts.take(assignment)
        if held is None:
            return  # held already, or done with: no attempt runs twice
        slot = self._slots.get(assignment.slot)
        if slot is None:
            self._finisher.failed(held, AttemptFailed(Cause.AGENT_ERROR, f"There is no slot {assignment.slot} here."))
        elif not self.may_start():
            held.order_stop(hand_back(self._draining))
            self._finisher.stopped(held)
        else:
            slot.assign(held)

    def _order_stop(self, assignment: Assignment) -> None:
        sentence = f"Stopped by the farm: {assignment.reason}." if assignment.reason else "Stopped by the farm."
        stop = Stop(Outcome.CANCELLED, Cause.CANCELLED, sentence)
        if (held := self._attempts.get(assignment.attempt)) is not None:
            self._stop(held, stop)
        elif (fresh := self._attempts.take(assignment)) is not None:  # stopped before it ever came here
            fresh.order_stop(stop)
            self._finisher.stopped(fresh)

    def _stop(self, held: Held, stop: Stop) -> None:
        """Stop whatever of an attempt runs; an end that waits for its answer stays, unless the farm unlists it."""
        if held.phase is Phase.ENDED:
            if stop is UNLISTED:
                self._attempts.forget(held)
            return
        held.order_stop(stop)
        if (slot := self._slots.get(held.assignment.slot)) is not None:
            slot.stop(held)

    def _is_forsaken(self) -> bool:
        """Say whether the silence has lasted so long that the worker ends itself."""
        if self._silence < self._silence_s:
            return False
        return self._attempts.is_idle or self._silence > self._silence_s + self._delivery_s


def hand_back(reason: str) -> Stop:
    """Give an attempt that has not started back to the farm."""
    return Stop(Outcome.INTERRUPTED, Cause.INTERRUPTED, f"Handed back unstarted: {reason or 'the worker ends'}.")


def interruption(reason: str) -> Stop:
    return Stop(Outcome.INTERRUPTED, Cause.INTERRUPTED, f"Interrupted: {reason}. It is rendered again elsewhere, free.")


def _slot_report(slot: Slot) -> SlotReport:
    gauge = slot.gpu.read()
    return SlotReport(
        index=slot.index,
        step=slot.step,
        gpu_use=gauge.use,
        gpu_memory_mib=gauge.memory_mib,
        gpu_power_w=gauge.power_w,
    )

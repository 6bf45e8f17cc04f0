"""The agent's end of a session's pipe: orders down, answers up, none of which is trusted."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import queue
import threading
from typing import Any

from workers.limits import Use
from workers.sandbox import Enclosure, Plan

LINE_LIMIT = 1024 * 1024
WAITING_ANSWERS = 10_000
COMMAND = ("/farmhand/bin/python3", "-m", "workers.session")


@dataclasses.dataclass(frozen=True)
class Said:
    """One answer of the driver: `log`, `progress`, `ended`, or `gone` when nothing more will come."""

    kind: str
    text: str = ""
    value: float = 0.0
    state: str = ""
    exit_code: int | None = None


GONE = Said("gone")
POKE = Said("poke")  # from the agent itself: look whether the attempt is to be stopped


class SessionPipe:
    """A driver in its sandbox. One thread gives orders and hears; any thread may `poke` it."""

    def __init__(self, plan: Plan, enclosure: Enclosure) -> None:
        self.tree = enclosure.start(plan)
        self._answers: queue.Queue[Said] = queue.Queue(maxsize=WAITING_ANSWERS)
        self._closed = False
        threading.Thread(target=self._read, name=f"{plan.name}-pipe", daemon=True).start()

    def order(self, do: str, **rest: Any) -> None:
        """Give the driver an order; if it is gone, `hear` says so."""
        with contextlib.suppress(OSError, ValueError):
            self.tree.stdin.write(json.dumps({"do": do, **rest}).encode() + b"\n")
            self.tree.stdin.flush()

    def hear(self, timeout: float) -> Said | None:
        """Take the next answer; None if there is none in `timeout` seconds."""
        try:
            return self._answers.get(timeout=timeout)
        except queue.Empty:
            return None

    def poke(self) -> None:
        """Wake whoever hears."""
        with contextlib.suppress(queue.Full):
            self._answers.put_nowait(POKE)

    def use(self) -> Use:
        return self.tree.use()

    def close(self) -> None:
        """Kill the driver and all that runs in its sandbox."""
        self._closed = True
        self.tree.close()
        with contextlib.suppress(queue.Full):  # full: whoever hears comes to the end by itself
            self._answers.put_nowait(GONE)

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := self.tree.stdout.readline(LINE_LIMIT):
                said = parse_answer(line)
                self._put(said)
                if said is GONE:
                    return
        self._put(GONE)

    def _put(self, said: Said) -> None:
        while not self._closed:
            with contextlib.suppress(queue.Full):
                return self._answers.put(said, timeout=1)
        return None


def parse_answer(line: bytes) -> Said:
    """Read one line of the driver; what is not an answer ends the conversation."""
    try:
        answer = json.loads(line)
        kind = answer["kind"]
        if kind == "log":
            return Said("log", text=_text(answer["text"]))
        if kind == "progress":
            return Said("progress", value=float(answer["value"]))
        if kind == "ended":
            code = answer["exit_code"]
            return Said(
                "ended",
                text=_text(answer["message"]),
                state=_text(answer["state"]),
                exit_code=None if code is None else int(code),
            )
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        pass
    return GONE


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value

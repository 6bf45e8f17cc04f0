"""
The driver of one OpenJD session: runs inside the sandbox, takes orders as JSON lines, answers with JSON lines.

Orders: `enter` (once), `run` (one task), `leave`. Answers: `log`, `progress` and, once per order, `ended`.
The end of its standard input ends it, and with it everything in the sandbox.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

from openjd.model import (
    ParameterValue,
    ParameterValueType,
    RevisionExtensions,
    SpecificationRevision,
    parse_model,
)
from openjd.model.v2023_09 import Environment, StepScript
from openjd.sessions import (
    LOG,
    ActionState,
    ActionStatus,
    LogContent,
    PathFormat,
    PathMappingRule,
    Session,
    _subprocess,
)

Order = dict[str, Any]
HEARD = ("openjd_progress: ", "openjd_status: ")  # passed on as what they mean
SHOWN = LogContent.COMMAND_OUTPUT | LogContent.EXCEPTION_INFO


class PatientQueue(queue.Queue[str]):
    """
    A queue that waits fifty times longer than it is asked to.

    The sessions library asks its queue of output lines every millisecond whether the program has ended, which costs
    4.5 % of a core while a frame renders; every fifty costs 0.1 %. A line, and the end of all lines, come at once.
    """

    def get(self, block: bool = True, timeout: float | None = None) -> str:
        return super().get(block, None if timeout is None else timeout * 50)


class Channel:
    """Where answers go; one line each, from any thread."""

    def __init__(self, pipe: IO[str]) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def send(self, kind: str, **rest: Any) -> None:
        line = json.dumps({"kind": kind, **rest}) + "\n"
        with self._lock:
            self._pipe.write(line)
            self._pipe.flush()


class LogLines(logging.Handler):
    """Passes on what actions print and what goes wrong; the library's banners stay here."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(logging.INFO)
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        content = getattr(record, "openjd_log_content", None) or LogContent(0)
        is_banner = LogContent.BANNER in content
        text = record.getMessage()
        if text.startswith(HEARD):
            return
        if (content & SHOWN and not is_banner) or record.levelno >= logging.WARNING:
            self._channel.send("log", text=text)


class Driver:
    """One OpenJD session and the orders it follows."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._session: Session | None = None
        self._script: StepScript | None = None
        self._step_name = ""
        self._entered: list[str] = []
        self._ended = threading.Event()

    def follow(self, order: Order) -> None:
        """Carry out one order and say how it ended."""
        try:
            status = {"enter": self._enter, "run": self._run, "leave": self._leave}[order["do"]](order)
        except Exception as error:
            self._channel.send("ended", state="error", exit_code=None, message=f"{type(error).__name__}: {error}")
        else:
            self._channel.send("ended", **status)

    def _enter(self, order: Order) -> Mapping[str, Any]:
        root = Path(tempfile.mkdtemp(prefix="session-"))
        extensions = order["extensions"]
        self._step_name = order["name"]
        self._script = parse_model(model=StepScript, obj=order["script"], supported_extensions=extensions)
        self._session = Session(
            session_id="session",
            job_parameter_values=_parameters(order["parameters"]),
            path_mapping_rules=_rules(order["rules"]) or None,
            callback=self._hear,
            session_root_directory=root,
            revision_extensions=RevisionExtensions(
                spec_rev=SpecificationRevision.v2023_09, supported_extensions=extensions
            ),
        )
        for number, environment in enumerate(order["environments"]):
            model = parse_model(model=Environment, obj=environment, supported_extensions=extensions)
            self._begin()
            identifier = self._session.enter_environment(
                environment=model, identifier=str(number), step_name=self._step_name
            )
            self._entered.append(identifier)
            status = self._wait()
            if status["state"] != ActionState.SUCCESS.value:
                return status
        return _SUCCESS

    def _run(self, order: Order) -> Mapping[str, Any]:
        assert self._session is not None
        assert self._script is not None
        for folder in order["folders"]:
            Path(folder).mkdir(parents=True, exist_ok=True)
        self._begin()
        self._session.run_task(
            step_script=self._script,
            task_parameter_values=_parameters(order["parameters"]),
            log_task_banner=False,
            step_name=self._step_name,
        )
        return self._wait()

    def _leave(self, order: Order) -> Mapping[str, Any]:
        assert self._session is not None
        while self._entered:
            self._begin()
            self._session.exit_environment(identifier=self._entered.pop())
            self._wait()
        self._session.cleanup()
        return _SUCCESS

    def _begin(self) -> None:
        self._ended.clear()

    def _wait(self) -> Mapping[str, Any]:
        assert self._session is not None
        self._ended.wait()
        status = self._session.action_status
        assert status is not None
        return {"state": status.state.value, "exit_code": status.exit_code, "message": status.fail_message or ""}

    def _hear(self, session_id: str, status: ActionStatus) -> None:
        if status.state != ActionState.RUNNING:
            self._ended.set()
        elif status.progress is not None:
            self._channel.send("progress", value=status.progress / 100)


_SUCCESS: Mapping[str, Any] = {"state": ActionState.SUCCESS.value, "exit_code": 0, "message": ""}


def _parameters(values: Mapping[str, Mapping[str, str]]) -> dict[str, ParameterValue]:
    return {name: _parameter(value["type"], value["value"]) for name, value in values.items()}


def _parameter(kind: str, value: str) -> ParameterValue:
    """Word a value as the library wants it: lists and truth values natively, all else as text."""
    native = kind == "BOOL" or kind.startswith("LIST[")
    return ParameterValue(type=ParameterValueType(kind), value=json.loads(value) if native else value)


def _rules(pairs: list[list[str]]) -> list[PathMappingRule]:
    return [
        PathMappingRule(
            source_path_format=PathFormat.WINDOWS,
            source_path=PureWindowsPath(source),
            destination_path=PurePosixPath(destination),
        )
        for source, destination in pairs
    ]


def _take_orders(orders: queue.SimpleQueue[Order]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)  # the agent is gone, or done with us


def main() -> None:
    channel = Channel(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.environ.pop("PYTHONPATH", None)  # it was for us; actions get none of it
    os.dup2(2, 1)  # a stray print must not be taken for an answer
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
    LOG.addHandler(LogLines(channel))
    _subprocess.__dict__["Queue"] = PatientQueue
    orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
    driver = Driver(channel)
    threading.Thread(target=_take_orders, args=(orders,), daemon=True).start()
    while True:
        driver.follow(orders.get())


if __name__ == "__main__":
    main()

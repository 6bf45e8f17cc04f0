"""OpenJD sessions on this machine, without sandbox: what the agent does with a template, for the renderers' tests."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from openjd.model import (
    ParameterValue,
    ParameterValueType,
    create_job,
    decode_job_template,
    preprocess_job_parameters,
)
from openjd.sessions import (
    LOG,
    ActionState,
    ActionStatus,
    LogContent,
    PathFormat,
    PathMappingRule,
    Session,
)

END_LINE = "farmhand_end:"


@dataclass(frozen=True)
class Ended:
    """How an action ended and what it printed."""

    state: ActionState
    lines: list[str]

    @property
    def is_success(self) -> bool:
        return self.state is ActionState.SUCCESS

    @property
    def end(self) -> dict[str, str]:
        """The failure it named itself."""
        named = [line.removeprefix(END_LINE) for line in self.lines if line.startswith(END_LINE)]
        found: dict[str, str] = json.loads(named[-1]) if named else {}
        return found


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.taken: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if (getattr(record, "openjd_log_content", None) or LogContent(0)) & LogContent.COMMAND_OUTPUT:
            self.taken.append(record.getMessage())


class LocalSession:
    """One job of one step, its environments entered once, its tasks run one after another."""

    def __init__(
        self,
        template: str,
        parameters: Mapping[str, str],
        *,
        folder: Path,
        env: Mapping[str, str],
        windows_rules: Sequence[tuple[str, str]] = (),
    ) -> None:
        decoded = decode_job_template(template=json.loads(template), supported_extensions=["TASK_CHUNKING"])
        values = preprocess_job_parameters(
            job_template=decoded,
            job_parameter_values=dict(parameters),
            job_template_dir=folder,
            current_working_dir=folder,
        )
        job: Any = create_job(job_template=decoded, job_parameter_values=values)
        self.step = job.steps[0]
        self.progress: list[float] = []
        self._entered: list[str] = []
        self._lines = _Lines()
        LOG.addHandler(self._lines)
        LOG.setLevel(logging.INFO)
        self._ended = threading.Event()
        self._session = Session(
            session_id="test",
            job_parameter_values=values,
            path_mapping_rules=[_rule(*rule) for rule in windows_rules] or None,
            callback=self._hear,
            os_env_vars={"LANG": "C.UTF-8", "FARMHAND_DEVICE": "CPU", **env},
            session_root_directory=folder,
        )

    def enter(self) -> Ended:
        for number, environment in enumerate(self.step.stepEnvironments or []):
            self._begin()
            self._entered.append(self._session.enter_environment(environment=environment, identifier=str(number)))
            ended = self.wait()
            if not ended.is_success:
                break
        return ended

    def start(self, kind: str = "INT", **parameters: str) -> None:
        self._begin()
        values = {name: ParameterValue(type=ParameterValueType(kind), value=v) for name, v in parameters.items()}
        self._session.run_task(step_script=self.step.script, task_parameter_values=values, log_task_banner=False)

    def run(self, kind: str = "INT", **parameters: str) -> Ended:
        self.start(kind, **parameters)
        return self.wait()

    def cancel(self) -> Ended:
        self._session.cancel_action()
        return self.wait()

    def leave(self) -> Ended | None:
        ended = None
        while self._entered:
            self._begin()
            self._session.exit_environment(identifier=self._entered.pop())
            ended = self.wait()
        return ended

    def close(self) -> None:
        self.leave()
        self._session.cleanup()
        LOG.removeHandler(self._lines)

    @property
    def working_directory(self) -> Path:
        return self._session.working_directory

    @property
    def lines(self) -> list[str]:
        """What the running action has printed so far."""
        return list(self._lines.taken)

    def _begin(self) -> None:
        self._ended.clear()
        self._lines.taken.clear()
        self.progress.clear()

    def wait(self) -> Ended:
        assert self._ended.wait(300), "the action does not end"
        status = self._session.action_status
        assert status is not None
        return Ended(status.state, list(self._lines.taken))

    def _hear(self, _: str, status: ActionStatus) -> None:
        if status.state is not ActionState.RUNNING:
            self._ended.set()
        elif status.progress is not None:
            self.progress.append(status.progress)


def _rule(source: str, destination: str) -> PathMappingRule:
    return PathMappingRule(
        source_path_format=PathFormat.WINDOWS,
        source_path=PureWindowsPath(source),
        destination_path=PurePosixPath(destination),
    )


def path_with(folder: Path) -> str:
    """Give a PATH that finds programs of a folder first."""
    return f"{folder}{os.pathsep}{os.environ['PATH']}"

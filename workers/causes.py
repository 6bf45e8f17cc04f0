"""Why an attempt did not succeed: one cause a program reads and one sentence a person can act on."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass, field
from typing import Any

from workers.protocol import Cause

DEVICE_LINE = "farmhand_device:"
END_LINE = "farmhand_end:"
NO_SPACE = "No space left on device"
SENTENCE_LENGTH = 500
MISTAKE = "The agent made a mistake; its own log has the details. The frame is rendered elsewhere."

CLAIMABLE = frozenset(
    {
        Cause.SCENE_ERROR,
        Cause.SCENE_UNREADABLE,
        Cause.MISSING_ASSET,
        Cause.MISSING_OUTPUT,
        Cause.BAD_OUTPUT,
        Cause.OUT_OF_MEMORY,
        Cause.NO_GPU,
        Cause.DISK_FULL,
        Cause.RENDERER_CRASHED,
    }
)
"""Causes a renderer may name itself; what the agent sees with its own eyes goes before."""


class AttemptFailed(Exception):
    """An attempt failed for `cause`; the text is the sentence that a person reads."""

    def __init__(self, cause: Cause, sentence: str) -> None:
        super().__init__(sentence)
        self.cause = cause
        self.sentence = sentence


@dataclass
class Evidence:
    """What an attempt's log lines gave away."""

    device: str = ""
    claim: dict[str, Any] = field(default_factory=dict)
    saw_no_space: bool = False

    def read(self, line: str) -> None:
        """Look at one log line; a scene can print what it likes, so everything is checked and cut."""
        if line.startswith(DEVICE_LINE):
            self.device = line.removeprefix(DEVICE_LINE).strip()[:120]
        elif line.startswith(END_LINE):
            self.claim = _parse_claim(line.removeprefix(END_LINE))
        elif NO_SPACE in line:
            self.saw_no_space = True


def _parse_claim(text: str) -> dict[str, Any]:
    try:
        claim = json.loads(text)
    except ValueError:
        return {}
    return claim if isinstance(claim, dict) else {}


def claimed_failure(evidence: Evidence) -> AttemptFailed | None:
    """Give the failure that the renderer itself named, if it named one."""
    claim = evidence.claim
    try:
        cause = Cause(str(claim.get("cause")))
    except ValueError:
        return None
    if cause not in CLAIMABLE:
        return None
    sentence = str(claim.get("sentence") or "The renderer gave no reason; read the end of the log.")
    return AttemptFailed(cause, sentence[:SENTENCE_LENGTH])


def failed_action(*, exit_code: int | None, message: str, during: str) -> AttemptFailed:
    """Explain an OpenJD action that did not succeed by its own words or its exit code."""
    if message:
        return AttemptFailed(Cause.SCENE_ERROR, message[:SENTENCE_LENGTH])
    if exit_code is None:
        sentence = f"The command for {during} could not be started; check the template's command and its arguments."
        return AttemptFailed(Cause.SCENE_ERROR, sentence)
    if (name := _signal_name(exit_code)) is not None:
        sentence = f"The renderer crashed ({name}) while {during}; read the end of the log, then retry the frame."
        return AttemptFailed(Cause.RENDERER_CRASHED, sentence)
    sentence = f"The renderer ended with exit code {exit_code} while {during}; the end of the log says why."
    return AttemptFailed(Cause.SCENE_ERROR, sentence)


def _signal_name(exit_code: int) -> str | None:
    """Name the signal that ended a process, reported as -n by Python and as 128 + n by a shell."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        return signal.Signals(number).name if number > 0 else None
    except ValueError:
        return None


def out_of_memory(*, limit_mib: int, peak_mib: int) -> AttemptFailed:
    return AttemptFailed(
        Cause.OUT_OF_MEMORY,
        f"The frame needs more memory than the {limit_mib} MiB it may use here (it reached {peak_mib} MiB): "
        "choose a machine with more memory, or make textures or subdivision smaller.",
    )


def disk_full(free_mib: int) -> AttemptFailed:
    return AttemptFailed(
        Cause.DISK_FULL,
        f"The worker's disk is full ({free_mib} MiB free); the frame is rendered elsewhere, give workers more disk.",
    )


def no_progress(seconds: int) -> AttemptFailed:
    return AttemptFailed(
        Cause.NO_PROGRESS,
        f"Nothing happened for {seconds} s: no log line, no processor or GPU time. Look at the end of the log for what "
        "it waits for; if the scene is right, allow it more time.",
    )


def timeout(seconds: int) -> AttemptFailed:
    return AttemptFailed(
        Cause.TIMEOUT,
        f"The frame took longer than its limit of {seconds} s. Raise the job's time limit or make the frame lighter.",
    )


def no_gpu(device: str) -> AttemptFailed:
    return AttemptFailed(
        Cause.NO_GPU,
        f"The frame was to render on a GPU but {f'rendered on {device}' if device else 'this slot has none'}; "
        "it is rendered elsewhere and costs nothing.",
    )

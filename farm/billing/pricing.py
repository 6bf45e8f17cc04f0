"""What a thing costs and who pays: the rules of money. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

MS_PER_HOUR = 3_600_000
HOLD_WITHOUT_PREDICTION_MS = 10 * 60 * 1000
STANDARD_TIER = "standard"
THRESHOLDS = (50, 80, 100)  # percents of a cap that are announced, once each

PAID_PURPOSES = frozenset({"render"})
SCENE_FAULTS = frozenset({"scene_error", "missing_asset", "out_of_memory"})


class BudgetScope(StrEnum):
    """What a budget limits. Budgets are locked in this order."""

    STUDIO = "studio"  # a studio's month
    PROJECT = "project"
    JOB = "job"  # a cost object


class HoldStatus(StrEnum):
    """What became of a hold."""

    OPEN = "open"
    SETTLED = "settled"  # its attempt ended: a fact says what was charged
    RELEASED = "released"  # its attempt never started


class WhenRefused(StrEnum):
    """What happens to a running attempt whose hold cannot be extended."""

    STOP = "stop"  # it is stopped now
    FINISH = "finish"  # it may finish; what it uses beyond its hold is the farm's


class Reason(StrEnum):
    """Why a fact costs what it costs; the portal words it."""

    VERIFIED = "verified"  # charged: its output is there
    CANCELLED = "cancelled"  # charged: until it stopped, at most the grace beyond the person's wish
    SCENE_FAULT = "scene-fault"  # charged up to the policy's cap: the task's first failure by the scene
    SCENE_FAULT_FREE = "scene-fault-free"  # credited: the policy has no cap, or it is not the first
    FREE_PURPOSE = "free-purpose"  # credited: inspection, previews, stitching
    ALREADY_CHARGED = "already-charged"  # credited: this generation of the task was charged before
    INTERRUPTED = "interrupted"  # credited
    LOST = "lost"  # credited
    SUPERSEDED = "superseded"  # credited
    FARM_FAULT = "farm-fault"  # credited: all other failures, and what the farm itself stopped


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Who pays for what; a job keeps the one it was quoted."""

    scene_error_cap_seconds: int | None = None
    free_setup_seconds: int = 300
    cancel_grace_seconds: int = 15
    free_scout_gpu_seconds: int = 600
    when_refused: WhenRefused = WhenRefused.STOP

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"when_refused": self.when_refused.value}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Policy:
        known = {f.name: stored[f.name] for f in fields(cls) if f.name in stored}
        return cls(**known | {"when_refused": WhenRefused(known.get("when_refused", WhenRefused.STOP))})


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What is known of an ended attempt when it is priced."""

    purpose: str
    outcome: str
    cause: str
    billable_ms: int
    ms_until_cancelled: int | None  # from its start to the studio's wish; None: no person of the studio cancelled it
    is_generation_charged: bool  # another attempt of this task and generation was charged
    is_first_scene_fault: bool  # the scene failed no earlier attempt of this task


@dataclass(frozen=True)
class Verdict:
    """Whether the studio pays, for how many milliseconds, and why."""

    is_charged: bool
    payable_ms: int
    reason: Reason


@dataclass(frozen=True, kw_only=True)
class Charge:
    """The line of a statement: gross, what the studio pays, and what was beyond the hold; in micro-units."""

    gross: int
    charged: int
    over_hold: int


def amount(ms: int, *, gpus: int, rate: int) -> int:
    """Give the price in micro-units of so many milliseconds on so many GPUs, rounded half to even."""
    whole, rest = divmod(ms * gpus * rate, MS_PER_HOUR)
    return whole + (2 * rest > MS_PER_HOUR or (2 * rest == MS_PER_HOUR and whole % 2 == 1))


def hold_amount(predicted_p95_ms: int | None, *, gpus: int, rate: int, purpose: str) -> int:
    """Give what to set aside for an attempt: its predicted price at p95, or ten minutes; nothing if it is free."""
    if purpose not in PAID_PURPOSES:
        return 0
    return amount(HOLD_WITHOUT_PREDICTION_MS if predicted_p95_ms is None else predicted_p95_ms, gpus=gpus, rate=rate)


def judge(usage: Usage, policy: Policy) -> Verdict:
    """Decide who pays for an ended attempt."""
    if usage.purpose not in PAID_PURPOSES:
        return Verdict(False, 0, Reason.FREE_PURPOSE)
    verdict = _judge_outcome(usage, policy)
    if verdict.is_charged and usage.is_generation_charged:
        return Verdict(False, 0, Reason.ALREADY_CHARGED)
    return verdict


def _judge_outcome(usage: Usage, policy: Policy) -> Verdict:
    if usage.outcome == "succeeded":
        return Verdict(True, usage.billable_ms, Reason.VERIFIED)
    if usage.outcome == "cancelled" and usage.ms_until_cancelled is not None:
        latest = usage.ms_until_cancelled + policy.cancel_grace_seconds * 1000
        return Verdict(True, min(usage.billable_ms, latest), Reason.CANCELLED)
    if usage.outcome == "failed" and usage.cause in SCENE_FAULTS:
        return _judge_scene_fault(usage, policy)
    if usage.outcome in {Reason.INTERRUPTED, Reason.LOST, Reason.SUPERSEDED}:
        return Verdict(False, 0, Reason(usage.outcome))
    return Verdict(False, 0, Reason.FARM_FAULT)


def _judge_scene_fault(usage: Usage, policy: Policy) -> Verdict:
    if policy.scene_error_cap_seconds is None or not usage.is_first_scene_fault:
        return Verdict(False, 0, Reason.SCENE_FAULT_FREE)
    return Verdict(True, min(usage.billable_ms, policy.scene_error_cap_seconds * 1000), Reason.SCENE_FAULT)


def price(verdict: Verdict, *, billable_ms: int, gpus: int, rate: int, held: int) -> Charge:
    """Price a verdict: never more than was held; the rest is the farm's."""
    due = amount(verdict.payable_ms, gpus=gpus, rate=rate)
    charged = min(due, held)
    return Charge(gross=amount(billable_ms, gpus=gpus, rate=rate), charged=charged, over_hold=due - charged)


def scout_credit(*, payable_ms: int, gpus: int, rate: int, charged: int, gpu_ms_left: int) -> tuple[int, int]:
    """Give how many GPU-milliseconds of a scout are free within what is left of the day's, and what that is worth."""
    if gpu_ms_left >= payable_ms * gpus:
        return payable_ms * gpus, charged
    free = max(0, gpu_ms_left)
    return free, min(charged, amount(free, gpus=1, rate=rate))


def crossed(*, spent: int, cap: int | None, told: list[int]) -> list[int]:
    """Give the thresholds that spending has reached and nobody was told of."""
    if cap is None:
        return []
    return [percent for percent in THRESHOLDS if percent not in told and spent * 100 >= cap * percent]

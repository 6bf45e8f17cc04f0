"""Why a job waits, or what it is doing: a code with numbers, and the English sentence for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is known of a job at a moment."""

    status: str
    suspended_by: str
    counts: Mapping[str, int]  # tasks by status
    waits_for_jobs: list[str]  # names of jobs it comes after that have not succeeded
    running_slots: int
    eta_s: int | None  # at the present number of slots
    fleets: list[str]  # that could run its ready tasks
    lacking: Mapping[str, str]  # the other fleets, and what each lacks
    paused: str  # "studio", "project", "fleet" or ""
    unrated: list[str]  # classes of worker that could run it, if they had a rate
    budget_missing_micro: int | None
    currency: str
    starting: int  # machines that boot for these fleets
    present: int
    most: int  # machines these fleets may have
    refused: str  # what the provider said last, if nothing came
    ahead: int  # ready tasks of jobs that go first


@dataclass(frozen=True)
class Explanation:
    code: str
    params: dict[str, Any]
    sentence: str


_SENTENCES = {
    "succeeded": "All {total:tasks} succeeded.",
    "failed": "It ended with {failed} of {total:tasks} failed. Look at them, then retry the failed ones.",
    "cancelled": "It was cancelled; {succeeded} of {total:tasks} had succeeded.",
    "suspended-person": "A person suspended it. Resume it when it shall go on; {leased:tasks} still at work.",
    "suspended-approval": "Its scout frames are done. Look at them and at the quote, then continue.",
    "suspended-failures": "It suspended itself: {failed:tasks} failed. Look at one, then resume or cancel.",
    "suspended-budget": "It is suspended by its budget.",
    "rendering": "Rendering on {slots:slots}, {succeeded} of {total} done{eta}.",
    "waits-for-jobs": "It waits for: {jobs}.",
    "paused": "The {what} is paused.",
    "no-fleet": "No fleet could run it: {lacking}.",
    "no-rate": "There is no {currency} rate for {classes}; the farm's operator must set one.",
    "budget": "It waits for budget: {missing} {currency} are missing for the next task.",
    "starting": "{ready:tasks} ready; {starting:machines} starting for them.",
    "refused": "{ready:tasks} ready, but no machine came: {refused}",
    "limit": "{ready:tasks} ready; its fleets' {most:machines} at work, {ahead:tasks} of other jobs go first.",
    "next": "{ready:tasks} ready and about to be handed out.",
    "settling": "{leased:tasks} about to end.",
}


class _Counted(int):
    """A number that says its noun in a sentence: `{n:tasks}` is "1 task" or "1,200 tasks"."""

    def __format__(self, noun: str) -> str:
        return f"{int(self):,} {noun.removesuffix('s') if self == 1 else noun}" if noun else f"{int(self):,}"


def explain(now: Situation) -> Explanation:
    """Say in one code, with numbers, what a job does or waits for; the first reason that holds."""
    total = sum(now.counts.values())
    numbers: dict[str, Any] = {**now.counts, "total": total}
    code, more = _reason(now)
    params = {**numbers, **more}
    worded = {name: _Counted(value) if isinstance(value, int) else value for name, value in params.items()}
    return Explanation(code, params, _SENTENCES[code].format(**worded))


def _reason(now: Situation) -> tuple[str, dict[str, Any]]:
    if now.status != "active" and now.status != "suspended":
        return now.status, {}
    if now.status == "suspended":
        return f"suspended-{now.suspended_by}", {}
    if now.running_slots:
        eta = f", about {_words(now.eta_s)} left" if now.eta_s is not None else ""
        return "rendering", {"slots": now.running_slots, "eta_s": now.eta_s, "eta": eta}
    if now.waits_for_jobs:
        return "waits-for-jobs", {"jobs": ", ".join(now.waits_for_jobs)}
    if now.paused:
        return "paused", {"what": now.paused}
    if not now.fleets:
        return "no-fleet", {"lacking": "; ".join(f"{f} {what}" for f, what in now.lacking.items()) or "there is none"}
    if now.unrated:
        return "no-rate", {"classes": ", ".join(now.unrated), "currency": now.currency}
    if now.budget_missing_micro is not None:
        return "budget", {
            "missing": f"{now.budget_missing_micro / 1_000_000:.2f}",
            "missing_micro": now.budget_missing_micro,
            "currency": now.currency,
        }
    if now.starting and now.counts.get("ready"):
        return "starting", {"starting": now.starting}
    if not now.present and now.refused:
        return "refused", {"refused": now.refused}
    if now.counts.get("ready"):
        return ("limit", {"most": now.most, "ahead": now.ahead}) if now.present >= now.most else ("next", {})
    return "settling", {}


def _words(seconds: int) -> str:
    """Say a duration as a person would: two units at most."""
    if seconds < 90:
        return f"{seconds} seconds"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} minutes"
    return f"{minutes // 60} hours {minutes % 60} minutes"

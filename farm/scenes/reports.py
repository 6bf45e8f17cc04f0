"""
Inspection reports as the farm takes them: their form, and what fits in a line. Pure.

A report comes out of a sandbox in which a stranger's scene was opened, so nothing of it is believed unread: what the
farm will use must be there with the right type, and all of it must be text and numbers that a database can hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

FORM = 1
MAX_SENTENCE = 2000
MAX_PROBLEMS = 50


class DependencyState(StrEnum):
    """Where a file is that the scene names."""

    FOUND = "found"
    MISSING = "missing"
    OUTSIDE = "outside"  # its path leads out of the upload


_OPTIONAL_TEXT = (str, type(None))
_SCENE: dict[str, Any] = {
    "name": str,
    "active": bool,
    "drawn": bool,
    "engine": str,
    "samples": (int, type(None)),
    "camera": _OPTIONAL_TEXT,
    "cameras": [str],
    "markers": [{"frame": int, "camera": _OPTIONAL_TEXT}],
    "view_layers": [{"name": str, "on": bool}],
    "frames": {"start": int, "end": int, "step": int},
    "resolution": {"x": int, "y": int, "percent": int},
    "multiview": bool,
    "output": {"format": str, "movie": bool, "color_depth": int},
}
_REGION: dict[str, Any] = {"x": [(int, float)], "y": [(int, float)], "crop": bool}
_REPORT: dict[str, Any] = {
    "renderer": {"name": str, "version": _OPTIONAL_TEXT},
    "saved_by": str,
    "scenes": [_SCENE],
    "dependencies": [{"path": str, "kind": str, "needed": bool, "state": str}],
    "problems": [{"code": str, "severity": str, "params": dict, "sentence": str}],
}


class ReportMalformed(ValueError):
    """The inspection's report does not have the agreed form."""


def check_report(report: Any) -> None:
    """
    Check that a report can be stored and used.

    :raises ReportMalformed: it cannot; the text says why
    """
    if not isinstance(report, dict) or report.get("report") != FORM or isinstance(report["report"], bool):
        raise ReportMalformed(f"it is no report of form {FORM}")
    _check_storable(report)
    if report.get("refusal") is not None:
        _check(report["refusal"], {"code": str, "sentence": str}, "refusal")
        return
    _check(report, _REPORT, "report")
    if not report["scenes"]:
        raise ReportMalformed("it names no scene")
    for number, scene in enumerate(report["scenes"]):
        if scene.get("region") is not None:
            _check(scene["region"], _REGION, f"report.scenes[{number}].region")


def refusal_of(report: Mapping[str, Any]) -> str:
    """Say why the scene cannot be opened; "" if it can."""
    refusal = report.get("refusal")
    return "" if refusal is None else str(refusal["sentence"])[:MAX_SENTENCE]


def summary_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """Give the report's main points: of the scene that opens, and what a person should know."""
    scenes = report.get("scenes") or []
    opens = next((scene for scene in scenes if scene["active"]), scenes[0] if scenes else None)
    lacking = [found for found in report.get("dependencies", []) if is_lacking(found)]
    return {
        "renderer": report["renderer"],
        "saved_by": report["saved_by"],
        "scenes": [scene["name"] for scene in scenes],
        "scene": opens and {name: opens[name] for name in ("name", "engine", "frames", "resolution", "output")},
        "dependencies": len(report.get("dependencies", [])),
        "lacking": len(lacking),
        "problems": [
            {name: problem[name] for name in ("code", "severity", "params", "sentence")}
            for problem in report.get("problems", [])[:MAX_PROBLEMS]
        ],
    }


def is_lacking(dependency: Mapping[str, Any]) -> bool:
    """Say whether frames would look different because this file is not in the upload."""
    return bool(dependency["needed"]) and dependency["state"] in {DependencyState.MISSING, DependencyState.OUTSIDE}


def _check_storable(report: Any) -> None:
    try:
        text = json.dumps(report, allow_nan=False, ensure_ascii=False)
        text.encode()
    except (ValueError, RecursionError, TypeError) as error:
        raise ReportMalformed(f"it cannot be stored ({type(error).__name__})") from error
    if "\\u0000" in text:
        raise ReportMalformed("it has a NUL character in a text")


def _check(value: Any, form: Any, where: str) -> None:
    if isinstance(form, dict):
        if not isinstance(value, dict):
            raise ReportMalformed(f"{where} is no object")
        for name, inner in form.items():
            if name not in value:
                raise ReportMalformed(f"{where} has no {name}")
            _check(value[name], inner, f"{where}.{name}")
    elif isinstance(form, list):
        if not isinstance(value, list):
            raise ReportMalformed(f"{where} is no list")
        for number, item in enumerate(value):
            _check(item, form[0], f"{where}[{number}]")
    elif not isinstance(value, form) or (isinstance(value, bool) and form is not bool):
        raise ReportMalformed(f"{where} is {type(value).__name__}")

"""Which files a task must leave, by the rule its step carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.protocol import ExpectedOutput, decode, encode
from workers.renderers import Renderer, load_renderer


def render_rule(renderer: Renderer, parameters: Mapping[str, str], scene: Mapping[str, Any] | None) -> dict[str, Any]:
    """Make the rule of a step that renders: the renderer is asked for each task, with what the scene's report says."""
    report = {"scenes": [scene]} if scene else None
    return {"renderer": renderer.name, "parameters": dict(parameters), "report": report}


def inspection_rule(renderer: Renderer) -> dict[str, Any]:
    """Make the rule of an inspection's step: the same files for its one task."""
    return {"files": encode(renderer.inspect_outputs)}


def expected_outputs(rule: Mapping[str, Any] | None, task: Mapping[str, str]) -> list[ExpectedOutput] | None:
    """Give the files a task must leave; None for a studio's own template, which may leave what it likes."""
    if rule is None:
        return None
    if "files" in rule:
        return [decode(ExpectedOutput, file) for file in rule["files"]]
    renderer = load_renderer(rule["renderer"])
    return renderer.expected_outputs(parameters=rule["parameters"], task=task, report=rule["report"])

"""Which files a task must leave, by the rule its step carries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farm.jobs.expansion import frames_of
from workers.protocol import ExpectedOutput, OutputRole


def expected_outputs(rule: Mapping[str, Any] | None, parameters: Mapping[str, str], types: Mapping[str, str]) -> list[ExpectedOutput] | None:
    """
    Give the files a task must leave; None for a studio's own template, which may leave what it likes.

    A rule is `{"files": [{"name", "role", …}]}`, or `{"pattern", "parameter", …}` with one file for each frame that
    the task parameter names.
    """
    if rule is None:
        return None
    if "files" in rule:
        return [ExpectedOutput(name=f["name"], role=OutputRole(f["role"]), format=f.get("format")) for f in rule["files"]]
    name = rule["parameter"]
    return [
        ExpectedOutput(
            name=rule["pattern"].format(frame=frame),
            role=OutputRole.RENDER,
            format=rule.get("format"),
            width=rule.get("width"),
            height=rule.get("height"),
            bit_depth=rule.get("bit_depth"),
        )
        for frame in frames_of(parameters[name], types[name])
    ]

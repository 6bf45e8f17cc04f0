"""Runs inside Blender for the tests: takes code as JSON lines, runs it in a new file, answers with its `answer`."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

import bpy

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what Blender prints is no answer


def run(code: str, given: dict[str, Any]) -> dict[str, Any]:
    bpy.ops.wm.read_factory_settings()
    names = {"bpy": bpy, "answer": None, **given}
    try:
        exec(compile(code, "<test>", "exec"), names)
        return {"answer": names["answer"]}
    except BaseException:
        return {"error": traceback.format_exc()}


for line in sys.stdin:
    answers.write(json.dumps(run(**json.loads(line))) + "\n")
    answers.flush()
os._exit(0)

"""
The renderers: for each a folder with its OpenJD templates and the scripts that they carry.

The farm reads them as package data (`load_renderer`); a worker gets them inside the template, as part of the job.
Nothing heavy is imported here: the bpy environment imports this package too, and has no YAML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from workers.protocol import ExpectedOutput, OutputRole

_HERE = Path(__file__).parent
_IMPORT = re.compile(r"^( *)from workers\.renderers\.\w+\.(\w+) import ", re.MULTILINE)


class UnknownRenderer(LookupError):
    """There is no renderer {name}: choose one of {known}."""


class UnembeddableScript(ValueError):
    """{script} holds a pair of braces in a row, which OpenJD reads as a format string: write it otherwise."""


@dataclass(frozen=True)
class Renderer:
    """A renderer the farm offers. The templates are self-contained OpenJD 2023-09 documents (JSON)."""

    name: str
    template: str
    inspect_template: str
    expected_outputs: Callable[..., list[ExpectedOutput] | None]
    """`(parameters=…, task=…, report=…)`: the files a task of `template` must leave, None if that cannot be told."""

    inspect_outputs: tuple[ExpectedOutput, ...] = (
        ExpectedOutput(name="report.json", role=OutputRole.REPORT, format=None),
    )
    """The files the one task of `inspect_template` must leave."""


def renderer_names() -> list[str]:
    """Name the renderers there are."""
    return sorted(folder.name for folder in _HERE.iterdir() if (folder / "template.yaml").is_file())


@cache
def load_renderer(name: str) -> Renderer:
    """
    Read a renderer's templates, scripts embedded.

    :raises UnknownRenderer: there is none of that name
    :raises UnembeddableScript: a script cannot be carried by a template
    """
    if name not in renderer_names():
        raise UnknownRenderer((UnknownRenderer.__doc__ or "").format(name=name, known=", ".join(renderer_names())))
    folder = _HERE / name
    return Renderer(
        name=name,
        template=_read_template(folder / "template.yaml"),
        inspect_template=_read_template(folder / "inspect.yaml"),
        expected_outputs=import_module(f"{__name__}.{name}").expected_outputs,
    )


def _read_template(file: Path) -> str:
    import yaml

    template = yaml.safe_load(file.read_text(encoding="utf-8"))
    for embedded in _embedded_files(template):
        if embedded["data"].startswith("@"):
            embedded["data"] = embeddable(file.with_name(embedded["data"][1:]))
    return json.dumps(template, ensure_ascii=False)


def _embedded_files(node: Any) -> list[dict[str, Any]]:
    """Find all embedded files, wherever in a template they are."""
    if isinstance(node, list):
        return [found for item in node for found in _embedded_files(item)]
    if not isinstance(node, dict):
        return []
    own: list[dict[str, Any]] = node.get("embeddedFiles", [])
    return own + [found for key, item in node.items() if key != "embeddedFiles" for found in _embedded_files(item)]


def embeddable(script: Path) -> str:
    """
    Read a script for a session's folder of files, where its neighbours are plain modules and no package is.

    :raises UnembeddableScript: it holds what OpenJD would replace
    """
    text = _IMPORT.sub(r"\1from \2 import ", script.read_text(encoding="utf-8"))
    if "{{" in text or "}}" in text:
        raise UnembeddableScript((UnembeddableScript.__doc__ or "").format(script=script.name))
    return text

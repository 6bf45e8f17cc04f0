"""
From an OpenJD template and its parameters to steps and tasks, by `openjd-model`. Pure.

`openjd-model` takes a second to import, so it is imported when first needed, not when the web process starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from farm.core.errors import Refusal

MAX_TASKS = 200_000
EXTENSIONS = ["TASK_CHUNKING"]
SCENE_DIR = "/scene"
OUT_DIR = "/out"


class InvalidTemplate(Refusal):
    """The OpenJD template is not valid: {why}"""

    code = "invalid-template"
    status = 422


class InvalidParameter(Refusal):
    """The parameter {name} is not valid: {why}"""

    code = "invalid-parameter"
    status = 422


class UnknownParameter(Refusal):
    """The template has no parameter {name}. It has: {known}."""

    code = "unknown-parameter"
    status = 422


class TooManyTasks(Refusal):
    """The step {step!r} would have {count:,} tasks; a job may have {limit:,}. Shorten the range or split the job."""

    code = "too-many-tasks"
    status = 422


class NoTasks(Refusal):
    """The step {step!r} would have no task at all. Check its range: {why}"""

    code = "no-tasks"
    status = 422


@dataclass(frozen=True)
class ExpandedStep:
    """A step, its parameter space laid out: `points[i]` are the values of `names` at task i, as OpenJD writes them."""

    name: str
    depends_on: list[str]
    environments: list[dict[str, Any]]
    script: dict[str, Any]
    names: list[str]
    types: list[str]
    points: list[tuple[str, ...]]
    host_requirements: dict[str, Any]

    @property
    def parameter_types(self) -> dict[str, str]:
        return dict(zip(self.names, self.types, strict=True))


@dataclass(frozen=True)
class Expansion:
    """What a template and its parameters come to."""

    name: str
    parameters: dict[str, dict[str, str]]  # {name: {"type", "value"}}; PATH values relative
    input_paths: list[str]
    output_paths: list[str]
    extensions: list[str]
    steps: list[ExpandedStep] = field(default_factory=list)

    @property
    def task_count(self) -> int:
        return sum(len(step.points) for step in self.steps)


@lru_cache(maxsize=32)
def parse_template(text: str) -> tuple[dict[str, Any], Any]:
    """
    Parse an OpenJD template (YAML or JSON): the plain object, and `openjd-model`'s own.

    :raises InvalidTemplate: it does not parse or validate
    """
    from openjd.model import DecodeValidationError, DocumentType, decode_job_template, document_string_to_object

    kind = DocumentType.JSON if text.lstrip().startswith("{") else DocumentType.YAML
    try:
        plain = document_string_to_object(document=text, document_type=kind)
        return plain, decode_job_template(template=plain, supported_extensions=EXTENSIONS)
    except (DecodeValidationError, ValueError, RecursionError, NotImplementedError, TypeError) as error:
        raise InvalidTemplate(why=_one_line(error), field="template") from None


def parameter_definitions(text: str) -> list[dict[str, Any]]:
    """
    Give the template's job parameter definitions, as written.

    :raises InvalidTemplate: it does not parse or validate
    """
    plain, _ = parse_template(text)
    return list(plain.get("parameterDefinitions", []))


def expand(text: str, values: Mapping[str, str], *, limit: int = MAX_TASKS) -> Expansion:
    """
    Expand a template with parameter values; the length of each space is checked before it is laid out.

    :raises InvalidTemplate: the template does not parse or validate
    :raises UnknownParameter: a value for a parameter it does not have
    :raises InvalidParameter: a value that its definition refuses, or an absolute or escaping path
    :raises TooManyTasks: more tasks than `limit`
    :raises NoTasks: an empty space
    """
    from openjd.model import StepParameterSpaceIterator

    plain, template = parse_template(text)
    definitions = {d["name"]: d for d in plain.get("parameterDefinitions", [])}
    relative = _path_values(definitions, values)
    job, parameters = _instantiate(template, definitions, {**values, **relative})
    steps, left = [], limit
    for source, step in zip(plain["steps"], job.steps, strict=True):
        iterator = StepParameterSpaceIterator(space=step.parameterSpace)
        if len(iterator) > left:
            raise TooManyTasks(step=step.name, count=len(iterator), limit=limit, field="parameters")
        left -= len(iterator)
        steps.append(_expand_step(plain, source, step, iterator))
    for name, value in relative.items():
        parameters[name]["value"] = value
    paths = {name: d for name, d in definitions.items() if d["type"] == "PATH"}
    outputs = [name for name, d in paths.items() if d.get("dataFlow") in {"OUT", "INOUT"}]
    return Expansion(
        name=str(job.name),
        parameters=parameters,
        input_paths=[name for name in paths if name not in outputs],
        output_paths=outputs,
        extensions=list(plain.get("extensions", [])),
        steps=steps,
    )


def _path_values(definitions: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, str]:
    """Give each PATH parameter's value, relative to its folder."""
    unknown = sorted(set(values) - set(definitions))
    if unknown:
        raise UnknownParameter(
            name=unknown[0], known=", ".join(definitions) or "none", field=f"parameters.{unknown[0]}"
        )
    found = {}
    for name, definition in definitions.items():
        if definition["type"] != "PATH":
            continue
        value = values.get(name, definition.get("default"))
        if value is None:
            continue  # openjd-model says that it is missing
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or "\\" in value or "\x00" in value:
            raise InvalidParameter(
                name=name, why=f"{value!r} must be a path inside the upload, without '..'", field=f"parameters.{name}"
            )
        found[name] = str(path)
    return found


def _instantiate(
    template: Any, definitions: Mapping[str, Any], values: Mapping[str, str]
) -> tuple[Any, dict[str, dict[str, str]]]:
    from pathlib import Path

    from openjd.model import DecodeValidationError, create_job, preprocess_job_parameters

    placed = {name: _place(definitions[name], value) for name, value in values.items()}
    try:
        parsed = preprocess_job_parameters(
            job_template=template,
            job_parameter_values=placed,
            job_template_dir=Path(SCENE_DIR),
            current_working_dir=Path(SCENE_DIR),
        )
    except (ValueError, DecodeValidationError) as error:
        name = next((n for n in definitions if n in str(error)), "")
        raise InvalidParameter(
            name=name or "list", why=_one_line(error), field=f"parameters.{name}".strip(".")
        ) from None
    try:
        job = create_job(job_template=template, job_parameter_values=parsed)
    except (ValueError, DecodeValidationError) as error:
        raise InvalidTemplate(why=_one_line(error), field="parameters") from None
    return job, {name: {"type": value.type.value, "value": str(value.value)} for name, value in parsed.items()}


def _place(definition: Mapping[str, Any], value: str) -> str:
    if definition["type"] != "PATH":
        return value
    root = OUT_DIR if definition.get("dataFlow") in {"OUT", "INOUT"} else SCENE_DIR
    return str(PurePosixPath(root) / value)


def _expand_step(plain: Mapping[str, Any], source: Mapping[str, Any], step: Any, iterator: Any) -> ExpandedStep:
    points = list(iterator)
    if not points:
        raise NoTasks(step=step.name, why="it is empty", field="parameters")
    names = list(points[0])
    return ExpandedStep(
        name=step.name,
        depends_on=[str(d.dependsOn) for d in step.dependencies or []],
        environments=[*plain.get("jobEnvironments", []), *source.get("stepEnvironments", [])],
        script=source["script"],
        names=names,
        types=[points[0][name].type.value for name in names],
        points=[tuple(str(point[name].value) for name in names) for point in points],
        host_requirements=json.loads(step.hostRequirements.model_dump_json(exclude_none=True))
        if step.hostRequirements
        else {},
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:1000]

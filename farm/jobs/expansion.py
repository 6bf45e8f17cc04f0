"""
From an OpenJD template and its parameters to steps and tasks, by `openjd-model`. Pure.

`openjd-model` takes a second to import, so it is imported when first needed, not when the web process starts.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from farm.core.errors import Refusal, raise_all
from farm.core.texts import is_storable
from farm.jobs.ranges import complaint

MAX_TASKS = 200_000
MAX_STEPS = 200
MAX_NODES = 200_000  # of a template, its aliases followed: a few lines of YAML can stand for millions
EXTENSIONS = ["TASK_CHUNKING"]
SCENE_DIR = "/scene"
OUT_DIR = "/out"
OUTPUTS = frozenset({"OUT", "INOUT"})


class InvalidTemplate(Refusal):
    """The OpenJD template is not valid: {why}"""

    code = "invalid-template"
    status = 422


class TemplateTooLarge(Refusal):
    """The OpenJD template has more than {limit:,} parts, its aliases followed. Use parameter spaces."""

    code = "template-too-large"
    status = 422


class TooManySteps(Refusal):
    """The template has {count:,} steps; a job may have {limit:,}. Let tasks come from a step's parameter space."""

    code = "too-many-steps"
    status = 422


class UnknownParameter(Refusal):
    """The template has no parameter {name}. It has: {known}."""

    code = "unknown-parameter"
    status = 422


class MissingParameter(Refusal):
    """The template's parameter {name} has no default. Give it a value."""

    code = "missing-parameter"
    status = 422


class InvalidParameter(Refusal):
    """The value {value!r} of the parameter {name} is not valid: {why}."""

    code = "invalid-parameter"
    status = 422


class InvalidRange(Refusal):
    """The range {value!r} of the parameter {name} is not valid: {why}. Write one range as 1-10, every fifth as 1-100:5, several as 1,5,10-20."""  # noqa: E501

    code = "invalid-range"
    status = 422


class TooManyTasks(Refusal):
    """The step {step!r} would have {count:,} tasks; {left:,} of a job's {limit:,} are left. Shorten the range, or split the job."""  # noqa: E501

    code = "too-many-tasks"
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
    input_files: list[str]  # PATH parameters that name a file which the job reads
    input_paths: list[str]
    output_paths: list[str]
    extensions: list[str]
    steps: list[ExpandedStep] = field(default_factory=list)

    @property
    def task_count(self) -> int:
        return sum(len(step.points) for step in self.steps)


@lru_cache(maxsize=8)
def parse_template(text: str) -> tuple[dict[str, Any], Any]:
    """
    Parse an OpenJD template (YAML or JSON): the plain object, and `openjd-model`'s own.

    :raises InvalidTemplate: it does not parse or validate
    :raises TemplateTooLarge: it stands for more than anybody writes
    :raises TooManySteps: it has more steps than a job may have
    """
    from openjd.model import DecodeValidationError, DocumentType, decode_job_template, document_string_to_object

    kind = DocumentType.JSON if text.lstrip().startswith("{") else DocumentType.YAML
    try:
        plain = document_string_to_object(document=text, document_type=kind)
        _check_content(plain)
        return plain, decode_job_template(template=plain, supported_extensions=EXTENSIONS)
    except IndexError:  # how it words a complaint about the template as a whole, which only steps give rise to
        raise InvalidTemplate(why="its steps depend on each other in a circle", field="template") from None
    except (DecodeValidationError, ValueError, RecursionError, NotImplementedError, TypeError) as error:
        raise InvalidTemplate(why=_one_line(error), field="template") from None


def _check_content(plain: dict[str, Any]) -> None:
    count = 0
    waiting: list[Any] = [plain]
    while waiting:
        count += 1
        if count > MAX_NODES:
            raise TemplateTooLarge(limit=MAX_NODES, field="template")
        item: Any = waiting.pop()
        if isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str) and not is_storable(item):
            why = "a text of it holds a NUL character or half a surrogate pair, which nothing can store"
            raise InvalidTemplate(why=why, field="template")
    steps = plain.get("steps")
    if isinstance(steps, list) and len(steps) > MAX_STEPS:
        raise TooManySteps(count=len(steps), limit=MAX_STEPS, field="template")


def parameter_definitions(text: str) -> list[dict[str, Any]]:
    """
    Give the template's job parameter definitions, as written.

    :raises Refusal: as `parse_template`
    """
    plain, _ = parse_template(text)
    return list(plain.get("parameterDefinitions") or [])


def expand(text: str, values: Mapping[str, str], *, limit: int = MAX_TASKS) -> Expansion:
    """
    Expand a template with parameter values; the length of each space is checked before it is laid out.

    :raises Refusal: as `parse_template`
    :raises UnknownParameter: a value for a parameter it does not have
    :raises MissingParameter: none for one without a default
    :raises InvalidParameter: a value that its definition refuses, or an absolute or escaping path
    :raises InvalidRange: a value that a step's range refuses
    :raises TooManyTasks: more tasks than `limit`
    """
    plain, template = parse_template(text)
    definitions = {d["name"]: d for d in plain.get("parameterDefinitions") or []}
    raise_all(list(_complaints(definitions, values)))
    paths = {name: d for name, d in definitions.items() if d["type"] == "PATH"}
    relative = {name: _relative(d, values) for name, d in paths.items()}
    job, parameters = _instantiate(plain, template, definitions, {**values, **relative})
    for name, value in relative.items():
        parameters[name]["value"] = value
    inputs = {n: d for n, d in paths.items() if d.get("dataFlow", "NONE") == "IN"}
    return Expansion(
        name=str(job.name),
        parameters=parameters,
        input_files=[n for n, d in inputs.items() if d.get("objectType") == "FILE"],
        input_paths=[n for n, d in paths.items() if d.get("dataFlow") not in OUTPUTS],
        output_paths=[n for n, d in paths.items() if d.get("dataFlow") in OUTPUTS],
        extensions=list(plain.get("extensions") or []),
        steps=_in_order(_expand_steps(plain, job, limit)),
    )


# --- values


def _complaints(definitions: Mapping[str, Any], values: Mapping[str, str]) -> Iterator[Refusal]:
    """Find what is wrong with the values, each in words of its own."""
    for name in sorted(set(values) - set(definitions)):
        yield UnknownParameter(name=name, known=", ".join(definitions) or "none", field=f"parameters.{name}")
    for name, definition in definitions.items():
        value = values.get(name, definition.get("default"))
        if value is None:
            yield MissingParameter(name=name, field=f"parameters.{name}")
        elif why := _why_invalid(definition, str(value), is_given=name in values):
            yield InvalidParameter(name=name, value=_short(str(value)), why=why, field=f"parameters.{name}")


def _why_invalid(definition: Mapping[str, Any], value: str, *, is_given: bool) -> str:
    kind = definition["type"]
    if kind == "PATH":
        return _why_no_path(definition, value)
    if not is_given:
        return ""
    if kind in {"INT", "FLOAT"}:
        return _why_no_number(definition, value, whole=kind == "INT")
    return _why_no_choice(definition, value) or _why_no_length(definition, value)


def _why_no_path(definition: Mapping[str, Any], value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or "\\" in value or "\x00" in value or re.match("[A-Za-z]:", value):
        return "a path is relative to the uploaded folder, with / and without '..'"
    if definition.get("objectType") == "FILE" and not path.name:
        return "it must name a file"
    return ""


_WHOLE = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?([eE][-+]?[0-9]{1,2})?", re.ASCII)


def _why_no_number(definition: Mapping[str, Any], value: str, *, whole: bool) -> str:
    """`openjd-model` takes digits of every script, and overlooks a limit of 0."""
    if not (_WHOLE if whole else _DECIMAL).fullmatch(value):
        return "it must be a whole number, written with 0 to 9" if whole else "it must be a number such as 1.5"
    number = float(value)
    if why := _why_no_choice(definition, value):
        return why
    if (least := definition.get("minValue")) is not None and number < float(least):
        return f"it must be at least {least}"
    if (most := definition.get("maxValue")) is not None and number > float(most):
        return f"it must be at most {most}"
    return ""


def _why_no_choice(definition: Mapping[str, Any], value: str) -> str:
    allowed = [str(choice) for choice in definition.get("allowedValues") or []]
    return f"it must be one of {', '.join(allowed)}" if allowed and value not in allowed else ""


def _why_no_length(definition: Mapping[str, Any], value: str) -> str:
    least, most = int(definition.get("minLength") or 0), int(definition.get("maxLength") or 4096)
    if least <= len(value) <= most:
        return ""
    if not value:
        return "it is empty"
    return f"it has {len(value)} characters; from {least} to {most} are possible"


def _relative(definition: Mapping[str, Any], values: Mapping[str, str]) -> str:
    return str(PurePosixPath(values.get(definition["name"], definition.get("default", ""))))


def _instantiate(
    plain: Mapping[str, Any], template: Any, definitions: Mapping[str, Any], values: Mapping[str, str]
) -> tuple[Any, dict[str, dict[str, str]]]:
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
            name=name or "list", value=values.get(name, ""), why=_one_line(error), field=f"parameters.{name}".strip(".")
        ) from None
    plain_values = {name: str(value.value) for name, value in parsed.items()}
    try:
        job = create_job(job_template=template, job_parameter_values=parsed)
    except OverflowError:  # a range longer than any list
        step = next(s for s in plain["steps"] if _ranges_of(s))
        limit, where = MAX_TASKS, _field_of_ranges(step)
        raise TooManyTasks(step=step["name"], count=sys.maxsize, left=limit, limit=limit, field=where) from None
    except (ValueError, DecodeValidationError) as error:
        _blame_range(plain, plain_values)
        raise InvalidTemplate(why=_one_line(error), field="parameters") from None
    return job, {name: {"type": value.type.value, "value": plain_values[name]} for name, value in parsed.items()}


def _place(definition: Mapping[str, Any], value: str) -> str:
    if definition["type"] != "PATH":
        return value
    root = OUT_DIR if definition.get("dataFlow") in OUTPUTS else SCENE_DIR
    return str(PurePosixPath(root) / value)


# --- ranges

_PARAMETER = re.compile(r"\{\{\s*(?:Raw)?Param\.(\w+)\s*\}\}")


def _blame_range(plain: Mapping[str, Any], values: Mapping[str, str]) -> None:
    """
    Find the range that made `openjd-model` refuse the job.

    :raises InvalidRange: it was one that parameters are part of
    """
    for step in plain["steps"]:
        for expression in _ranges_of(step):
            value = _PARAMETER.sub(lambda found: values.get(found[1], ""), expression)
            names = _PARAMETER.findall(expression)
            if names and (why := complaint(value)):
                raise InvalidRange(
                    name=" and ".join(names), value=_short(value), why=why, field=f"parameters.{names[0]}"
                )


def _ranges_of(step: Mapping[str, Any]) -> list[str]:
    space = step.get("parameterSpace") or {}
    ranges = [d.get("range") for d in space.get("taskParameterDefinitions") or []]
    return [expression for expression in ranges if isinstance(expression, str)]


def _field_of_ranges(step: Mapping[str, Any]) -> str:
    names = {name for expression in _ranges_of(step) for name in _PARAMETER.findall(expression)}
    return f"parameters.{names.pop()}" if len(names) == 1 else "parameters"


# --- steps


def _expand_steps(plain: Mapping[str, Any], job: Any, limit: int) -> list[ExpandedStep]:
    from openjd.model import StepParameterSpaceIterator

    steps, left = [], limit
    for source, step in zip(plain["steps"], job.steps, strict=True):
        space = step.parameterSpace
        # A chunk is one task: its size is the template's, and no longer changes.
        iterator = StepParameterSpaceIterator(space=space, chunks_task_count_override=_chunk_size(space))
        count = len(iterator)
        if count > left:
            where = _field_of_ranges(source)
            raise TooManyTasks(step=step.name, count=count, left=left, limit=limit, field=where)
        left -= count
        steps.append(_expand_step(plain, source, step, iterator))
    return steps


def _in_order(steps: list[ExpandedStep]) -> list[ExpandedStep]:
    """Let what a step depends on come before it; else keep the template's order. (`openjd-model` refuses circles.)"""
    ordered: dict[str, ExpandedStep] = {}
    left = list(steps)
    while left:
        first = next(step for step in left if all(name in ordered for name in step.depends_on))
        ordered[first.name] = first
        left.remove(first)
    return list(ordered.values())


def _chunk_size(space: Any) -> int | None:
    for parameter in space.taskParameterDefinitions.values() if space else ():
        if chunks := getattr(parameter, "chunks", None):
            return int(chunks.defaultTaskCount)
    return None


def _expand_step(plain: Mapping[str, Any], source: Mapping[str, Any], step: Any, iterator: Any) -> ExpandedStep:
    points = list(iterator)
    names = list(points[0])
    return ExpandedStep(
        name=step.name,
        depends_on=[str(d.dependsOn) for d in step.dependencies or []],
        environments=[*(plain.get("jobEnvironments") or []), *(source.get("stepEnvironments") or [])],
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


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:100] + "…"

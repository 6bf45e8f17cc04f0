"""The options of an order, which `job check` and `job submit` share."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from farmhand.answers import Order
from farmhand.cli.session import session
from farmhand.cli.words import parse_moment, parse_money
from farmhand.farm import Farm

Text = str | None


@dataclass(frozen=True)
class Choices:
    """What a person says about a job."""

    version: Annotated[
        str,
        typer.Argument(
            metavar="VERSION",
            help="The scene: a version's id, a scene's name, or `last`. Templates of your own may go without.",
            show_default=False,
        ),
    ] = ""
    parameters: Annotated[
        list[str] | None,
        typer.Option("-p", "--parameter", metavar="KEY=VALUE", help="A parameter of the template.", show_default=False),
    ] = None
    frames: Annotated[
        str | None, typer.Option(help="Frames such as 1-24 or 1-100:5; the scene's unless said.", show_default=False)
    ] = None
    name: Annotated[str, typer.Option(help="Name of the job.", show_default=False)] = ""
    renderer: Annotated[str, typer.Option(help="One of the farm's renderers.")] = "blender"
    template: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An OpenJD job template of your own instead.", show_default=False),
    ] = None
    scouts: Annotated[
        str,
        typer.Option(help="Frames to render first, for a quote: none, auto (first, middle, last), or as in 1,12,24."),
    ] = "none"
    budget: Annotated[
        str, typer.Option(metavar="AMOUNT", help="Spend at most this, as in 12.50.", show_default=False)
    ] = ""
    priority: Annotated[int, typer.Option(min=0, max=100, help="Higher goes first.")] = 50
    deadline: Annotated[
        str, typer.Option(metavar="MOMENT", help="Be done by 2026-12-01T18:00 or within +2h.", show_default=False)
    ] = ""
    after: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="Start when this job has succeeded.", show_default=False)
    ] = None
    fleet: Annotated[str, typer.Option(help="Only on this fleet.", show_default=False)] = ""
    renderer_version: Annotated[
        str, typer.Option(help="This version of the renderer, as in 5.0.", show_default=False)
    ] = ""
    accept_newer: Annotated[
        bool, typer.Option("--accept-newer", help="Agree to a newer renderer than the scene was saved by.")
    ] = False
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="Render without files that are missing.")] = (
        False
    )
    suspended: Annotated[bool, typer.Option("--suspended", help="Start nothing until it is resumed.")] = False
    project: Annotated[
        str, typer.Option(help="Name or id of the project; the scene's unless said.", show_default=False)
    ] = ""
    sequence: Annotated[str, typer.Option(help="For reports.", show_default=False)] = ""
    shot: Annotated[str, typer.Option(help="For reports.", show_default=False)] = ""
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="KEY=VALUE", help="For reports.", show_default=False)
    ] = None
    timeout: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS", help="The longest a frame may take; worked out unless said.", show_default=False
        ),
    ] = None


def with_order(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of an order; it gets them as one `choices`."""
    hints = get_type_hints(Choices, include_extras=True)
    fields = dataclasses.fields(Choices)
    shared = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields
    ]
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != "choices"
    ]

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        choices = Choices(**{field.name: given.pop(field.name) for field in fields})
        command(choices, **given)

    wrapped.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]  # what typer reads
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in [*shared, *own]}
    return wrapped


def build_order(farm: Farm, choices: Choices) -> Order:
    """
    Turn what a person said into an order.

    :raises typer.BadParameter: an option makes no sense
    """
    said = _said(choices)
    if choices.template:
        said["template"] = _template(choices.template)
    else:
        said["renderer"] = choices.renderer
    version = session.version(choices.version) if choices.version else None
    about: Order = {
        "project": _project(farm, choices, version),
        "scene_version": version,
        "name": choices.name or _name(farm, version),
        "after": [farm.find_job(wanted) for wanted in choices.after or ()],
    }
    return {**said, **about}


def _said(choices: Choices) -> Order:
    """Give the part of an order that needs no farm to be understood, so that a slip is told at once."""
    parameters = _pairs(choices.parameters, "-p")
    if choices.frames is not None:
        if not choices.frames.strip():
            raise typer.BadParameter("it is empty; leave it out for the scene's own range", param_hint="--frames")
        if "Frames" in parameters:
            raise typer.BadParameter("say it once: either --frames or -p Frames=…", param_hint="--frames")
        parameters["Frames"] = choices.frames
    return {
        "parameters": parameters,
        "priority": choices.priority,
        "deadline": _deadline(choices.deadline),
        "budget_micro": _budget(choices.budget),
        "sequence": choices.sequence,
        "shot": choices.shot,
        "tags": _pairs(choices.tags, "--tag"),
        "scouts": choices.scouts,
        "fleet": choices.fleet,
        "renderer_version": choices.renderer_version,
        "accept_newer_renderer": choices.accept_newer,
        "allow_missing_files": choices.allow_missing,
        "suspended": choices.suspended,
        "timeout_s": choices.timeout,
    }


def _name(farm: Farm, version: str | None) -> str:
    """Name a job after its scene, which says more than the template's name does."""
    return farm.scene(farm.version(version)["scene"])["name"] if version else ""


def _project(farm: Farm, choices: Choices, version: str | None) -> str:
    """Give the project that is named, else the scene's own, else the profile's or the only one."""
    if version and not choices.project:
        return farm.scene(farm.version(version)["scene"])["project"]
    return farm.project(choices.project or session.profile().project)["id"]


def _pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=option)
        pairs[name] = value
    return pairs


def _budget(text: str) -> int | None:
    try:
        return parse_money(text) if text else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--budget") from None


def _deadline(text: str) -> str | None:
    try:
        return parse_moment(text, now=datetime.now().astimezone()).isoformat() if text else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--deadline") from None


def _template(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}", param_hint="--template") from None

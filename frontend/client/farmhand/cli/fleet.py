"""`farmhand fleet …`: which machines there are, what was decided about them; operators pause and resume."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from farmhand.answers import Fleet
from farmhand.cli.session import Json, session
from farmhand.cli.terminal import row, table
from farmhand.cli.words import say_moment, short
from farmhand.errors import Refused
from farmhand.farm import Farm

app = typer.Typer(help="Which machines there are, and what was decided about them.", no_args_is_help=True)

MOST = 40  # decisions shown unless said

Name = Annotated[str, typer.Argument(metavar="FLEET", help="The fleet's name; `all` is the whole farm.")]


class NoFleet(Refused):
    """There is no fleet {name!r}. There are: {known}."""

    code = "no-fleet"


@app.command("list")
def list_fleets(as_json: Json = False) -> None:
    """List the fleets: what runs, boots and drains, yours and others'."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    fleets = list(farm.fleets())
    whole = farm.whole_farm()
    terminal.give({"fleets": fleets, "farm": whole})
    rows = table("fleet", "where", "market", "ready", "starting", "draining", "yours", "others", "most", right=NUMBERS)
    for fleet in fleets:
        counts = fleet["machines"]
        numbers = (counts[name] for name in ("ready", "starting", "draining", "own", "others"))
        name = f"{fleet['name']} (paused)" if fleet["is_paused"] else fleet["name"]
        row(rows, name, _where(fleet), fleet["market"], *numbers, fleet["max_machines"])
    terminal.show(rows)
    if whole["is_paused"]:
        terminal.warn("The farm is paused: no machine is launched.")


NUMBERS = ("ready", "starting", "draining", "yours", "others", "most")


def _where(fleet: Fleet) -> str:
    return fleet["provider"] if fleet["provider"] == fleet["region"] else f"{fleet['provider']} {fleet['region']}"


@app.command("log")
def show_decisions(
    fleet: Annotated[str, typer.Argument(metavar="FLEET", help="Only this fleet.", show_default=False)] = "",
    kind: Annotated[
        str, typer.Option(help="launch, refused, drain, end or alarm; several by commas.", show_default=False)
    ] = "",
    most: Annotated[int, typer.Option("--most", metavar="N", help="So many, newest first.")] = MOST,
    as_json: Json = False,
) -> None:
    """Show what was decided, newest first, with the reason."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    only = _find(farm, fleet)["id"] if fleet else None
    names = {row["id"]: row["name"] for row in farm.fleets()}
    decisions = list(islice(farm.decisions(fleet=only, kind=kind or None), most))
    terminal.give(decisions)
    rows = table("when", "fleet", "what", "why")
    for one in decisions:
        about = f" ({short(one['worker'])})" if one["worker"] else ""
        row(rows, say_moment(one["at"]), names.get(one["fleet"], ""), one["kind"], one["sentence"] + about)
    terminal.show(rows)


@app.command("pause")
def pause(fleet: Name, as_json: Json = False) -> None:
    """Launch nothing more for a fleet, or for `all`; what runs goes on. Operators only."""
    _set(fleet, "pause", as_json=as_json)


@app.command("resume")
def resume(fleet: Name, as_json: Json = False) -> None:
    """Let a fleet, or `all`, launch again. Operators only."""
    _set(fleet, "resume", as_json=as_json)


def _set(name: str, act: str, *, as_json: bool) -> None:
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    answer: Any = farm.steer_farm(act) if name == "all" else farm.steer_fleet(_find(farm, name)["id"], act)
    terminal.give(answer)
    what = "The farm" if name == "all" else f"Fleet {answer['name']}"
    terminal.say(f"{what} {'launches nothing more' if answer['is_paused'] else 'launches again'}.")


def _find(farm: Farm, name: str) -> Fleet:
    known = list(farm.fleets())
    for fleet in known:
        if name.casefold() in (fleet["name"].casefold(), fleet["id"]):
            return fleet
    raise NoFleet(name=name, known=", ".join(fleet["name"] for fleet in known) or "none")

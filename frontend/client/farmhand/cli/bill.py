"""`farmhand bill …`: what was used and what it costs, and what may be spent."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.text import Text

from farmhand.answers import Budget, Line, Totals
from farmhand.cli.session import Json, session
from farmhand.cli.terminal import Terminal, row, table
from farmhand.cli.words import exact, parse_money, say_count, say_moment, say_money, say_seconds, short
from farmhand.errors import Refused
from farmhand.farm import Farm

app = typer.Typer(help="What was used and what it costs, and what may be spent.", no_args_is_help=True)
budget_app = typer.Typer(help="What may be spent.", no_args_is_help=True)
app.add_typer(budget_app, name="budget")

MOST = 500  # lines shown on a terminal
WIDE_ENOUGH = 100  # columns of a terminal that has room for all of the table
NUMBERS = frozenset({"time", "per hour", "worth", "credit", "charged"})
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
# The farm's word for why a line costs what it costs; "" where the outcome says it.
REASONS = {
    "verified": "",
    "cancelled": "",
    "interrupted": "",
    "lost": "",
    "superseded": "",
    "scene-fault": "the scene's fault",
    "scene-fault-free": "the scene's fault, not charged",
    "free-purpose": "free",
    "already-charged": "charged before",
    "farm-fault": "the farm's fault",
}
COLUMNS = (
    "ended_at", "project", "job", "frame", "generation", "outcome", "cause", "reason", "is_scout", "worker_class",
    "gpus", "render_ms", "setup_ms", "billable_ms", "rate_per_gpu_hour", "gross", "credit", "charged", "currency",
    "attempt", "task", "cost_object",
)  # fmt: skip

JobOption = Annotated[str, typer.Option("--job", metavar="JOB", help="Only this job.", show_default=False)]
ProjectOption = Annotated[str, typer.Option("--project", help="Only this project.", show_default=False)]


class CsvNotWritten(Refused):
    """{path} cannot be written: {why}."""

    code = "csv-not-written"


@app.command("show")
def show(
    job: JobOption = "",
    project: ProjectOption = "",
    begin: Annotated[
        str, typer.Option("--from", metavar="DAY", help="From this day on, as in 2026-11-01.", show_default=False)
    ] = "",
    end: Annotated[str, typer.Option("--to", metavar="DAY", help="Before this day.", show_default=False)] = "",
    csv_file: Annotated[
        str,
        typer.Option(
            "--csv", metavar="FILE", help="Write all lines as CSV; `-` is standard output.", show_default=False
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Show the statement: a line for each attempt, which leads to a frame, and what they sum to."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    filters = {
        "cost_object": farm.job(session.job(job))["cost_object"] if job else None,
        "project": farm.project(project)["id"] if project else None,
        "from": begin or None,
        "to": end or None,
    }
    totals, lines = farm.statement(**filters)
    if csv_file:
        _write_csv(farm, lines, csv_file)
        terminal.tell(f"{say_count(totals['count'], 'line')} written to {csv_file}." if csv_file != "-" else "")
    elif as_json:
        terminal.give({"lines": list(lines), "totals": totals})
    else:
        _show_lines(terminal, _Jobs(farm) if not job else None, lines, totals)


def _show_lines(terminal: Terminal, jobs: _Jobs | None, lines: Iterable[Line], totals: Totals) -> None:
    """Show lines, with the names of their jobs if they are of several, in the columns that have something to say."""
    if not totals["count"]:
        terminal.say("Nothing was used in this time.")
        return
    shown = list(islice(lines, MOST))
    columns = _columns(jobs, has_credit=bool(totals["credit"]["micro"]), is_narrow=terminal.out.width < WIDE_ENOUGH)
    rows = table(*columns, right=[name for name in columns if name in NUMBERS])
    for line in shown:
        row(rows, *(cell(line) for cell in columns.values()), style="" if line["charged"]["micro"] else "dim")
    rows.add_section()
    row(rows, *(_sum(name, totals) for name in columns), style="bold")
    terminal.show(rows)
    if len(shown) < totals["count"]:
        terminal.warn(f"{totals['count'] - len(shown):,} more lines are not shown; --csv FILE writes them all.")
    charged = say_money(totals["charged"]["micro"], totals["charged"]["currency"])
    terminal.say(Text(f"Charged: {charged} for {say_count(totals['count'], 'attempt')}", style="bold"))


def _columns(jobs: _Jobs | None, *, has_credit: bool, is_narrow: bool) -> dict[str, Callable[[Line], str]]:
    """Give what stands in each column; a narrow terminal has no room for the date and the price of an hour."""
    columns: dict[str, Callable[[Line], str]] = {
        "ended": lambda line: say_moment(line["ended_at"])[11 if is_narrow else 5 :],
        "what": lambda line: _what(jobs, line),
        "outcome": _outcome,
        "on": lambda line: line["worker_class"],
        "time": lambda line: say_seconds(line["billable_ms"] / 1000),
    }
    if not is_narrow:
        columns["per hour"] = lambda line: exact(line["rate"]["micro"])
    if has_credit:
        columns["worth"] = lambda line: exact(line["gross"]["micro"])
        columns["credit"] = lambda line: exact(line["credit"]["micro"])
    columns["charged"] = lambda line: exact(line["charged"]["micro"])
    return columns


def _sum(column: str, totals: Totals) -> str:
    """Give what stands below a column."""
    sums = {"worth": totals["gross"], "credit": totals["credit"], "charged": totals["charged"]}
    if column == "time":
        return say_seconds(totals["billable_ms"] / 1000)
    return exact(sums[column]["micro"]) if column in sums else ""


def _what(jobs: _Jobs | None, line: Line) -> str:
    whose = f"{jobs.name(line['cost_object'])}: " if jobs else ""
    return f"{whose}{line['label']}" + (" (scout)" if line["is_scout"] else "")


def _outcome(line: Line) -> str:
    """Say how an attempt ended, by what, and why it costs what it costs."""
    cause = line["cause"].replace("_", " ")
    parts = [line["outcome"], cause if cause != line["outcome"] else "", REASONS.get(line["reason"], line["reason"])]
    parts += ["given back later"] if line["forgiven"]["micro"] else []
    parts += ["beyond what was held"] if line["over_hold"]["micro"] else []
    return ", ".join(part for part in parts if part)


class _Jobs:
    """Names what lines are charged to, each asked for once."""

    def __init__(self, farm: Farm) -> None:
        self.farm = farm
        self.names: dict[str, str] = {}

    def name(self, cost_object: str) -> str:
        if cost_object not in self.names:
            self.names[cost_object] = self.farm.cost_object(cost_object)["name"]
        return self.names[cost_object]


# --- CSV


def _write_csv(farm: Farm, lines: Iterable[Line], target: str) -> None:
    """:raises CsvNotWritten: the file cannot be written"""
    if target == "-":
        _write_rows(farm, lines, sys.stdout)
        return
    try:
        with Path(target).open("w", newline="", encoding="utf-8") as file:
            _write_rows(farm, lines, file)
    except OSError as error:
        raise CsvNotWritten(path=target, why=(error.strerror or str(error)).lower()) from error


def _write_rows(farm: Farm, lines: Iterable[Line], file: TextIO) -> None:
    jobs = _Jobs(farm)
    writer = csv.DictWriter(file, COLUMNS)
    writer.writeheader()
    for line in lines:
        writer.writerow({name: harmless(value) for name, value in _csv_row(jobs, line).items()})


def _csv_row(jobs: _Jobs, line: Line) -> dict[str, Any]:
    amounts = {
        "rate_per_gpu_hour": line["rate"]["amount"],
        "gross": line["gross"]["amount"],
        "credit": line["credit"]["amount"],
        "charged": line["charged"]["amount"],
        "currency": line["charged"]["currency"],
    }
    more = {"job": jobs.name(line["cost_object"]), "frame": line["label"]}
    return {name: value for name, value in {**line, **amounts, **more}.items() if name in COLUMNS}


def harmless(value: Any) -> Any:
    """Keep a spreadsheet from running a name as a formula; numbers stay as they are."""
    if isinstance(value, str) and value.startswith(FORMULAS) and not _is_number(value):
        return f"'{value}"
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --- budgets


@budget_app.command("set")
def set_budget(
    amount: Annotated[
        str, typer.Argument(help="At most this, as in 500 or 12.50; `none` lifts the limit.", show_default=False)
    ],
    job: JobOption = "",
    project: ProjectOption = "",
    month: Annotated[
        str,
        typer.Option(
            metavar="MONTH", help="Of the studio's budget, as in 2026-12; this month unless said.", show_default=False
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Limit what the studio may spend in a month, or what a project or a job may cost. What runs is paid for first."""
    terminal = session.begin(as_json=as_json)
    if job and project:
        raise typer.BadParameter("choose one of --job and --project")
    if month and (job or project):
        raise typer.BadParameter("only the studio's budget is by month", param_hint="--month")
    try:
        cap = None if amount == "none" else parse_money(amount)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="AMOUNT") from None
    farm = session.farm()
    if job:
        budget = farm.set_budget("job", cap, subject=farm.job(session.job(job))["cost_object"])
    elif project:
        budget = farm.set_budget("project", cap, subject=farm.project(project)["id"])
    else:
        budget = farm.set_budget("studio", cap, month=f"{month}-01" if month else None)
    terminal.give(budget)
    terminal.say(f"The budget of the {budget['scope']}: {_of_budget(budget)}.")


@budget_app.command("list")
def list_budgets(as_json: Json = False) -> None:
    """List the budgets, newest first."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    found = list(farm.budgets())
    terminal.give(found)
    names = {project["id"]: project["name"] for project in farm.projects()}
    rows = table("of", "which", "month", "at most", "held", "spent", "left", right=("at most", "held", "spent", "left"))
    for budget in found:
        which = names.get(budget["subject"], "" if budget["scope"] == "studio" else short(budget["subject"]))
        cap, left = budget["cap"], budget["left"]
        figures = (
            say_money(cap["micro"], cap["currency"]) if cap else "no limit",
            *(say_money(budget[k]["micro"], budget[k]["currency"]) for k in ("held", "spent")),
        )
        row(
            rows,
            budget["scope"],
            which,
            (budget["month"] or "")[:7],
            *figures,
            say_money(left["micro"], left["currency"]) if left else "",
        )
    if found:
        terminal.show(rows)
    else:
        terminal.say("No budgets: nothing limits what may be spent.")
        terminal.next_steps(("farmhand bill budget set 500", "limit this month"))


def _of_budget(budget: Budget) -> str:
    cap = budget["cap"]
    limit = f"at most {say_money(cap['micro'], cap['currency'])}" if cap else "no limit"
    month = f" in {budget['month'][:7]}" if budget["month"] else ""
    spent = say_money(budget["spent"]["micro"], budget["spent"]["currency"])
    held = say_money(budget["held"]["micro"], budget["held"]["currency"])
    return f"{limit}{month}, {spent} spent so far, {held} held for what runs"

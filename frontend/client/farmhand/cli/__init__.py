"""
`farmhand`: the command line.

Results go to standard output, progress and news to standard error. Exit codes: 0 it was done; 1 refused or failed;
2 wrong usage; 3 the farm does not answer; 4 the job that was watched ended failed or cancelled; 5 it is suspended and
waits for a person; 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from farmhand import __version__
from farmhand.cli import account, bill, fleet, job, scene
from farmhand.cli.session import hints_for, session
from farmhand.errors import AnswerLost, FarmError, FarmhandError, Unreachable

REFUSED, UNREACHABLE, INTERRUPTED = 1, 3, 130

HELP = """
Send scenes to a Farmhand farm, render them, fetch the frames, read the bill.

Begin with `farmhand login`. Then: `farmhand scene push FOLDER`, `farmhand job submit last --watch`,
`farmhand job pull last`, `farmhand bill show --job last`.
"""
EPILOG = (
    "Exit codes: 0 done · 1 refused or failed · 2 wrong usage · 3 the farm does not answer · 4 the watched job ended "
    "failed or cancelled · 5 it is suspended and waits for a person · 130 interrupted. FARMHAND_URL and FARMHAND_TOKEN "
    "go before what `login` keeps; NO_COLOR is honoured."
)

app = typer.Typer(
    name="farmhand",
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("login")(account.login)
app.command("whoami")(account.whoami)
app.add_typer(scene.app, name="scene")
app.add_typer(job.app, name="job")
app.add_typer(bill.app, name="bill")
app.add_typer(fleet.app, name="fleet")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"farmhand {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    profile: Annotated[
        str,
        typer.Option(metavar="NAME", envvar="FARMHAND_PROFILE", help="Which kept login to use.", show_default=False),
    ] = "",
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.", show_default=False)
    ] = False,
) -> None:
    session.profile_name = profile


def main() -> None:
    """Run the command line and end the process with its exit code."""
    try:
        app()
    except FarmhandError as error:
        sys.exit(_explain(error))
    finally:
        session.close()


def _explain(error: FarmhandError) -> int:
    """Say what went wrong and what to do, to a person and to a program; give the exit code."""
    terminal = session.terminal
    terminal.give({"error": error.problem()})
    terminal.fail(error.detail)
    if isinstance(error, FarmError):
        if len(error.errors) > 1:
            for one in error.errors:
                terminal.tell(f"  {one['field']}: {one['detail']}")
        for hint in hints_for(error):
            terminal.hint(hint)
    return UNREACHABLE if isinstance(error, (Unreachable, AnswerLost)) else REFUSED

"""What is shown, and where: results on standard output, everything on the way on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from farmhand.cli.words import plain, say_bytes, say_seconds
from farmhand.connection import Wait
from farmhand.meters import Progress as Step
from farmhand.meters import Stage

WIDE = 200  # of what goes to a file or a pipe
LINE_EVERY = 10.0  # seconds between two lines of progress where no bar can be shown

VERBS = {Stage.READING: "Reading", Stage.SENDING: "Sending", Stage.FETCHING: "Fetching"}


class Terminal:
    """Both outputs of one command."""

    def __init__(self) -> None:
        self.as_json = False
        self.out = _console(stderr=False)
        self.err = _console(stderr=True)
        self._waited_for = ""

    # --- results

    def say(self, *parts: str | Text, style: str = "") -> None:
        """Say a line of the result to a person; nothing where a program listens."""
        if not self.as_json:
            _print(self.out, _line(parts, style))

    def show(self, thing: RenderableType) -> None:
        """Show a table or the like to a person."""
        if not self.as_json:
            self.out.print(thing)

    def give(self, value: Any) -> None:
        """Give a result to a program."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
            sys.stdout.flush()

    def next_steps(self, *commands: tuple[str, str]) -> None:
        """Say what can be done next, to a person."""
        if self.as_json:
            return
        width = max(len(command) for command, _ in commands)
        for command, what in commands:
            self.err.print(Text.assemble(("→ ", "cyan"), (command.ljust(width), "bold"), f"  {what}"), soft_wrap=True)

    # --- on the way

    def tell(self, *parts: str | Text, style: str = "") -> None:
        _print(self.err, _line(parts, style))

    def warn(self, text: str) -> None:
        _print(self.err, Text.assemble(("warning: ", "bold yellow"), plain(text)))

    def fail(self, text: str) -> None:
        _print(self.err, Text.assemble(("error: ", "bold red"), plain(text)))

    def hint(self, text: str) -> None:
        _print(self.err, Text.assemble(("→ ", "cyan"), text))

    def on_wait(self, wait: Wait) -> None:
        """Say why a request waits before it is repeated."""
        why = wait.why.rstrip(".")
        self.tell(f"{why}; trying again in {say_seconds(wait.seconds)}", style="yellow")

    def wait_for(self, what: str) -> None:
        """Say what is waited for, where no bar shows it; each reason once."""
        if what != self._waited_for:
            self._waited_for = what
            self.tell(what, style="dim")

    @contextmanager
    def waiting(self) -> Iterator[Callable[[str], None]]:
        """Show what is waited for, as it changes."""
        if not self.err.is_terminal:
            yield self.wait_for
            return
        began = time.monotonic()
        spinner = Progress(
            SpinnerColumn(), TextColumn("{task.description}", markup=False), console=self.err, transient=True
        )
        with spinner:
            task = spinner.add_task("")
            yield lambda what: spinner.update(task, description=f"{what}  {say_seconds(time.monotonic() - began)}")

    @contextmanager
    def transfer(self) -> Iterator[Callable[[Step], None]]:
        """Show a transfer by files and bytes: as a bar, or where there is no terminal as a line now and then."""
        if not self.err.is_terminal:
            yield _Lines(self)
            return
        columns = (
            TextColumn("{task.description:<9}"),
            BarColumn(bar_width=32),
            TextColumn("{task.percentage:>4.0f} %"),
            TextColumn("{task.fields[figures]}", style="dim"),
        )
        with Progress(*columns, console=self.err) as bars:
            yield _Bars(bars)

    @contextmanager
    def live(self) -> Iterator[Callable[[Sequence[RenderableType]], None]]:
        """Keep a few lines at the foot of the terminal; without one they are not shown."""
        if not self.err.is_terminal:
            yield lambda things: None
            return
        with Live(console=self.err, refresh_per_second=8, transient=True) as live:
            yield lambda things: live.update(Group(*things))


class _Bars:
    """One bar a stage."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.tasks: dict[Stage, Any] = {}
        self.began: dict[Stage, float] = {}

    def __call__(self, step: Step) -> None:
        if not step.files:
            return
        if step.stage not in self.tasks:
            self.tasks[step.stage] = self.bars.add_task(VERBS[step.stage], figures="")
            self.began[step.stage] = time.monotonic()
        share = step.bytes_done / step.bytes if step.bytes else step.files_done / step.files
        figures = _figures(step, time.monotonic() - self.began[step.stage])
        self.bars.update(self.tasks[step.stage], total=1.0, completed=share, figures=figures)


class _Lines:
    """A line now and then, and one when a stage is done."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.began: dict[Stage, float] = {}
        self.told: dict[Stage, float] = {}
        self.done: set[Stage] = set()

    def __call__(self, step: Step) -> None:
        if not step.files or step.stage in self.done:
            return
        now = time.monotonic()
        began = self.began.setdefault(step.stage, now)
        if step.files_done == step.files and step.bytes_done == step.bytes:
            self.done.add(step.stage)
        elif now - self.told.get(step.stage, began) < LINE_EVERY:
            return
        self.told[step.stage] = now
        self.terminal.tell(f"{VERBS[step.stage]}: {_figures(step, now - began)}", style="dim")


def _figures(step: Step, seconds: float) -> str:
    speed = f", {say_bytes(int(step.bytes_done / seconds))}/s" if seconds > 1 and step.bytes_done else ""
    return (
        f"{step.files_done:,} of {step.files:,} files, {say_bytes(step.bytes_done)} of {say_bytes(step.bytes)}{speed}"
    )


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Make an empty table; the columns named in `right` hold numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True, padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold", no_wrap=name in right)
    return made


def row(into: Table, *cells: object, style: str = "") -> None:
    """Add a row; whatever is no rich text is shown as it is, whatever it says."""
    into.add_row(*(cell if isinstance(cell, Text) else Text(plain(cell)) for cell in cells), style=style)


def _line(parts: Sequence[str | Text], style: str) -> Text:
    return Text.assemble(*(part if isinstance(part, Text) else plain(part) for part in parts), style=style)


def _print(console: Console, line: Text) -> None:
    """Print a line, broken between words on a terminal and not at all in a file."""
    console.print(line, soft_wrap=not console.is_terminal)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    return (
        console
        if console.is_terminal
        else Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=WIDE)
    )

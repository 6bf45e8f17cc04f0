"""Watching a job: a bar of its tasks, its frames as they arrive, and the sentence that says what it waits for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from farmhand.answers import Attempt, Job, Output, Quote
from farmhand.cli.session import session
from farmhand.cli.terminal import Terminal, row, table
from farmhand.cli.words import amounts, plain, say_bytes, say_count, say_seconds, short
from farmhand.farm import Farm, News, task_count

ENDED_BADLY = 4
WAITS_FOR_A_PERSON = 5
MOST_RUNNING = 8  # frames in the making that have a bar of their own
STYLES = {
    "succeeded": "green",
    "failed": "bold red",
    "cancelled": "yellow",
    "suspended": "yellow",
    "active": "cyan",
    "leased": "cyan",
    "interrupted": "yellow",
    "lost": "yellow",
}


def watch(job_id: str) -> int:
    """Show a job until it has ended or waits for a person; give the exit code. Interrupted, the job goes on."""
    farm, terminal = session.farm(), session.terminal
    try:
        last = _follow(farm, terminal, job_id)
    except KeyboardInterrupt:
        terminal.tell("\nYou stopped watching; the job goes on.")
        terminal.next_steps(
            (f"farmhand job watch {short(job_id)}", "watch it again"),
            (f"farmhand job cancel {short(job_id)}", "stop it"),
        )
        raise
    return _conclude(farm, terminal, last)


def styled(status: str) -> Text:
    return Text(plain(status), style=STYLES.get(status, ""))


def _follow(farm: Farm, terminal: Terminal, job_id: str) -> News:
    began, is_first, news = time.monotonic(), True, None
    with terminal.live() as show:
        for news in farm.watch_job(job_id):
            _announce(terminal, news.outputs, first=is_first)
            if terminal.err.is_terminal:
                running = [] if news.has_ended else list(islice(farm.attempts(job_id, status="started"), MOST_RUNNING))
                show(_foot(news, running, time.monotonic() - began))
            elif not news.has_ended:
                terminal.wait_for(plain(news.why["sentence"]))
            if news.is_suspended:
                break
            is_first = False
    assert news
    return news


def _announce(terminal: Terminal, outputs: Sequence[Output], *, first: bool) -> None:
    """Name the frames that have arrived; of those from before this watch only how many."""
    if first and outputs:
        terminal.tell(f"{say_count(len(outputs), 'file')} had arrived before.", style="dim")
        return
    for output in outputs:
        frame = f"frame {output['frame']}" if output["frame"] is not None else output["name"]
        size = f"{output['width']}×{output['height']}  " if output["width"] else ""
        terminal.tell(Text("✓ ", style="green"), f"{frame:<12} {size}{say_bytes(output['size'])}  {output['name']}")


def _foot(news: News, running: Sequence[Attempt], seconds: float) -> list[Table | Text]:
    """Show a bar of the job, one of each frame in the making, and the sentence that says what it waits for."""
    counts, total = news.job["tasks"], max(1, task_count(news.job))
    bars = Table.grid(padding=(0, 1))
    figures = f"{counts['succeeded']} of {total}" + (f", {counts['failed']} failed" if counts["failed"] else "")
    bars.add_row("", ProgressBar(total=total, completed=counts["succeeded"], width=32), figures, say_seconds(seconds))
    for attempt in sorted(running, key=lambda attempt: attempt["frame"] or 0):
        name = "" if attempt["frame"] is None else f"frame {attempt['frame']}"
        bar = ProgressBar(total=1.0, completed=attempt["progress"], width=32, complete_style="cyan")
        bars.add_row(
            Text(name, style="dim"), bar, f"{attempt['progress']:.0%}", say_seconds(attempt["elapsed_ms"] / 1000)
        )
    return [bars, Text(plain(news.why["sentence"]), style="dim")]


def _conclude(farm: Farm, terminal: Terminal, news: News) -> int:
    """Say how it stands and what can be done, and give the exit code."""
    job = news.job
    terminal.say(styled(job["status"]), f"  {job['name']}: {news.why['sentence']}")
    here = short(job["id"])
    if job["status"] == "succeeded":
        terminal.next_steps(
            (f"farmhand job pull {here}", "fetch the frames"),
            (f"farmhand bill show --job {here}", "see what they cost"),
        )
        return 0
    if news.is_suspended and job["suspended_by"] == "approval":
        show_quotes(terminal, farm.quotes(job["id"]))
        terminal.next_steps(
            (f"farmhand job continue {here} --watch", "render the rest"),
            (f"farmhand job cancel {here}", "leave it at that"),
        )
    elif news.is_suspended:
        terminal.next_steps((f"farmhand job resume {here}", "go on"), (f"farmhand job cancel {here}", "stop it"))
    if job["tasks"]["failed"]:
        show_failures(farm, terminal, job)
    return WAITS_FOR_A_PERSON if news.is_suspended else ENDED_BADLY


def show_failures(farm: Farm, terminal: Terminal, job: Job, *, most: int = 5) -> None:
    """Say why tasks failed, the same reason once, and what can be done."""
    said: dict[str, list[str]] = {}
    for attempt in islice(farm.attempts(job["id"], status="failed"), 200):
        frame = "" if attempt["frame"] is None else str(attempt["frame"])
        said.setdefault(attempt["sentence"] or attempt["cause"], []).append(frame)
    for sentence, frames in list(said.items())[:most]:
        named = sorted({int(frame) for frame in frames if frame})
        where = f"frame {named[0]}" + (f" and {len(named) - 1} more" if len(named) > 1 else "") if named else "a task"
        terminal.say(Text("  ✗ ", style="bold red"), f"{where}: {sentence}")
    here = short(job["id"])
    terminal.next_steps(
        (f"farmhand job logs {here}", "read what the renderer said"),
        (f"farmhand job retry {here} --failed --watch", "render the failed ones again"),
    )


def show_quotes(terminal: Terminal, quotes: Sequence[Quote]) -> None:
    """Show what the rest of a job costs and how long it takes, on each class of worker that has rendered some of it."""
    if not quotes:
        terminal.say("There is no quote: nothing is left to render, or nothing has been rendered yet.")
        return
    rows = table("the rest", "on", "costs", "takes", "judged by")
    for quote in quotes:
        low, likely, high = amounts(quote["p10_micro"], quote["p50_micro"], quote["p90_micro"])
        takes = f"{say_seconds(quote['p10_s'])} – {say_seconds(quote['p90_s'])}"
        row(
            rows,
            say_count(quote["tasks"], "task"),
            say_count(quote["slots"], f"{quote['worker_class']} slot"),
            f"{low} – {high} {quote['currency']}, likely {likely}",
            f"{takes}, likely {say_seconds(quote['p50_s'])}",
            f"its {quote['basis']}",
        )
    terminal.show(rows)

"""`farmhand job …`: order work, watch and steer it, fetch what comes out."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from farmhand.answers import Attempt, Job, Movie
from farmhand.cli.orders import Choices, build_order, with_order
from farmhand.cli.session import JobId, Json, session
from farmhand.cli.terminal import Terminal, row, table
from farmhand.cli.watching import show_failures, show_quotes, styled, watch
from farmhand.cli.words import plain, say_bytes, say_count, say_moment, say_money, say_rate, say_seconds, short
from farmhand.errors import FarmError, Refused
from farmhand.farm import ENDED, ENDED_ATTEMPT, Farm, task_count
from farmhand.frames import parse_frames, say_frames
from farmhand.profiles import remember
from farmhand.pull import safe_name

app = typer.Typer(help="Order work, watch and steer it, fetch what comes out.", no_args_is_help=True)

Watch = Annotated[bool, typer.Option("--watch", help="Then watch it until it ends.")]
Frames = Annotated[str, typer.Option(help="Only these frames, as in 3,7-9.", show_default=False)]

AS_THE_SCENE_SAYS = frozenset({"", "0", "SCENE", "."})
MOVIE_PATIENCE = 15  # looks at an ended job's movie that has trouble


class NotWaiting(Refused):
    """The job does not wait for approval: it is {status}. {hint}"""

    code = "not-waiting"


class FramesMissing(Refused):
    """The job has no frames {frames}. `farmhand job status` shows those it has."""

    code = "no-such-frames"


class NoAttempt(Refused):
    """Nothing of this has been rendered yet, so there is no log. `farmhand job why` says what it waits for."""

    code = "no-attempt"


class NothingToFetch(Refused):
    """The job has no files of the role {role!r} yet. `farmhand job why` says what it waits for."""

    code = "nothing-to-fetch"


# --- ordering


@app.command("check")
@with_order
def check(choices: Choices, as_json: Json = False) -> None:
    """Say what an order would come to: tasks, fleets that could run it, warnings. Creates nothing."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    found = farm.check_job(build_order(farm, choices))
    terminal.give(found)
    terminal.say(f"{found['name']}: {say_count(found['tasks'], 'task')}, and it can be rendered.")
    for step in found["steps"]:
        terminal.say(f"  step {step['name']}: {say_count(step['tasks'], 'task')} on {', '.join(step['fleets'])}")
    for name, value in _said(found["parameters"]).items():
        terminal.say(f"  {name:<18} {value}", style="dim")
    for warning in found["warnings"]:
        terminal.warn(warning)


@app.command("submit")
@with_order
def submit(
    choices: Choices,
    watch_it: Watch = False,
    idempotency_key: Annotated[
        str,
        typer.Option(
            help="Asked twice with one key, the farm makes one job. Made anew unless said.", show_default=False
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Order a job. With --scouts it renders a few frames first and then waits with a quote for `job continue`."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    job = farm.submit_job(build_order(farm, choices), key=idempotency_key)
    remember(farm.url, "job", job["id"])
    terminal.tell(f"Job {job['name']}: {say_count(task_count(job), 'task')}. id {job['id']}")
    if watch_it:
        _watch_and_give(terminal, job["id"])
    terminal.give(job)
    terminal.say(job["id"])
    terminal.next_steps(
        (f"farmhand job watch {short(job['id'])}", "see frames arrive"),
        (f"farmhand job why {short(job['id'])}", "see what it waits for"),
    )


def _watch_and_give(terminal: Terminal, job_id: str) -> None:
    """Watch a job to its end, give it to a program, and end with the code that says how it went."""
    code = watch(job_id)
    terminal.give(session.farm().job(job_id))
    raise typer.Exit(code)


# --- looking


@app.command("list")
def list_jobs(
    status: Annotated[
        str,
        typer.Option(help="active, suspended, succeeded, failed, cancelled; several with commas.", show_default=False),
    ] = "",
    project: Annotated[str, typer.Option(help="Name or id of the project.", show_default=False)] = "",
    name: Annotated[str, typer.Option(help="Part of the name.", show_default=False)] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """List the studio's jobs, newest first."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    home = farm.project(project)["id"] if project else None
    found = list(islice(farm.jobs(project=home, status=status or None, name=name or None), limit))
    terminal.give(found)
    rows = table("job", "name", "project", "status", "done", "failed", "made", right=("done", "failed"))
    for job in found:
        counts = job["tasks"]
        done = f"{counts['succeeded']}/{task_count(job)}"
        row(
            rows,
            short(job["id"]),
            job["name"],
            job["project_name"],
            styled(_status(job)),
            done,
            counts["failed"] or "",
            say_moment(job["created_at"])[:16],
        )
    if found:
        terminal.show(rows)
    else:
        terminal.say("No jobs." if status or project or name else "No jobs yet.")


@app.command("status")
def status(job: JobId, as_json: Json = False) -> None:
    """Show how far a job is, what it does or waits for, and what it has cost."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    found = farm.job(session.job(job))
    why = farm.why(found["id"])
    terminal.give({**found, "why": why})
    if as_json:
        return
    terminal.say(styled(_status(found)), f"  {found['name']}")
    terminal.say(f"  {why['sentence']}")
    counts = {name: count for name, count in found["tasks"].items() if count}
    terminal.say(f"  tasks     {', '.join(f'{count} {name}' for name, count in counts.items())}")
    terminal.say(
        f"  project   {found['project_name']}   priority {found['priority']}   made {say_moment(found['created_at'])}"
    )
    said = _said(found["parameters"])
    terminal.say(f"  with      {', '.join(f'{name}={value}' for name, value in said.items())}")
    terminal.say(f"  cost      {_cost(farm, found)}")
    terminal.say(f"  id        {found['id']}", style="dim")
    if counts.get("failed"):
        show_failures(farm, terminal, found)


def _said(parameters: Mapping[str, str]) -> dict[str, str]:
    """Leave out the parameters that are as the scene says."""
    return {name: value for name, value in parameters.items() if value not in AS_THE_SCENE_SAYS}


def _status(job: Job) -> str:
    return job["status"] if not job["suspended_by"] else f"suspended ({job['suspended_by']})"


def _cost(farm: Farm, job: Job) -> str:
    try:
        totals, _ = farm.statement(cost_object=job["cost_object"])
    except FarmError as error:
        if error.status != 403:
            raise
        return "not for your token to see"
    credit = (
        f" ({say_money(totals['credit']['micro'], totals['credit']['currency'])} not charged)"
        if totals["credit"]["micro"]
        else ""
    )
    so_far = "" if job["status"] in ENDED else " so far"
    return f"{say_money(totals['charged']['micro'], totals['charged']['currency'])}{so_far}{credit}"


@app.command("watch")
def watch_job(job: JobId, as_json: Json = False) -> None:
    """Watch a job: frames as they arrive, how long it takes, what it waits for. Ctrl-C leaves it running."""
    terminal = session.begin(as_json=as_json)
    _watch_and_give(terminal, session.job(job))


@app.command("why")
def why(job: JobId, as_json: Json = False) -> None:
    """Say in one sentence what a job does or waits for."""
    terminal = session.begin(as_json=as_json)
    found = session.farm().why(session.job(job))
    terminal.give(found)
    terminal.say(found["sentence"])


@app.command("quote")
def quote(
    job: JobId,
    slots: Annotated[int, typer.Option(min=1, help="How many slots at once the time is for.")] = 1,
    as_json: Json = False,
) -> None:
    """Say what the rest of a job will cost and how long it will take, from the frames it has rendered."""
    terminal = session.begin(as_json=as_json)
    found = session.farm().quote(session.job(job), slots=slots)
    terminal.give(found)
    show_quotes(terminal, found)


# --- steering


@app.command("continue")
def continue_job(job: JobId, watch_it: Watch = False, as_json: Json = False) -> None:
    """Render the rest of a job whose scouts are done: the approval it waits for."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    found = farm.job(session.job(job))
    if found["suspended_by"] != "approval":
        hint = "Its scouts still render." if found["approval"] == "scouting" else "`farmhand job status` says more."
        raise NotWaiting(status=_status(found), hint=hint)
    _steered(terminal, farm.resume_job(found["id"]), "continues", watch_it=watch_it)


@app.command("suspend")
def suspend(job: JobId, as_json: Json = False) -> None:
    """Start nothing new of a job; what runs finishes."""
    terminal = session.begin(as_json=as_json)
    _steered(terminal, session.farm().suspend_job(session.job(job)), "is suspended; what runs finishes")


@app.command("resume")
def resume(job: JobId, watch_it: Watch = False, as_json: Json = False) -> None:
    """Let a suspended job go on."""
    terminal = session.begin(as_json=as_json)
    _steered(terminal, session.farm().resume_job(session.job(job)), "goes on", watch_it=watch_it)


@app.command("cancel")
def cancel(job: JobId, as_json: Json = False) -> None:
    """Cancel what has not ended of a job. What is rendered stays; `job retry --missing` takes it up again."""
    terminal = session.begin(as_json=as_json)
    _steered(terminal, session.farm().cancel_job(session.job(job)), "is cancelled; what runs is stopped within seconds")


@app.command("priority")
def priority(
    job: JobId,
    value: Annotated[
        int, typer.Argument(metavar="0-100", min=0, max=100, help="Higher goes first.", show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Change a job's priority."""
    terminal = session.begin(as_json=as_json)
    _steered(terminal, session.farm().change_priority(session.job(job), value), f"has priority {value}")


@app.command("retry")
def retry(
    job: JobId,
    failed: Annotated[
        bool, typer.Option("--failed", help="The failed tasks (this is what is done unless said).")
    ] = False,
    missing: Annotated[bool, typer.Option("--missing", help="All that have not succeeded.")] = False,
    frames: Frames = "",
    watch_it: Watch = False,
    as_json: Json = False,
) -> None:
    """Render tasks again. A frame that is there stays until its new one is verified."""
    terminal = session.begin(as_json=as_json)
    if failed + missing + bool(frames) > 1:
        raise typer.BadParameter("choose one of --failed, --missing and --frames")
    farm = session.farm()
    found = session.job(job)
    if frames:
        count = farm.retry_tasks(found, "list", _tasks_of(farm, found, frames))
    else:
        count = farm.retry_tasks(found, "missing" if missing else "failed")
    terminal.tell(f"{say_count(count, 'task')} will be rendered again.")
    if watch_it and count:
        _watch_and_give(terminal, found)
    terminal.give({"job": found, "tasks": count})
    if count:
        terminal.next_steps((f"farmhand job watch {short(found)}", "see them arrive"))


def _tasks_of(farm: Farm, job: str, frames: str) -> list[str]:
    """:raises FramesMissing: the job does not have them all"""
    wanted = set(parse_frames(frames))
    tasks = [task for task in farm.tasks(job) if task["frame"] in wanted]
    if lacking := wanted - {task["frame"] for task in tasks if task["frame"] is not None}:
        raise FramesMissing(frames=say_frames(lacking))
    return [task["id"] for task in tasks]


def _steered(terminal: Terminal, job: Job, what: str, *, watch_it: bool = False) -> None:
    terminal.tell(f"{job['name']} {what}.")
    if watch_it:
        _watch_and_give(terminal, job["id"])
    terminal.give(job)


# --- what comes out


@app.command("logs")
def logs(
    job: JobId,
    frame: Annotated[
        int | None,
        typer.Option(help="Of this frame; of the last that failed, or the last, unless said.", show_default=False),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more is written.")] = False,
    as_json: Json = False,
) -> None:
    """Show what the renderer said."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    found = session.job(job)
    attempt = _attempt(farm, found, frame)
    terminal.tell(_about(attempt), style="dim")
    text = _show_log(farm, terminal, found, attempt, follow=follow)
    terminal.give({"attempt": attempt, "log": text})
    if attempt["sentence"]:
        terminal.tell(attempt["sentence"], style="red")


def _attempt(farm: Farm, job: str, frame: int | None) -> Attempt:
    """:raises NoAttempt, FramesMissing: as they say"""
    if frame is None:
        failed = next(farm.attempts(job, status="failed"), None)
        found = failed or next(farm.attempts(job), None)
    else:
        task = next(farm.tasks(job, frame=frame), None)
        if task is None:
            raise FramesMissing(frames=frame)
        found = next(farm.attempts(job, task=task["id"]), None)
    if found is None:
        raise NoAttempt
    return found


def _about(attempt: Attempt) -> str:
    frame = f"Frame {attempt['frame']}" if attempt["frame"] is not None else "A task"
    took = f", {say_seconds(attempt['render_ms'] / 1000)}" if attempt["render_ms"] else ""
    device = f" on {attempt['device']}" if attempt["device"] else ""
    began = say_moment(attempt["started_at"])
    return f"{frame}, try {attempt['generation']}: {attempt['status']}{device}{took}, began {began}"


def _show_log(farm: Farm, terminal: Terminal, job: str, attempt: Attempt, *, follow: bool) -> str:
    """Show a log chunk by chunk; give all of it."""
    pieces: list[str] = []
    since, is_over = 0, False
    while True:
        is_over = attempt["status"] in ENDED_ATTEMPT
        while True:
            text, upto = farm.log(attempt["id"], since=since)
            if upto == since:
                break
            pieces.append(text)
            since = upto
            if not terminal.as_json:
                sys.stdout.write(plain(text) if sys.stdout.isatty() else text)
                sys.stdout.flush()
        if is_over or not follow:
            return "".join(pieces)
        time.sleep(1)
        attempt = next((a for a in farm.attempts(job, task=attempt["task"]) if a["id"] == attempt["id"]), attempt)


@app.command("pull")
def pull(
    job: JobId,
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="Where to; a folder of the job's name unless said.", show_default=False),
    ] = None,
    role: Annotated[str, typer.Option(help="render, proxy or thumbnail.")] = "render",
    frames: Frames = "",
    as_json: Json = False,
) -> None:
    """Fetch a job's frames. What is there and equal is left alone; what was cut goes on."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    found = farm.job(session.job(job))
    target = folder or Path(safe_name(re.sub(r"[/\\]", "_", found["name"])))
    with terminal.transfer() as on_progress:
        try:
            pulled = farm.pull_job(found["id"], target, role=role, frames=_wanted(frames), on_progress=on_progress)
        except KeyboardInterrupt:
            terminal.tell("Stopped. The same command goes on from here.")
            raise
    if not pulled.fetched and not pulled.kept:
        raise NothingToFetch(role=role)
    terminal.give(
        {
            "job": found["id"],
            "folder": str(target),
            "fetched": pulled.fetched,
            "kept": pulled.kept,
            "bytes": pulled.bytes,
        }
    )
    kept = f"; {say_count(len(pulled.kept), 'file')} there already" if pulled.kept else ""
    terminal.say(f"{say_count(len(pulled.fetched), 'file')} ({say_bytes(pulled.bytes)}) fetched to {target}{kept}.")
    _tell_lacking(terminal, found)


def _wanted(frames: str) -> Sequence[int] | None:
    return parse_frames(frames) if frames else None


def _tell_lacking(terminal: Terminal, job: Job) -> None:
    """Say that frames are not there yet, or never will be, so that nobody takes a part for the whole."""
    counts = job["tasks"]
    lacking = task_count(job) - counts["succeeded"]
    if lacking:
        terminal.warn(f"{lacking} of {task_count(job)} tasks have not succeeded, so their files are not here.")


@app.command("movie")
def movie(
    job: JobId,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Where to; the job's name with .mp4 unless said.", show_default=False),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it shows every frame that is coming.")] = False,
    as_json: Json = False,
) -> None:
    """Fetch the movie of a job. It exists from the first frames on; a missing frame holds the one before, marked."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    found = farm.job(session.job(job))
    target = file or Path(safe_name(re.sub(r"[/\\]", "_", found["name"])) + ".mp4")
    if wait:
        _await_movie(farm, terminal, found["id"])
    with terminal.transfer() as on_progress:
        made, _ = farm.pull_movie(found["id"], target, on_progress=on_progress)
    terminal.give({"job": found["id"], "file": str(target), "movie": made})
    picture = (
        f"{made['width']}×{made['height']}, {say_count(made['frames'], 'frame')} at {say_rate(made['fps'])} a second"
    )
    terminal.say(f"{target}: {picture}, {say_bytes(made['size'])}.")
    _tell_gaps(terminal, made)


def _await_movie(farm: Farm, terminal: Terminal, job: str) -> None:
    """Wait until a movie shows every frame there is and no more are coming, or there is trouble that stays."""
    patience = MOVIE_PATIENCE
    with terminal.waiting() as wait_for:
        while True:
            status, found = farm.job(job)["status"], farm.movie(job)
            is_shown = found["version"] and found["shown"] >= found["present"] - len(found["unreadable"])
            patience -= bool(found["trouble"])
            if status != "active" and (is_shown or not found["present"] or patience < 0):
                return
            shows = f"The movie shows {found['shown']} of {found['present']} frames that are there"
            wait_for(found["trouble"] or (farm.why(job)["sentence"] if status == "active" else shows))
            time.sleep(1)


def _tell_gaps(terminal: Terminal, made: Movie) -> None:
    if made["missing"]:
        terminal.warn(
            f"Frames {say_frames(made['missing'])} are missing; the movie holds the frame before and says so."
        )
    for one in made["unreadable"]:
        terminal.warn(f"Frame {one['frame']} is not shown: {one['why']}")


@app.command("quality")
def quality(job: JobId, as_json: Json = False) -> None:
    """Say what looks wrong with a job's frames: black, broken, transparent, unlike their neighbours."""
    terminal = session.begin(as_json=as_json)
    found = session.farm().quality(session.job(job))
    terminal.give(found)
    terminal.say(f"{say_count(found['checked'], 'frame')} looked at, {say_count(len(found['findings']), 'finding')}.")
    for finding in found["findings"]:
        terminal.say(f"  frame {finding['frame']}: {finding['sentence']}")

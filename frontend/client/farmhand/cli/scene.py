"""`farmhand scene …`: send scenes, see what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from farmhand.answers import Version
from farmhand.cli.reports import is_renderable, show_report
from farmhand.cli.session import Json, VersionId, session
from farmhand.cli.terminal import Terminal, row, table
from farmhand.cli.words import say_bytes, say_count, say_moment, short
from farmhand.errors import FarmError
from farmhand.folders import shown
from farmhand.profiles import remember
from farmhand.push import Pushed

app = typer.Typer(help="Send scenes, and see what is in them.", no_args_is_help=True)

Entry = Annotated[
    str, typer.Option(help="The file that opens; the only .blend at the top unless said.", show_default=False)
]


@app.command("push")
def push(
    path: Annotated[Path, typer.Argument(help="The scene's folder, or its one file.", show_default=False)],
    entry: Entry = "",
    scene: Annotated[str, typer.Option(help="Name of the scene; the entry's unless said.", show_default=False)] = "",
    project: Annotated[
        str, typer.Option(help="Name or id of the project; the only one unless said.", show_default=False)
    ] = "",
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Leave out such files, as in *.psd or old/*.", show_default=False),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="Also backups, version control and what desktops leave behind.")
    ] = False,
    follow_links: Annotated[
        bool, typer.Option("--follow-links", help="Also what links that lead out of the folder point to.")
    ] = False,
    keep_paths: Annotated[
        bool,
        typer.Option("--keep-paths", help="Lay files out at their absolute paths too, for scenes that spell paths so."),
    ] = False,
    wait_report: Annotated[
        bool, typer.Option("--wait-report", help="Wait until it is inspected, and show the report.")
    ] = False,
    as_json: Json = False,
) -> None:
    """
    Send a scene as a new version.

    Files are compared by content: what the farm has does not travel again, and what was cut goes on where it was.
    """
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    with terminal.transfer() as on_progress:
        plan = farm.plan_push(
            path,
            entry=entry,
            exclude=exclude or (),
            everything=everything,
            follow_links=follow_links,
            on_progress=on_progress,
        )
        home = farm.project(project or session.profile().project)
        opened = farm.open_scene(scene or Path(plan.entry).stem, project=home["id"])
        try:
            pushed = farm.send(plan, opened["id"], keep_paths=keep_paths, on_progress=on_progress)
        except KeyboardInterrupt:
            terminal.tell("Stopped. The same command goes on from here: what has arrived is not sent again.")
            raise
    version = pushed.version
    remember(farm.url, "version", version["id"])
    _tell_pushed(terminal, opened["name"], pushed)
    report = _wait(terminal, version["id"]) if wait_report else None
    terminal.give(_as_json(pushed, opened["name"], report))
    here = short(version["id"])
    if report is None:
        terminal.next_steps((f"farmhand scene report {here} --wait", "see what is in it"))
    else:
        show_report(terminal, report)
    if report is None or is_renderable(report):
        terminal.next_steps((f"farmhand job submit {here} --watch", "render it"))


@app.command("report")
def report(
    version: VersionId,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is there.")] = False,
    as_json: Json = False,
) -> None:
    """Show what is in a scene: frames, cameras, layers, engine, and every file it needs, found or missing."""
    terminal = session.begin(as_json=as_json)
    found = session.version(version)
    body = _wait(terminal, found) if wait else session.farm().report(found)
    terminal.give(body)
    show_report(terminal, body)


@app.command("list")
def list_scenes(
    project: Annotated[str, typer.Option(help="Name or id of the project; all unless said.", show_default=False)] = "",
    as_json: Json = False,
) -> None:
    """List the scenes, newest first, with their latest versions."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    home = farm.project(project)["id"] if project else None
    found = [farm.scene(scene["id"]) for scene in farm.scenes(project=home)]
    terminal.give(found)
    rows = table("scene", "version", "no.", "status", "files", "size", "sent", right=("no.", "files", "size"))
    for scene in found:
        latest = scene["latest_version"]
        if latest is None:
            row(rows, scene["name"], "–", "", "empty", "", "", say_moment(scene["created_at"]), style="dim")
            continue
        figures = (latest["number"], latest["status"], latest["file_count"], say_bytes(latest["byte_count"]))
        row(rows, scene["name"], short(latest["id"]), *figures, say_moment(latest["created_at"]))
    if found:
        terminal.show(rows)
    else:
        terminal.say("No scenes yet.")
        terminal.next_steps(("farmhand scene push FOLDER", "send one"))


def _tell_pushed(terminal: Terminal, name: str, pushed: Pushed) -> None:
    version = pushed.version
    new = f"{pushed.sent_files:,} of them new to the farm, {say_bytes(pushed.sent_bytes)} sent"
    sent = new if pushed.sent_files else "the farm had them all, nothing was sent"
    size = f"{say_count(pushed.files, 'file')}, {say_bytes(pushed.bytes)}"
    terminal.say(f"{name} version {version['number']} is on the farm: {size}; {sent}.")
    terminal.say(f"id  {version['id']}", style="dim")
    if pushed.skipped:
        terminal.tell(f"Left out: {shown(pushed.skipped)}. --everything sends them too.", style="dim")
    for warning in pushed.warnings:
        terminal.warn(warning)


def _wait(terminal: Terminal, version: str) -> dict[str, Any]:
    """Wait for a report, saying what for: the inspection is a job, and its version tells where it stands."""
    farm = session.farm()
    with terminal.waiting() as wait_for:

        def look(version: Version) -> None:
            words = {
                "uploading": "Some of its files have not arrived",
                "whole": "Waiting for a machine to inspect the scene",
            }
            wait_for(words.get(version["status"], "Fetching the report"))

        found = farm.wait_for_report(version, on_look=look)
    try:
        return farm.report(version)
    except FarmError as error:
        if error.code != "report-missing" or not found["refusal"]:
            raise
        return {"entry": found["entry"], "saved_by": None, "refusal": {"code": "refused", "sentence": found["refusal"]}}


def _as_json(pushed: Pushed, scene: str, report: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "scene": scene,
        "version": pushed.version,
        "files": pushed.files,
        "bytes": pushed.bytes,
        "sent_files": pushed.sent_files,
        "sent_bytes": pushed.sent_bytes,
        "skipped": pushed.skipped,
        "warnings": pushed.warnings,
        "report": report,
    }

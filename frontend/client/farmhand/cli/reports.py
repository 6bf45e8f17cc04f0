"""An inspection's report, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from farmhand.cli.terminal import Terminal
from farmhand.cli.words import plain, say_bytes, say_count

MOST = 12  # files named one by one
STATES = {"found": ("✓", "green"), "missing": ("✗", "bold red"), "outside": ("✗", "bold red")}
SEVERITIES = {"error": ("✗", "bold red"), "warning": ("!", "yellow")}

Part = Mapping[str, Any]


def show_report(terminal: Terminal, report: Part) -> None:
    """Show what is in a scene, what it needs, and what to know before it costs anything."""
    saved = f"saved by Blender {report['saved_by']}" if report.get("saved_by") else "not readable"
    terminal.say(Text(plain(report["entry"]), style="bold"), f"  {saved}")
    if refusal := report.get("refusal"):
        terminal.say(Text("✗ ", style="bold red"), refusal["sentence"])
        return
    for scene in report["scenes"]:
        for line in _of_scene(scene):
            terminal.say(line)
    for line in _of_files(report["dependencies"]):
        terminal.say(line)
    for problem in report["problems"]:
        mark, style = SEVERITIES.get(problem["severity"], ("!", ""))
        terminal.say(Text(f"  {mark} ", style=style), problem["sentence"])
    if not report["problems"]:
        terminal.say(Text("  ✓ ", style="green"), "Nothing stands in the way of rendering it.")


def is_renderable(report: Part) -> bool:
    """Say whether a scene can be rendered as it is."""
    return not report["refusal"] and all(problem["severity"] != "error" for problem in report["problems"])


def _of_scene(scene: Part) -> Iterator[Text]:
    frames, size, output = scene["frames"], scene["resolution"], scene["output"]
    rate = scene["fps"][0] / scene["fps"][1]
    step = f", every {frames['step']}." if frames["step"] > 1 else ""
    active = " (opens)" if scene["active"] else ""
    yield _text(("  Scene ", ""), (scene["name"], "bold"), (active, "dim"))
    samples = f", {scene['samples']} samples" if scene["samples"] else ""
    yield _fact("engine", f"{scene['engine']}{samples}")
    yield _fact("frames", f"{frames['start']}–{frames['end']}{step} at {rate:g} a second")
    yield _fact("picture", f"{size['width']}×{size['height']}, {output['format']} {output['color_depth']} bit")
    yield _fact("camera", _cameras(scene))
    yield _fact(
        "layers", ", ".join(layer["name"] + ("" if layer["on"] else " (off)") for layer in scene["view_layers"])
    )


def _cameras(scene: Part) -> str:
    changes = [f"{marker['camera']} from {marker['frame']}" for marker in scene["markers"] if marker["camera"]]
    others = [name for name in scene["cameras"] if name != scene["camera"]]
    more = f" (also: {', '.join(others)})" if others and not changes else ""
    return ", ".join(changes) if changes else f"{scene['camera'] or 'none'}{more}"


def _of_files(dependencies: list[Part]) -> Iterator[Text]:
    if not dependencies:
        yield _text(("  Files ", ""), ("needs no other file", "dim"))
        return
    states = [file["state"] for file in dependencies]
    packed = sum(bool(file["packed"]) for file in dependencies)
    parts = [
        f"{states.count('found')} found",
        f"{states.count('missing')} missing",
        f"{states.count('outside')} outside the upload",
    ]
    yield _text(("  Files ", ""), (", ".join([*parts, *([f"{packed} packed into the scene"] if packed else [])]), ""))
    shown = sorted(dependencies, key=lambda file: file["state"] == "found")
    yield from (_of_file(file) for file in shown[:MOST])
    if len(shown) > MOST:
        yield _text((f"    and {len(shown) - MOST} more, all {shown[MOST]['state']}; --json lists them", "dim"))


def _of_file(file: Part) -> Text:
    mark, style = STATES.get(file["state"], ("?", ""))
    used = f"  used by {', '.join(file['users'][:3])}" if file["users"] else ""
    count = f"  {say_count(file['files'], 'file')}" if file["files"] > 1 else ""
    size = f"  {say_bytes(file['size'])}" if file["size"] else ""
    lacking = f"  lacks {file['missing_numbers']}" if file.get("missing_numbers") else ""
    kind = "packed " if file["packed"] else ""
    return _text(
        (f"    {mark} ", style),
        (file["path"] or file["name"], ""),
        (f"  {kind}{file['kind']}{size}{count}{lacking}{used}", "dim"),
    )


def _fact(name: str, value: str) -> Text:
    return _text((f"    {name:<9}", "dim"), (value, ""))


def _text(*parts: tuple[str, str]) -> Text:
    return Text.assemble(*((plain(text), style) for text, style in parts))

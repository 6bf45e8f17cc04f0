"""The renderer this machine offers: its launchers in /farmhand/bin, what they need to see, and its version."""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from workers.sandbox import BIN, LIB, Enclosure, Mount, Plan, SandboxUnusable, agent_mounts, python_mounts
from workers.settings import AgentSettings

VERSION_S = 180


@dataclasses.dataclass(frozen=True)
class Renderer:
    """What every tree that runs sessions sees of renderers and Python."""

    mounts: tuple[Mount, ...]
    agent_mounts: tuple[Mount, ...]  # what a tree without a renderer sees
    software: dict[str, list[str]]


class RendererBroken(Exception):
    """The renderer does not say its version: {why}. Check --blender or --renderer-python."""

    def __init__(self, why: str) -> None:
        super().__init__((self.__doc__ or "").format(why=why))


def set_up_launchers(settings: AgentSettings) -> Renderer:
    """Write the launchers; which versions they start is still to be asked."""
    folder = settings.work / "bin"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write_launcher(folder / "python3", f"exec {shlex.quote(sys.executable)}")
    own = agent_mounts(folder)
    mounts = [*own]
    if settings.blender is not None:
        _write_launcher(folder / "blender", f"exec {shlex.quote(str(settings.blender))}")
        home = settings.blender.resolve().parent
        mounts += [Mount(home, str(home)), *_own_place(settings.blender, home)]
    elif settings.renderer_python is not None:
        python = shlex.quote(str(settings.renderer_python))
        module = "workers.renderers.blender.bpy_shim"
        places = f"{LIB}:{Path(__file__).parent.parent}"  # with and without a sandbox
        _write_launcher(folder / "blender", f"PYTHONPATH={shlex.quote(places)} exec {python} -m {module}")
        mounts += python_mounts(settings.renderer_python)
    return Renderer(mounts=tuple(_without_doubles(mounts)), agent_mounts=tuple(own), software={})


def ask_versions(renderer: Renderer, settings: AgentSettings, enclosure: Enclosure) -> Renderer:
    """
    Start the renderer once, enclosed, to hear which version it is.

    :raises RendererBroken: it does not say
    """
    if not (settings.work / "bin" / "blender").exists():
        return renderer
    return dataclasses.replace(renderer, software={"blender": [_blender_version(renderer.mounts, enclosure)]})


def _blender_version(mounts: Sequence[Mount], enclosure: Enclosure) -> str:
    command = [f"{BIN}/blender", "--version"]
    try:
        tree = enclosure.start(Plan(name="version", command=command, mounts=mounts))
    except SandboxUnusable as error:
        raise RendererBroken(str(error)) from error
    try:
        tree.stdin.close()
        ended = tree.wait(VERSION_S)
        said = tree.stdout.read(4096).decode(errors="replace") if ended is not None else ""
    finally:
        tree.close()
    found = re.search(r"^Blender (\d+\.\d+\.\d+)", said, re.MULTILINE)
    if found is None:
        raise RendererBroken(tree.last_words[-300:] or said[:300] or "it says nothing")
    return found.group(1)


def _write_launcher(file: Path, command: str) -> None:
    file.write_text(f'#!/bin/sh\n{command} "$@"\n', encoding="utf-8")
    file.chmod(0o755)


def _own_place(program: Path, home: Path) -> list[Mount]:
    """Show the program under the name it was given by, where that is a link from elsewhere."""
    if program.parent == home or str(program).startswith("/usr/"):
        return []
    return [Mount(program, str(program))]


def _without_doubles(mounts: list[Mount]) -> list[Mount]:
    return list({mount.target: mount for mount in mounts}.values())

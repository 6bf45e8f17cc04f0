"""The renderer this machine offers: its launchers in /farmhand/bin, what they need to see, and its version."""

from __future__ import annotations

import dataclasses
import logging
import re
import shlex
import shutil
import sys
from pathlib import Path

from workers.sandbox import LIB, Mount, Plan, Sandbox, SandboxUnusable, agent_mounts, python_mounts
from workers.settings import AgentSettings

LOG = logging.getLogger("farmhand.renderer")
VERSION_S = 180


@dataclasses.dataclass(frozen=True)
class Renderer:
    """What every sandbox that runs sessions shows of renderers and Python."""

    mounts: tuple[Mount, ...]
    agent_mounts: tuple[Mount, ...]  # what a sandbox without a renderer shows
    software: dict[str, list[str]]


def set_up_renderer(settings: AgentSettings) -> Renderer:
    """Write the launchers and ask the renderer, in a sandbox, which version it is."""
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
        _write_launcher(folder / "blender", f"PYTHONPATH={LIB} exec {python} -m {module}")
        mounts += python_mounts(settings.renderer_python)
    mounts = _without_doubles(mounts)
    software = {}
    if (folder / "blender").exists():
        software = {"blender": [_blender_version(mounts)]}
    return Renderer(mounts=tuple(mounts), agent_mounts=tuple(own), software=software)


class RendererBroken(Exception):
    """The renderer does not say its version: {why}. Check --blender or --renderer-python."""

    def __init__(self, why: str) -> None:
        super().__init__((self.__doc__ or "").format(why=why))


def _blender_version(mounts: list[Mount]) -> str:
    try:
        sandbox = Sandbox(Plan(name="version", command=["/farmhand/bin/blender", "--version"], mounts=mounts))
    except SandboxUnusable as error:
        raise RendererBroken(str(error)) from error
    try:
        sandbox.stdin.close()
        ended = sandbox.wait(VERSION_S)
        said = sandbox.stdout.read(4096).decode(errors="replace") if ended is not None else ""
    finally:
        sandbox.close()
    found = re.search(r"^Blender (\d+\.\d+\.\d+)", said, re.MULTILINE)
    if found is None:
        raise RendererBroken(sandbox.last_words[-300:] or said[:300] or "it says nothing")
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

"""Rooms for sessions: a sandbox with a driver in it, its scene and its output folder; one is kept ready."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

from workers.cache import Layout
from workers.gpu import Gpu
from workers.renderer import Renderer
from workers.sandbox import LIB, OUT, SCENE, SYSTEM_PATH, Enclosure, Mount, Plan, source_mounts
from workers.session_pipe import COMMAND, SessionPipe


@dataclasses.dataclass(frozen=True)
class Room:
    """Where one session runs."""

    pipe: SessionPipe
    folder: Path
    scene_seen: str  # where scene and output folder are, as the session knows them
    out_seen: str

    @property
    def scene(self) -> Path:
        """What a spare room shows as its scene; empty until it is let."""
        return self.folder / "scene"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def close(self) -> None:
        """Kill all that runs in the room and clear it away."""
        self.pipe.close()
        remove_tree(self.folder)


class Rooms:
    """
    The rooms of one slot.

    The driver takes half a second to start, most of it imports. So one is started before anybody knows what it will
    run; when a scene needs nothing but its folder, that folder is filled by hard links and the room is let at once.
    """

    def __init__(
        self, name: str, folder: Path, *, gpu: Gpu, renderer: Renderer, enclosure: Enclosure, memory_mib: int
    ) -> None:
        self._name = name
        self._folder = folder
        self._gpu = gpu
        self._renderer = renderer
        self._enclosure = enclosure
        self._memory_mib = memory_mib
        self._number = 0
        self._spare: Room | None = None
        remove_tree(folder)

    def get_ready(self) -> None:
        """
        Have a spare room.

        :raises SandboxUnusable: there can be none
        """
        if self._spare is None or not self._spare.pipe.tree.is_running:
            self.close()
            folder = self._new_folder()
            (folder / "scene").mkdir()
            self._spare = self._build(folder, [Mount(folder / "scene", SCENE)], self._memory_mib)

    def open(self, layout: Layout, *, memory_mib: int) -> Room:
        """
        Let a room for a scene.

        :raises SandboxUnusable: bubblewrap refuses
        :raises SourceNotAllowed: the scene expects a file where something else is
        """
        limit = self.limit(memory_mib)
        spare, self._spare = self._spare, None
        if spare is not None:
            if limit == self._memory_mib and not any(layout.sources.iterdir()) and _fill(spare, layout):
                return spare
            spare.close()
        return self._build(self._new_folder(), [Mount(layout.files, SCENE)], limit, sources=layout.sources)

    def limit(self, memory_mib: int) -> int:
        """Give the memory limit of a job that has one of its own, or none (0)."""
        return min((limit for limit in (self._memory_mib, memory_mib) if limit), default=0)

    def close(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()

    def _new_folder(self) -> Path:
        self._number += 1
        folder = self._folder / str(self._number)
        (folder / "out").mkdir(parents=True)
        return folder

    def _build(self, folder: Path, own: list[Mount], memory_mib: int, *, sources: Path | None = None) -> Room:
        try:
            plan = self._plan(folder, own, memory_mib, sources)
            pipe = SessionPipe(plan, self._enclosure)
        except BaseException:
            remove_tree(folder)
            raise
        scene, out = (self._enclosure.seen(plan, place) for place in (SCENE, OUT))
        return Room(pipe=pipe, folder=folder, scene_seen=scene, out_seen=out)

    def _plan(self, folder: Path, own: list[Mount], memory_mib: int, sources: Path | None) -> Plan:
        mounts = [*own, Mount(folder / "out", OUT, writable=True), *self._renderer.mounts]
        mounts += [Mount(Path(node), node, device=True) for node in self._gpu.nodes]
        if sources is not None:
            mounts += source_mounts(sources, [mount.target for mount in mounts])
        return Plan(
            name=f"{self._name}-{self._number}",
            command=COMMAND,
            mounts=mounts,
            environment={"FARMHAND_DEVICE": self._gpu.device, "PYTHONPATH": LIB},
            memory_mib=memory_mib,
        )


def _fill(room: Room, layout: Layout) -> bool:
    """Give a spare room its scene, by hard links."""
    return room.pipe.tree.is_running and _run("cp", "-al", "--", f"{layout.files}/.", str(room.scene))


def remove_tree(folder: Path) -> None:
    """Remove a folder that a scene wrote into, however deep it is nested."""
    if folder.exists():
        _run("rm", "-rf", "--", str(folder))


def _run(*command: str) -> bool:
    ended = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={"PATH": SYSTEM_PATH}
    )
    return ended.returncode == 0

"""Limits on one process tree, memory above all: by control group where one can be made, else by watching."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import signal
import time
from pathlib import Path

import psutil

PROCESS_LIMIT = 1024
FILE_LIMIT_BYTES = 64 * 1024**3
OPEN_FILES = 4096
CGROUPS = Path("/sys/fs/cgroup")
PREFIX = "farmhand-"


@dataclasses.dataclass(frozen=True)
class Use:
    """What a process tree uses at a moment: seconds of processor time, memory, and the sum of its processes' peaks."""

    cpu_s: float
    memory_mib: int
    peak_mib: int


class Limits:
    """
    The limits of one tree, before it starts.

    `preamble` is shell text that a shell runs to put itself, and so all it starts, under them.
    """

    def __init__(self, *, name: str, memory_mib: int) -> None:
        self.memory_mib = memory_mib
        self._groups = _make_groups(name, memory_mib)

    @property
    def is_enforced(self) -> bool:
        """Say whether the kernel enforces the memory limit; otherwise `is_exceeded` has to be asked."""
        return bool(self._groups)

    @property
    def preamble(self) -> str:
        joins = [f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}" for group in self._groups]
        return " && ".join([*joins, "ulimit -c 0", f"ulimit -n {OPEN_FILES}", f"ulimit -f {FILE_LIMIT_BYTES // 512}"])

    def pids(self, root: int | None) -> list[int]:
        """List the processes of the tree; a group also knows those that left their session and parents."""
        if self._groups:
            with contextlib.suppress(OSError):
                return [int(line) for line in (self._groups[0] / "cgroup.procs").read_text().split()]
            return []
        with contextlib.suppress(psutil.Error):
            if root is None:
                return []
            return [root, *(child.pid for child in psutil.Process(root).children(recursive=True))]
        return []

    def use(self, root: int) -> Use:
        """Measure what the tree uses now."""
        cpu, memory, peak = 0.0, 0, 0
        for pid in self.pids(root):
            with contextlib.suppress(OSError, psutil.Error):
                times = psutil.Process(pid).cpu_times()
                cpu += times.user + times.system
                resident, high = _resident_kib(pid)
                memory += resident
                peak += high
        return Use(cpu_s=cpu, memory_mib=memory // 1024, peak_mib=peak // 1024)

    def is_exceeded(self, use: Use) -> bool:
        """Say whether the tree outgrew its memory limit and nobody but us would notice."""
        return not self.is_enforced and bool(self.memory_mib) and use.memory_mib > self.memory_mib

    def had_oom_kill(self) -> bool:
        """Say whether the kernel killed a process of the tree for want of memory."""
        for group in self._groups:
            for name in ("memory.oom_control", "memory.events"):
                with contextlib.suppress(OSError):
                    found = re.search(r"^oom_kill (\d+)$", (group / name).read_text(), re.MULTILINE)
                    if found and int(found.group(1)) > 0:
                        return True
        return False

    def kill(self, root: int | None) -> None:
        """Kill whatever is left of the tree whose first process, if it still runs, is `root`."""
        for _ in range(50):
            pids = [pid for pid in self.pids(root) if not _is_dead(pid)]
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def close(self) -> None:
        """Remove the groups; their processes must be dead."""
        for group in self._groups:
            _remove(group)
        self._groups = []


def remove_leftovers() -> None:
    """Remove empty groups of agents that were killed before they could."""
    for base in (*_bases_v1(), *filter(None, [_base_v2()])):
        for group in base.glob(PREFIX + "*"):
            pid = group.name.removeprefix(PREFIX).split("-")[0]
            if pid.isdigit() and not psutil.pid_exists(int(pid)):
                _remove(group, tries=1)


def _make_groups(name: str, memory_mib: int) -> list[Path]:
    """Make the control groups of one tree, memory first; [] where this machine or user allows none."""
    made: list[Path] = []
    try:
        bases = _bases_v1()
        if len(bases) == 2:
            _fill_v1(bases, name, memory_mib, made)
        elif (base := _base_v2()) is not None:
            _fill_v2(base, name, memory_mib, made)
    except OSError:
        for group in made:
            _remove(group)
        return []
    return made


def _fill_v1(bases: list[Path], name: str, memory_mib: int, made: list[Path]) -> None:
    memory, pids = (base / f"{PREFIX}{os.getpid()}-{name}" for base in bases)
    memory.mkdir()
    made.append(memory)
    if memory_mib:
        _write(memory / "memory.limit_in_bytes", memory_mib * 1024**2)
        with contextlib.suppress(OSError):  # without swap accounting there is no such file
            _write(memory / "memory.memsw.limit_in_bytes", memory_mib * 1024**2)
    pids.mkdir()
    made.append(pids)
    _write(pids / "pids.max", PROCESS_LIMIT)


def _fill_v2(base: Path, name: str, memory_mib: int, made: list[Path]) -> None:
    group = base / f"{PREFIX}{os.getpid()}-{name}"
    group.mkdir()
    made.append(group)
    if memory_mib:
        _write(group / "memory.max", memory_mib * 1024**2)
        _write(group / "memory.oom.group", 1)
        with contextlib.suppress(OSError):
            _write(group / "memory.swap.max", 0)
    _write(group / "pids.max", PROCESS_LIMIT)


def _bases_v1() -> list[Path]:
    """Give our own memory and pids groups under version 1, in which children can be made."""
    bases = []
    for controller in ("memory", "pids"):
        own = _own_group(controller)
        base = CGROUPS / controller / own.lstrip("/") if own is not None else None
        if base is not None and (base / "cgroup.procs").exists():
            bases.append(base)
    return bases


_v2_base: list[Path | None] = []


def _base_v2() -> Path | None:
    """
    Give our own group under version 2 with memory and pids handed to children, or None.

    A group that has processes of its own can hand nothing on, so the agent moves to a child first (systemd:
    `Delegate=yes`); done once.
    """
    if not _v2_base:
        _v2_base.append(_delegate_v2())
    return _v2_base[0]


def _delegate_v2() -> Path | None:
    own = _own_group("")
    if own is None or not (CGROUPS / "cgroup.controllers").exists():
        return None
    base = CGROUPS / own.lstrip("/")
    try:
        home = base / "agent"
        home.mkdir(exist_ok=True)
        _write(home / "cgroup.procs", os.getpid())
        _write(base / "cgroup.subtree_control", "+memory +pids")
    except OSError:
        return None
    return base


def _own_group(controller: str) -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                return path
    return None


def _resident_kib(pid: int) -> tuple[int, int]:
    status = Path(f"/proc/{pid}/status").read_text()
    found = {key: int(value) for key, value in re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", status, re.MULTILINE)}
    return found.get("VmRSS", 0), found.get("VmHWM", 0)


def _is_dead(pid: int) -> bool:
    """Say whether a process is gone, or only waits to be reaped."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def _write(file: Path, value: int | str) -> None:
    file.write_text(str(value))


def _remove(group: Path, *, tries: int = 50) -> None:
    """Remove a group; the kernel needs a moment after its last process is reaped."""
    for _ in range(tries):
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return

"""
Agents on this machine: each in its own process session, with one folder a machine that holds its pid, secret and log.

What runs is read from the folders and /proc each time, so that a farm that was killed finds its machines again.
A pid counts only together with its start time: pids are reused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from farm.core.errors import Invalid
from farm.fleet.pools import Pace, PoolKey
from farm.fleet.providers import (
    LOCAL_POOL,
    FleetSpec,
    InsufficientCapacity,
    LaunchAnswer,
    LaunchRequest,
    Machine,
    NotToBeRepeated,
    PoolOffer,
)

KEEP_GONE = 20  # folders of ended machines kept for their logs
STOP_GRACE_S = 10.0
START_GRACE_S = 5.0
SUPERVISED = "FARM_SUPERVISED"  # the supervisor's mark: what carries it ends with the farm
# What the farm's own environment may say to its local agents; never a person's FARMHAND_TOKEN.
AGENT_SETTINGS = tuple(f"FARMHAND_{n}" for n in ("GRACE", "SESSION_IDLE", "SILENCE", "DELIVERY", "SPOT", "SPOT_URL"))
SETTINGS = {"slots": int, "cache_gib": int, "promises": dict}


class LocalProvider:
    """Machines that are agents on this one."""

    name = "local"
    pace: Pace | None = None
    lag = timedelta(seconds=30)

    @property
    def root(self) -> Path:
        return Path(settings.DATA_DIR) / "machines"

    def check(self, fleet: FleetSpec) -> None:
        for name, value in fleet.settings.items():
            if name not in SETTINGS or not isinstance(value, SETTINGS[name]):
                raise Invalid(f"settings.{name}", f"known are {', '.join(SETTINGS)}; {value!r} does not fit")

    def offers(self, fleet: FleetSpec) -> Sequence[PoolOffer]:
        return [PoolOffer(LOCAL_POOL, slots=_slots(fleet), on_demand_micro=0)]

    def launch(self, request: LaunchRequest) -> LaunchAnswer:
        """Start the launch's agents that are not there yet."""
        if not Path(settings.FARM_AGENT_PYTHON).exists():
            raise InsufficientCapacity(
                provider="local", why=f"no agent at {settings.FARM_AGENT_PYTHON}; run 'make envs'"
            )
        present = {machine.id: machine for machine in self.machines(request.farm)}
        wanted = [_machine_id(request, number) for number in range(request.count)]
        if not request.secret:
            if not present.keys() & set(wanted):
                raise NotToBeRepeated(provider="local", why="no machine of it is there")
            return LaunchAnswer([present[name] for name in wanted if name in present])
        self._forget_gone()
        return LaunchAnswer([present.get(name) or self._start(request, name) for name in wanted])

    def forget(self, launches: Sequence[UUID]) -> None:
        """Nothing is kept but what the machines' folders hold."""

    def prices(self, pools: Sequence[PoolKey]) -> Mapping[PoolKey, int]:
        return dict.fromkeys(pools, 0)

    def terminate(self, ids: Sequence[str]) -> None:
        """Ask the agents to end, then make them."""
        alive = [(folder, pid) for folder in map(self._folder, ids) if (pid := _alive(folder))]
        for _, pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_GRACE_S
        while any(_alive(folder) for folder, _ in alive) and time.monotonic() < deadline:
            time.sleep(0.05)
        for folder, pid in alive:
            if _alive(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)

    def machines(self, farm: UUID) -> Sequence[Machine]:
        """Give the agents of this data folder that run."""
        notes = {folder.name: _note(folder) for folder in sorted(self.root.glob("m-*")) if _alive(folder)}
        return [Machine(name, note["launch"], LOCAL_POOL) for name, note in notes.items() if note]

    def _folder(self, machine_id: str) -> Path:
        return self.root / Path(machine_id).name

    def _start(self, request: LaunchRequest, machine_id: str) -> Machine:
        folder = self._folder(machine_id)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "work").mkdir(parents=True)
        secret = folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text(request.secret)
        (folder / "machine.json").write_text(json.dumps({"fleet": request.fleet.name, "launch": str(request.launch)}))
        _spawn(self._command(request, machine_id, folder), folder)
        return Machine(machine_id, str(request.launch), LOCAL_POOL)

    def _command(self, request: LaunchRequest, machine_id: str, folder: Path) -> list[str]:
        options = {
            "--farm": request.farm_url,
            "--machine-id": machine_id,
            "--secret-file": folder / "secret",
            "--work": folder / "work",
            "--max-lifetime": request.max_life_s,
            "--slots": _slots(request.fleet),
            "--cache-gib": request.fleet.settings.get("cache_gib"),
            "--blender": settings.FARM_BLENDER,
            "--renderer-python": "" if settings.FARM_BLENDER else settings.FARM_RENDERER_PYTHON,
        }
        said = [word for name, value in options.items() if value for word in (name, str(value))]
        trust = ["--trust-scenes"] if settings.FARM_TRUST_SCENES else []
        return [settings.FARM_AGENT_PYTHON, "-m", "workers.agent", *said, *trust]

    def _forget_gone(self) -> None:
        gone = sorted((f for f in self.root.glob("m-*") if not _alive(f)), key=lambda f: f.stat().st_mtime)
        for folder in gone[:-KEEP_GONE]:
            shutil.rmtree(folder, ignore_errors=True)


# A shell that ends at once lets init adopt the agent: nobody here need reap it. The agent leads a session, and with it
# the group that it is ended by; before it becomes the agent, it notes who it is.
_DETACH = 'inner=$1; shift; /usr/bin/setsid /bin/sh -c "$inner" sh "$@" </dev/null >>"$LOG" 2>&1 &'
_BECOME = 'read -r me </proc/self/stat && echo "$me" >"$NOTE" && exec "$@"'


def _spawn(command: Sequence[str], folder: Path) -> None:
    """
    Start an agent that outlives this process, in a session of its own.

    :raises InsufficientCapacity: it did not come up
    """
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"}
    environment |= {"PYTHONPATH": str(settings.BASE_DIR), "LOG": str(folder / "agent.log"), "NOTE": str(folder / "pid")}
    environment |= {name: os.environ[name] for name in (SUPERVISED, *AGENT_SETTINGS) if name in os.environ}
    shell = ["/bin/sh", "-c", _DETACH, "sh", _BECOME, *command]
    subprocess.run(shell, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    deadline = time.monotonic() + START_GRACE_S
    while _process(folder) is None:
        if time.monotonic() > deadline:
            raise InsufficientCapacity(provider="local", why="a process that was started did not come up")
        time.sleep(0.01)


def _note(folder: Path) -> dict[str, Any] | None:
    try:
        note: dict[str, Any] = json.loads((folder / "machine.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return note


def _alive(folder: Path) -> int | None:
    """Give the pid of the folder's agent if it still runs."""
    process = _process(folder)
    return process[0] if process and _identity(f"/proc/{process[0]}/stat") == process else None


def _process(folder: Path) -> tuple[int, str] | None:
    return _identity(folder / "pid")


def _identity(stat: str | Path) -> tuple[int, str] | None:
    """Read a process's pid and start time as proc(5) writes them; None if it is gone, or a zombie."""
    try:
        line = Path(stat).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = line.rpartition(")")[2].split()
    return (int(line.split()[0]), fields[19]) if len(fields) > 19 and fields[0] not in {"Z", "X"} else None


def _slots(fleet: FleetSpec) -> int:
    return max(1, int(fleet.settings.get("slots") or len(_gpus())))


def _machine_id(request: LaunchRequest, number: int) -> str:
    return "m-" + hashlib.sha256(f"{request.launch}-{number}".encode()).hexdigest()[:16]


def _gpus() -> list[Path]:
    return sorted(Path("/dev").glob("nvidia[0-9]*"))


def connect(region: str) -> LocalProvider:
    """This machine is wherever it is."""
    return LocalProvider()

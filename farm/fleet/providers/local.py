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
from pathlib import Path
from typing import Any

from django.conf import settings

from farm.fleet.providers import InsufficientCapacity, LaunchRequest, Machine, Order

KEEP_GONE = 20  # folders of ended machines kept for their logs
STOP_GRACE_S = 10.0
SUPERVISED = "FARM_SUPERVISED"  # the supervisor's mark: what carries it ends with the farm


class LocalProvider:
    """Machines that are agents on this one."""

    @property
    def root(self) -> Path:
        return Path(settings.DATA_DIR) / "machines"

    def slots_per_machine(self, options: Mapping[str, Any]) -> int:
        return max(1, int(options.get("slots") or len(_gpus())))

    def launch(self, request: LaunchRequest) -> Sequence[Machine]:
        """Start one agent for each order whose machine is not there yet."""
        if not Path(settings.FARM_AGENT_PYTHON).exists():
            raise InsufficientCapacity(
                provider="local", why=f"no agent at {settings.FARM_AGENT_PYTHON}; run 'make envs'"
            )
        present = {machine.token: machine for machine in self.machines(request.fleet)}
        self._forget_gone()
        return [present.get(order.token) or self._start(request, order) for order in request.orders]

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

    def machines(self, fleet: str) -> Sequence[Machine]:
        found = []
        for folder in sorted(self.root.glob("m-*")):
            note = _note(folder)
            if note and note["fleet"] == fleet and _alive(folder):
                found.append(Machine(folder.name, note["token"]))
        return found

    def _folder(self, machine_id: str) -> Path:
        return self.root / Path(machine_id).name

    def _start(self, request: LaunchRequest, order: Order) -> Machine:
        machine_id = "m-" + hashlib.sha256(order.token.encode()).hexdigest()[:16]
        folder = self._folder(machine_id)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "work").mkdir(parents=True)
        secret = folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text(order.secret)
        command = [
            settings.FARM_AGENT_PYTHON,
            "-m",
            "workers.agent",
            "--farm",
            request.farm_url,
            "--machine-id",
            machine_id,
        ]
        command += [
            "--secret-file",
            str(secret),
            "--work",
            str(folder / "work"),
            "--max-lifetime",
            str(request.max_life_s),
        ]
        command += ["--slots", str(self.slots_per_machine(request.settings))]
        if request.settings.get("cache_gib"):
            command += ["--cache-gib", str(request.settings["cache_gib"])]
        command += (
            ["--blender", settings.FARM_BLENDER]
            if settings.FARM_BLENDER
            else ["--renderer-python", settings.FARM_RENDERER_PYTHON]
        )
        if settings.FARM_TRUST_SCENES:
            command.append("--trust-scenes")
        pid = _spawn(command, folder / "agent.log")
        note = {"fleet": request.fleet, "token": order.token, "pid": pid, "started": _start_time(pid)}
        (folder / "machine.json").write_text(json.dumps(note))
        return Machine(machine_id, order.token)

    def _forget_gone(self) -> None:
        gone = sorted((f for f in self.root.glob("m-*") if not _alive(f)), key=lambda f: f.stat().st_mtime)
        for folder in gone[:-KEEP_GONE]:
            shutil.rmtree(folder, ignore_errors=True)


def _spawn(command: Sequence[str], log: Path) -> int:
    """Start a process that outlives this one, in a session of its own, and give its pid."""
    # The shell is the session's leader and is replaced by a child that init adopts: nobody here need reap it.
    script = '"$@" </dev/null >>"$LOG" 2>&1 & echo $!'
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"}
    environment |= {"PYTHONPATH": str(settings.BASE_DIR), "LOG": str(log)}
    if SUPERVISED in os.environ:
        environment[SUPERVISED] = os.environ[SUPERVISED]
    done = subprocess.run(
        ["/usr/bin/setsid", "/bin/sh", "-mc", script, "sh", *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
    )
    return int(done.stdout.strip())


def _note(folder: Path) -> dict[str, Any] | None:
    try:
        note: dict[str, Any] = json.loads((folder / "machine.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return note


def _alive(folder: Path) -> int | None:
    """Give the pid of the folder's agent if it still runs."""
    note = _note(folder)
    if note is None:
        return None
    return note["pid"] if note["started"] is not None and _start_time(note["pid"]) == note["started"] else None


def _start_time(pid: int) -> str | None:
    """Give a process's start time in clock ticks, None if it is gone or a zombie (proc(5), fields 3 and 22)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in {"Z", "X"} else fields[19]


def _gpus() -> list[Path]:
    return sorted(Path("/dev").glob("nvidia[0-9]*"))


PROVIDER = LocalProvider()

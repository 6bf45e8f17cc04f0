"""The agent's escape test: a hostile program is let loose in the sandbox; if it gets anywhere, nothing is rendered."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from workers.sandbox import OUT, SCENE, Mount, Plan, Sandbox, SandboxUnusable

TEST_S = 60
MNT_DETACH = 2
COMMAND = "/farmhand/bin/python3"
KERNEL_DOORS = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger")
FORBIDDEN_WRITES = ("/canary", "/usr/canary", "/etc/canary", "/scene/canary", "/farmhand/lib/canary", "/dev/canary")


def find_escapes(folder: Path, mounts: Sequence[Mount], *, port: int) -> list[str]:
    """
    Try to break out and list what worked; [] is what a safe machine says.

    `port` is one on this machine that answers, so that a network without routes can be told from a quiet one.

    :raises SandboxUnusable: there is no sandbox to break out of
    """
    shutil.rmtree(folder, ignore_errors=True)
    inside = {"scene": folder / "scene", "out": folder / "out"}
    for place in inside.values():
        place.mkdir(parents=True)
    canary = folder / "canary"
    canary.write_text(secrets.token_hex(), encoding="utf-8")
    plan = Plan(
        name="escape",
        command=[COMMAND, "-m", "workers.escape", str(canary), str(port), str(os.getpid())],
        mounts=[*mounts, Mount(inside["scene"], SCENE), Mount(inside["out"], OUT, writable=True)],
        environment={"PYTHONPATH": "/farmhand/lib"},
        memory_mib=512,
        tmp_mib=16,
    )
    try:
        return _run(plan)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(plan: Plan) -> list[str]:
    sandbox = Sandbox(plan)
    try:
        sandbox.stdin.close()
        if sandbox.wait(TEST_S) is None:
            raise SandboxUnusable(f"the escape test does not end within {TEST_S} s")
        said = sandbox.stdout.read(65536)
        escapes = json.loads(said)
    except ValueError:
        raise SandboxUnusable(sandbox.last_words[-300:] or "the escape test says nothing") from None
    finally:
        sandbox.close()
    return [str(escape) for escape in escapes]


@contextlib.contextmanager
def listening_port() -> Iterator[int]:
    """Have a port on this machine that answers, for the test to look for."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield server.getsockname()[1]


# --- inside the sandbox ---


def try_everything(canary: str, port: int, agent: int, *, writes: Sequence[str] = FORBIDDEN_WRITES) -> list[str]:
    """Be hostile; name what worked."""
    tries: list[tuple[str, Callable[[], object]]] = [
        ("read the agent's files", lambda: Path(canary).read_text(encoding="utf-8")),
        ("read /etc/shadow", lambda: Path("/etc/shadow").read_bytes()),
        ("read the root's home", lambda: _seen_of_home()),
        ("reach this machine's network", lambda: _connect("127.0.0.1", port)),
        ("reach the cloud's metadata", lambda: _connect("169.254.169.254", 80)),
        ("see other processes", lambda: _see_processes(agent)),
        ("mount", lambda: _mount()),
        *((f"set the kernel by {place}", lambda place=place: _open_to_write(place)) for place in KERNEL_DOORS),
        ("open the machine's memory", lambda: os.close(os.open("/dev/mem", os.O_RDONLY))),
        ("change control groups", lambda: list(Path("/sys/fs/cgroup").iterdir())),
        ("find a secret in its environment", lambda: _find_secret()),
        *((f"write {path}", lambda path=path: Path(path).write_bytes(b"x")) for path in writes),
    ]
    return [name for name, attempt in tries if _works(attempt)]


def _works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, LookupError):
        return False
    return True


def _connect(host: str, port: int) -> None:
    socket.create_connection((host, port), 2).close()


def _seen_of_home() -> None:
    """Look for the usual secrets of whoever runs the agent."""
    for name in (".ssh", ".aws", ".bash_history", ".config"):
        if Path("/root", name).exists():
            return
    raise LookupError


def _open_to_write(place: str) -> None:
    """Open, without writing: where that works, nobody shall suffer."""
    os.close(os.open(place, os.O_WRONLY))


def _see_processes(agent: int) -> None:
    pids = [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]
    if len(pids) > 8 or (agent > 64 and agent in pids):
        return
    raise LookupError


def _mount() -> None:
    """Mount something over a new, empty folder, and take it away again: where it works, nobody shall suffer."""
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryDirectory() as folder:
        if libc.mount(b"none", folder.encode(), b"tmpfs", 0, None) != 0:
            raise OSError(ctypes.get_errno(), "mount")
        libc.umount2(folder.encode(), MNT_DETACH)


def _find_secret() -> None:
    if not any("SECRET" in name or "TOKEN" in name or name.startswith("AWS_") for name in os.environ):
        raise LookupError


def main() -> None:
    canary, port, agent = sys.argv[1:4]
    print(json.dumps(try_everything(canary, int(port), int(agent))))


if __name__ == "__main__":
    main()

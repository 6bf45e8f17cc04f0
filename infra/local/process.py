"""Processes by identity: a number may be somebody else's by the time it is used, so the start time goes with it."""

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_STATE, _PARENT, _START_TIME = 0, 1, 19  # of the fields after the command's name in /proc/<pid>/stat


@dataclass(frozen=True)
class Process:
    """One process: its number and the clock tick since boot at which it started."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """The process that has this number now; none if there is none, or only its remains."""
        fields = _stat(pid)
        return cls(pid, int(fields[_START_TIME])) if fields and fields[_STATE] != "Z" else None

    @classmethod
    def mine(cls) -> "Process":
        process = cls.of(os.getpid())
        assert process
        return process

    def is_alive(self) -> bool:
        return Process.of(self.pid) == self

    def ancestors(self) -> Iterator[int]:
        """The numbers of its parent, its parent's parent and so on."""
        pid = self.pid
        while (fields := _stat(pid)) and (pid := int(fields[_PARENT])):
            yield pid

    def send(self, number: signal.Signals) -> bool:
        """Signal this very process; false when it is gone, whoever has its number now."""
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(self.pid)
            try:
                if self.is_alive():  # checked while the handle pins the number
                    signal.pidfd_send_signal(handle, number)
                    return True
            finally:
                os.close(handle)
        return False


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def find_marked(marker: str) -> Iterator[Process]:
    """All processes that inherited a marker ("NAME=value") in their environment, but this one."""
    entry = marker.encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            process = Process.of(int(folder.name))
            with contextlib.suppress(OSError):  # gone meanwhile, or another user's
                if process and entry in (folder / "environ").read_bytes().split(b"\0"):
                    yield process


def die_with_parent(last_wish: signal.Signals) -> Callable[[], None]:
    """What a child does before its exec to get the signal `last_wish` when its parent dies, however that dies."""
    parent = os.getpid()

    def before_exec() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        _libc.prctl(_PR_SET_PDEATHSIG, last_wish)
        if os.getppid() != parent:  # it died before the wish was noted
            os._exit(1)

    return before_exec


def start(
    command: Sequence[str | Path], *, env: Mapping[str, str], log: Path, folder: Path, last_wish: signal.Signals
) -> "subprocess.Popen[bytes]":
    """Start a child in a session of its own, its output appended to a log."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent(last_wish),  # safe here: the supervisor has one thread
        )


def has_ended(child: "subprocess.Popen[bytes]") -> bool:
    """Whether a child has ended, leaving its remains: while they lie there its number is nobody else's."""
    if child.returncode is not None:
        return True
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def bury(child: "subprocess.Popen[bytes]") -> int:
    """End what an ended child left in its process group, then free its number. Returns how it ended."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    return child.wait()

"""One bubblewrap sandbox: what it shows, how it starts, how all of it dies."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO

from workers.limits import Limits, Use

BIN = "/farmhand/bin"
LIB = "/farmhand/lib"
SCENE = "/scene"
OUT = "/out"
KERNEL_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr", "pressure")
RESERVED = ("/usr", "/etc", "/proc", "/dev", "/sys", "/tmp", "/farmhand", "/out", "/scene", "/bin", "/sbin", "/lib",
            "/lib32", "/lib64", "/libx32", "/run", "/var", "/boot", "/in", "/made")  # fmt: skip
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "fonts", "alternatives", "localtime", "OpenCL", "vulkan", "glvnd")
LAST_WORDS = 4096
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
PASSWD = b"render:x:0:0:Farmhand:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n"
GROUP = b"render:x:0:\nnogroup:x:65534:\n"


class SandboxUnusable(Exception):
    """The sandbox does not start: {why}"""

    def __init__(self, why: str) -> None:
        super().__init__((self.__doc__ or "").format(why=why))


class SourceNotAllowed(Exception):
    """
    The scene names a file at {path}, where the farm cannot put one. Pack it into the scene or move it beside the
    scene file, then upload again.
    """

    def __init__(self, path: str) -> None:
        super().__init__(" ".join((self.__doc__ or "").split()).format(path=path))


@dataclasses.dataclass(frozen=True)
class Mount:
    """One file or folder of this machine that the sandbox shows."""

    source: Path
    target: str
    writable: bool = False
    device: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What a sandbox is to run and to show."""

    name: str
    command: Sequence[str]
    mounts: Sequence[Mount]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    memory_mib: int = 0
    tmp_mib: int = 4096


class Tree:
    """
    A process and all it starts, under limits. `stdin` and `stdout` are its pipes.

    Nothing that comes out of it is to be trusted.
    """

    limits: Limits
    _process: subprocess.Popen[bytes]

    def __init__(self, plan: Plan) -> None:
        self.limits = Limits(name=plan.name, memory_mib=plan.memory_mib)
        try:
            self._start(plan)
        except BaseException:
            self.limits.close()
            raise
        self._last_words = b""
        threading.Thread(target=self._keep_last_words, name=f"{plan.name}-stderr", daemon=True).start()

    def _start(self, plan: Plan) -> None:
        raise NotImplementedError

    @property
    def stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def last_words(self) -> str:
        """What it last wrote to its standard error."""
        return bytes(self._last_words).decode(errors="replace").strip()

    def _keep_last_words(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            while block := self._process.stderr.read1(4096):  # type: ignore[attr-defined]
                self._last_words = (self._last_words + block)[-LAST_WORDS:]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def use(self) -> Use:
        """Measure what the whole tree uses now."""
        return self.limits.use(self._process.pid)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the end; None if it still runs after `timeout` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Kill the whole tree and return when nothing of it is left."""
        self.limits.kill(self._process.pid if self.is_running else None)
        if self.wait(10) is None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Kill what is left and give back pipes and limits."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.limits.close()


class Sandbox(Tree):
    """A tree in a bubblewrap sandbox."""

    _inner: int

    def _start(self, plan: Plan) -> None:
        """:raises SandboxUnusable: bubblewrap is missing or refuses"""
        if shutil.which("bwrap") is None:
            raise SandboxUnusable("bubblewrap is not installed; install the package `bubblewrap`")
        arguments = _memory_file("bwrap-args", b"\0".join(word.encode() for word in bwrap_arguments(plan)) + b"\0")
        passwd, group = _memory_file("passwd", PASSWD), _memory_file("group", GROUP)
        info, told = os.pipe()
        extra = f"--ro-bind-data {passwd} /etc/passwd --ro-bind-data {group} /etc/group --remount-ro /"
        bwrap = f"bwrap --info-fd {told} --args {arguments} {extra} -- {shlex.join(plan.command)}"
        with os.fdopen(info, "rb") as said:
            try:
                self._process = _spawn(f"{self.limits.preamble} && exec {bwrap}", fds=(arguments, passwd, group, told))
            finally:
                for fd in (arguments, passwd, group, told):
                    os.close(fd)
            self._inner = self._inner_pid(said.read())

    def _inner_pid(self, said: bytes) -> int:
        """Read which process is the first of the new PID namespace."""
        try:
            return int(json.loads(said)["child-pid"])
        except (ValueError, KeyError):
            _, why = self._process.communicate()
            raise SandboxUnusable(why.decode(errors="replace").strip() or "bubblewrap said nothing") from None

    def kill(self) -> None:
        """
        Kill the whole tree and return when nothing of it is left.

        The kernel kills all of a PID namespace with its first process, whatever sessions they opened, and lets that
        process be reaped only then; bubblewrap outside ends after it.
        """
        if self.is_running:
            with contextlib.suppress(OSError):
                os.kill(self._inner, signal.SIGKILL)
            self.wait(10)
        super().kill()


class BareTree(Tree):
    """A tree without sandbox, for scenes that are trusted: it can do whatever the agent's user can."""

    def _start(self, plan: Plan) -> None:
        environment = {"HOME": "/tmp", "LANG": "C.UTF-8", **plan.environment}
        environment["PATH"] = f"{bare_path(plan, BIN)}:{SYSTEM_PATH}"
        command = [bare_path(plan, word) for word in plan.command]
        for name, value in environment.items():
            environment[name] = bare_path(plan, value)
        self._process = _spawn(f"{self.limits.preamble} && exec {shlex.join(command)}", environment=environment)


def bare_path(plan: Plan, target: str) -> str:
    """Give the path on this machine of what a sandbox would show at `target`; other words stay as they are."""
    if target == LIB:
        return str(Path(__file__).parent.parent)
    for mount in plan.mounts:
        if target == mount.target or target.startswith(mount.target + "/"):
            return str(mount.source) + target[len(mount.target) :]
    return target


@dataclasses.dataclass(frozen=True)
class Enclosure:
    """How trees are started on this machine, and where what they see lies."""

    is_sandbox: bool = True

    def start(self, plan: Plan) -> Tree:
        """
        Start a tree.

        :raises SandboxUnusable: bubblewrap is missing or refuses
        """
        return Sandbox(plan) if self.is_sandbox else BareTree(plan)

    def seen(self, plan: Plan, target: str) -> str:
        """Give the path by which the tree knows what the plan shows at `target`."""
        return target if self.is_sandbox else bare_path(plan, target)


# The kernel's parent-death signal follows the thread that forked: one that lives as long as the agent starts all.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="starter")


def _spawn(
    line: str, *, fds: Sequence[int] = (), environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    return _starter.submit(
        subprocess.Popen,
        ["/bin/sh", "-c", line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=fds,
        env=environment or {"PATH": SYSTEM_PATH},
        cwd="/",
        start_new_session=True,
    ).result()


def _memory_file(name: str, content: bytes) -> int:
    """Hand bytes to a child by descriptor: what stands in an argument list, everybody can read."""
    fd = os.memfd_create(name)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def bwrap_arguments(plan: Plan) -> list[str]:
    """Word a plan in bubblewrap's arguments; the root is made read-only after them."""
    words = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
             "--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
             "--clearenv", "--hostname", "sandbox"]  # fmt: skip
    words += _system()
    words += ["--proc", "/proc", *_guarded_proc(), "--dev", "/dev"]
    words += ["--size", str(512 * 1024**2), "--tmpfs", "/dev/shm"]
    words += ["--size", str(plan.tmp_mib * 1024**2), "--perms", "1777", "--tmpfs", "/tmp"]
    for mount in sorted(plan.mounts, key=lambda m: m.target.count("/")):
        flag = "--dev-bind" if mount.device else "--bind" if mount.writable else "--ro-bind"
        words += [flag, str(mount.source), mount.target]
    environment = {"HOME": "/tmp", "PATH": f"{BIN}:{SYSTEM_PATH}", "LANG": "C.UTF-8"}
    for name, value in {**environment, **plan.environment}.items():
        words += ["--setenv", name, value]
    return [*words, "--remount-ro", "/dev", "--chdir", "/tmp"]


def _guarded_proc() -> list[str]:
    """Make the kernel's settings read-only: whose real id is root's may write many of them without any capability."""
    guarded = [Path("/proc", name) for name in KERNEL_SETTINGS]
    return [word for place in guarded if place.exists() for word in ("--ro-bind", str(place), str(place))]


def _system() -> list[str]:
    """Show the system's programs and libraries, and of its settings only what loaders and fonts need."""
    words = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        place = Path("/") / name
        if place.is_symlink():
            words += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            words += ["--ro-bind", str(place), str(place)]
    for name in ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words


def python_mounts(python: Path) -> list[Mount]:
    """Show a Python environment, and the interpreter it was made from, at their own paths."""
    return [Mount(Path(place), place) for place in _python_places(python) if not place.startswith("/usr/")]


@cache
def _python_places(python: Path) -> tuple[str, ...]:
    ask = "import sys, os; print('\\n'.join({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}))"
    said = subprocess.run([str(python), "-I", "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    places = set(said.stdout.split("\n")) | {os.path.realpath(place) for place in said.stdout.split("\n") if place}
    places |= {str(python.parent.parent), os.path.realpath(python.parent.parent)}
    places = {place for place in places if place and place != "/usr"}
    return tuple(p for p in sorted(places) if not any(p != q and p.startswith(q + "/") for q in places))


def agent_mounts(bin_folder: Path) -> list[Mount]:
    """Show the agent's Python, the `workers` package and the launchers."""
    return [
        Mount(Path(__file__).parent, f"{LIB}/workers"),
        Mount(bin_folder, BIN),
        *python_mounts(Path(sys.executable)),
    ]


def source_mounts(tree: Path, taken: Sequence[str]) -> list[Mount]:
    """
    Show the files below `tree` at the same paths in the sandbox, with as few mounts as `taken` places allow.

    A folder is shown as a whole unless something else is to appear below it.
    """
    mounts: list[Mount] = []
    for entry in sorted(tree.iterdir()):
        _mount_or_descend(entry, "/" + entry.name, taken, mounts)
    return mounts


def _mount_or_descend(entry: Path, target: str, taken: Sequence[str], mounts: list[Mount]) -> None:
    if any(target == place or target.startswith(place + "/") for place in taken):
        raise SourceNotAllowed(_first_file(entry, target))
    if not any(place.startswith(target + "/") for place in taken):
        mounts.append(Mount(entry, target))
        return
    if not entry.is_dir():
        raise SourceNotAllowed(target)
    for child in sorted(entry.iterdir()):
        _mount_or_descend(child, f"{target}/{child.name}", taken, mounts)


def _first_file(entry: Path, target: str) -> str:
    while entry.is_dir():
        entry = min(entry.iterdir())
        target = f"{target}/{entry.name}"
    return target

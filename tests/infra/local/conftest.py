"""A farm's data folder of its own for each test, run by the real supervisor with the services alone."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import redis

from infra.local.folder import ROOT, Folder
from infra.local.process import Process
from infra.local.state import PartReport, Report, read_report, read_variables


@dataclass(frozen=True)
class Answer:
    status: int
    text: str


@dataclass(frozen=True)
class Farm:
    """What a person at a shell sees of one data folder."""

    folder: Folder

    def ask(self, *arguments: str, **variables: str) -> Answer:
        """Run the supervisor's command line, without what the test run itself has in its environment."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
        done = subprocess.run(
            [sys.executable, "-m", "infra.local", *arguments],
            cwd=ROOT, env=env | {"FARM_DATA": str(self.folder.path)} | variables, check=False, timeout=60,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout)

    def up(self, **variables: str) -> Answer:
        answer = self.ask("up", "--only", "services", **variables)
        assert answer.status == 0, answer.text
        return answer

    @property
    def report(self) -> Report:
        report = read_report(self.folder)
        assert report
        return report

    def part(self, name: str) -> PartReport:
        return next(part for part in self.report.parts if part.name == name)

    def kill(self, name: str) -> Process:
        process = self.part(name).process
        assert process.send(signal.SIGKILL)
        return process

    def query(self, statement: str, *, role: str = "FARM_DATABASE_OWNER_URL") -> list[tuple[object, ...]]:
        with psycopg.connect(read_variables(self.folder)[role], autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return list(cursor.fetchall()) if cursor.description else []

    def broker(self, user: str = "FARM_BROKER_URL") -> redis.Redis:
        return redis.Redis.from_url(read_variables(self.folder)[user])

    def ports(self) -> set[int]:
        return {self.folder.known_port("postgres"), self.folder.known_port("valkey")}


def hold(port: int) -> socket.socket:
    """Be somebody else who has a port."""
    owner = socket.socket()
    owner.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    owner.bind(("127.0.0.1", port))
    owner.listen()
    return owner


def wait_until(claim: Callable[[], bool], *, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    """One farm for all tests of a module that only look at it."""
    farm = Farm(Folder(tmp_path_factory.mktemp("running")))
    farm.up()
    yield farm
    farm.ask("down")


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    farm = Farm(Folder(tmp_path / "a farm"))  # with a space, as people's folders have
    yield farm
    farm.ask("down")

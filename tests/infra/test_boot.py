"""The script that a rented machine runs first, run here with a small metadata service, agent and power switch."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cloud.metadata import Metadata

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "infra/aws/boot.sh"

AGENT = """#!/bin/sh
echo "$@" >"{folder}/said"
cp "{folder}/run/secret" "{folder}/secret-seen"
ls -ln "{folder}/run/secret" >"{folder}/mode"
env >"{folder}/environment"
{then}
"""


class Machine:
    """One boot, in a folder."""

    def __init__(self, folder: Path, metadata: Metadata) -> None:
        self.folder, self.metadata = folder, metadata
        self.processes: list[subprocess.Popen[bytes]] = []

    def boot(self, *, agent: str = "sleep 60", boot_timeout_s: int = 600, max_life_s: int = 600) -> None:
        program, power = self.folder / "agent", self.folder / "power-off"
        program.write_text(AGENT.format(folder=self.folder, then=agent))
        power.write_text(f'#!/bin/sh\necho off >>"{self.folder}/off"\n')
        program.chmod(0o755)
        power.chmod(0o755)
        first, _, rest = SCRIPT.read_text().partition("\n")
        values = [
            "FARM_URL=https://farm.example",
            "BOOT_SECRET='the secret'",
            f"BOOT_TIMEOUT_S={boot_timeout_s}",
            f"MAX_LIFE_S={max_life_s}",
            f"FARMHAND_RUN={self.folder}/run",
            f"FARMHAND_WORK={self.folder}/work",
            f"FARMHAND_AGENT={program}",
            "FARMHAND_USER=nobody",
            f"FARMHAND_SPOT_URL={self.metadata.url}",
            f"FARMHAND_POWER_OFF={power}",
        ]
        script = self.folder / "user-data"
        script.write_text("\n".join([first, *values, rest]))
        self.folder.chmod(0o777)
        path = {"PATH": os.environ["PATH"]}
        with (self.folder / "log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(["/bin/sh", script], stdout=log, stderr=log, start_new_session=True, env=path)
            )

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def end(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    if os.geteuid() != 0:
        pytest.skip("a machine's first script runs as root")
    folder = tmp_path / "machine"
    folder.mkdir()
    for parent in (folder, *folder.parents[:3]):  # the agent's user must get there
        if parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(parent.stat().st_mode | 0o055)
    metadata = Metadata()
    machine = Machine(folder, metadata)
    yield machine
    machine.end()
    metadata.close()


def wait_for(what: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class TestBoot:
    def test_the_agent_starts_as_a_user_with_the_secret_in_a_file_of_its_own(self, machine: Machine) -> None:
        machine.metadata.values |= {"instance-id": "i-0abc", "instance-life-cycle": "spot"}

        machine.boot(max_life_s=86_400)

        wait_for(lambda: machine.has("environment"))
        said = machine.read("said").split()
        told = dict(zip(said[::2], said[1::2], strict=True))
        assert told == {
            "--farm": "https://farm.example",
            "--machine-id": "i-0abc",
            "--secret-file": f"{machine.folder}/run/secret",
            "--registered-file": f"{machine.folder}/run/registered",
            "--work": f"{machine.folder}/work",
            "--max-lifetime": "85500",
            "--spot": "ec2",
            "--spot-url": machine.metadata.url,
        }
        assert machine.read("secret-seen") == "the secret"
        assert machine.read("mode").startswith("-rw------- 1 65534 ")
        assert "the secret" not in machine.read("environment") + machine.read("said")
        assert machine.metadata.tokens == 1  # version 2 only: nothing is told without one

    def test_on_demand_nobody_watches_for_a_notice(self, machine: Machine) -> None:
        machine.boot()

        wait_for(lambda: machine.has("environment"))
        assert "--spot" not in machine.read("said")

    def test_once_registered_the_secret_is_removed(self, machine: Machine) -> None:
        machine.boot(agent=f"touch {machine.folder}/run/registered; sleep 60")

        wait_for(lambda: machine.has("run/registered") and not machine.has("run/secret"))
        assert not machine.has("off")

    def test_one_that_does_not_register_in_time_ends(self, machine: Machine) -> None:
        machine.boot(boot_timeout_s=1)

        wait_for(lambda: machine.has("off"))

    def test_one_that_registered_is_left_alone_by_that_timer(self, machine: Machine) -> None:
        machine.boot(boot_timeout_s=2, agent=f"touch {machine.folder}/run/registered; sleep 60")

        wait_for(lambda: machine.has("run/registered"))
        time.sleep(2.5)
        assert not machine.has("off")

    def test_none_outlives_its_limit(self, machine: Machine) -> None:
        machine.boot(max_life_s=2, agent=f"touch {machine.folder}/run/registered; sleep 60")

        wait_for(lambda: machine.has("off"))

    @pytest.mark.parametrize("agent", ["exit 0", "exit 4", "kill -9 $$"])
    def test_when_the_agent_ends_the_machine_ends(self, machine: Machine, agent: str) -> None:
        machine.boot(agent=agent)

        wait_for(lambda: machine.has("off"))

    def test_a_script_that_fails_ends_the_machine(self, machine: Machine) -> None:
        machine.metadata.values.pop("instance-id")

        machine.boot()

        wait_for(lambda: machine.has("off"), seconds=60)
        assert not machine.has("said")

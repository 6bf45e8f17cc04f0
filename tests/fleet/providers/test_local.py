"""Machines that are processes of this one: real ones, with a shell script for an agent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from farm.core.errors import Invalid
from farm.fleet.providers import LOCAL_POOL, FleetSpec, InsufficientCapacity, LaunchRequest, Machine, NotToBeRepeated
from farm.fleet.providers import local as local_module
from farm.fleet.providers.local import LocalProvider

AGENT = """#!/bin/sh
echo "$@" >"$(dirname "$LOG")/said"
env >"$(dirname "$LOG")/environment"
{before}
while :; do sleep 0.05; done
"""


@pytest.fixture
def agent(tmp_path: Path, settings: Any) -> Callable[..., None]:
    """Write the stand-in for the agent's Python."""

    def write(before: str = "") -> None:
        program = tmp_path / "python"
        program.write_text(AGENT.format(before=before))
        program.chmod(0o755)
        settings.FARM_AGENT_PYTHON = str(program)

    write()
    return write


@pytest.fixture
def provider(agent: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalProvider]:
    monkeypatch.setattr(local_module, "STOP_GRACE_S", 1.0)
    yield LocalProvider()
    monkeypatch.setattr(local_module, "STOP_GRACE_S", 0.1)
    everything = LocalProvider()
    everything.terminate([folder.name for folder in everything.root.glob("m-*")])


FARM = UUID(int=1)


def request_for(launch: int = 1, *, count: int = 1, secret: str = "the secret", **options: Any) -> LaunchRequest:
    return LaunchRequest(
        launch=UUID(int=launch),
        fleet=FleetSpec("local", settings=options),
        pools=[LOCAL_POOL],
        count=count,
        secret=secret,
        farm=FARM,
        farm_url="http://127.0.0.1:1",
        max_life_s=600,
    )


def start(provider: LocalProvider, launch: int = 1, **options: Any) -> Machine:
    """Launch one machine."""
    (machine,) = provider.launch(request_for(launch, **options)).machines
    return machine


def pid_of(provider: LocalProvider, machine: str) -> int:
    return int((provider.root / machine / "pid").read_text().split()[0])


def is_running(pid: int) -> bool:
    """Whether a process does anything; a zombie that nobody reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def wait_for(condition: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class TestLaunch:
    def test_each_agent_runs_in_a_session_of_its_own(self, provider: LocalProvider) -> None:
        machines = provider.launch(request_for(count=2)).machines

        assert {(m.launch, m.pool) for m in machines} == {(str(UUID(int=1)), LOCAL_POOL)}
        pids = [pid_of(provider, m.id) for m in machines]
        assert len(set(pids)) == 2
        for pid in pids:
            assert is_running(pid)
            assert os.getsid(pid) == os.getpgid(pid) == pid

    def test_it_is_told_its_farm_its_secret_s_file_and_its_limits(self, provider: LocalProvider, settings: Any) -> None:
        settings.FARM_BLENDER, settings.FARM_TRUST_SCENES = "", False
        machine = start(provider, slots=3, cache_gib=7)
        folder = provider.root / machine.id

        wait_for(lambda: (folder / "said").exists() and (folder / "said").read_text().endswith("\n"))
        said = (folder / "said").read_text().split()
        assert said[:2] == ["-m", "workers.agent"]
        told = dict(zip(said[2::2], said[3::2], strict=True))
        assert told == {
            "--farm": "http://127.0.0.1:1",
            "--machine-id": machine.id,
            "--secret-file": str(folder / "secret"),
            "--work": str(folder / "work"),
            "--max-lifetime": "600",
            "--slots": "3",
            "--cache-gib": "7",
            "--renderer-python": settings.FARM_RENDERER_PYTHON,
        }
        assert (folder / "secret").read_text() == "the secret"
        assert (folder / "secret").stat().st_mode & 0o777 == 0o600

    def test_a_blender_of_one_s_own_and_trust_are_passed_on(self, provider: LocalProvider, settings: Any) -> None:
        settings.FARM_BLENDER, settings.FARM_TRUST_SCENES = "/opt/blender", True
        machine = start(provider)
        said = provider.root / machine.id / "said"

        wait_for(lambda: said.exists() and said.read_text().endswith("\n"))
        assert "--blender /opt/blender --trust-scenes\n" in said.read_text()
        assert "--renderer-python" not in said.read_text()

    def test_no_secret_of_the_farm_reaches_it(self, provider: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FARM_SECRET_KEY", "the farm's own")
        monkeypatch.delenv("FARM_SUPERVISED", raising=False)  # a mark to end it by, which is passed on
        machine = start(provider)
        environment = provider.root / machine.id / "environment"

        wait_for(lambda: environment.exists() and "PATH=" in environment.read_text())
        assert "FARM_" not in environment.read_text()
        said = (provider.root / machine.id / "said").read_text()
        assert "the secret" not in environment.read_text() + said

    def test_asked_twice_for_one_launch_it_runs_once(self, provider: LocalProvider) -> None:
        first = provider.launch(request_for(count=2))
        second = LocalProvider().launch(request_for(count=2))

        assert first == second
        assert len(provider.machines(FARM)) == 2

    def test_a_repetition_without_the_secret_gives_what_is_there_and_starts_nothing(
        self, provider: LocalProvider
    ) -> None:
        machine = start(provider)

        assert provider.launch(request_for(count=2, secret="")).machines == [machine]
        with pytest.raises(NotToBeRepeated):
            provider.launch(request_for(2, secret=""))

    def test_what_the_farm_s_environment_says_to_agents_is_passed_on_and_a_person_s_token_is_not(
        self, provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FARMHAND_SPOT", "ec2")
        monkeypatch.setenv("FARMHAND_TOKEN", "fh_mine")
        environment = provider.root / start(provider).id / "environment"

        wait_for(lambda: environment.exists() and "PATH=" in environment.read_text())
        assert "FARMHAND_SPOT=ec2" in environment.read_text()
        assert "fh_mine" not in environment.read_text()

    def test_without_an_agent_nothing_is_started_and_it_says_what_to_do(
        self, provider: LocalProvider, settings: Any
    ) -> None:
        settings.FARM_AGENT_PYTHON = "/nowhere/python"

        with pytest.raises(InsufficientCapacity, match="make envs"):
            provider.launch(request_for())

        assert provider.machines(FARM) == []

    def test_folders_of_ended_machines_are_kept_but_not_for_ever(
        self, provider: LocalProvider, agent: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(local_module, "KEEP_GONE", 2)
        agent("exit 0")
        for launch in range(4):
            machine = start(provider, launch)
            wait_for(lambda: provider.machines(FARM) == [])

        assert len(list(provider.root.glob("m-*"))) == 3
        assert (provider.root / machine.id / "agent.log").exists()


class TestMachines:
    def test_they_are_found_again_by_a_farm_that_was_killed(self, provider: LocalProvider) -> None:
        started = provider.launch(request_for(count=2)).machines

        found = LocalProvider().machines(FARM)

        assert sorted(found, key=lambda m: m.id) == sorted(started, key=lambda m: m.id)

    def test_one_that_ended_by_itself_is_not_there(self, provider: LocalProvider, agent: Callable[..., None]) -> None:
        agent("exit 0")
        provider.launch(request_for())

        wait_for(lambda: provider.machines(FARM) == [])

    def test_one_that_was_killed_is_not_there(self, provider: LocalProvider) -> None:
        machine = start(provider)
        os.kill(pid_of(provider, machine.id), signal.SIGKILL)

        wait_for(lambda: provider.machines(FARM) == [])

    def test_a_process_that_has_its_pid_by_now_is_not_it(self, provider: LocalProvider) -> None:
        machine = start(provider)
        note = provider.root / machine.id / "pid"
        its_own = note.read_text()
        mine = Path("/proc/self/stat").read_text().split()
        note.write_text(" ".join([*mine[:21], "1", *mine[22:]]))  # this very process, started at another moment

        try:
            assert provider.machines(FARM) == []
            provider.terminate([machine.id])
        finally:
            note.write_text(its_own)

    @pytest.mark.parametrize("note", ["", "12", "nonsense", "12 (sh) R 1"])
    def test_a_note_that_was_cut_is_no_machine(self, provider: LocalProvider, note: str) -> None:
        machine = start(provider)
        file = provider.root / machine.id / "pid"
        its_own = file.read_text()
        file.write_text(note)
        try:
            assert provider.machines(FARM) == []
        finally:
            file.write_text(its_own)


class TestTerminate:
    def test_an_agent_is_asked_first_and_may_tidy_up(self, provider: LocalProvider, agent: Callable[..., None]) -> None:
        agent('trap \'echo tidied >"$(dirname "$LOG")/tidied"; exit 0\' TERM; echo ready >"$(dirname "$LOG")/ready"')
        machine = start(provider)
        folder = provider.root / machine.id
        wait_for((folder / "ready").exists)

        provider.terminate([machine.id])

        assert (folder / "tidied").exists()
        assert not is_running(pid_of(provider, machine.id))

    def test_one_that_does_not_listen_is_made_to_end_with_its_children(
        self, provider: LocalProvider, agent: Callable[..., None]
    ) -> None:
        agent('trap "" TERM; sleep 600 & echo $! >"$(dirname "$LOG")/child"')
        machine = start(provider)
        child = provider.root / machine.id / "child"
        wait_for(lambda: child.exists() and child.read_text().endswith("\n"))

        provider.terminate([machine.id])

        wait_for(lambda: not is_running(pid_of(provider, machine.id)))
        wait_for(lambda: not is_running(int(child.read_text())))
        assert provider.machines(FARM) == []

    def test_one_that_is_gone_already_is_no_error(self, provider: LocalProvider) -> None:
        machine = start(provider)
        provider.terminate([machine.id])

        provider.terminate([machine.id, "m-never", "../../etc"])

    def test_nothing_of_it_is_left_as_a_child_of_the_farm(self, provider: LocalProvider) -> None:
        machine = start(provider)
        provider.terminate([machine.id])

        with pytest.raises(ChildProcessError):
            os.waitpid(pid_of(provider, machine.id), os.WNOHANG)


class TestOffers:
    def test_slots_are_what_the_fleet_says_else_one_for_each_gpu_and_at_least_one(
        self, provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def slots(**options: Any) -> list[int]:
            return [offer.slots for offer in provider.offers(FleetSpec("local", settings=options))]

        monkeypatch.setattr(local_module, "_gpus", list)
        assert slots() == [1]
        assert slots(slots=4) == [4]
        monkeypatch.setattr(local_module, "_gpus", lambda: [Path("/dev/nvidia0"), Path("/dev/nvidia1")])
        assert slots() == [2]

    def test_it_costs_nothing(self, provider: LocalProvider) -> None:
        assert provider.prices([LOCAL_POOL]) == {LOCAL_POOL: 0}


class TestCheck:
    @pytest.mark.parametrize("wrong", [{"colour": "red"}, {"slots": "two"}])
    def test_a_setting_it_does_not_know_is_refused(self, provider: LocalProvider, wrong: dict[str, Any]) -> None:
        with pytest.raises(Invalid):
            provider.check(FleetSpec("local", settings=wrong))

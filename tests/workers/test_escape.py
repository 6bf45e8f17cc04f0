from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workers.conftest import RunningAgent
from tests.workers.fake_farm import FakeFarm
from tests.workers.tasks import RENDER
from tests.workers.test_sandbox import Room
from workers.escape import find_escapes, listening_port, try_everything
from workers.protocol import Outcome, TaskParameter
from workers.sandbox import Mount, SandboxUnusable, agent_mounts

Start = Callable[..., RunningAgent]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


class TestFindEscapes:
    def test_a_safe_machine_lets_nothing_out(self, room: Room, tmp_path: Path) -> None:
        with listening_port() as port:
            assert find_escapes(tmp_path / "escape", agent_mounts(room.folder / "bin"), port=port) == []

    def test_what_is_shown_by_mistake_is_found(self, room: Room, tmp_path: Path) -> None:
        careless = [Mount(tmp_path, str(tmp_path)), Mount(Path("/etc/shadow"), "/etc/shadow")]
        with listening_port() as port:
            escapes = find_escapes(tmp_path / "escape", [*agent_mounts(room.folder / "bin"), *careless], port=port)

        assert escapes == ["read the agent's files", "read /etc/shadow"]

    def test_without_a_sandbox_nearly_everything_works(self, tmp_path: Path) -> None:
        (tmp_path / "canary").write_text("x", encoding="utf-8")
        with listening_port() as port:
            works = try_everything(str(tmp_path / "canary"), port, os.getpid(), writes=[str(tmp_path / "written")])

        assert {"read the agent's files", "reach this machine's network", "see other processes"} <= set(works)
        assert f"write {tmp_path / 'written'}" in works

    def test_no_sandbox_is_said(self, room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nowhere")

        with pytest.raises(SandboxUnusable, match="bubblewrap is not installed"):
            find_escapes(tmp_path / "escape", agent_mounts(room.folder / "bin"), port=1)


class TestAgentWithoutSandbox:
    def test_it_refuses_to_start_and_says_what_to_do(self, farm: FakeFarm, start_agent: Start) -> None:
        agent = start_agent(env={"PATH": "/nowhere"})

        assert agent.ends() == 4
        assert "--trust-scenes" in agent.said.read_text(encoding="utf-8")
        assert farm.registered == []

    def test_with_trusted_scenes_it_renders_and_reports_that_it_has_none(
        self, farm: FakeFarm, start_agent: Start
    ) -> None:
        agent = start_agent("--trust-scenes", env={"PATH": "/nowhere"})
        farm.wait(lambda: farm.syncs)
        script = RENDER | {"embeddedFiles": [dict(RENDER["embeddedFiles"][0])]}
        script["embeddedFiles"][0]["data"] = script["embeddedFiles"][0]["data"].replace("/out/", "{{Param.Out}}/")
        step = farm.add_step(
            script, parameters={"Out": TaskParameter(type="PATH", value=".")}, output_paths=["Out"], files={"x": b"x"}
        )

        end = farm.wait_end(farm.assign(step, expected=["1.png"], parameters={"Frame": ("INT", "1")}))

        assert end.outcome is Outcome.SUCCEEDED
        assert not farm.registered[0].sandboxed
        assert "NO SAFE SANDBOX" in agent.said.read_text(encoding="utf-8")

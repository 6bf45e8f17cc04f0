"""The sandbox against programs that mean harm: what they reach is what a scene with scripts enabled could reach."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.workers.conftest import processes
from workers.sandbox import (
    LIB,
    OUT,
    SCENE,
    BareTree,
    Enclosure,
    Mount,
    Plan,
    Sandbox,
    SandboxUnusable,
    SourceNotAllowed,
    agent_mounts,
    bare_path,
    source_mounts,
)


class Room:
    """A sandbox's surroundings on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "scene", "out"):
            (folder / name).mkdir()
        launcher = folder / "bin" / "python3"
        launcher.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
        launcher.chmod(0o755)

    def plan(self, *command: str, **fields: object) -> Plan:
        mounts = [Mount(self.folder / "scene", SCENE), Mount(self.folder / "out", OUT, writable=True)]
        plan = {"name": "test", "command": command, "mounts": [*agent_mounts(self.folder / "bin"), *mounts]}
        return Plan(**{**plan, **fields})  # type: ignore[arg-type]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.fixture
def start(room: Room) -> Iterator[Callable[..., Sandbox]]:
    """Start sandboxes; what is left of them is ended."""
    started: list[Sandbox] = []

    def start(*command: str, **fields: object) -> Sandbox:
        started.append(Sandbox(room.plan(*command, **fields)))
        return started[-1]

    yield start
    for sandbox in started:
        sandbox.close()


def said(sandbox: Sandbox) -> str:
    sandbox.stdin.close()
    text = sandbox.stdout.read().decode()
    sandbox.wait(10)
    return text


Start = Callable[..., Sandbox]


class TestSees:
    def test_it_sees_its_scene_its_output_folder_and_the_system_and_nothing_else(self, start: Start) -> None:
        seen = set(said(start("/bin/ls", "/")).split())

        assert {"scene", "out", "usr", "tmp", "proc", "dev", "etc", "farmhand"} <= seen
        assert seen.isdisjoint({"boot", "sys", "run", "srv", "media", "lost+found", "mnt"})

    def test_secrets_of_the_machine_are_not_there(self, start: Start, room: Room) -> None:
        (room.folder / "secret").write_text("secret", encoding="utf-8")

        text = said(
            start("/bin/sh", "-c", f"cat /etc/shadow /etc/hosts /root/.bashrc {room.folder}/secret /proc/1/environ")
        )

        assert "secret" not in text
        assert "root:" not in text

    def test_its_environment_holds_four_words(self, start: Start) -> None:
        text = said(start("/usr/bin/env", environment={"FARMHAND_DEVICE": "CPU"}))

        assert {line.partition("=")[0] for line in text.splitlines()} == {
            "HOME",
            "PATH",
            "LANG",
            "PWD",
            "FARMHAND_DEVICE",
        }

    def test_it_sees_only_its_own_processes(self, start: Start) -> None:
        assert len(said(start("/bin/sh", "-c", "ls -d /proc/[0-9]*")).split()) <= 4

    def test_paths_of_this_machine_do_not_stand_in_its_arguments(self, start: Start, room: Room) -> None:
        text = said(start("/bin/sh", "-c", "cat /proc/*/cmdline"))

        assert str(room.folder) not in text

    def test_the_agents_python_runs_with_its_libraries(self, start: Start) -> None:
        code = "import openjd.sessions, workers.protocol; print('fine')"

        assert said(start("/farmhand/bin/python3", "-c", code, environment={"PYTHONPATH": LIB})) == "fine\n"


class TestReaches:
    def test_there_is_no_network(self, start: Start) -> None:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)"
            sandbox = start("/farmhand/bin/python3", "-c", code)

            said(sandbox)

        assert "Connection refused" in sandbox.last_words or "unreachable" in sandbox.last_words

    def test_it_writes_only_to_its_output_folder_and_its_own_tmp(self, start: Start, room: Room) -> None:
        places = "/x /etc/x /usr/x /scene/x /dev/x /farmhand/x /farmhand/lib/workers/x /home/x /out/x /tmp/x"

        text = said(start("/bin/sh", "-c", f"for p in {places}; do touch $p 2>/dev/null && echo $p; done"))

        assert text.split() == ["/out/x", "/tmp/x"]
        assert [p.name for p in (room.folder / "out").iterdir()] == ["x"]

    def test_it_cannot_set_the_kernel(self, start: Start) -> None:
        """Whose real id is root's may write many of the kernel's settings without any capability."""
        code = (
            "import os\n"
            "for folder, _, files in os.walk('/proc'):\n"
            "    first = (folder.split('/') + [''])[2]\n"
            "    if first.isdigit() or first in ('self', 'thread-self'):\n"
            "        continue\n"
            "    for name in files:\n"
            "        try: os.close(os.open(f'{folder}/{name}', os.O_WRONLY | os.O_NONBLOCK))\n"
            "        except OSError: continue\n"
            "        print(f'{folder}/{name}')\n"
        )

        assert said(start("/farmhand/bin/python3", "-c", code)).split() == []

    def test_a_link_in_the_output_folder_leads_nowhere(self, start: Start, room: Room) -> None:
        said(start("/bin/sh", "-c", f"ln -s {room.folder} /out/link; echo hacked > /out/link/hacked"))

        assert not (room.folder / "hacked").exists()

    def test_it_has_no_rights_to_mount_trace_or_make_namespaces(self, start: Start) -> None:
        text = said(
            start(
                "/bin/sh",
                "-c",
                "mount -t tmpfs x /tmp && echo BAD; unshare -U true && echo BAD; grep CapEff /proc/self/status",
            )
        )

        assert "BAD" not in text
        assert "0000000000000000" in text


class TestLimits:
    def test_a_fork_bomb_stays_small(self, start: Start) -> None:
        bomb = (
            "import os,time\ntry:\n  [os.fork() or time.sleep(60) for _ in range(3000)]\n"
            "except OSError: print('stopped', flush=True)\n"
        )
        sandbox = start("/farmhand/bin/python3", "-c", bomb)

        assert sandbox.stdout.readline() == b"stopped\n"
        assert len(sandbox.limits.pids(None)) <= 1024

    def test_too_much_memory_is_noticed(self, start: Start) -> None:
        sandbox = start("/farmhand/bin/python3", "-c", "x = bytearray(300 << 20)", memory_mib=100)

        assert sandbox.wait(10) != 0
        assert sandbox.limits.had_oom_kill()

    def test_files_in_tmp_count_as_memory_and_are_bounded(self, start: Start) -> None:
        sandbox = start("/bin/sh", "-c", "head -c 50000000 /dev/zero > /tmp/x; ls -s /tmp/x", tmp_mib=16)

        assert int(said(sandbox).split()[0]) <= 16 * 1024

    def test_what_it_uses_is_measured(self, start: Start) -> None:
        sandbox = start(
            "/farmhand/bin/python3", "-c", "x = b'x' * (80 << 20); print(1, flush=True); import time; time.sleep(60)"
        )
        sandbox.stdout.readline()

        use = sandbox.use()

        assert use.memory_mib > 80
        assert use.peak_mib >= use.memory_mib
        assert use.cpu_s > 0


class TestKill:
    def test_nothing_is_left_of_a_tree_that_hides(self, start: Start, mark: str) -> None:
        hide = f"setsid setsid sleep {mark} & (nohup sleep {mark} &) ; sleep {mark}"
        sandbox = start("/bin/sh", "-c", hide)
        deadline = time.monotonic() + 5
        while len(processes(mark)) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)

        sandbox.kill()

        assert processes(mark) == []
        assert not sandbox.is_running

    def test_closing_twice_is_harmless(self, start: Start) -> None:
        sandbox = start("/bin/sleep", "60")

        sandbox.close()
        sandbox.close()

    def test_what_cannot_be_shown_is_in_its_last_words(self, start: Start) -> None:
        sandbox = start("/bin/true", mounts=[Mount(Path("/nowhere"), "/nowhere")])

        assert sandbox.wait(5) != 0
        time.sleep(0.1)
        assert "/nowhere" in sandbox.last_words

    def test_without_bubblewrap_it_says_so(self, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nowhere")

        with pytest.raises(SandboxUnusable, match="install the package"):
            start("/bin/true")


class TestBareTree:
    def test_paths_are_those_of_this_machine(self, room: Room) -> None:
        plan = room.plan("/farmhand/bin/python3", "-c", "import os, workers; print(os.environ['PYTHONPATH'])")
        plan = Plan(name=plan.name, command=plan.command, mounts=plan.mounts, environment={"PYTHONPATH": LIB})

        tree = Enclosure(is_sandbox=False).start(plan)

        assert isinstance(tree, BareTree)
        assert tree.stdout.read().decode().strip() == str(Path(__file__).parents[2])
        tree.close()
        assert bare_path(plan, "/scene/a/b") == str(room.folder / "scene" / "a" / "b")

    def test_its_tree_dies_with_it(self, room: Room, mark: str) -> None:
        tree = BareTree(room.plan("/bin/sh", "-c", f"setsid sleep {mark} & sleep {mark}"))
        deadline = time.monotonic() + 5
        while len(processes(mark)) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)

        tree.close()

        assert processes(mark) == []


class TestSourceMounts:
    def tree(self, folder: Path, *files: str) -> Path:
        for name in files:
            (folder / "t" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "t" / name).touch()
        return folder / "t"

    def test_a_folder_nobody_else_needs_is_one_mount(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path, "mnt/a/1", "mnt/a/2", "projects/x")

        assert [m.target for m in source_mounts(tree, ["/scene"])] == ["/mnt", "/projects"]

    def test_beside_a_taken_place_it_goes_deeper(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path, "home/tex/1", "home/a.png")

        assert [m.target for m in source_mounts(tree, ["/home/.pyenv/versions"])] == ["/home/a.png", "/home/tex"]

    def test_over_or_below_a_taken_place_it_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SourceNotAllowed, match="/home/env/lib/x"):
            source_mounts(self.tree(tmp_path / "1", "home/env/lib/x"), ["/home/env/lib"])
        with pytest.raises(SourceNotAllowed):
            source_mounts(self.tree(tmp_path / "2", "home/env"), ["/home/env/lib"])

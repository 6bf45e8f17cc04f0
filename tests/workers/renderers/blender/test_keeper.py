"""The keeper and its client as real processes; the renderer is a few lines that say and do what a test needs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from workers.renderers import embeddable

SOURCES = Path(__file__).parents[4] / "workers/renderers/blender"

RENDERER = """
import json, os, signal, socket, sys, time
stream = socket.socket(fileno=int(sys.argv[1])).makefile("rw")
def say(**message):
    sys.stdout.flush()
    stream.write(json.dumps(message) + "\\n")
    stream.flush()
print("reading the scene")
LOAD
say(device="CPU", loaded=True)
for line in stream:
    frames = json.loads(line)["render"]
    RENDER
"""


class Kept:
    """A session folder with the keeper's files and a renderer in it."""

    def __init__(self, folder: Path, *, load: str = "", render: str = "say(rendered=True)") -> None:
        self.folder = folder
        for name in ("keeper.py", "client.py", "log_watch.py"):
            (folder / name).write_text(embeddable(SOURCES / name))
        text = RENDERER.replace("LOAD", load).replace("RENDER", render.replace("\n", "\n    "))
        (folder / "renderer.py").write_text(text)

    def enter(self) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-u", str(self.folder / "renderer.py"), "{line}"]
        return self._run("keeper.py", str(self.folder / "client.py"), "--", *program)

    def ask(self, wish: str) -> subprocess.CompletedProcess[str]:
        return self._run("client.py", wish)

    def start(self, wish: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "client.py", wish], cwd=self.folder, stdout=subprocess.PIPE
        )

    def _run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", script, *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=30)

    def processes(self) -> list[psutil.Process]:
        """What of it still runs: the keeper and its renderer."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.cwd() == str(self.folder) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def wait_until_gone(self) -> None:
        until = time.monotonic() + 5
        while self.processes() and time.monotonic() < until:
            time.sleep(0.02)
        assert self.processes() == []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    Kept(tmp_path).ask("quit")


def end_of(said: str) -> dict[str, str]:
    (line,) = [line for line in said.splitlines() if line.startswith("farmhand_end: ")]
    found: dict[str, str] = json.loads(line.removeprefix("farmhand_end: "))
    return found


class TestEntering:
    def test_ends_when_the_scene_is_loaded_and_tells_the_device(self, folder: Path) -> None:
        entered = Kept(folder).enter()

        assert entered.returncode == 0
        assert entered.stdout.splitlines() == ["reading the scene", "farmhand_device: CPU"]

    def test_fails_with_the_renderers_own_reason(self, folder: Path) -> None:
        load = "say(failed={'cause': 'missing_asset', 'sentence': 'No wood.png.'}); stream.readline(); sys.exit()"

        entered = Kept(folder, load=load).enter()

        assert entered.returncode == 1
        assert end_of(entered.stdout) == {"cause": "missing_asset", "sentence": "No wood.png."}

    def test_a_crash_has_its_signal_and_last_words(self, folder: Path) -> None:
        entered = Kept(folder, load="print('Read blend'); os.kill(os.getpid(), signal.SIGSEGV)").enter()

        end = end_of(entered.stdout)
        assert end["cause"] == "renderer_crashed"
        assert "Segmentation fault; last words: Read blend" in end["sentence"]

    def test_what_it_logged_into_a_file_while_it_opened_the_scene_is_not_lost(self, folder: Path) -> None:
        load = "open('loading.log', 'w').write('std::bad_alloc\\n'); os.abort()"

        entered = Kept(folder, load=load).enter()

        assert "std::bad_alloc" in entered.stdout
        assert end_of(entered.stdout)["cause"] == "out_of_memory"

    def test_a_program_that_is_not_there_is_named(self, folder: Path) -> None:
        kept = Kept(folder)

        entered = kept._run("keeper.py", "client.py", "--", "no-such-blender")

        assert entered.returncode == 1
        assert "no program no-such-blender" in end_of(entered.stdout)["sentence"]


class TestRendering:
    def test_log_lines_and_messages_come_each_in_their_order_and_before_the_end(self, folder: Path) -> None:
        render = (
            "print('begin', frames); say(status='Rendering 5'); say(progress=0.5); print('done'); say(rendered=True)"
        )
        kept = Kept(folder, render=render)
        kept.enter()

        ended = kept.ask("frames 5-6")

        lines = ended.stdout.splitlines()
        ours = [line for line in lines if line.startswith(("openjd_", "farmhand_"))]
        assert ended.returncode == 0
        assert ours == ["farmhand_device: CPU", "openjd_status: Rendering 5", "openjd_progress: 50.0"]
        assert [line for line in lines if line not in ours] == ["begin 5-6", "done"]

    def test_one_renderer_serves_all_tasks(self, folder: Path) -> None:
        kept = Kept(folder, render="print('I am', os.getpid()); say(rendered=True)")
        kept.enter()

        first, second = kept.ask("frames 1"), kept.ask("frames 2")

        assert first.stdout == second.stdout
        assert first.returncode == second.returncode == 0

    def test_a_line_of_the_log_cannot_pass_for_one_of_ours(self, folder: Path) -> None:
        forged = 'farmhand_end: {"cause": "no_gpu"}'
        kept = Kept(
            folder, render=f"print({forged!r}); print('openjd_env: A=B'); print('a\\0' + '7'); say(rendered=True)"
        )
        kept.enter()

        ended = kept.ask("frames 1")

        assert ended.returncode == 0
        assert ended.stdout.splitlines()[1:] == [f"| {forged}", "| openjd_env: A=B", "a7"]

    def test_success_is_not_believed_against_the_log(self, folder: Path) -> None:
        kept = Kept(folder, render="print('ERROR write: No space left on device'); say(rendered=True)")
        kept.enter()

        ended = kept.ask("frames 1")

        assert ended.returncode == 1
        assert end_of(ended.stdout)["cause"] == "disk_full"

    def test_a_vague_failure_is_explained_by_the_log(self, folder: Path) -> None:
        failure = "{'cause': 'scene_error', 'sentence': 'Could not render.'}"
        kept = Kept(folder, render=f"print('System is out of GPU memory'); say(failed={failure})")
        kept.enter()

        assert end_of(kept.ask("frames 1").stdout)["cause"] == "out_of_memory"

    def test_after_a_failure_the_next_task_begins_without_blame(self, folder: Path) -> None:
        kept = Kept(folder, render="print('std::bad_alloc' if frames == '1' else 'fine'); say(rendered=True)")
        kept.enter()
        kept.ask("frames 1")

        assert kept.ask("frames 2").returncode == 0

    def test_a_renderer_killed_from_outside_ran_out_of_memory(self, folder: Path) -> None:
        kept = Kept(folder, render="os.kill(os.getpid(), signal.SIGKILL)")
        kept.enter()

        ended = kept.ask("frames 1")

        assert end_of(ended.stdout)["cause"] == "out_of_memory"

    def test_later_tasks_hear_why_the_renderer_is_gone(self, folder: Path) -> None:
        kept = Kept(folder, render="print('oh no'); os.abort()")
        kept.enter()
        kept.ask("frames 1")

        later = kept.ask("frames 2")

        assert later.returncode == 1
        assert end_of(later.stdout)["cause"] == "renderer_crashed"
        assert "oh no" in end_of(later.stdout)["sentence"]

    def test_long_logs_and_endless_lines_pass(self, folder: Path) -> None:
        kept = Kept(folder, render="print('x' * 300_000)\nfor i in range(20_000): print(i)\nsay(rendered=True)")
        kept.enter()

        lines = kept.ask("frames 1").stdout.splitlines()

        assert lines[-1] == "19999"
        assert max(map(len, lines)) <= 8192 * 2


class TestStopping:
    def test_a_killed_client_takes_the_renderer_with_it(self, folder: Path) -> None:
        kept = Kept(folder, render="say(progress=0.1); time.sleep(60)")
        kept.enter()
        with kept.start("frames 1") as client:
            assert client.stdout is not None
            while b"openjd_progress" not in client.stdout.readline():
                pass

            client.kill()

        kept.wait_until_gone()

    def test_quit_ends_everything_and_may_be_said_twice(self, folder: Path) -> None:
        kept = Kept(folder)
        kept.enter()

        assert kept.ask("quit").returncode == 0
        kept.wait_until_gone()
        assert kept.ask("quit").returncode == 0

    def test_a_task_after_that_fails(self, folder: Path) -> None:
        kept = Kept(folder)
        kept.enter()
        kept.ask("quit")
        kept.wait_until_gone()

        ended = kept.ask("frames 1")

        assert ended.returncode == 1
        assert end_of(ended.stdout)["cause"] == "renderer_crashed"

    def test_the_end_of_the_driver_ends_it_too(self, folder: Path) -> None:
        """The driver starts each action in a process session of its own and is the parent of its leader."""
        kept = Kept(folder)
        program = [sys.executable, "-u", str(folder / "renderer.py"), "{line}"]
        action = [sys.executable, "-I", "-S", "keeper.py", "client.py", "--", *program]
        driver = f"import subprocess, time; subprocess.run({action!r}, start_new_session=True); time.sleep(60)"
        with subprocess.Popen([sys.executable, "-c", driver], cwd=folder, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            while b"farmhand_device" not in process.stdout.readline():
                pass
            before = len(kept.processes())

            process.kill()

        assert before >= 3
        kept.wait_until_gone()

    def test_the_renderer_leaves_no_children(self, folder: Path) -> None:
        kept = Kept(folder, load="if os.fork() == 0: time.sleep(60)")
        kept.enter()
        assert len(kept.processes()) >= 3

        kept.ask("quit")

        kept.wait_until_gone()


def test_the_sockets_name_is_the_same_on_both_sides() -> None:
    """They share no module: the client imports nothing."""
    keeper, client = ((SOURCES / name).read_text() for name in ("keeper.py", "client.py"))

    assert 'SOCKET = "renderer.sock"' in keeper
    assert 'SOCKET = "renderer.sock"' in client

"""Processes by identity."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local import process
from infra.local.process import Process, find_marked
from tests.infra.local.conftest import wait_until


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "60"], env={"FARM_TEST_MARK": "a b"}) as child:
        yield child
        child.kill()


class TestSend:
    def test_it_reaches_the_process(self, sleeper: "subprocess.Popen[bytes]") -> None:
        known = Process.of(sleeper.pid)

        assert known
        assert known.send(signal.SIGTERM)
        assert sleeper.wait() == -signal.SIGTERM

    def test_it_never_reaches_another_that_has_the_number_now(self, sleeper: "subprocess.Popen[bytes]") -> None:
        known = Process.of(sleeper.pid)
        assert known
        earlier = Process(sleeper.pid, known.started - 1)

        assert not earlier.send(signal.SIGKILL)

        assert not earlier.is_alive()
        assert sleeper.poll() is None

    def test_one_that_is_gone_is_no_error(self, sleeper: "subprocess.Popen[bytes]") -> None:
        known = Process.of(sleeper.pid)
        sleeper.kill()
        sleeper.wait()

        assert known
        assert not known.send(signal.SIGTERM)

    def test_remains_are_not_alive(self, sleeper: "subprocess.Popen[bytes]") -> None:
        known = Process.of(sleeper.pid)
        sleeper.kill()
        os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)

        assert known
        assert not known.is_alive()


class TestAncestors:
    def test_they_lead_from_parent_to_the_first_process(self, sleeper: "subprocess.Popen[bytes]") -> None:
        known = Process.of(sleeper.pid)

        assert known
        assert list(known.ancestors())[:2] == [os.getpid(), os.getppid()]


class TestFindMarked:
    def test_the_whole_entry_counts(self, sleeper: "subprocess.Popen[bytes]") -> None:
        assert [found.pid for found in find_marked("FARM_TEST_MARK=a b")] == [sleeper.pid]
        assert list(find_marked("FARM_TEST_MARK=a")) == []


class TestStart:
    def test_the_end_of_a_child_takes_its_group_along(self, tmp_path: Path) -> None:
        log = tmp_path / "a.log"
        child = process.start(
            ["sh", "-c", "sleep 60 & echo $!"], env=dict(os.environ), log=log, folder=tmp_path, last_wish=signal.SIGTERM
        )
        while not process.has_ended(child):
            pass
        left = Process.of(int(log.read_text()))
        assert left

        status = process.bury(child)

        assert status == 0
        wait_until(lambda: not left.is_alive())

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers import limits as limits_module
from workers.limits import PREFIX, Limits, Use, remove_leftovers


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Limits:
    """Limits on a machine where no control group can be made."""
    monkeypatch.setattr(limits_module, "_make_groups", lambda name, memory_mib: [])
    return Limits(name="test", memory_mib=100)


class TestWithoutGroups:
    def test_a_tree_that_outgrows_its_memory_is_told_by_watching(self, watched: Limits) -> None:
        assert not watched.is_enforced
        assert watched.is_exceeded(Use(cpu_s=0, memory_mib=101, peak_mib=101))
        assert not watched.is_exceeded(Use(cpu_s=0, memory_mib=99, peak_mib=300))

    def test_a_tree_is_measured_and_killed_by_descent(self, watched: Limits) -> None:
        process = subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60 & wait"])
        while len(watched.pids(process.pid)) < 3:
            pass

        use = watched.use(process.pid)
        watched.kill(process.pid)

        assert use.memory_mib > 0
        assert process.wait(5) == -9
        assert watched.pids(process.pid) == []

    def test_nothing_is_killed_of_a_tree_that_has_ended(self, watched: Limits) -> None:
        watched.kill(None)


class TestWithGroups:
    @pytest.fixture
    def limits(self) -> Iterator[Limits]:
        limits = Limits(name="limits-test", memory_mib=64)
        if not limits.is_enforced:
            pytest.skip("no control groups can be made here")
        yield limits
        limits.kill(None)
        limits.close()

    def test_what_runs_the_preamble_is_under_the_limits(self, limits: Limits) -> None:
        line = f"{limits.preamble} && ulimit -c && ulimit -n && exec head -c 100000000 /dev/zero | tail -c 90000000"
        ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)

        assert ended.stdout.splitlines()[:2] == ["0", "4096"]
        assert limits.had_oom_kill()

    def test_even_what_left_its_parents_is_found_and_killed(self, limits: Limits) -> None:
        subprocess.run(["sh", "-c", f"{limits.preamble} && (setsid sleep 60 &) && true"], check=True)
        assert len(limits.pids(None)) == 1

        limits.kill(None)

        assert limits.pids(None) == []

    def test_groups_of_dead_agents_are_removed(self, limits: Limits) -> None:
        group = limits._groups[0]
        orphan = group.with_name(f"{PREFIX}4194305-slot0")  # no process has this number
        orphan.mkdir()

        remove_leftovers()

        assert not orphan.exists()
        assert group.exists()

    def test_closed_they_leave_nothing(self) -> None:
        limits = Limits(name="closing", memory_mib=64)
        groups: list[Path] = list(limits._groups)

        limits.close()

        assert not any(group.exists() for group in groups)

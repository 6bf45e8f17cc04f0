from __future__ import annotations

from pathlib import Path

import pytest

from workers.attempts import UNLISTED, Attempts, Stop
from workers.protocol import Assignment, Cause, Order, Outcome, Phase


def assignment(name: str = "a1") -> Assignment:
    return Assignment(
        attempt=name,
        generation=3,
        order=Order.RUN,
        reason="",
        slot=0,
        step="s1",
        parameters={},
        expected=[],
        timeout_s=60,
        no_progress_s=60,
        memory_mib=0,
    )


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    return Attempts(tmp_path / "attempts")


class TestTake:
    def test_an_attempt_held_already_is_not_taken_again(self, attempts: Attempts) -> None:
        assert attempts.take(assignment()) is not None
        assert attempts.take(assignment()) is None

    def test_an_attempt_done_with_is_never_taken_again(self, attempts: Attempts) -> None:
        held = attempts.take(assignment())
        assert held is not None
        attempts.forget(held)

        assert attempts.take(assignment()) is None

    def test_what_an_earlier_worker_left_is_thrown_away(self, tmp_path: Path) -> None:
        (tmp_path / "attempts" / "7").mkdir(parents=True)

        Attempts(tmp_path / "attempts")

        assert list((tmp_path / "attempts").iterdir()) == []


class TestEnd:
    def test_an_end_waits_on_disk_and_is_reported_every_time(self, attempts: Attempts) -> None:
        held = attempts.take(assignment())
        assert held is not None

        attempts.end(held, held.end(outcome=Outcome.FAILED, cause=Cause.TIMEOUT, sentence="Too long."))

        assert (held.folder / "end.json").exists()
        for _ in range(2):
            [report] = attempts.reports()
            assert report.phase is Phase.ENDED
            assert report.end is not None
            assert report.end.sentence == "Too long."

    def test_a_disk_without_room_keeps_it_in_memory(self, attempts: Attempts) -> None:
        held = attempts.take(assignment())
        assert held is not None
        held.folder.rmdir()

        attempts.end(held, held.end(outcome=Outcome.FAILED, cause=Cause.DISK_FULL, sentence="Full."))

        assert attempts.reports()[0].end is not None

    def test_an_end_taken_back_runs_again(self, attempts: Attempts) -> None:
        held = attempts.take(assignment())
        assert held is not None
        end = held.end(outcome=Outcome.SUCCEEDED, cause=None, sentence="")
        attempts.end(held, end)

        assert attempts.reopen(held) == end
        assert attempts.reports()[0].end is None


class TestHeld:
    def test_the_first_stop_counts_unless_the_farm_unlists_it(self, attempts: Attempts) -> None:
        held = attempts.take(assignment())
        assert held is not None
        first = Stop(Outcome.CANCELLED, Cause.CANCELLED, "first")

        held.order_stop(first)
        held.order_stop(Stop(Outcome.INTERRUPTED, Cause.INTERRUPTED, "second"))
        assert held.stop == first

        held.order_stop(UNLISTED)
        assert held.stop is UNLISTED

    def test_render_time_is_counted_while_the_clock_runs(self, attempts: Attempts) -> None:
        held = attempts.take(assignment())
        assert held is not None
        assert held.elapsed_ms == 0

        held.start_clock()
        held.stop_clock()

        assert held.elapsed_ms == held.render_ms >= 0
        assert held.phase is Phase.RUNNING

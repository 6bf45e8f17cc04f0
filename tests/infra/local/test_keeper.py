"""One part's life, with time given by the test and a shell as the part."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.local.folder import Folder
from infra.local.keeper import DELAYS, FORGIVEN, SETTLED, Keeper
from infra.local.parts import NotWell, Part, Stage
from infra.local.process import has_ended
from infra.local.state import PartState


class Health:
    """A check that says what the test wants."""

    reason = ""

    def __call__(self) -> None:
        if self.reason:
            raise NotWell(self.reason)


@pytest.fixture
def keep(tmp_path: Path) -> Callable[..., Keeper]:
    folder = Folder(tmp_path)
    folder.make()

    def keep(script: str, **settings: object) -> Keeper:
        return Keeper(Part("part", Stage.WORK, lambda: ["sh", "-c", script], {}, **settings), folder)  # type: ignore[arg-type]

    return keep


def let_end(keeper: Keeper) -> None:
    while keeper.child and not has_ended(keeper.child):
        time.sleep(0.01)


class TestLook:
    def test_a_part_that_ends_again_and_again_is_started_with_growing_patience(
        self, keep: Callable[..., Keeper]
    ) -> None:
        keeper = keep("exit 7")
        keeper.start(0)
        now, pauses = 0.0, []
        for _ in range(len(DELAYS) + 1):
            let_end(keeper)
            keeper.look(now)
            assert keeper.state is PartState.DOWN
            assert keeper.note == "ended with status 7"
            began = now
            while keeper.child is None:
                now += 0.05
                keeper.look(now)
            pauses.append(now - began)
        keeper.end(deadline=0)

        assert pauses == pytest.approx([*DELAYS, DELAYS[-1]], abs=0.06)
        assert keeper.restarts == len(DELAYS) + 1

    def test_failures_are_forgiven_after_a_long_good_time(self, keep: Callable[..., Keeper]) -> None:
        keeper = keep("exit 7")
        keeper.failures = 5
        keeper.start(0)
        let_end(keeper)

        keeper.look(FORGIVEN + 1)

        assert keeper.failures == 1

    def test_a_part_without_a_check_is_ready_once_it_stayed_alive(self, keep: Callable[..., Keeper]) -> None:
        keeper = keep("sleep 60")
        keeper.start(0)

        keeper.look(SETTLED - 0.1)
        early = keeper.state
        keeper.look(SETTLED + 0.1)
        late = keeper.state

        assert (early, late) == (PartState.STARTING, PartState.READY)

        keeper.end(deadline=0)

    def test_one_that_stops_answering_is_unwell_and_says_why(self, keep: Callable[..., Keeper]) -> None:
        health = Health()
        keeper = keep("sleep 60", check=health)
        keeper.start(0)
        keeper.look(1)
        assert keeper.state is PartState.READY

        health.reason = "no answer"
        keeper.look(20)

        assert (keeper.state, keeper.note) == (PartState.UNWELL, "no answer")
        health.reason = ""
        keeper.look(30)
        assert keeper.report().state is PartState.READY
        keeper.end(deadline=0)

    def test_one_that_hangs_too_long_is_started_anew(self, keep: Callable[..., Keeper]) -> None:
        health = Health()
        keeper = keep("sleep 60", check=health, hung_after=30)
        keeper.start(0)
        keeper.look(1)
        health.reason = "no answer"

        keeper.look(20)
        assert keeper.child
        keeper.look(40)
        let_end(keeper)
        keeper.look(41)

        assert keeper.report().note == "ended with SIGKILL"

    def test_one_that_runs_once_is_done_and_not_started_again(self, keep: Callable[..., Keeper]) -> None:
        keeper = keep("exit 0", once=True)
        keeper.start(0)
        let_end(keeper)

        keeper.look(1)
        keeper.look(100)

        assert keeper.state is PartState.DONE
        assert keeper.restarts == 0


class TestEnd:
    def test_it_is_asked_first(self, keep: Callable[..., Keeper], tmp_path: Path) -> None:
        keeper = keep(f"trap 'touch {tmp_path}/heard; exit' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done")
        keeper.start(0)
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)

        keeper.ask_to_end()
        keeper.end(deadline=time.monotonic() + 10)

        assert (tmp_path / "heard").exists()
        assert keeper.state is PartState.STOPPED

    def test_one_that_does_not_hear_is_killed_at_the_deadline(
        self, keep: Callable[..., Keeper], tmp_path: Path
    ) -> None:
        keeper = keep(f"trap '' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done")
        keeper.start(0)
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        process = keeper.process

        keeper.ask_to_end()
        keeper.end(deadline=time.monotonic() + 0.2)

        assert process
        assert not process.send(signal.SIGTERM)

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from tests.cloud.metadata import Metadata
from tests.workers.conftest import RunningAgent
from tests.workers.fake_farm import FakeFarm
from tests.workers.tasks import shell
from workers.protocol import Outcome, Phase, WorkerState
from workers.spot import SpotNotice, seconds_left

NOW = datetime(2026, 1, 2, 3, 0, 0, tzinfo=UTC)


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    metadata = Metadata()
    yield metadata
    metadata.close()


class TestSecondsLeft:
    def test_it_is_the_time_until_the_notice(self) -> None:
        assert seconds_left({"action": "stop", "time": "2026-01-02T03:01:30Z"}, now=NOW) == 90

    @pytest.mark.parametrize(("time", "left"), [("2026-01-02T02:00:00Z", 0), ("2026-01-03T00:00:00Z", 120)])
    def test_a_clock_that_is_wrong_cannot_make_it_absurd(self, time: str, left: float) -> None:
        assert seconds_left({"time": time}, now=NOW) == left

    def test_what_is_no_notice_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no notice"):
            seconds_left([], now=NOW)


class TestSpotNotice:
    def test_it_warns_once_and_survives_an_expired_token(self, metadata: Metadata) -> None:
        warned: list[float] = []
        watch = SpotNotice(metadata.url, warn=warned.append, ended=threading.Event(), every_s=0.02)
        watch.start()
        time.sleep(0.2)
        assert warned == []

        metadata.expire_tokens()
        metadata.warn(60)
        watch.join(5)

        assert len(warned) == 1
        assert 50 < warned[0] <= 60

    def test_a_service_that_does_not_answer_is_no_notice(self) -> None:
        ended = threading.Event()
        watch = SpotNotice("http://127.0.0.1:9", warn=lambda _: None, ended=ended, every_s=0.02)
        watch.start()
        time.sleep(0.2)

        assert watch.is_alive()
        ended.set()
        watch.join(5)


class TestAgent:
    def test_a_warned_agent_hands_back_finishes_what_fits_and_drains(
        self, farm: FakeFarm, start_agent: Callable[..., RunningAgent], metadata: Metadata
    ) -> None:
        agent = start_agent("--spot", "ec2", "--spot-url", metadata.url)
        step = farm.add_step(shell("sleep 6; echo x > /out/x"))
        running, waiting = (farm.assign(step, expected=None) for _ in range(2))
        farm.wait(lambda: (r := farm.report_of(running)) and r.phase is Phase.RUNNING and farm.report_of(waiting))

        metadata.warn(60)

        assert farm.wait_end(waiting).outcome is Outcome.INTERRUPTED
        assert farm.wait_end(running).outcome is Outcome.SUCCEEDED
        assert agent.ends() == 0
        assert farm.syncs[-1].state is WorkerState.DRAINING
        assert "takes this machine back" in farm.syncs[-1].reason

"""
What is hurt in mid-job, and what must come out: every frame done and charged once, no stray process, nothing lost.

`make faults` runs these; they take minutes, because leases do.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import psutil
import pytest

from tests.harness import Farm, stopped

pytestmark = pytest.mark.timeout(400)

LEASE_S = 30


def assert_done(farm: Farm, job: str, *, frames: int, seconds: float) -> None:
    ended = farm.wait_until_done(job, seconds=seconds)
    assert ended["status"] == "succeeded"
    assert ended["tasks"]["succeeded"] == frames
    charged = farm.sql(
        """
        SELECT count(*), count(DISTINCT f.task) FROM billing_usagefact f JOIN jobs_task t ON t.id = f.task
         WHERE t.job_id = %s AND f.charged_micro > 0
        """,
        job,
    )
    assert charged == [(frames, frames)]


class TestAWorkerKilled:
    def test_takes_no_frame_with_it(self, farm: Farm) -> None:
        job = farm.submit("1-8", seconds=2)
        farm.wait_until_running(job)
        family = farm.family(farm.agent_of(farm.started(job)[0][1]))
        assert len(family) > 1  # the agent, its sandbox, and what runs in there

        os.kill(family[0].pid, signal.SIGKILL)

        psutil.wait_procs(family, timeout=5)
        assert [p.pid for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []
        assert_done(farm, job, frames=8, seconds=150)


class TestTheBrokerKilled:
    def test_costs_only_time(self, farm: Farm) -> None:
        job = farm.submit("1-8", seconds=2)
        farm.wait_until_running(job)

        farm.kill("valkey")

        assert_done(farm, job, frames=8, seconds=120)


class TestTheDispatcherKilled:
    def test_is_led_again(self, farm: Farm) -> None:
        job = farm.submit("1-8", seconds=2)
        farm.wait_until_running(job)

        farm.kill("dispatcher")

        assert_done(farm, job, frames=8, seconds=90)


class TestTheDatabaseKilled:
    def test_loses_nothing_that_was_committed(self, farm: Farm) -> None:
        job = farm.submit("1-10", seconds=2)
        farm.wait_until_running(job)

        farm.kill("postgres")

        assert_done(farm, job, frames=10, seconds=150)

    def test_for_a_while_renders_nothing_again(self, farm: Farm) -> None:
        job = farm.submit("1-6", seconds=4)
        farm.wait_until_running(job)

        for _ in range(3):
            farm.kill("postgres")
            time.sleep(4)

        assert_done(farm, job, frames=6, seconds=150)
        assert farm.sql("SELECT count(*) FROM dispatch_attempt WHERE job_id = %s", job) == [(6,)]


class TestTheWebKilled:
    def test_is_asked_again(self, farm: Farm) -> None:
        job = farm.submit("1-8", seconds=2)
        farm.wait_until_running(job)

        farm.kill("web")

        assert_done(farm, job, frames=8, seconds=90)


class TestAWorkerThatSleepsPastItsLease:
    def test_is_overtaken_and_its_late_end_changes_nothing(self, farm: Farm) -> None:
        job = farm.submit("1-2", seconds=5)
        farm.wait_until_running(job)
        (attempt, worker), *_ = farm.started(job)
        pid = farm.agent_of(worker)

        with stopped(farm.family(pid)):
            taken = """
                SELECT 1 FROM dispatch_attempt a JOIN dispatch_attempt b USING (task_id)
                 WHERE a.id = %s AND b.generation > a.generation"""
            farm.wait_for(
                lambda: farm.sql(taken, attempt), seconds=2 * LEASE_S + 30, why="somebody else takes the task"
            )

        assert_done(farm, job, frames=2, seconds=120)
        # It wakes, hears that the task is no longer its own, and stops; or it had an end to tell, which came too late.
        assert farm.sql("SELECT status FROM dispatch_attempt WHERE id = %s", attempt)[0][0] in {"lost", "superseded"}
        facts = farm.sql("SELECT charged_micro FROM billing_usagefact WHERE attempt = %s", attempt)
        assert facts == [(0,)]

    def test_goes_on_when_nobody_has_taken_its_frame(self, farm: Farm) -> None:
        job = farm.submit("1", seconds=8)
        farm.wait_until_running(job)
        (attempt, worker), *_ = farm.started(job)
        pid = farm.agent_of(worker)

        lost = "SELECT 1 FROM dispatch_attempt WHERE id = %s AND status = 'lost'"
        farm.sql("UPDATE fleet_fleet SET is_paused = true")  # no other machine comes for it
        try:
            with stopped(farm.family(pid)):
                farm.wait_for(lambda: farm.sql(lost, attempt), seconds=2 * LEASE_S, why="its lease expires")
            assert_done(farm, job, frames=1, seconds=60)
        finally:
            farm.sql("UPDATE fleet_fleet SET is_paused = false")


class TestMessages:
    def test_doubled_change_nothing(self, farm: Farm) -> None:
        job = farm.submit("1-8", seconds=1)
        stop = threading.Event()

        def double() -> None:
            with farm.broker() as broker:
                while not stop.is_set():
                    for queue in broker.scan_iter("worker.*"):
                        for message in broker.lrange(queue, 0, -1):
                            broker.lpush(queue, message, message)
                    time.sleep(0.002)

        doubling = threading.Thread(target=double)
        doubling.start()
        try:
            assert_done(farm, job, frames=8, seconds=90)
        finally:
            stop.set()
            doubling.join()

    def test_lost_cost_only_time(self, farm: Farm) -> None:
        stop = threading.Event()
        stolen = []

        def steal() -> None:
            with farm.broker() as broker:
                while not stop.is_set():
                    queues = [q for (q,) in farm.sql("SELECT 'worker.' || id FROM fleet_worker WHERE status = 'ready'")]
                    if queues and (taken := broker.brpop(queues, timeout=1)):
                        stolen.append(taken)

        stealing = threading.Thread(target=steal)
        stealing.start()
        try:
            job = farm.submit("1-8", seconds=1)
            assert_done(farm, job, frames=8, seconds=150)
        finally:
            stop.set()
            stealing.join()


class TestACancelledJob:
    def test_leaves_no_process_and_charges_until_it_stopped(self, farm: Farm) -> None:
        job = farm.submit("1-4", seconds=300)
        farm.wait_until_running(job)

        farm.post(f"/api/v1/jobs/{job}/cancel")

        ended = "SELECT count(*) FROM dispatch_attempt WHERE job_id = %s AND status IN ('assigned', 'started')"
        farm.wait_for(lambda: farm.sql(ended, job) == [(0,)], seconds=25, why="its workers stop")
        assert farm.job(job)["status"] == "cancelled"
        sleepers = [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "300"]]
        assert sleepers == []


class TestEverythingAtOnce:
    def test_still_ends_well(self, farm: Farm) -> None:
        job = farm.submit("1-20", seconds=2)
        farm.wait_until_running(job)

        for part in ("valkey", "dispatcher", "web", "postgres", "celery", "beat"):
            farm.kill(part)
            time.sleep(1.5)
        os.kill(farm.agents()[0], signal.SIGKILL)

        assert_done(farm, job, frames=20, seconds=240)

"""What the scaling policy sees of the farm."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from farm.dispatch import outlook, snapshot
from farm.dispatch.outlook import seconds_on
from farm.fleet.models import Fleet, Pool, Worker
from farm.fleet.pools import Market, PoolKey
from farm.fleet.selectors import offers
from farm.fleet.situation import MachineStatus, Snapshot
from farm.fleet.supply import refresh_pools
from farm.jobs.models import Job
from tests.farm import dispatch, local_fleet, open_customer, start_worker, submit

pytestmark = pytest.mark.django_db

L4, H100 = "NVIDIA L4", "NVIDIA H100 80GB HBM3"


def look(now: datetime) -> Snapshot:
    demand, _ = snapshot.demand()
    return outlook.look(list(Fleet.objects.order_by("name")), demand, offers(), now=now)


class TestLook:
    def test_work_that_waits_is_seen_with_its_deadline_and_where_it_may_run(self, now: datetime) -> None:
        fleet = local_fleet()
        job = submit(open_customer(), frames="1-5", now=now)
        Job.objects.filter(pk=job.pk).update(deadline=now + timedelta(hours=3))

        (demand,) = look(now).demand

        assert (demand.ready, demand.deadline, demand.studio) == (5, now + timedelta(hours=3), job.studio_id)
        assert demand.fleets == {fleet.id}
        assert demand.seconds

    def test_a_fleet_for_some_studios_is_no_help_to_others(self, now: datetime) -> None:
        other = open_customer()
        local_fleet(studios=[other.studio.pk])
        submit(open_customer(), frames="1-5", now=now)

        assert look(now).demand == []

    def test_machines_are_seen_with_what_they_do(self, now: datetime) -> None:
        local_fleet()
        worker = start_worker(now=now, slots=2)
        submit(open_customer(), frames="1", now=now)
        dispatch(now=now)

        (machine,) = look(now).fleets[0].machines

        assert (machine.id, machine.status, machine.slots) == (worker.worker.id, MachineStatus.READY, 2)
        assert len(machine.busy) == 1

    def test_what_was_asked_for_counts_as_of_the_pool_that_was_asked(self, now: datetime) -> None:
        fleet = local_fleet()
        launch = fleet.launch_set.create(
            pools=[["one", "zone-a", "spot"]], count=1, spec={}, secret_digest="x", asked_at=now
        )
        Worker.objects.create(fleet=fleet, launch=launch, market="spot", requested_at=now)

        (machine,) = look(now).fleets[0].machines

        assert machine.pool == PoolKey("one", "zone-a", Market.SPOT)
        assert machine.status is MachineStatus.STARTING

    def test_pools_are_seen_with_what_they_took_back_in_a_day(self, now: datetime) -> None:
        fleet = local_fleet()
        refresh_pools(fleet, now=now)
        pool = Pool.objects.get(provider="local")
        for hours, was_taken_back in ((4, True), (6, False), (40, True)):
            Worker.objects.create(
                fleet=fleet, machine_id=f"m-{hours}", instance_type=pool.instance_type, zone=pool.zone,
                market=pool.market, status="gone", requested_at=now - timedelta(hours=hours),
                gone_at=now - timedelta(hours=hours - 2), was_taken_back=was_taken_back,
            )  # fmt: skip

        (seen,) = look(now).fleets[0].pools

        assert (seen.lost, seen.price_micro) == (1, 0)
        assert seen.machine_hours == pytest.approx(4)


class TestSecondsOn:
    def test_measured_where_it_was_measured(self) -> None:
        assert seconds_on([L4, "cpu"], {L4: 2000, "cpu": 9000}) == {L4: 2.0, "cpu": 9.0}

    def test_scaled_where_the_catalogue_knows_both(self) -> None:
        assert seconds_on([H100], {L4: 60_000})[H100] < 60

    def test_like_the_slowest_where_nobody_knows(self) -> None:
        assert seconds_on(["Nobody's GPU"], {L4: 2000, H100: 1000}) == {"Nobody's GPU": 2.0}

    def test_a_guess_where_nothing_was_rendered(self) -> None:
        assert seconds_on(["cpu"], {}) == {"cpu": 300.0}

"""What fleets offer, before and after their first machine came."""

from __future__ import annotations

from datetime import datetime

import pytest

from farm.fleet.models import Fleet, Worker
from farm.fleet.requirements import Requirements
from farm.fleet.selectors import fleets_for, offers, ready_workers
from farm.studios.tenancy import become_tenant
from tests.api import leave_tenant
from tests.farm import open_customer, start_worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def night() -> Fleet:
    promises = {"gpu_model": "NVIDIA L4", "vram_mib": 24_000, "cores": 8, "memory_mib": 32_000}
    return Fleet.objects.create(
        name="night", provider="local", purposes=["render"], settings={"promises": promises, "slots": 2}
    )


class TestOffers:
    def test_before_the_first_machine_the_fleet_s_promises_count(self, night: Fleet) -> None:
        offer = next(o for o in offers() if o.fleet == "night")

        assert (offer.worker_class, offer.purposes) == ("NVIDIA L4", ["render"])
        assert offer.capabilities.amounts["worker.vcpu"] == 4
        assert offer.capabilities.amounts["worker.gpu.memory"] == 24_000

    def test_afterwards_what_the_latest_one_said(self, now: datetime) -> None:
        start_worker(now=now, slots=2, gpu="NVIDIA H100")

        (offer,) = offers()

        assert offer.worker_class == "NVIDIA H100"
        assert offer.capabilities.amounts["worker.memory"] == 16_000

    def test_a_person_s_request_sees_them_too(self, night: Fleet, now: datetime) -> None:
        start_worker(now=now)
        become_tenant(open_customer().studio.id)

        assert [o.fleet for o in offers()] == ["local", "night"]
        leave_tenant()


class TestFleetsFor:
    def test_those_that_could_run_it_and_what_the_others_lack(self, night: Fleet) -> None:
        able, lacking = fleets_for(Requirements({"worker.gpu": 1}), purpose="render")

        assert [o.fleet for o in able] == ["night"]
        assert lacking == {"local": ("worker.gpu", 1)}

    def test_a_fleet_that_does_not_take_such_work_lacks_that(self, night: Fleet) -> None:
        able, lacking = fleets_for(Requirements(), purpose="inspection")

        assert [o.fleet for o in able] == ["local"]
        assert lacking == {"night": ("purpose", "inspection")}


class TestReadyWorkers:
    def test_only_those_that_may_take_work(self, now: datetime) -> None:
        ready, draining = start_worker(now=now).worker, start_worker(now=now).worker
        Worker.objects.filter(pk=draining.pk).update(status="draining")

        assert [w.id for w in ready_workers()] == [ready.id]

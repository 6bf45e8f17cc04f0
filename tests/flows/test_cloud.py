"""
Work meets rented machines: from a job to machines, to frames, and to nothing left that costs.

The farm's own reconcilers against the EC2 fault server; machines are played by who reads their user data.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from farm.dispatch.reconcilers import provide
from farm.fleet import providers
from farm.fleet.audits import audit
from farm.fleet.launches import settle_launches
from farm.fleet.models import Fleet, FleetDecision, Worker
from farm.fleet.services import register
from farm.fleet.supply import refresh_pools
from farm.jobs.models import Job
from tests.cloud.ec2_server import Cloud, Ec2Server, Instance
from tests.farm import Customer, FakeWorker, dispatch, local_fleet, open_customer, submit
from tests.fleet.registering import introduction

pytestmark = pytest.mark.django_db

REGION = "us-east-1"


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    cloud = Cloud()
    server = Ec2Server(cloud)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)
    providers.provider.cache_clear()
    yield cloud
    server.close()


@pytest.fixture
def fleet(cloud: Cloud, now: datetime) -> Fleet:
    local_fleet(max_machines=0)
    fleet = Fleet.objects.create(
        name="night", provider="ec2", region=REGION, purposes=["render"], instance_types=["g6.xlarge"], market="spot",
        max_machines=10, sharing="studio", settings={"image": "ami-0123456789abcdef0"},
    )  # fmt: skip
    refresh_pools(fleet, now=now)
    return fleet


def customer() -> Customer:
    """Open a studio whose project's machines may run in the cloud's region."""
    found = open_customer()
    found.project.machine_regions = [REGION]
    found.project.save(update_fields=["machine_regions"])
    return found


def come_up(instance: Instance, *, now: datetime) -> FakeWorker:
    """Do as the machine's boot script does: register with what its user data holds."""
    script = dict(line.split("=", 1) for line in instance.user_data.splitlines()[1:4])
    secret = script["BOOT_SECRET"].strip("'")
    return FakeWorker(register(introduction(secret, machine_id=instance.id, boot_id=instance.id), now=now).worker, 1)


class TestARentedMachine:
    def test_comes_for_a_job_renders_it_and_goes(self, cloud: Cloud, fleet: Fleet, now: datetime) -> None:
        job = submit(customer(), frames="1-3", now=now)

        provide(now=now)
        workers = [come_up(instance, now=now) for instance in cloud.live()]
        settle_launches(now=now)
        assert dispatch(now=now) == 3
        for worker in workers:
            worker.sync(now=now)
            worker.finish_all(now=now)
        provide(now=now + timedelta(minutes=3))

        assert Job.objects.get(pk=job.pk).status == "succeeded"
        assert (cloud.launched, cloud.live(), cloud.templates) == (3, [], {})
        assert {i.reason for i in cloud.instances.values()} == {"Client.UserInitiatedShutdown"}
        kinds = FleetDecision.objects.filter(fleet=fleet).order_by("id").values_list("kind", flat=True)
        assert list(kinds) == ["launch", "end", "end", "end"]

    def test_that_the_cloud_takes_without_a_word_is_missed_and_replaced(
        self, cloud: Cloud, fleet: Fleet, now: datetime
    ) -> None:
        submit(customer(), frames="1", now=now)
        provide(now=now)
        (instance,) = cloud.live()
        worker = come_up(instance, now=now)
        cloud.end(instance, "Server.SpotInstanceTermination")

        gone = audit("ec2", REGION, now=now + timedelta(minutes=2))
        provide(now=now + timedelta(minutes=2))

        assert gone == [worker.worker.id]
        assert Worker.objects.get(pk=gone[0]).was_taken_back
        assert len(cloud.live()) == 1

    def test_whose_launch_was_never_heard_of_again_is_found_and_used(
        self, cloud: Cloud, fleet: Fleet, now: datetime
    ) -> None:
        submit(customer(), frames="1-2", now=now)
        cloud.lost["CreateFleet"] = 99
        provide(now=now)
        assert (len(cloud.live()), Worker.objects.filter(status="requested").count()) == (2, 2)

        audit("ec2", REGION, now=now + timedelta(minutes=2))
        provide(now=now + timedelta(minutes=2))

        assert sorted(Worker.objects.values_list("machine_id", flat=True)) == sorted(cloud.instances)
        assert cloud.launched == 2

    def test_of_a_sold_out_region_is_not_asked_for_again_and_again(
        self, cloud: Cloud, fleet: Fleet, now: datetime
    ) -> None:
        submit(customer(), frames="1-2", now=now)
        cloud.quotas = {"L-3819A6DF": 0.0}

        for seconds in range(0, 60, 5):
            provide(now=now + timedelta(seconds=seconds))

        assert cloud.calls["CreateFleet"] == 1
        refused = FleetDecision.objects.get(fleet=fleet, kind="refused")
        assert (refused.reason, refused.params["count"]) == ("quota-exceeded", 2)
        assert "servicequotas" in refused.params["sentence"]

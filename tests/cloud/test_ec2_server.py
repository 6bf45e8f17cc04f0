"""
What the fault server and moto share: one launch from template to end, by the farm's own provider, against both.

moto never fails, ignores client tokens, knows no pools and has a code of its own for a template that is not there; so
what is tested of these is tested against ours alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import httpx
import pytest
from moto.server import ThreadedMotoServer

from farm.fleet.pools import Market, PoolKey
from farm.fleet.providers import FleetSpec, LaunchRequest
from farm.fleet.providers.ec2 import Ec2Provider
from tests.cloud.ec2_server import Cloud, Ec2Server, Refused, read_query

REGION = "us-east-1"
FARM, LAUNCH = UUID(int=1), UUID(int=2)
IMAGE = "ami-12c6146b"  # one that moto knows


@pytest.fixture(params=["ours", "moto"])
def ec2(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ec2Provider]:
    ours = Ec2Server(Cloud())
    for name, value in ours.environment.items():
        monkeypatch.setenv(name, value)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    if request.param == "moto":
        moto.start()
        address = "http://{}:{}".format(*moto.get_host_and_port())
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        httpx.post(f"{address}/moto-api/reset").raise_for_status()  # it remembers between servers
    yield Ec2Provider(REGION)
    if request.param == "moto":
        moto.stop()
    ours.close()


def request_for(market: Market, count: int = 2) -> LaunchRequest:
    spec = FleetSpec(
        "night", REGION, instance_types=["g6.xlarge"], markets=(market,), settings={"image": IMAGE, "disk_gib": 120}
    )
    pools = [PoolKey("g6.xlarge", f"{REGION}a", market)]
    return LaunchRequest(LAUNCH, spec, pools, count, "the secret", FARM, "https://farm.example", 86_400)


class TestBoth:
    @pytest.mark.parametrize("market", list(Market))
    def test_a_launch_from_template_to_end(self, ec2: Ec2Provider, market: Market) -> None:
        assert ec2.machines(FARM) == []

        answer = ec2.launch(request_for(market))
        found = ec2.machines(FARM)

        assert len({m.id for m in answer.machines}) == 2
        assert {m.id for m in found} == {m.id for m in answer.machines}
        assert {(m.launch, m.pool.instance_type, m.pool.market, m.is_running) for m in found} == {
            (str(LAUNCH), "g6.xlarge", market, True)
        }
        assert ec2.machines(UUID(int=99)) == []

        ec2.terminate([found[0].id])
        assert [m.id for m in ec2.machines(FARM)] == [found[1].id]
        ec2.terminate([m.id for m in found])
        assert ec2.machines(FARM) == []
        ec2.forget([LAUNCH])

    def test_a_template_that_is_there_already_is_the_launch_s_own(self, ec2: Ec2Provider) -> None:
        ec2.launch(request_for(Market.SPOT, 1))

        assert len(ec2.launch(request_for(Market.SPOT, 1)).machines) == 1

    def test_a_machine_that_never_was_does_not_save_the_others(self, ec2: Ec2Provider) -> None:
        machines = ec2.launch(request_for(Market.SPOT)).machines

        ec2.terminate(["i-0123456789abcdef0", *(m.id for m in machines)])

        assert ec2.machines(FARM) == []

    def test_what_is_sold_where(self, ec2: Ec2Provider) -> None:
        spec = FleetSpec("night", REGION, instance_types=["g6.xlarge"], markets=(Market.SPOT, Market.ON_DEMAND))

        offers = ec2.offers(spec)

        assert {offer.pool.market for offer in offers} == set(Market)
        assert {o.pool.zone[:-1] for o in offers} == {REGION}
        assert {offer.gpu for offer in offers} == {"NVIDIA L4"}


class TestCloud:
    def test_a_bucket_of_a_thousand_refills_by_two_a_second(self) -> None:
        moment = [0.0]
        cloud = Cloud(clock=lambda: moment[0])
        cloud.templates[REGION, "t"] = {}

        def ask(count: int) -> int:
            override = {"InstanceType": "g6.xlarge", "AvailabilityZone": f"{REGION}a"}
            config = {"LaunchTemplateSpecification": {"LaunchTemplateName": "t"}, "Overrides": [override]}
            capacity = {"TotalTargetCapacity": str(count), "DefaultTargetCapacityType": "spot"}
            try:
                cloud.answer(
                    REGION, "CreateFleet", {"LaunchTemplateConfigs": [config], "TargetCapacitySpecification": capacity}
                )
            except Refused:
                return 0
            return count

        assert [ask(600), ask(600), ask(400), ask(1)] == [600, 0, 400, 0]
        moment[0] = 50.0
        assert [ask(101), ask(100)] == [0, 100]

    def test_each_kind_of_call_has_a_bucket_of_its_own(self) -> None:
        cloud = Cloud(clock=lambda: 0.0)
        for _ in range(100):
            cloud.answer(REGION, "DescribeInstances", {})

        with pytest.raises(Refused):
            cloud.answer(REGION, "DescribeInstances", {})
        assert cloud.answer("eu-west-1", "DescribeInstances", {}) == {"reservationSet": []}


class TestReadQuery:
    def test_numbered_parameters_are_lists(self) -> None:
        assert read_query("A=1&F.1.Name=x&F.1.Value.1=a&F.1.Value.2=b&F.10.Name=z&F.2.Name=y") == {
            "A": "1",
            "F": [{"Name": "x", "Value": ["a", "b"]}, {"Name": "y"}, {"Name": "z"}],
        }

"""EC2 as the farm asks it: against a server with EC2's limits and faults, through boto3 and HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from farm.core.errors import Invalid
from farm.fleet.pools import Market, PoolKey
from farm.fleet.providers import (
    AnswerLost,
    FleetSpec,
    InsufficientCapacity,
    LaunchRequest,
    NotToBeRepeated,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Unauthorized,
)
from farm.fleet.providers.ec2 import Ec2Provider
from farm.fleet.providers.ec2_template import template_of, user_data
from tests.cloud.ec2_server import Cloud, Ec2Server

REGION = "us-east-1"
FARM = UUID(int=1)
A, B = (PoolKey("g6.xlarge", f"{REGION}{zone}", Market.SPOT) for zone in "ab")
DEMAND = PoolKey("g6.xlarge", f"{REGION}a", Market.ON_DEMAND)
SPEC = FleetSpec(
    "night", REGION, instance_types=["g6.xlarge"], markets=(Market.SPOT,), settings={"image": "ami-0123456789abcdef0"}
)


def pool(key: PoolKey) -> tuple[str, str, str]:
    return key.instance_type, key.zone, str(key.market)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    cloud = Cloud()
    server = Ec2Server(cloud)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)  # its retries need not wait here
    yield cloud
    server.close()


@pytest.fixture
def ec2(cloud: Cloud) -> Ec2Provider:
    return Ec2Provider(REGION)


def request_for(count: int = 2, launch: int = 7, **changes: Any) -> LaunchRequest:
    request = LaunchRequest(
        launch=UUID(int=launch), fleet=SPEC, pools=(A, B), count=count, secret="the secret", farm=FARM,
        farm_url="https://farm.example", max_life_s=86_400,
    )  # fmt: skip
    return replace(request, **changes)


class TestLaunch:
    def test_machines_come_with_their_pools_and_our_names_on_them(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        answer = ec2.launch(request_for(3))

        assert len(answer.machines) == 3
        assert answer.refusals == []
        assert {m.launch for m in answer.machines} == {str(UUID(int=7))}
        assert {m.pool for m in answer.machines} <= {A, B}
        (tags,) = {tuple(sorted(i.tags.items())) for i in cloud.live()}
        assert dict(tags) == {
            "Name": "farmhand night",
            "farmhand:farm": str(FARM),
            "farmhand:fleet": "night",
            "farmhand:launch": str(UUID(int=7)),
        }

    def test_machines_of_one_studio_alone_say_so(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        ec2.launch(request_for(1, studio=UUID(int=9)))

        assert cloud.live()[0].tags["farmhand:studio"] == str(UUID(int=9))

    def test_the_cheapest_deep_pool_is_taken(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        cloud.prices = {pool(A): 0.4, pool(B): 0.2}

        assert {m.pool for m in ec2.launch(request_for(5)).machines} == {B}

    def test_asked_twice_they_come_once(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        first = ec2.launch(request_for(3))
        second = ec2.launch(request_for(3, secret=""))

        assert first == second
        assert cloud.launched == 3

    def test_more_than_one_call_takes_are_asked_for_in_parts(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        answer = ec2.launch(request_for(700))

        assert len({m.id for m in answer.machines}) == 700
        assert cloud.calls["CreateFleet"] == 2
        assert len(ec2.launch(request_for(700, secret="")).machines) == 700
        assert cloud.launched == 700

    def test_what_came_is_kept_beside_what_was_refused(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        cloud.capacity = {pool(A): 2, pool(B): 1}

        answer = ec2.launch(request_for(9))

        assert len(answer.machines) == 3
        assert {r.pool for r in answer.refusals} == {A, B}
        assert {type(r.error) for r in answer.refusals} == {InsufficientCapacity}

    def test_no_machine_at_all_is_an_answer_too(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        cloud.capacity = {pool(A): 0, pool(B): 0}

        answer = ec2.launch(request_for(9))

        assert answer.machines == []
        assert "InsufficientInstanceCapacity" in answer.refusals[0].error.sentence

    def test_subnets_are_named_where_the_fleet_has_them(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        subnets = {f"{REGION}a": f"subnet-{REGION}a"}
        spec = replace(SPEC, settings=dict(SPEC.settings) | {"subnets": subnets})
        cloud.capacity = {pool(A): 1}

        answer = ec2.launch(request_for(2, fleet=spec, pools=(A,)))

        assert [m.pool for m in answer.machines] == [A]
        assert [r.pool for r in answer.refusals] == [A]

    def test_a_spot_machine_never_costs_more_than_the_cap(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        cloud.prices = {pool(A): 0.26, pool(B): 0.24}

        answer = ec2.launch(request_for(2, fleet=replace(SPEC, price_cap_micro=250_000), pools=(A, B)))

        assert {m.pool for m in answer.machines} == {B}

    def test_on_demand_is_asked_for_as_such(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        answer = ec2.launch(request_for(1, pools=(DEMAND,)))

        assert answer.machines[0].pool == DEMAND
        assert cloud.live()[0].lifecycle == "on-demand"


class TestRefusals:
    def test_a_quota_says_which_how_much_is_needed_and_where_to_raise_it(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        cloud.quotas = {"L-3819A6DF": 0.0}

        answer = ec2.launch(request_for(8))

        error = answer.refusals[0].error
        assert isinstance(error, QuotaExceeded)
        assert error.params["quota"].startswith("All G and VT Spot Instance Requests (L-3819A6DF")
        assert (error.params["limit"], error.params["needed"]) == ("0 vCPUs", "32 more")
        assert "us-east-1.console.aws.amazon.com" in error.params["where"]

    def test_a_quota_that_may_not_be_asked_is_one_all_the_same(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        cloud.quotas = {"L-DB2E81BA": 0.0}
        cloud.forbidden = {"GetServiceQuota"}

        error = ec2.launch(request_for(2, pools=(DEMAND,))).refusals[0].error

        assert isinstance(error, QuotaExceeded)
        assert "VcpuLimitExceeded" in error.sentence

    def test_a_throttle_says_how_long_to_wait_after_a_few_tries_of_its_own(
        self, cloud: Cloud, ec2: Ec2Provider
    ) -> None:
        cloud.throttled["CreateFleet"] = 99

        with pytest.raises(Throttled) as refused:
            ec2.launch(request_for())

        assert refused.value.params["retry_after"] == 5
        assert cloud.calls["CreateFleet"] == 2
        assert cloud.launched == 0

    def test_a_passing_throttle_is_nobody_s_business(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        cloud.throttled["CreateFleet"] = 1

        assert len(ec2.launch(request_for()).machines) == 2

    def test_an_empty_bucket_of_instances_throttles(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        moment = [0.0]
        cloud.clock = lambda: moment[0]
        ec2.launch(request_for(1000))

        with pytest.raises(Throttled):
            ec2.launch(request_for(10, launch=8))
        moment[0] = 5.0
        assert len(ec2.launch(request_for(10, launch=9)).machines) == 10

    def test_without_the_right_it_says_so(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        cloud.forbidden = {"CreateFleet"}

        with pytest.raises(Unauthorized, match="not authorized"):
            ec2.launch(request_for())

    def test_without_credentials_too(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

        with pytest.raises(Unauthorized):
            Ec2Provider(REGION).machines(FARM)

    def test_nobody_there_is_a_lost_answer(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

        with pytest.raises(AnswerLost):
            Ec2Provider(REGION).launch(request_for())

    def test_anything_else_is_told_as_it_is(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        ec2.launch(request_for(2))

        with pytest.raises(ProviderError, match="IdempotentParameterMismatch"):
            ec2.launch(request_for(3))


class TestLostAnswers:
    @pytest.mark.parametrize("how", ["lost", "broken"])
    def test_a_few_are_asked_for_again_at_once_and_nothing_starts_twice(
        self, cloud: Cloud, ec2: Ec2Provider, how: str
    ) -> None:
        getattr(cloud, how).update({"CreateFleet": 1, "CreateLaunchTemplate": 1})

        assert len(ec2.launch(request_for(3)).machines) == 3

        assert cloud.launched == 3

    @pytest.mark.parametrize("how", ["lost", "broken"])
    def test_many_are_the_farm_s_to_ask_again_for_without_the_secret(
        self, cloud: Cloud, ec2: Ec2Provider, how: str
    ) -> None:
        getattr(cloud, how)["CreateFleet"] = 2

        with pytest.raises(AnswerLost):
            ec2.launch(request_for(3))
        assert cloud.launched == 3

        assert {m.id for m in ec2.launch(request_for(3, secret="")).machines} == {i.id for i in cloud.live()}
        assert cloud.launched == 3

    def test_of_a_second_part_it_is_the_whole_that_is_asked_for_again(
        self, cloud: Cloud, ec2: Ec2Provider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("farm.fleet.providers.ec2.CALL_MACHINES", 2)
        ask = ec2._create_fleet

        def lose_the_second(request: LaunchRequest, part: int, count: int) -> Any:
            cloud.lost["CreateFleet"] = 2 if part == 1 else 0
            return ask(request, part, count)

        with monkeypatch.context() as broken:
            broken.setattr(ec2, "_create_fleet", lose_the_second)
            with pytest.raises(AnswerLost):
                ec2.launch(request_for(4))

        assert len(ec2.launch(request_for(4, secret="")).machines) == 4
        assert cloud.launched == 4

    def test_what_was_never_asked_cannot_be_repeated(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        with pytest.raises(NotToBeRepeated):
            ec2.launch(request_for(secret=""))


class TestForget:
    def test_the_secret_is_gone_from_the_account_and_twice_is_no_error(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        ec2.launch(request_for())
        assert len(cloud.templates) == 1

        for _ in range(2):
            ec2.forget([UUID(int=7)])

        assert cloud.templates == {}


class TestMachines:
    def test_they_are_the_farm_s_own_that_exist(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        mine = ec2.launch(request_for(3)).machines
        ec2.launch(request_for(2, launch=8, farm=UUID(int=2)))
        cloud.end(cloud.instances[mine[0].id], "Server.SpotInstanceTermination")

        assert sorted(m.id for m in ec2.machines(FARM)) == sorted(m.id for m in mine[1:])
        assert {(m.launch, m.is_running) for m in ec2.machines(FARM)} == {(str(UUID(int=7)), True)}

    def test_all_pages_are_read(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        ec2.launch(request_for(900))

        assert len(ec2.machines(FARM)) == 900
        assert cloud.calls["DescribeInstances"] == 2

    def test_other_regions_are_others(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        ec2.launch(request_for(1))

        assert Ec2Provider("eu-west-1").machines(FARM) == []


class TestTerminate:
    def test_many_go_in_batches(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        ids = [m.id for m in ec2.launch(request_for(900)).machines]

        ec2.terminate(ids)

        assert cloud.live() == []
        assert cloud.calls["TerminateInstances"] == 2

    def test_one_that_is_forgotten_does_not_save_the_others(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        ids = [m.id for m in ec2.launch(request_for(3)).machines]

        ec2.terminate(["i-0000000000000dead", *ids, "i-00000000000000bad"])
        ec2.terminate(ids)

        assert cloud.live() == []


class TestOffers:
    def test_each_type_in_each_zone_that_sells_it(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        spec = replace(SPEC, instance_types=[], gpu_models=["NVIDIA L4"], zones=[f"{REGION}b"])

        offers = {offer.pool: offer for offer in ec2.offers(spec)}

        assert {key.zone for key in offers} == {f"{REGION}b"}
        assert {"g6.xlarge", "g6.12xlarge", "gr6.4xlarge"} <= {key.instance_type for key in offers}
        big = offers[PoolKey("g6.12xlarge", f"{REGION}b", Market.SPOT)]
        assert (big.gpu, big.slots, big.vcpus, big.vram_mib) == ("NVIDIA L4", 4, 48, 22_888)
        assert big.on_demand_micro == 4_601_600


class TestPrices:
    def test_spot_prices_are_asked_and_others_are_the_catalogue_s(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        cloud.prices = {pool(A): 0.3141}

        assert ec2.prices([A, B, DEMAND]) == {A: 314_100, B: 300_000, DEMAND: 804_800}

    def test_a_price_that_nobody_knows_is_none(self, cloud: Cloud, ec2: Ec2Provider) -> None:
        unknown = PoolKey("g7e.2xlarge", f"{REGION}a", Market.ON_DEMAND)

        assert ec2.prices([unknown]) == {}


class TestCheck:
    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"settings": {}}, "settings.image"),
            ({"settings": {"image": "ami-1", "colour": 1}}, "settings.colour"),
            ({"settings": {"image": "ami-1", "disk_gib": "big"}}, "settings.disk_gib"),
            ({"settings": {"image": "ami-1", "disk_gib": 10, "cache_gib": 20}}, "settings.disk_gib"),
            ({"settings": {"image": "ami-1", "agent": {"a; rm": "x"}}}, "settings.agent"),
            ({"instance_types": ["g6.huge"]}, "instance_types"),
            ({"instance_types": [], "gpu_models": ["AMD Radeon RX 7900 XTX"]}, "gpu_models"),
        ],
    )
    def test_what_is_missing_or_makes_no_sense_is_named(
        self, ec2: Ec2Provider, change: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(Invalid) as refused:
            ec2.check(replace(SPEC, **change))

        assert refused.value.field == field

    def test_a_fleet_that_says_enough_is_fine(self, ec2: Ec2Provider) -> None:
        ec2.check(SPEC)


class TestTemplate:
    def test_the_machine_is_closed_encrypted_and_ends_for_good(self) -> None:
        template = template_of(request_for())

        assert template["MetadataOptions"] == {
            "HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 1
        }  # fmt: skip
        assert template["InstanceInitiatedShutdownBehavior"] == "terminate"
        assert all(d["Ebs"]["Encrypted"] and d["Ebs"]["DeleteOnTermination"] for d in template["BlockDeviceMappings"])
        assert template.keys().isdisjoint({"KeyName", "IamInstanceProfile"})
        assert {spec["ResourceType"] for spec in template["TagSpecifications"]} == {"instance", "volume"}

    def test_the_first_lines_of_user_data_are_its_values_quoted(self) -> None:
        odd = "it's $(odd)"
        spec = replace(SPEC, settings=dict(SPEC.settings) | {"agent": {"BLENDER": odd}})

        lines = user_data(request_for(fleet=spec)).decode().splitlines()

        assert lines[:5] == [
            "#!/bin/sh",
            "FARM_URL=https://farm.example",
            "BOOT_SECRET='the secret'",
            "BOOT_TIMEOUT_S=900",
            "MAX_LIFE_S=86400",
        ]
        assert """FARMHAND_BLENDER='it'"'"'s $(odd)'""" in lines

    def test_one_that_is_too_long_is_refused(self) -> None:
        spec = replace(SPEC, settings=dict(SPEC.settings) | {"agent": {"BLENDER": "x" * 17_000}})

        with pytest.raises(Invalid):
            user_data(request_for(fleet=spec))


def test_the_farm_waits_no_longer_for_an_answer_than_a_reconciler_may_take(
    cloud: Cloud, ec2: Ec2Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://10.255.255.1")  # nobody answers there

    with pytest.raises(AnswerLost):
        Ec2Provider(REGION).machines(FARM)

    assert time.monotonic() - began < 15

"""What wranglers see of fleets, and what only operators may change."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext

from farm.fleet import providers
from farm.fleet.launches import Wish, launch
from farm.fleet.models import Farm, Fleet, FleetDecision, Worker
from farm.fleet.selectors import the_farm
from farm.fleet.supply import refresh_pools
from farm.studios.models import AuditRow, User
from tests.api import Api
from tests.farm import Customer, dispatch, open_customer, start_worker, submit
from tests.fleet.shop import DOLLAR, Shop

pytestmark = pytest.mark.django_db

ORDER: dict[str, Any] = {
    "name": "night", "provider": "ec2", "region": "us-east-1", "purposes": ["render"], "gpu_models": ["NVIDIA L4"],
    "market": "spot", "max_machines": 20, "sharing": "studio", "settings": {"image": "ami-1"},
    "software": {"blender": ["5.0.1"]},
}  # fmt: skip


@pytest.fixture
def customer() -> Customer:
    return open_customer()


@pytest.fixture
def wrangler(customer: Customer) -> Api:
    return Api(customer)


@pytest.fixture
def operator() -> Api:
    customer = open_customer()
    User.objects.filter(pk=customer.user.pk).update(is_operator=True)
    return Api(customer)


def acts() -> list[str]:
    ours = Q(act__startswith="fleet.") | Q(act__startswith="farm.") | Q(act__startswith="worker.")
    return list(AuditRow.objects.filter(ours).order_by("id").values_list("act", flat=True))


class TestFleets:
    def test_a_wrangler_sees_what_runs_boots_and_drains_and_whose_it_is(
        self, wrangler: Api, customer: Customer, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        launch(fleet, Wish(2), now=now)
        mine, theirs, _, leaving = (start_worker(now=now, fleet_row=fleet).worker for _ in range(4))
        Worker.objects.filter(pk=mine.pk).update(studio=customer.studio)
        Worker.objects.filter(pk=theirs.pk).update(studio=open_customer().studio)
        Worker.objects.filter(pk=leaving.pk).update(status="draining")

        (shown,) = wrangler.get("fleets?name=SPOT").body["results"]

        assert shown["machines"] == {"starting": 2, "ready": 3, "draining": 1, "own": 1, "others": 1, "nobody": 2}
        assert (shown["market"], shown["gpu_models"], shown["may_use"]) == ("spot", ["NVIDIA L4"], True)
        assert (shown["settings"], shown["studios"], shown["micro_per_hour"]) == (None, None, None)

    def test_an_operator_sees_the_rest(self, operator: Api, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(2), now=now)

        shown = operator.get(f"fleets/{fleet.id}").body

        assert (shown["micro_per_hour"], shown["settings"], shown["studios"]) == (2 * DOLLAR, {}, [])

    def test_many_cost_no_more_questions_than_one(self, operator: Api, fleet: Fleet) -> None:
        operator.get("fleets")  # whatever is asked once
        with CaptureQueriesContext(connection) as one:
            operator.get("fleets")
        for number in range(5):
            Fleet.objects.create(name=f"More {number}", provider="local", purposes=["render"])

        with CaptureQueriesContext(connection) as many:
            assert len(operator.get("fleets").body["results"]) >= 6

        assert len(many) == len(one)

    def test_a_fleet_of_others_says_so(self, wrangler: Api, fleet: Fleet) -> None:
        Fleet.objects.filter(pk=fleet.pk).update(studios=[open_customer().studio.id])

        assert wrangler.get(f"fleets/{fleet.id}").body["may_use"] is False


class TestOrders:
    def test_an_operator_makes_one_and_it_is_audited(self, operator: Api) -> None:
        answer = operator.post("fleets", ORDER)

        assert answer.status == 201
        fleet = Fleet.objects.get(name="night")
        assert (answer.body["id"], fleet.max_machines, fleet.settings) == (str(fleet.id), 20, {"image": "ami-1"})
        assert acts() == ["fleet.created"]
        assert "ami-1" not in str(AuditRow.objects.values("params"))

    def test_nobody_else_does(self, wrangler: Api, fleet: Fleet) -> None:
        asked = [
            wrangler.post("fleets", ORDER),
            wrangler("PATCH", f"fleets/{fleet.id}", {"max_machines": 5}),
            wrangler.post(f"fleets/{fleet.id}/pause"),
            wrangler("PATCH", "farm", {"max_machines": 5}),
            wrangler.post("farm/pause"),
        ]

        assert {(answer.status, answer.code) for answer in asked} == {(403, "operators-only")}
        assert (Fleet.objects.count(), acts()) == (2, [])

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"settings": {}}, "settings.image"),
            ({"gpu_models": [], "instance_types": ["g6.huge"]}, "instance_types"),
            ({"market": "futures"}, "market"),
            ({"min_machines": 30}, "min_machines"),
            ({"studios": ["00000000-0000-0000-0000-000000000001"]}, "studios"),
            ({"colour": "red"}, "colour"),
        ],
    )
    def test_what_makes_no_sense_is_named(self, operator: Api, change: dict[str, Any], field: str) -> None:
        answer = operator.post("fleets", ORDER | change)

        assert answer.status == 422
        assert [f for f, _ in answer.fields] == [field]

    def test_a_name_is_given_once(self, operator: Api) -> None:
        operator.post("fleets", ORDER)

        assert operator.post("fleets", ORDER).code == "fleet-name-taken"

    def test_it_can_be_changed_but_not_moved_under_its_machines(
        self, operator: Api, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        launch(fleet, Wish(1), now=now)

        assert operator("PATCH", f"fleets/{fleet.id}", {"max_machines": 3}).body["max_machines"] == 3
        moved = operator("PATCH", f"fleets/{fleet.id}", {"region": "elsewhere"})

        assert (moved.status, moved.code) == (409, "fleet-has-machines")
        assert operator("PATCH", "fleets/00000000-0000-0000-0000-000000000001", {}).status == 404

    def test_paused_it_launches_nothing_until_it_is_resumed(self, operator: Api, fleet: Fleet) -> None:
        assert operator.post(f"fleets/{fleet.id}/pause").body["is_paused"] is True
        assert operator.post(f"fleets/{fleet.id}/resume").body["is_paused"] is False
        assert acts() == ["fleet.changed", "fleet.changed"]


class TestDecisions:
    def test_they_come_with_reasons_numbers_and_a_sentence(
        self, wrangler: Api, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        shop.stock = dict.fromkeys(shop.asks, 0)
        launch(fleet, Wish(4), now=now)

        refused, asked = wrangler.get(f"decisions?fleet={fleet.id}").body["results"]

        assert (asked["kind"], asked["reason"], asked["params"]["count"]) == ("launch", "work-ready", 4)
        assert asked["sentence"] == "4 machines asked for (work-ready), 4 were wished for."
        assert refused["sentence"].startswith("4 of 4 machines did not come: shop has no capacity")

    def test_they_are_found_by_kind_fleet_and_worker(self, wrangler: Api, fleet: Fleet, now: datetime) -> None:
        worker = start_worker(now=now).worker
        FleetDecision.objects.create(fleet=fleet, kind="alarm", reason="limit-machines")
        FleetDecision.objects.create(fleet=worker.fleet, kind="end", reason="idle", worker_id=worker.id)

        def found(query: str) -> list[str]:
            return [row["kind"] for row in wrangler.get(f"decisions?{query}").body["results"]]

        assert found("kind=alarm,launch") == ["alarm"]
        assert found(f"worker={worker.id}") == ["end"]
        assert wrangler.get("decisions?kind=whim").code == "invalid"


class TestWorkers:
    def test_each_has_its_gpu_what_it_does_and_its_faults_but_not_whose_work(
        self, wrangler: Api, now: datetime
    ) -> None:
        stranger = open_customer()
        worker = start_worker(now=now, gpu="NVIDIA L4")
        submit(stranger, frames="1", now=now)
        assert dispatch(now=now) == 1
        gauge = {"index": 0, "step": str(stranger.project.id), "gpu_use": 0.9, "gpu_memory_mib": 8_000, "power_w": 70.5}
        Worker.objects.filter(pk=worker.worker.pk).update(
            slot_use=[gauge], studio=stranger.studio, quarantined_at=now, cause="too much fails on it"
        )

        answer = wrangler.get(f"workers/{worker.worker.id}")

        shown = answer.body
        assert (shown["gpu_model"], shown["vram_mib"], shown["slots"], shown["whose"]) == (
            "NVIDIA L4",
            24_000,
            1,
            "others",
        )
        assert shown["gauges"] == [{"index": 0, "gpu_use": 0.9, "gpu_memory_mib": 8_000, "power_w": 70.5}]
        assert (shown["cause"], shown["quarantined_at"] is not None) == ("too much fails on it", True)
        assert str(stranger.studio.id) not in str(shown)
        assert str(stranger.project.id) not in str(shown)

    def test_one_s_own_are_marked(self, wrangler: Api, customer: Customer, now: datetime) -> None:
        mine, free = start_worker(now=now).worker, start_worker(now=now).worker
        Worker.objects.filter(pk=mine.pk).update(studio=customer.studio)

        whose = {row["id"]: row["whose"] for row in wrangler.get("workers?status=ready").body["results"]}

        assert whose == {str(mine.id): "own", str(free.id): "nobody"}

    def test_an_operator_drains_one(self, operator: Api, wrangler: Api, now: datetime) -> None:
        worker = start_worker(now=now).worker

        assert wrangler.post(f"workers/{worker.id}/drain").code == "operators-only"
        assert operator.post(f"workers/{worker.id}/drain").body["status"] == "draining"
        assert operator.post("workers/00000000-0000-0000-0000-000000000001/drain").status == 404
        assert acts() == ["worker.drained"]


class TestPools:
    def test_prices_and_refusals_are_shown(self, wrangler: Api, shop: Shop, fleet: Fleet, now: datetime) -> None:
        refresh_pools(fleet, now=now)
        shop.stock = dict.fromkeys(shop.asks, 0)
        launch(fleet, Wish(1), now=now)

        rows = wrangler.get("pools?region=here").body["results"]

        assert [(r["zone"], r["price_micro"], r["refusal"]) for r in rows] == [
            ("zone-a", DOLLAR, "insufficient-capacity"),
            ("zone-b", DOLLAR, "insufficient-capacity"),
        ]
        assert rows[0]["refused_until"] == (now + timedelta(minutes=2)).isoformat().replace("+00:00", "Z")


class TestFarm:
    def test_limits_are_an_operator_s_to_see_and_to_set(self, operator: Api, wrangler: Api) -> None:
        the_farm()
        answer = operator("PATCH", "farm", {"max_machines": 7, "max_micro_per_day": None})

        assert answer.body["limits"]["max_machines"] == 7
        assert answer.body["limits"]["max_micro_per_day"] is None
        assert answer.body["standing"] == {
            "machines": 0, "launches_per_hour": 0, "micro_per_hour": 0, "micro_per_day": 0
        }  # fmt: skip
        assert wrangler.get("farm").body == {"is_paused": False, "limits": None, "standing": None, "reached": None}
        assert acts() == ["farm.limits-set"]

    def test_it_is_paused_and_resumed_once(self, operator: Api, wrangler: Api) -> None:
        for _ in range(2):
            assert operator.post("farm/pause").body["is_paused"] is True
        assert wrangler.get("farm").body["is_paused"] is True
        assert Farm.objects.get().is_paused
        assert operator.post("farm/resume").body["is_paused"] is False
        assert acts() == ["farm.paused", "farm.resumed"]


class TestCatalogue:
    def test_it_is_whole_and_names_its_sources(self, wrangler: Api) -> None:
        told = wrangler.get("catalogue").body

        l4 = next(gpu for gpu in told["gpus"] if gpu["model"] == "NVIDIA L4")
        kind = next(t for t in told["instance_types"] if t["name"] == "g6.xlarge")
        assert (l4["speed"], kind["on_demand_micro"]["us-east-1"]) == (1.0, 804_800)
        assert len(told["sources"]) == 3


@pytest.fixture(autouse=True)
def _providers_anew() -> None:
    providers.provider.cache_clear()

"""What happens to workers, and what is written down of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from farm.fleet import services
from farm.fleet.launches import Wish, launch, settle_launches
from farm.fleet.models import Fleet, FleetDecision, Worker
from farm.fleet.moves import WorkerStatus
from farm.fleet.providers import AnswerLost, ProviderError, provider
from farm.fleet.selectors import offers
from tests.farm import dispatch, open_customer, start_worker, submit
from tests.fleet.registering import introduction
from tests.fleet.shop import Shop
from workers import protocol

pytestmark = pytest.mark.django_db


def decisions() -> list[tuple[str, str]]:
    return list(FleetDecision.objects.order_by("id").values_list("kind", "reason"))


def secret_of(shop: Shop) -> str:
    return shop.asked[-1].secret


def sync(state: protocol.WorkerState = protocol.WorkerState.READY, reason: str = "") -> protocol.SyncRequest:
    return protocol.SyncRequest(state=state, reason=reason, free_disk_mib=1, scene_versions=[], slots=[], attempts=[])


class TestRegister:
    @pytest.fixture
    def worker(self, shop: Shop, fleet: Fleet, now: datetime) -> Worker:
        launch(fleet, Wish(1), now=now)
        return Worker.objects.get()

    def test_a_machine_is_ready_with_what_it_says_it_has(self, shop: Shop, worker: Worker, now: datetime) -> None:
        entered = services.register(introduction(secret_of(shop)), now=now)

        worker.refresh_from_db()
        assert (worker.status, worker.worker_class, worker.cores) == (WorkerStatus.READY, "NVIDIA L4", 8)
        assert (worker.registered_at, worker.idle_since) == (now, now)
        assert services.worker_by_token(entered.token) == worker
        assert entered.token not in str(Worker.objects.values().get())

    def test_its_secret_and_its_token_are_not_each_other(self, shop: Shop, worker: Worker, now: datetime) -> None:
        secret = secret_of(shop)
        entered = services.register(introduction(secret), now=now)

        assert services.worker_by_token(secret) is None
        with pytest.raises(services.UnknownSecret):
            services.register(introduction(entered.token), now=now)

    @pytest.mark.parametrize("secret", ["", "wrong", "x" * 10_000])
    def test_an_unknown_secret_is_refused(self, worker: Worker, now: datetime, secret: str) -> None:
        with pytest.raises(services.UnknownSecret):
            services.register(introduction(secret), now=now)

        worker.refresh_from_db()
        assert worker.status == WorkerStatus.BOOTING

    def test_one_that_was_given_up_is_refused(self, shop: Shop, fleet: Fleet, worker: Worker, now: datetime) -> None:
        secret = secret_of(shop)
        services.end_workers(fleet, [worker.id], reason="it never registered", now=now)

        with pytest.raises(services.UnknownSecret):
            services.register(introduction(secret), now=now)

    @pytest.mark.parametrize(
        ("change", "refusal"),
        [
            ({"protocol": protocol.PROTOCOL + 1}, services.ProtocolTooOld),
            ({"protocol": protocol.PROTOCOL - 2}, services.ProtocolTooOld),
            ({"slots": []}, services.NoSlots),
            ({"slots": [protocol.SlotSpec(index=1, gpu_model="", vram_mib=0)]}, services.NoSlots),
        ],
    )
    def test_one_that_cannot_be_worked_with_is_refused(
        self, shop: Shop, worker: Worker, now: datetime, change: dict[str, Any], refusal: type[Exception]
    ) -> None:
        with pytest.raises(refusal):
            services.register(introduction(secret_of(shop), **change), now=now)

    def test_the_fleet_offers_what_its_machines_have(
        self, shop: Shop, fleet: Fleet, worker: Worker, now: datetime
    ) -> None:
        Fleet.objects.filter(pk=fleet.pk).update(software={"blender": ["3.6.0"]})
        services.register(introduction(secret_of(shop)), now=now)
        launch(fleet, Wish(1), now=now)
        software = {"blender": ["4.10.0", "4.9.1"], "krita": ["5"]}

        services.register(introduction(secret_of(shop), machine_id="i-2", software=software), now=now)

        fleet.refresh_from_db()
        assert fleet.software == {"blender": ["4.9.1", "4.10.0", "5.0.1"], "krita": ["5"]}
        offer = next(o for o in offers() if o.fleet == "spot")
        assert (offer.worker_class, offer.capabilities.amounts["worker.gpu"]) == ("NVIDIA L4", 1)
        assert list(offer.capabilities.attributes["farmhand:blender"]) == ["4.9", "4.10", "5.0"]

    def test_each_machine_of_a_launch_comes_in_once_with_its_secret_and_no_other_does(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        launch(fleet, Wish(2), now=now)
        secret = secret_of(shop)
        entered = [services.register(introduction(secret, machine_id=m), now=now) for m in ("i-1", "i-2")]

        assert {e.worker.machine_id for e in entered} == {"i-1", "i-2"}
        for stranger in ({"machine_id": "i-3"}, {"machine_id": "i-1", "boot_id": "another"}, {"machine_id": ""}):
            with pytest.raises(services.UnknownSecret):
                services.register(introduction(secret, **stranger), now=now)

    def test_a_machine_whose_answer_was_lost_may_ask_again_until_it_has_spoken(
        self, shop: Shop, worker: Worker, now: datetime
    ) -> None:
        first = services.register(introduction(secret_of(shop)), now=now)
        second = services.register(introduction(secret_of(shop)), now=now)

        assert services.worker_by_token(first.token) is None
        assert services.worker_by_token(second.token) == worker
        services.note_sync(second.worker, sync(), is_idle=True, now=now)
        with pytest.raises(services.UnknownSecret):
            services.register(introduction(secret_of(shop)), now=now)

    def test_the_secret_of_a_launch_that_is_forgotten_is_worth_nothing(
        self, shop: Shop, worker: Worker, now: datetime
    ) -> None:
        services.register(introduction(secret_of(shop)), now=now)
        settle_launches(now=now)

        with pytest.raises(services.UnknownSecret):
            services.register(introduction(secret_of(shop), machine_id="i-2"), now=now)


class TestNoteSync:
    @pytest.mark.parametrize(("reason", "taken"), [(protocol.TAKEN_BACK, True), ("asked to end", False)])
    def test_a_worker_that_drains_says_why_and_who_was_warned_is_counted(
        self, fleet: Fleet, now: datetime, reason: str, taken: bool
    ) -> None:
        worker = start_worker(now=now).worker

        services.note_sync(worker, sync(protocol.WorkerState.DRAINING, reason), is_idle=True, now=now)

        worker.refresh_from_db()
        assert (worker.status, worker.cause, worker.was_taken_back) == ("draining", reason, taken)
        assert decisions() == [("drain", reason)]


class TestEndWorkers:
    def test_its_token_ends_before_its_machine(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(1), now=now)
        worker = Worker.objects.get()
        entered = services.register(introduction(secret_of(shop)), now=now)

        services.end_workers(fleet, [worker.id], reason="idle", now=now)

        assert services.worker_by_token(entered.token) is None
        assert shop.ended == ["i-1"]
        assert decisions()[-1] == ("end", "idle")

    def test_twice_ends_once(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(1), now=now)
        ids = list(Worker.objects.values_list("id", flat=True))

        for _ in range(2):
            services.end_workers(fleet, ids, reason="idle", now=now)

        assert len(shop.ended) == 1
        assert [kind for kind, _ in decisions()] == ["launch", "end"]

    def test_a_provider_that_does_not_answer_stops_nobody(
        self, shop: Shop, fleet: Fleet, now: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lose(ids: object) -> None:
            raise AnswerLost(provider="shop", why="the line was cut")

        launch(fleet, Wish(1), now=now)
        monkeypatch.setattr(shop, "terminate", lose)

        services.end_workers(fleet, [Worker.objects.get().id], reason="idle", now=now)

        assert Worker.objects.get().status == "gone"

    def test_the_decision_has_the_numbers_of_its_life(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(1), now=now)
        worker = services.register(introduction(secret_of(shop)), now=now + timedelta(minutes=10)).worker

        services.end_workers(fleet, [worker.id], reason="idle", now=now + timedelta(hours=1))

        made = FleetDecision.objects.get(kind="end").params
        assert (made["lived_s"], made["idle_s"], made["paid_micro"]) == (3600, 3000, 1_000_000)
        assert (made["machine"], made["pool"]) == ("i-1", "l4.one zone-a spot")

    def test_one_that_got_work_meanwhile_is_not_ended_for_idleness(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        busy, idle = start_worker(now=now), start_worker(now=now)
        submit(open_customer(), frames="1", now=now)
        assert dispatch(now=now) == 1
        both = [busy.worker.id, idle.worker.id]

        services.end_workers(fleet, both, reason="idle", only_idle=True, now=now)

        statuses = dict(Worker.objects.values_list("idle_since", "status"))
        assert statuses == {None: "ready", now: "gone"}


class TestDrain:
    def test_it_takes_nothing_more_and_it_is_written_down_once(self, fleet: Fleet, now: datetime) -> None:
        worker = start_worker(now=now).worker
        submit(open_customer(), frames="1", now=now)

        for _ in range(2):
            services.drain(worker, reason="warned by the provider")

        assert dispatch(now=now) == 0
        assert decisions() == [("drain", "warned by the provider")]


class TestProvider:
    @pytest.mark.parametrize("name", ["mars", "", "local.x", "__init__"])
    def test_one_there_is_not_is_refused(self, name: str) -> None:
        with pytest.raises(ProviderError):
            provider(name)

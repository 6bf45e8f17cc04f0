"""What happens to workers, and what is written down of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest

from farm.fleet import services
from farm.fleet.models import Fleet, FleetDecision, Worker
from farm.fleet.moves import WorkerStatus
from farm.fleet.providers import (
    InsufficientCapacity,
    LaunchRequest,
    Machine,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Unauthorized,
    provider,
)
from farm.fleet.scaling import Decision
from farm.fleet.selectors import offers
from tests.farm import dispatch, local_fleet, open_customer, start_worker, submit
from workers import protocol

pytestmark = pytest.mark.django_db

LONG = timedelta(minutes=5)


@dataclass
class Seller:
    """A provider that keeps its machines in memory; what goes wrong is set by the test."""

    running: dict[str, Machine] = field(default_factory=dict)
    asked: list[LaunchRequest] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    refuses: ProviderError | None = None
    most: int = 100
    loses_answers: bool = False
    rows_when_asked: int = 0

    def launch(self, request: LaunchRequest) -> Sequence[Machine]:
        self.asked.append(request)
        self.rows_when_asked = Worker.objects.filter(status="requested").count()
        if self.refuses:
            raise self.refuses
        started = []
        for order in request.orders[: self.most]:
            machine = self.running.setdefault(order.token, Machine(f"i-{order.token[-6:]}", order.token))
            started.append(machine)
        if self.loses_answers:
            raise ConnectionError("the line was cut")
        return started

    def terminate(self, ids: Sequence[str]) -> None:
        self.ended += ids
        self.running = {token: m for token, m in self.running.items() if m.id not in ids}

    def machines(self, fleet: str) -> Sequence[Machine]:
        return list(self.running.values())

    def slots_per_machine(self, settings: Any) -> int:
        return 1


@pytest.fixture
def seller() -> Any:
    seller = Seller()
    with patch.object(services, "provider", lambda name: seller):
        yield seller


@pytest.fixture
def fleet() -> Fleet:
    return local_fleet(max_machines=5, boot_timeout_s=900)


def decision(count: int) -> Decision:
    return Decision(count, (), "work-ready", {"ready": count})


def decisions() -> list[tuple[str, str]]:
    return list(FleetDecision.objects.order_by("id").values_list("kind", "reason"))


def secret_of(seller: Seller, worker: Worker) -> str:
    return next(o.secret for request in seller.asked for o in request.orders if o.token == str(worker.id))


def introduction(secret: str, **changes: Any) -> protocol.RegisterRequest:
    said: dict[str, Any] = {
        "secret": secret,
        "protocol": protocol.PROTOCOL,
        "boot_id": "boot-1",
        "machine_id": "i-1",
        "agent_version": "1.0",
        "slots": [protocol.SlotSpec(index=0, gpu_model="NVIDIA L4", vram_mib=24_000)],
        "cores": 8,
        "memory_mib": 32_000,
        "disk_mib": 100_000,
        "software": {"blender": ["5.0.1"]},
        "sandboxed": True,
    }
    return protocol.RegisterRequest(**said | changes)


class TestLaunch:
    def test_the_farm_knows_each_machine_before_it_exists(self, seller: Seller, fleet: Fleet, now: datetime) -> None:
        assert services.launch(fleet, decision(2), now=now) == 2

        assert seller.rows_when_asked == 2
        workers = Worker.objects.order_by("id")
        assert [w.status for w in workers] == [WorkerStatus.BOOTING] * 2
        assert {w.machine_id for w in workers} == {m.id for m in seller.running.values()}
        assert FleetDecision.objects.get().params == {"count": 2, "ready": 2}

    def test_secrets_are_kept_as_digests(self, seller: Seller, fleet: Fleet, now: datetime) -> None:
        services.launch(fleet, decision(1), now=now)

        worker = Worker.objects.get()
        secret = secret_of(seller, worker)
        assert len(secret) >= 40
        assert worker.secret_digest == hashlib.sha256(secret.encode()).hexdigest()
        assert secret not in str(Worker.objects.values().get()) + str(FleetDecision.objects.values().get())

    def test_fewer_than_asked_are_kept_and_the_rest_given_up(self, seller: Seller, fleet: Fleet, now: datetime) -> None:
        seller.most = 1

        assert services.launch(fleet, decision(3), now=now) == 1

        assert sorted(Worker.objects.values_list("status", flat=True)) == ["booting", "gone", "gone"]
        assert decisions() == [("launch", "work-ready"), ("refused", "insufficient-capacity")]

    @pytest.mark.parametrize(
        "refusal",
        [
            InsufficientCapacity(provider="p", why="sold out"),
            Throttled(provider="p", retry_after=7, why="too many requests"),
            QuotaExceeded(provider="p", quota="vCPUs", limit=8, needed=64, where="the console"),
            Unauthorized(provider="p", why="no such key"),
        ],
    )
    def test_a_refusal_is_written_down_and_leaves_nobody_waiting(
        self, seller: Seller, fleet: Fleet, now: datetime, refusal: ProviderError
    ) -> None:
        seller.refuses = refusal

        assert services.launch(fleet, decision(2), now=now) == 0

        gone = Worker.objects.filter(status=WorkerStatus.GONE)
        assert gone.count() == 2
        assert {(w.cause, w.secret_digest, w.gone_at) for w in gone} == {(refusal.sentence, None, now)}
        kept = FleetDecision.objects.get(kind="refused")
        assert (kept.reason, kept.params) == (refusal.code, {"count": 2, "sentence": refusal.sentence})

    def test_a_lost_answer_is_no_lost_machine(self, seller: Seller, fleet: Fleet, now: datetime) -> None:
        seller.loses_answers = True
        with pytest.raises(ConnectionError):
            services.launch(fleet, decision(1), now=now)
        worker = Worker.objects.get()
        assert (worker.status, worker.machine_id) == (WorkerStatus.REQUESTED, "")

        assert services.audit(fleet, now=now + LONG) == []

        worker.refresh_from_db()
        assert (worker.status, worker.machine_id) == (WorkerStatus.BOOTING, seller.running[str(worker.id)].id)
        assert seller.ended == []

    def test_asked_again_with_its_token_one_machine_is_started(
        self, seller: Seller, fleet: Fleet, now: datetime
    ) -> None:
        services.launch(fleet, decision(1), now=now)

        seller.launch(seller.asked[0])

        assert len(seller.running) == 1


class TestRegister:
    @pytest.fixture
    def worker(self, seller: Seller, fleet: Fleet, now: datetime) -> Worker:
        services.launch(fleet, decision(1), now=now)
        return Worker.objects.get()

    def test_a_machine_is_ready_with_what_it_says_it_has(self, seller: Seller, worker: Worker, now: datetime) -> None:
        entered = services.register(introduction(secret_of(seller, worker)), now=now)

        worker.refresh_from_db()
        assert (worker.status, worker.worker_class, worker.cores) == (WorkerStatus.READY, "NVIDIA L4", 8)
        assert (worker.registered_at, worker.idle_since) == (now, now)
        assert services.worker_by_token(entered.token) == worker
        assert entered.token not in str(Worker.objects.values().get())

    def test_its_secret_and_its_token_are_not_each_other(self, seller: Seller, worker: Worker, now: datetime) -> None:
        secret = secret_of(seller, worker)
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

    def test_one_that_was_given_up_is_refused(
        self, seller: Seller, fleet: Fleet, worker: Worker, now: datetime
    ) -> None:
        secret = secret_of(seller, worker)
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
        self, seller: Seller, worker: Worker, now: datetime, change: dict[str, Any], refusal: type[Exception]
    ) -> None:
        with pytest.raises(refusal):
            services.register(introduction(secret_of(seller, worker), **change), now=now)

    def test_the_fleet_offers_what_its_machines_have(
        self, seller: Seller, fleet: Fleet, worker: Worker, now: datetime
    ) -> None:
        local_fleet(software={"blender": ["3.6.0"]})
        services.register(introduction(secret_of(seller, worker)), now=now)
        services.launch(fleet, decision(1), now=now)
        second = Worker.objects.latest("id")

        services.register(
            introduction(secret_of(seller, second), software={"blender": ["4.10.0", "4.9.1"], "krita": ["5"]}), now=now
        )

        fleet.refresh_from_db()
        assert fleet.software == {"blender": ["4.9.1", "4.10.0", "5.0.1"], "krita": ["5"]}
        (offer,) = offers()
        assert (offer.worker_class, offer.capabilities.amounts["worker.gpu"]) == ("NVIDIA L4", 1)
        assert list(offer.capabilities.attributes["farmhand:blender"]) == ["4.9", "4.10", "5.0"]


class TestAudit:
    def test_a_machine_that_nobody_asked_for_is_ended(self, seller: Seller, fleet: Fleet, now: datetime) -> None:
        stranger = Machine("i-stranger", str(UUID(int=7)))
        seller.running[stranger.token] = stranger

        assert services.audit(fleet, now=now) == []

        assert seller.ended == ["i-stranger"]

    def test_a_machine_of_a_worker_that_is_gone_is_ended(self, seller: Seller, fleet: Fleet, now: datetime) -> None:
        services.launch(fleet, decision(1), now=now)
        Worker.objects.update(status="gone")

        services.audit(fleet, now=now)

        assert seller.running == {}

    def test_a_worker_whose_machine_is_gone_is_gone(self, seller: Seller, fleet: Fleet, now: datetime) -> None:
        services.launch(fleet, decision(1), now=now)
        worker = Worker.objects.get()
        services.register(introduction(secret_of(seller, worker)), now=now)
        seller.running.clear()

        assert services.audit(fleet, now=now + LONG) == [worker.id]

        worker.refresh_from_db()
        assert (worker.status, worker.cause, worker.token_digest) == ("gone", "its machine is gone", None)
        assert decisions()[-1] == ("end", "its machine is gone")

    def test_a_launch_that_the_provider_s_list_does_not_show_yet_is_waited_for(
        self, seller: Seller, fleet: Fleet, now: datetime
    ) -> None:
        services.launch(fleet, decision(1), now=now)
        seller.running.clear()

        assert services.audit(fleet, now=now + timedelta(seconds=20)) == []
        assert len(services.audit(fleet, now=now + timedelta(seconds=31))) == 1

    def test_a_machine_that_never_registers_is_ended(self, seller: Seller, fleet: Fleet, now: datetime) -> None:
        services.launch(fleet, decision(1), now=now)
        worker = Worker.objects.get()

        assert services.audit(fleet, now=now + timedelta(seconds=900)) == []
        assert services.audit(fleet, now=now + timedelta(seconds=901)) == [worker.id]

        assert seller.running == {}
        worker.refresh_from_db()
        assert (worker.status, worker.cause) == ("gone", "it never registered")

    def test_once_more_it_finds_nothing(self, seller: Seller, fleet: Fleet, now: datetime) -> None:
        services.launch(fleet, decision(2), now=now)
        seller.running.popitem()
        services.audit(fleet, now=now + LONG)
        before = decisions()

        assert services.audit(fleet, now=now + LONG) == []
        assert decisions() == before


class TestEndWorkers:
    def test_its_token_ends_before_its_machine(self, seller: Seller, fleet: Fleet, now: datetime) -> None:
        services.launch(fleet, decision(1), now=now)
        worker = Worker.objects.get()
        entered = services.register(introduction(secret_of(seller, worker), machine_id="i-9"), now=now)

        services.end_workers(fleet, [worker.id], reason="idle", now=now)

        assert services.worker_by_token(entered.token) is None
        assert seller.ended == ["i-9"]
        assert decisions()[-1] == ("end", "idle")

    def test_twice_ends_once(self, seller: Seller, fleet: Fleet, now: datetime) -> None:
        services.launch(fleet, decision(1), now=now)
        ids = list(Worker.objects.values_list("id", flat=True))

        for _ in range(2):
            services.end_workers(fleet, ids, reason="idle", now=now)

        assert len(seller.ended) == 1
        assert [kind for kind, _ in decisions()] == ["launch", "end"]

    def test_one_that_got_work_meanwhile_is_not_ended_for_idleness(
        self, seller: Seller, fleet: Fleet, now: datetime
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

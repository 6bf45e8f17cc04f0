"""Our rows against the provider's machines, both ways."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from farm.fleet.audits import audit
from farm.fleet.launches import Wish, launch, settle_launches
from farm.fleet.models import Fleet, FleetDecision, Spending, Worker
from farm.fleet.providers import AnswerLost, Machine
from farm.fleet.services import register
from tests.fleet.registering import introduction
from tests.fleet.shop import DOLLAR, SPOT_A, Shop

pytestmark = pytest.mark.django_db

LONG = timedelta(minutes=5)


def audited(now: datetime) -> list[UUID]:
    return audit("shop", "here", now=now)


def reasons() -> list[str]:
    return list(FleetDecision.objects.filter(kind="end").order_by("id").values_list("reason", flat=True))


def enter(shop: Shop, machine: str, *, now: datetime) -> Worker:
    secret = next(r.secret for r in shop.asked if str(r.launch) == shop.running[machine].launch)
    return register(introduction(secret, machine_id=machine, boot_id=machine), now=now).worker


class TestAudit:
    def test_a_machine_that_nobody_asked_for_is_ended(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        shop.running["i-stranger"] = Machine("i-stranger", str(UUID(int=7)), SPOT_A)
        shop.running["i-odd"] = Machine("i-odd", "no id at all", SPOT_A)

        assert audited(now) == []

        assert sorted(shop.ended) == ["i-odd", "i-stranger"]
        assert reasons() == ["no worker is this machine"]

    def test_a_machine_of_a_worker_that_is_gone_is_ended(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(1), now=now)
        Worker.objects.update(status="gone")

        audited(now)

        assert shop.running == {}

    def test_a_machine_that_was_stopped_is_ended_and_its_worker_gone(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        launch(fleet, Wish(1), now=now)
        (machine,) = shop.running.values()
        shop.running[machine.id] = Machine(machine.id, machine.launch, machine.pool, is_running=False)

        audited(now + LONG)

        assert shop.running == {}
        assert Worker.objects.get().status == "gone"

    def test_machines_of_a_launch_whose_answer_was_lost_become_its_workers(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        shop.loses_answers = 99
        launch(fleet, Wish(2), now=now)

        assert audited(now + LONG) == []

        assert sorted(Worker.objects.values_list("machine_id", "status")) == [(m, "booting") for m in shop.running]
        assert shop.ended == []

    def test_more_machines_than_a_launch_asked_for_are_ended(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(1), now=now)
        (machine,) = shop.running.values()
        shop.running["i-twice"] = Machine("i-twice", machine.launch, SPOT_A)

        audited(now)

        assert shop.ended == ["i-twice"]

    def test_a_launch_that_is_still_being_asked_for_is_waited_for_and_then_given_up(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        shop.is_deaf = True
        launch(fleet, Wish(1), now=now)

        assert audited(now + LONG) == []
        settle_launches(now=now + timedelta(minutes=11))
        audited(now + timedelta(minutes=11))

        assert Worker.objects.count() == 0

    def test_a_worker_whose_machine_is_gone_is_gone_and_was_taken_back(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        launch(fleet, Wish(1), now=now)
        worker = enter(shop, next(iter(shop.running)), now=now)
        shop.running.clear()

        assert audited(now + LONG) == [worker.id]

        worker.refresh_from_db()
        assert (worker.status, worker.cause, worker.token_digest) == ("gone", "its machine is gone", None)
        assert worker.was_taken_back
        assert reasons() == ["its machine is gone"]

    def test_who_spoke_a_moment_ago_is_there_whatever_the_list_says(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        launch(fleet, Wish(1), now=now)
        worker = enter(shop, next(iter(shop.running)), now=now)
        Worker.objects.filter(pk=worker.pk).update(last_seen_at=now + LONG)
        shop.running.clear()

        assert audited(now + LONG + timedelta(seconds=59)) == []
        assert audited(now + LONG + timedelta(seconds=61)) == [worker.id]

    def test_a_launch_that_the_provider_s_list_does_not_show_yet_is_waited_for(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        launch(fleet, Wish(1), now=now)
        shop.running.clear()

        assert audited(now + timedelta(seconds=60)) == []
        assert len(audited(now + timedelta(seconds=61))) == 1

    def test_a_machine_that_never_registers_is_ended(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(1), now=now)

        assert audited(now + timedelta(seconds=900)) == []
        assert len(audited(now + timedelta(seconds=901))) == 1

        assert shop.running == {}
        assert Worker.objects.get().cause == "it never registered"

    def test_none_outlives_its_fleet_s_limit(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(1), now=now)
        enter(shop, next(iter(shop.running)), now=now)

        assert audited(now + timedelta(hours=24, minutes=9)) == []
        assert len(audited(now + timedelta(hours=24, minutes=11))) == 1

        assert shop.running == {}

    def test_one_that_could_not_be_ended_is_ended_by_the_next(
        self, shop: Shop, fleet: Fleet, now: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lose(ids: object) -> None:
            raise AnswerLost(provider="shop", why="the line was cut")

        launch(fleet, Wish(1), now=now)
        with monkeypatch.context() as broken:
            broken.setattr(shop, "terminate", lose)
            audited(now + timedelta(seconds=901))
        assert (Worker.objects.get().status, len(shop.running)) == ("gone", 1)

        audited(now + timedelta(seconds=931))

        assert shop.running == {}

    def test_once_more_it_finds_nothing(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(2), now=now)
        shop.running.popitem()
        audited(now + LONG)
        before = reasons()

        assert audited(now + LONG) == []
        assert reasons() == before

    def test_other_regions_are_left_alone(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(1), now=now)
        Fleet.objects.update(region="elsewhere")
        shop.running.clear()

        assert audited(now + LONG) == []


class TestSpending:
    def test_machines_pay_as_they_run_at_the_price_of_the_moment(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(2), now=now)
        for machine in list(shop.running):
            enter(shop, machine, now=now)
        audited(now + timedelta(minutes=15))
        Worker.objects.update(price_micro=2 * DOLLAR)

        audited(now + timedelta(minutes=30))
        audited(now + timedelta(minutes=30))

        spent = Spending.objects.get()
        assert (spent.day, spent.machine_ms) == (now.date(), 2 * 1_800_000)
        assert spent.paid_micro == 2 * (DOLLAR + 2 * DOLLAR) // 4

    def test_each_day_has_its_own(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(1), now=now)
        machine = next(iter(shop.running))
        enter(shop, machine, now=now)
        for hours in (6, 18):
            audited(now + timedelta(hours=hours))

        by_day = dict(Spending.objects.order_by("day").values_list("day", "paid_micro"))
        assert by_day == {now.date(): 6 * DOLLAR, now.date() + timedelta(days=1): 12 * DOLLAR}
        assert Spending.objects.latest("day").on_demand_micro == 36 * DOLLAR

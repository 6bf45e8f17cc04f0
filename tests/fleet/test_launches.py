"""Launches: what is asked for, what comes of it, and what is never done twice."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from farm.fleet import launches
from farm.fleet.launches import Wish, launch, settle_launches
from farm.fleet.models import Farm, Fleet, FleetDecision, Launch, Pool, Worker
from farm.fleet.pools import Pace
from farm.fleet.providers import ProviderError, QuotaExceeded, Throttled, Unauthorized
from farm.fleet.selectors import the_farm
from farm.fleet.services import register
from tests.fleet.registering import introduction
from tests.fleet.shop import DEMAND_A, DOLLAR, POOLS, SPOT_A, SPOT_B, Shop, shop_fleet

pytestmark = pytest.mark.django_db

SOON = timedelta(seconds=6)


@pytest.fixture(autouse=True)
def _no_limits() -> None:
    limit(max_machines=None, max_launches_per_hour=None, max_micro_per_hour=None, max_micro_per_day=None)


def limit(**limits: Any) -> None:
    the_farm()
    Farm.objects.update(**limits)


def told() -> list[tuple[str, str]]:
    return list(FleetDecision.objects.order_by("id").values_list("kind", "reason"))


def statuses() -> list[str]:
    return sorted(Worker.objects.values_list("status", flat=True))


class TestLaunch:
    def test_the_farm_knows_each_machine_before_it_exists(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        assert launch(fleet, Wish(2, params={"ready": 9}), now=now) == 2

        assert shop.rows_when_asked == 2
        workers = list(Worker.objects.order_by("id"))
        assert [(w.status, w.instance_type, w.market) for w in workers] == [("booting", "l4.one", "spot")] * 2
        assert {w.machine_id for w in workers} == shop.running.keys()
        assert {w.price_micro for w in workers} == {DOLLAR}
        made = FleetDecision.objects.get()
        assert (made.kind, made.reason) == ("launch", "work-ready")
        assert made.params | {"ready": 9, "count": 2, "price_micro": DOLLAR, "pools": 2} == made.params

    def test_a_secret_is_kept_as_a_digest_and_the_wish_names_the_machines_limits(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        launch(fleet, Wish(1), now=now)

        (request,) = shop.asked
        row = Launch.objects.get()
        assert len(request.secret) >= 40
        assert row.secret_digest == launches.digest_of(request.secret)
        assert request.secret not in str(Launch.objects.values().get()) + str(FleetDecision.objects.values().get())
        assert (request.launch, request.farm, request.max_life_s) == (row.id, the_farm().id, 24 * 3600)

    def test_the_cheapest_pool_goes_first(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        shop.asks[SPOT_B] = DOLLAR // 2

        launch(fleet, Wish(1), now=now)

        assert list(shop.asked[0].pools) == [SPOT_B, SPOT_A]

    def test_a_policy_s_pools_are_asked_in_its_order(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(1, pools=(SPOT_B,)), now=now)

        assert list(shop.asked[0].pools) == [SPOT_B]

    def test_what_came_is_kept_and_the_rest_given_up_and_remembered(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        shop.stock = {SPOT_A: 1, SPOT_B: 0}

        assert launch(fleet, Wish(3), now=now) == 1

        assert statuses() == ["booting"]
        assert told() == [("launch", "work-ready"), ("refused", "insufficient-capacity")]
        refused = FleetDecision.objects.get(kind="refused").params
        assert (refused["count"], refused["asked"], len(refused["pools"])) == (2, 3, 2)
        pools = {p.zone: p for p in Pool.objects.filter(market="spot")}
        assert (pools["zone-a"].granted, pools["zone-b"].granted) == (1, 0)
        assert pools["zone-b"].refused_until == now + timedelta(minutes=2)
        assert pools["zone-b"].refusal == "insufficient-capacity"

    def test_a_pool_that_refused_is_left_alone_for_longer_each_time(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        shop.stock = {SPOT_A: 0, SPOT_B: 0}
        launch(fleet, Wish(1), now=now)

        assert launch(fleet, Wish(1), now=now + timedelta(seconds=119)) == 0
        assert len(shop.asked) == 1
        launch(fleet, Wish(1), now=now + timedelta(seconds=120))
        assert len(shop.asked) == 2
        assert set(Pool.objects.filter(market="spot").values_list("refusals", flat=True)) == {2}
        assert launch(fleet, Wish(1), now=now + timedelta(seconds=300)) == 0

    def test_what_spot_refuses_comes_on_demand_where_the_policy_says_so(self, shop: Shop, now: datetime) -> None:
        fleet = shop_fleet(market="spot-or-on-demand")
        shop.stock = {SPOT_A: 1, SPOT_B: 0}

        assert launch(fleet, Wish(3, fallback=True), now=now) == 3

        assert sorted(Worker.objects.filter(status="booting").values_list("market", "price_micro")) == [
            ("on-demand", 3 * DOLLAR),
            ("on-demand", 3 * DOLLAR),
            ("spot", DOLLAR),
        ]
        assert [r for _, r in told()] == ["work-ready", "insufficient-capacity", "spot-refused"]

    def test_a_spot_fleet_never_buys_on_demand(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        shop.stock = {SPOT_A: 0, SPOT_B: 0}

        assert launch(fleet, Wish(3, fallback=True), now=now) == 0
        assert launch(fleet, Wish(3, pools=(DEMAND_A,)), now=now) == 0

        assert {p.market for request in shop.asked for p in request.pools} == {"spot"}

    def test_a_pool_dearer_than_the_fleet_s_cap_is_left_alone(self, shop: Shop, now: datetime) -> None:
        fleet = shop_fleet(price_cap_micro=DOLLAR)
        shop.asks[SPOT_A] = DOLLAR + 1

        launch(fleet, Wish(1), now=now)

        assert list(shop.asked[0].pools) == [SPOT_B]

    def test_prices_are_asked_anew_when_they_are_old(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        launch(fleet, Wish(1), now=now)
        shop.asks[SPOT_A] = 2 * DOLLAR

        launch(fleet, Wish(1), now=now + timedelta(minutes=6))

        running = Worker.objects.filter(zone="zone-a")
        assert set(running.values_list("price_micro", flat=True)) == {2 * DOLLAR}, "what runs there costs that now too"

    @pytest.mark.parametrize(
        ("refusal", "wait"),
        [
            (Throttled(provider="p", retry_after=7, why="too many requests"), timedelta(seconds=7)),
            (QuotaExceeded(provider="p", quota="vCPUs", limit=8, needed=64, where="x"), timedelta(minutes=15)),
            (Unauthorized(provider="p", why="no such key"), timedelta(minutes=5)),
            (ProviderError(provider="p", why="no such image"), timedelta(minutes=5)),
        ],
    )
    def test_a_refusal_is_written_down_and_leaves_nobody_waiting(
        self, shop: Shop, fleet: Fleet, now: datetime, refusal: ProviderError, wait: timedelta
    ) -> None:
        shop.refuses = refusal

        assert launch(fleet, Wish(2), now=now) == 0

        assert statuses() == []
        kept = FleetDecision.objects.get(kind="refused")
        assert (kept.reason, kept.params["count"], kept.params["sentence"]) == (refusal.code, 2, refusal.sentence)
        assert set(Pool.objects.filter(market="spot").values_list("refused_until", flat=True)) == {now + wait}

    def test_no_more_is_asked_at_once_than_the_provider_lets_be_launched(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        shop.pace = Pace(burst=10, per_second=2)

        assert launch(fleet, Wish(15), now=now) == 10
        assert launch(fleet, Wish(15), now=now) == 0
        assert launch(fleet, Wish(15), now=now + timedelta(seconds=3.2)) == 4  # clocks differ

    def test_throttled_it_asks_for_half_and_then_for_all_again(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        shop.pace = Pace(burst=40, per_second=2)
        shop.refuses = Throttled(provider="shop", retry_after=1, why="others launch too")
        launch(fleet, Wish(100), now=now)
        launch(fleet, Wish(100), now=now + timedelta(seconds=2))
        shop.refuses = None
        launch(fleet, Wish(100), now=now + timedelta(seconds=4))
        launch(fleet, Wish(100), now=now + timedelta(seconds=30))

        assert [request.count for request in shop.asked] == [40, 20, 10, 40]


class TestLimits:
    @pytest.mark.parametrize(
        ("limits", "came", "name"),
        [
            ({"max_machines": 2}, 2, "machines"),
            ({"max_launches_per_hour": 3}, 3, "launches-per-hour"),
            ({"max_micro_per_hour": 4 * DOLLAR}, 4, "micro-per-hour"),
            ({"max_micro_per_day": 5 * DOLLAR}, 5, "micro-per-day"),
        ],
    )
    def test_what_is_over_is_not_launched_and_one_alarm_is_raised(
        self, shop: Shop, fleet: Fleet, now: datetime, limits: dict[str, int], came: int, name: str
    ) -> None:
        limit(**limits)

        assert launch(fleet, Wish(9), now=now) == came
        for _ in range(3):
            assert launch(fleet, Wish(9), now=now) == 0

        assert len(shop.running) == came
        assert told() == [("launch", "work-ready"), ("alarm", f"limit-{name}")]
        alarm = FleetDecision.objects.get(kind="alarm").params
        assert (alarm["machines"], alarm["wished"], alarm["micro_per_hour"]) == (came, 9, came * DOLLAR)

    def test_once_there_was_room_it_is_told_again(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        limit(max_machines=1)
        launch(fleet, Wish(1), now=now)
        launch(fleet, Wish(1), now=now)
        Worker.objects.update(status="gone")

        launch(fleet, Wish(1), now=now)
        launch(fleet, Wish(1), now=now)

        assert [kind for kind, _ in told()] == ["launch", "alarm", "launch", "alarm"]

    def test_what_is_spent_counts_against_the_day(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        limit(max_micro_per_day=3 * DOLLAR)
        fleet.spending_set.create(day=now.date(), paid_micro=2 * DOLLAR)
        fleet.spending_set.create(day=now.date() - timedelta(days=1), paid_micro=99 * DOLLAR)

        assert launch(fleet, Wish(9), now=now) == 1

    def test_a_price_that_nobody_knows_fits_no_limit_of_money(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        limit(max_micro_per_hour=100 * DOLLAR)
        shop.asks = {}

        assert launch(fleet, Wish(1), now=now) == 0

        assert told() == [("alarm", "limit-price-unknown")]

    def test_a_paused_farm_launches_nothing(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        limit(is_paused=True)

        assert launch(fleet, Wish(1), now=now) == 0

        assert (shop.asked, told()) == ([], [])


class TestLostAnswers:
    def test_asked_again_nothing_is_launched_twice(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        shop.loses_answers = 2

        assert launch(fleet, Wish(3), now=now) == 0
        assert statuses() == ["requested"] * 3
        settle_launches(now=now + SOON)
        settle_launches(now=now + 2 * SOON)
        settle_launches(now=now + 3 * SOON)

        assert len(shop.running) == 3
        assert statuses() == ["booting"] * 3
        assert [bool(r.secret) for r in shop.asked] == [True, False, False]
        assert Launch.objects.get().status == "answered"

    def test_a_repetition_says_the_same_though_the_fleet_has_changed(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        shop.loses_answers = 1
        launch(fleet, Wish(1), now=now)
        Fleet.objects.filter(pk=fleet.pk).update(price_cap_micro=7, settings={"image": "ami-new"})

        settle_launches(now=now + SOON)

        first, second = shop.asked
        assert (second.fleet, list(second.pools), second.count) == (first.fleet, list(first.pools), first.count)

    def test_what_never_reached_the_provider_is_given_up(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        shop.is_deaf = True
        launch(fleet, Wish(2), now=now)
        shop.is_deaf = False

        settle_launches(now=now + SOON)

        assert shop.running == {}
        assert statuses() == []
        assert Launch.objects.get().status == "refused"
        assert set(Pool.objects.values_list("refused_until", flat=True)) == {None}, "the pools did nothing wrong"

    def test_a_machine_that_registers_before_the_answer_is_one_of_the_launch(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        shop.loses_answers = 1
        launch(fleet, Wish(2), now=now)
        early = list(shop.running)[1]
        entered = register(introduction(shop.asked[0].secret, machine_id=early), now=now + SOON)

        settle_launches(now=now + SOON)

        worker = Worker.objects.get(pk=entered.worker.id)
        assert (worker.machine_id, worker.status, worker.zone, worker.price_micro) == (early, "ready", "zone-a", DOLLAR)
        assert sorted(Worker.objects.values_list("machine_id", flat=True)) == sorted(shop.running)

    def test_a_provider_that_does_not_answer_is_waited_for_once_a_run(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        shop.is_deaf = True
        for _ in range(3):
            launch(fleet, Wish(1), now=now)

        settle_launches(now=now + SOON)

        assert len(shop.asked) == 3 + 1

    def test_one_that_is_never_answered_is_left_to_the_audit(self, shop: Shop, fleet: Fleet, now: datetime) -> None:
        shop.is_deaf = True
        launch(fleet, Wish(1), now=now)

        settle_launches(now=now + timedelta(minutes=11))

        assert Launch.objects.get().status == "lost"


class TestForget:
    def test_when_all_have_registered_neither_secret_nor_template_is_kept(
        self, shop: Shop, fleet: Fleet, now: datetime
    ) -> None:
        launch(fleet, Wish(2), now=now)
        secret = shop.asked[0].secret
        for machine in list(shop.running):
            settle_launches(now=now)
            assert shop.forgotten == []
            register(introduction(secret, machine_id=machine, boot_id=machine), now=now)

        settle_launches(now=now)
        settle_launches(now=now)

        row = Launch.objects.get()
        assert shop.forgotten == [row.id]
        assert (row.secret_digest, row.forgotten_at) == (None, now)


class TestPools:
    def test_all_that_is_offered_is_known(self, shop: Shop, now: datetime) -> None:
        launch(shop_fleet(market="spot-or-on-demand"), Wish(1), now=now)

        assert Pool.objects.filter(provider="shop").count() == len(POOLS)

"""
Launches: asked for within the farm's limits, repeated while their answer is lost, and bound to the machines that came.

The rows are committed before the provider is asked, so no machine ever exists that no row knows. What came is told by
the answer, by a repeated request, by the audit, or by the machine itself: whichever is first binds it to a row.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Case, Exists, F, OuterRef, Sum, When
from django.db.models.functions import Coalesce

from farm.core.moves import move_to
from farm.fleet import supply
from farm.fleet.decisions import record
from farm.fleet.limits import Limits, Room, Standing, room
from farm.fleet.models import Farm, Fleet, Launch, Pool, Spending, Worker
from farm.fleet.moves import LAUNCH_MOVES, PRESENT_WORKERS, STARTING_WORKERS, LaunchStatus, WorkerStatus
from farm.fleet.pools import Market, PoolKey
from farm.fleet.providers import (
    AnswerLost,
    FleetSpec,
    InsufficientCapacity,
    LaunchAnswer,
    LaunchRequest,
    Machine,
    NotToBeRepeated,
    PoolRefusal,
    ProviderError,
    Throttled,
    provider,
)
from farm.fleet.selectors import the_farm

logger = logging.getLogger(__name__)

HOUR = timedelta(hours=1)
REPEAT_AFTER = timedelta(seconds=5)
LOST_AFTER = timedelta(minutes=10)  # asked again for so long; then it is left to the audit to find what came
MOST_REPEATS = 20  # in one run

# Of a launch, the machines that came; while its answer is not known, all that it asked for.
COUNTED = Case(When(status=LaunchStatus.ASKED, then=F("count")), default=F("came"))


@dataclass(frozen=True)
class Wish:
    """Machines that a policy wants: how many, from which pools, all of one market; why, and with which numbers."""

    count: int
    pools: Sequence[PoolKey] = ()  # in order of preference; empty: all that may be asked
    fallback: bool = False  # what spot refuses is asked for on demand at once
    reason: str = "work-ready"
    params: Mapping[str, Any] = field(default_factory=dict)


def launch(fleet: Fleet, wish: Wish, *, now: datetime) -> int:
    """
    Ask the fleet's provider for machines, as many as the farm's limits allow; give how many came.

    :raises ProviderError: what the provider sells is not known yet, and it does not say
    """
    supply.refresh_pools(fleet, now=now)
    pools = _askable(fleet, wish, now=now)
    written = _write_down(fleet, wish, pools, now=now) if pools else None
    if written is None:
        return 0
    row, secret = written
    came = _ask(row, secret, now=now)
    if wish.fallback and came is not None and came < row.count and pools[0].market == Market.SPOT:
        return came + launch(fleet, _on_demand(wish, pools, row.count - came), now=now)
    return came or 0


def _askable(fleet: Fleet, wish: Wish, *, now: datetime) -> list[Pool]:
    """
    Give the wished pools that may be asked now, of the market of the first.

    Without a wish, spot goes first, and all have as many slots as the cheapest: machines are counted, not slots.
    """
    known = {supply.key_of(p): p for p in supply.pools_of(fleet, now=now)}
    wanted = [known[key] for key in wish.pools if key in known] if wish.pools else list(known.values())
    fit = [p for p in wanted if supply.may_be_asked(p, now=now) and supply.is_within_cap(fleet, p)]
    if wish.pools:
        return [p for p in fit if p.market == fit[0].market]
    fit.sort(key=lambda p: p.market != Market.SPOT)
    return [p for p in fit if (p.market, p.slots) == (fit[0].market, fit[0].slots)]


def _on_demand(wish: Wish, pools: Sequence[Pool], count: int) -> Wish:
    same = tuple(PoolKey(p.instance_type, p.zone, Market.ON_DEMAND) for p in pools)
    return replace(wish, count=count, pools=same, fallback=False, reason="spot-refused")


@transaction.atomic(durable=True)
def _write_down(fleet: Fleet, wish: Wish, pools: Sequence[Pool], *, now: datetime) -> tuple[Launch, str] | None:
    """Write the launch and its workers, as far as limits and pace allow; None: not one."""
    farm = the_farm(lock=True)
    count = 0 if farm.is_paused else _allowed(farm, fleet, wish, pools, now=now)
    if not count:
        return None
    secret = secrets.token_urlsafe(32)
    row = Launch.objects.create(
        fleet=fleet,
        pools=[[p.instance_type, p.zone, p.market] for p in pools],
        count=count,
        spec=dataclasses.asdict(supply.spec_of(fleet)),
        secret_digest=digest_of(secret),
        asked_at=now,
    )
    market, price = pools[0].market, pools[0].price_micro or 0
    _add_workers(count, fleet=fleet, launch=row, market=market, price_micro=price, requested_at=now)
    numbers = {"count": count, "wished": wish.count, "market": market, "pools": len(pools), "price_micro": price}
    record(fleet, "launch", wish.reason, launch=row.id, **{**wish.params, **numbers})
    return row, secret


def _add_workers(count: int, **fields: Any) -> None:
    """Add workers that are all alike: one row, and copies of it made by the database, however many columns it has."""
    first = Worker.objects.create(**fields)
    columns = ", ".join(str(field.column) for field in Worker._meta.concrete_fields if not field.primary_key)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO fleet_worker ({columns})"  # noqa: S608  (names of our own columns)
            f" SELECT {columns} FROM fleet_worker, generate_series(2, %s) WHERE id = %s",
            [count, first.pk],
        )


def digest_of(text: str) -> str:
    """Give what is stored of a secret or token."""
    return hashlib.sha256(text.encode()).hexdigest()


# --- limits


def _allowed(farm: Farm, fleet: Fleet, wish: Wish, pools: Sequence[Pool], *, now: datetime) -> int:
    """Cut a wish to what the farm's limits and the provider's pace leave, and raise one alarm for a limit reached."""
    has_money_limit = farm.max_micro_per_hour is not None or farm.max_micro_per_day is not None
    if has_money_limit and any(p.price_micro is None for p in pools):
        found = Room(0, ("price-unknown",))
    else:
        dearest = max(p.price_micro or 0 for p in pools)
        found = room(limits_of(farm), standing(now=now), wished=wish.count, price_micro=dearest)
    _alarm(farm, fleet, () if found.machines else found.reached, wish, now=now)
    return min(found.machines, pace_room(fleet, now=now, otherwise=found.machines))


def _alarm(farm: Farm, fleet: Fleet, reached: Sequence[str], wish: Wish, *, now: datetime) -> None:
    """Tell once of a limit that leaves no machine; it is told again only after there was room."""
    for name in sorted(set(reached) - farm.reached.keys()):
        numbers = dataclasses.asdict(standing(now=now))
        logger.error("limit reached: %s (%s); fleet %s wished for %d", name, numbers, fleet.name, wish.count)
        record(fleet, "alarm", f"limit-{name}", **{"wished": wish.count, **numbers})
    kept = {name: farm.reached.get(name, now.isoformat()) for name in reached}
    if kept != farm.reached:
        farm.reached = kept
        farm.save(update_fields=["reached"])


def limits_of(farm: Farm) -> Limits:
    return Limits(farm.max_machines, farm.max_launches_per_hour, farm.max_micro_per_hour, farm.max_micro_per_day)


def standing(*, now: datetime) -> Standing:
    """Give where the farm stands against its limits."""
    present = Worker.objects.filter(status__in=PRESENT_WORKERS).aggregate(n=Sum(1), micro=Sum("price_micro"))
    launched = Launch.objects.filter(asked_at__gt=now - HOUR).aggregate(n=Sum(COUNTED))
    spent = Spending.objects.filter(day=now.date()).aggregate(micro=Sum("paid_micro"))
    return Standing(present["n"] or 0, launched["n"] or 0, present["micro"] or 0, spent["micro"] or 0)


def pace_room(fleet: Fleet, *, now: datetime, otherwise: int) -> int:
    """Say how many machines the provider lets be launched in the fleet's region now."""
    pace = provider(fleet.provider, fleet.region).pace
    if pace is None:
        return otherwise
    region = {"fleet__provider": fleet.provider, "fleet__region": fleet.region}
    rows = Launch.objects.filter(**region, asked_at__gt=now - HOUR)
    past = rows.annotate(machines=COUNTED, done_at=Coalesce("answered_at", "asked_at")).order_by("done_at")
    told = list(past.values_list("done_at", "machines", "refusal"))
    throttled = len(list(takewhile(lambda row: row[2] == Throttled.code, reversed(told))))
    return pace.room([(at, count) for at, count, _ in told], now=now, throttled=throttled)


# --- asking


def _ask(row: Launch, secret: str, *, now: datetime) -> int | None:
    """Ask, or ask again, and write down what came; None while the answer is lost."""
    pools = [PoolKey(kind, zone, Market(market)) for kind, zone, market in row.pools]
    began = time.monotonic()
    try:
        answer = provider(row.fleet.provider, row.fleet.region).launch(_request(row, pools, secret))
    except AnswerLost as lost:
        logger.warning("launch %s: %s", row.id, lost)
        return None
    except NotToBeRepeated as lost:
        logger.warning("launch %s: %s", row.id, lost)
        give_up(row)
        move_to(row, LaunchStatus.REFUSED, moves=LAUNCH_MOVES, answered_at=now)
        return 0
    except ProviderError as refusal:
        answer = LaunchAnswer((), [PoolRefusal(pool, refusal) for pool in pools])
    bind(row, answer.machines, now=now)
    came = len(answer.machines)
    if missing := max(0, row.count - came):
        _refuse(row, pools, answer, missing)
    granted = Counter(m.pool for m in answer.machines)
    shortages = _shortages(pools, answer, row.count - came)
    supply.remember(row.fleet, granted, shortages, now=now)
    move_to(
        row, LaunchStatus.ANSWERED if came else LaunchStatus.REFUSED, moves=LAUNCH_MOVES, came=came,
        answered_at=now + timedelta(seconds=time.monotonic() - began),  # no other clock: `now` is the caller's
        refusal=shortages[0].error.code if shortages else "",
    )  # fmt: skip
    return came


def _request(row: Launch, pools: Sequence[PoolKey], secret: str) -> LaunchRequest:
    return LaunchRequest(
        launch=row.id,
        fleet=FleetSpec(**row.spec | {"markets": tuple(Market(m) for m in row.spec["markets"])}),
        pools=pools,
        count=row.count,
        secret=secret,
        farm=the_farm().id,
        farm_url=settings.FARM_URL,
        max_life_s=row.fleet.max_life_s,
        boot_timeout_s=row.fleet.boot_timeout_s,
    )


def _shortages(pools: Sequence[PoolKey], answer: LaunchAnswer, missing: int) -> list[supply.Shortage]:
    """Say which pools fell short: those that the provider names; if it names none, those that gave nothing."""
    if missing <= 0:
        return []
    if answer.refusals:
        return [supply.Shortage(r.pool, missing, r.error) for r in answer.refusals]
    error = InsufficientCapacity(provider="the provider", why="fewer machines came than were asked for")
    gave = {m.pool for m in answer.machines}
    return [supply.Shortage(pool, missing, error) for pool in pools if pool not in gave]


def _refuse(row: Launch, pools: Sequence[PoolKey], answer: LaunchAnswer, missing: int) -> None:
    """Give up the workers for which no machine came."""
    told = [(r.error.code, r.error.sentence) for r in answer.refusals]
    code, sentence = told[0] if told else ("insufficient-capacity", "Fewer machines came than were asked for.")
    logger.warning("fleet %s: %d machines refused: %s", row.fleet.name, missing, sentence)
    with transaction.atomic():
        give_up(row)
        record(
            row.fleet, "refused", code, launch=row.id, count=missing, asked=row.count, sentence=sentence,
            pools=[str(pool) for pool in (p.pool for p in answer.refusals)] or [str(p) for p in pools],
        )  # fmt: skip


def give_up(row: Launch) -> None:
    """Forget the workers of a launch to which no machine came: they never were. The refusal is written down."""
    Worker.objects.filter(launch=row, status=WorkerStatus.REQUESTED, machine_id="").delete()


def settle_launches(*, now: datetime) -> None:
    """Ask again for launches whose answer was lost, and have providers forget those whose machines are all there."""
    asked = Launch.objects.filter(status=LaunchStatus.ASKED, asked_at__lt=now - REPEAT_AFTER).select_related("fleet")
    silent: set[tuple[str, str]] = set()  # who does not answer now is not waited for again in this run
    for row in asked.order_by("asked_at")[:MOST_REPEATS]:
        seller = row.fleet.provider, row.fleet.region
        if now - row.asked_at > LOST_AFTER:
            logger.error("launch %s was never answered; the audit takes what came of it", row.id)
            came = Worker.objects.filter(launch=row).exclude(machine_id="").count()
            move_to(row, LaunchStatus.LOST, moves=LAUNCH_MOVES, came=came, answered_at=now)
        elif seller not in silent and _ask(row, "", now=now) is None:
            silent.add(seller)
    _forget(now=now)


def _forget(*, now: datetime) -> None:
    """A launch whose machines have all registered or gone needs no secret any more, nor anything at the provider."""
    starting = Worker.objects.filter(launch=OuterRef("pk"), status__in=STARTING_WORKERS)
    done = Launch.objects.filter(forgotten_at=None).exclude(status=LaunchStatus.ASKED).exclude(Exists(starting))
    for row in done.select_related("fleet").order_by("asked_at")[: MOST_REPEATS * 5]:
        Launch.objects.filter(pk=row.pk).update(secret_digest=None)
        try:
            provider(row.fleet.provider, row.fleet.region).forget([row.id])
        except ProviderError as error:
            logger.warning("launch %s is not forgotten yet: %s", row.id, error)
            continue
        Launch.objects.filter(pk=row.pk).update(forgotten_at=now)


# --- binding


@transaction.atomic
def bind(row: Launch, machines: Sequence[Machine], *, now: datetime) -> list[Machine]:
    """Give machines of a launch to its workers that have none yet; give those machines for which there is no worker."""
    if not machines:
        return []
    Launch.objects.select_for_update(no_key=True).get(pk=row.pk)  # one at a time
    known = dict(Worker.objects.filter(launch=row).exclude(machine_id="").values_list("machine_id", "id"))
    new = [m for m in machines if m.id not in known]
    free = Worker.objects.filter(launch=row, machine_id="", status=WorkerStatus.REQUESTED).order_by("pk")
    bound = dict(zip(free.values_list("id", flat=True), new, strict=False))
    spoke_first = {known[m.id]: m for m in machines if m.id in known}  # before the provider's answer was read
    note_machines(bound | spoke_first, now=now)
    return new[len(bound) :]


def note_machines(machines: Mapping[UUID, Machine], *, now: datetime) -> None:
    """Keep what workers' machines are called and cost; those that were only asked for exist now."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE fleet_worker w
               SET machine_id = m.id, instance_type = m.instance_type, zone = m.zone, market = m.market,
                   status = CASE WHEN w.status = 'requested' THEN 'booting' ELSE w.status END,
                   price_micro = coalesce(p.price_micro, w.price_micro), on_demand_micro = p.on_demand_micro,
                   paid_until = coalesce(w.paid_until, %s)
              FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[])
                       AS m(worker, id, instance_type, zone, market)
              JOIN fleet_worker k ON k.id = m.worker
              JOIN fleet_fleet f ON f.id = k.fleet_id
              LEFT JOIN fleet_pool p ON p.provider = f.provider AND p.region = f.region AND p.zone = m.zone
                                    AND p.instance_type = m.instance_type AND p.market = m.market
             WHERE w.id = m.worker AND w.machine_id IN ('', m.id)
            """,
            [
                now,
                list(machines),
                [m.id for m in machines.values()],
                [m.pool.instance_type for m in machines.values()],
                [m.pool.zone for m in machines.values()],
                [str(m.pool.market) for m in machines.values()],
            ],
        )

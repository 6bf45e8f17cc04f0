"""What the pools have granted, refused and asked for: remembered in their rows, and what of it may be bought now."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Q

from farm.fleet.models import Fleet, Pool
from farm.fleet.pools import MARKETS, FleetMarket, Market, PoolKey, faded, wait_after
from farm.fleet.providers import (
    FleetSpec,
    InsufficientCapacity,
    PoolOffer,
    ProviderError,
    QuotaExceeded,
    Throttled,
    provider,
)

logger = logging.getLogger(__name__)

OFFERS_LAST = timedelta(hours=6)  # before a provider is asked anew what it sells where
PRICES_LAST = timedelta(minutes=5)
STALE = timedelta(days=2)  # a pool that was not offered for so long is none
QUOTA_WAIT = timedelta(minutes=15)  # a person has to raise it
TROUBLE_WAIT = timedelta(minutes=5)


@dataclass(frozen=True)
class Shortage:
    """A pool that gave fewer than it was asked for."""

    pool: PoolKey
    missing: int
    error: ProviderError


def spec_of(fleet: Fleet) -> FleetSpec:
    """Give what a provider is to know of a fleet."""
    return FleetSpec(
        name=fleet.name,
        region=fleet.region,
        zones=fleet.zones,
        instance_types=fleet.instance_types,
        gpu_models=fleet.gpu_models,
        markets=MARKETS[FleetMarket(fleet.market)],
        price_cap_micro=fleet.price_cap_micro,
        settings=fleet.settings,
    )


def key_of(pool: Pool) -> PoolKey:
    return PoolKey(pool.instance_type, pool.zone, Market(pool.market))


def pools_of(fleet: Fleet, *, now: datetime) -> list[Pool]:
    """Give the pools a fleet may buy from, cheapest per slot first; unknown prices last."""
    return [pool for pool in known_pools(fleet) if pool.offered_at > now - STALE]


def known_pools(fleet: Fleet) -> list[Pool]:
    """Give the pools that fit a fleet, also those that its provider has not offered for long; cheapest first."""
    rows = Pool.objects.filter(
        provider=fleet.provider,
        region=fleet.region,
        market__in=[str(m) for m in MARKETS[FleetMarket(fleet.market)]],
    )
    if fleet.instance_types:
        rows = rows.filter(instance_type__in=fleet.instance_types)
    elif fleet.gpu_models:
        rows = rows.filter(gpu__in=fleet.gpu_models)
    if fleet.zones:
        rows = rows.filter(zone__in=fleet.zones)
    dear = float("inf")
    return sorted(rows, key=lambda p: (dear if p.price_micro is None else p.price_micro / p.slots, key_of(p)))


def is_within_cap(fleet: Fleet, pool: Pool) -> bool:
    """A pool whose price is not known is not within any cap."""
    if fleet.price_cap_micro is None:
        return True
    return pool.price_micro is not None and pool.price_micro <= fleet.price_cap_micro * pool.slots


def may_be_asked(pool: Pool, *, now: datetime) -> bool:
    return pool.refused_until is None or pool.refused_until <= now


def refresh_pools(fleet: Fleet, *, now: datetime) -> None:
    """
    Ask the provider what it sells to a fleet and for how much, unless that was asked lately.

    :raises ProviderError: it does not say
    """
    pools = pools_of(fleet, now=now)
    if not pools or min(p.offered_at for p in pools) < now - OFFERS_LAST:
        _note_offers(fleet, provider(fleet.provider, fleet.region).offers(spec_of(fleet)), now=now)
        pools = pools_of(fleet, now=now)
    if any(p.priced_at is None or p.priced_at < now - PRICES_LAST for p in pools):
        _note_prices(pools, provider(fleet.provider, fleet.region).prices([key_of(p) for p in pools]), now=now)


def _note_offers(fleet: Fleet, offers: Sequence[PoolOffer], *, now: datetime) -> None:
    told = ["gpu", "slots", "vcpus", "memory_mib", "vram_mib", "on_demand_micro", "offered_at"]
    Pool.objects.bulk_create(
        [
            Pool(
                provider=fleet.provider, region=fleet.region, instance_type=offer.pool.instance_type,
                zone=offer.pool.zone, market=str(offer.pool.market), gpu=offer.gpu, slots=offer.slots,
                vcpus=offer.vcpus, memory_mib=offer.memory_mib, vram_mib=offer.vram_mib,
                on_demand_micro=offer.on_demand_micro, offered_at=now, counted_at=now,
            )
            for offer in offers
        ],
        update_conflicts=True,
        unique_fields=["provider", "region", "instance_type", "zone", "market"],
        update_fields=told,
    )  # fmt: skip


def _note_prices(pools: Sequence[Pool], prices: Mapping[PoolKey, int], *, now: datetime) -> None:
    """Keep prices; a pool that has none any more keeps the last one, and its age shows."""
    for pool in pools:
        pool.price_micro = prices.get(key_of(pool), pool.price_micro)
        pool.priced_at = now
    Pool.objects.bulk_update(pools, ["price_micro", "priced_at"])
    _reprice_workers()


def _reprice_workers() -> None:
    """Spot machines cost what their pool costs now, whatever it was when they came."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE fleet_worker w SET price_micro = p.price_micro
              FROM fleet_pool p JOIN fleet_fleet f ON f.provider = p.provider AND f.region = p.region
             WHERE w.fleet_id = f.id AND w.status <> 'gone' AND w.market = 'spot' AND p.market = 'spot'
               AND p.instance_type = w.instance_type AND p.zone = w.zone
               AND p.price_micro IS NOT NULL AND p.price_micro <> w.price_micro
            """
        )


@transaction.atomic
def remember(fleet: Fleet, granted: Mapping[PoolKey, int], shortages: Sequence[Shortage], *, now: datetime) -> None:
    """Note in the pools' rows what they gave and what they refused, and until when they are left alone."""
    short = {s.pool: s for s in shortages}
    named = {*granted, *short}
    if not named:
        return
    rows = Pool.objects.select_for_update().filter(_any_of(named), provider=fleet.provider, region=fleet.region)
    changed = list(rows.order_by("pk"))
    for pool in changed:
        fade = faded(1, since=now - pool.counted_at)
        pool.granted, pool.refused, pool.counted_at = pool.granted * fade, pool.refused * fade, now
        if count := granted.get(key_of(pool), 0):
            pool.granted += count
            pool.granted_at, pool.refusals, pool.refused_until = now, 0, None
        if shortage := short.get(key_of(pool)):
            _note_refusal(pool, shortage, now=now)
    fields = ["granted", "refused", "counted_at", "granted_at", "refused_at", "refusals", "refused_until", "refusal"]
    Pool.objects.bulk_update(changed, [*fields, "sentence"])


def _note_refusal(pool: Pool, shortage: Shortage, *, now: datetime) -> None:
    error = shortage.error
    if isinstance(error, InsufficientCapacity):
        pool.refused += shortage.missing
        pool.refusals += 1
    pool.refused_at, pool.refused_until = now, now + _wait(error, pool.refusals)
    pool.refusal, pool.sentence = error.code, error.sentence


def _wait(error: ProviderError, refusals: int) -> timedelta:
    if isinstance(error, InsufficientCapacity):
        return wait_after(refusals)
    if isinstance(error, Throttled):
        return timedelta(seconds=error.params["retry_after"])
    return QUOTA_WAIT if isinstance(error, QuotaExceeded) else TROUBLE_WAIT


def _any_of(pools: set[PoolKey]) -> Q:
    found = Q()
    for pool in pools:
        found |= Q(instance_type=pool.instance_type, zone=pool.zone, market=str(pool.market))
    return found

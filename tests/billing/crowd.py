"""Fifty that want to start at once, each with a connection and a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import TypeVar
from uuid import UUID

from django.db import connection, transaction

from farm.billing.models import CostObject
from farm.billing.services import hold
from tests.billing.shop import Shop

Answer = TypeVar("Answer")
FIFTY = 50


@contextmanager
def crowd(size: int = FIFTY) -> Iterator[Callable[[Callable[[], Answer]], list[Answer]]]:
    """Keep so many threads, with their connections; what they are given, they all begin at the same moment."""
    barrier = Barrier(size)

    def one(act: Callable[[], Answer]) -> Answer:
        barrier.wait(timeout=30)
        return act()

    def close() -> None:
        barrier.wait(timeout=30)
        connection.close()

    with ThreadPoolExecutor(size) as pool:
        try:
            yield lambda act: list(pool.map(lambda _: one(act), range(size)))
        finally:
            list(pool.map(lambda _: close(), range(size)))


def start_one(shop: Shop, job: CostObject) -> set[UUID]:
    """Try to start an attempt, and commit; give it if it may start."""
    request = shop.request(job)
    with transaction.atomic():
        answer = hold([request], now=shop.now)
    return set(answer.granted)


def start_fifty(shop: Shop, job: CostObject) -> set[UUID]:
    """Let fifty try to start at once; give those that may."""
    with crowd() as all_at_once:
        return set().union(*all_at_once(lambda: start_one(shop, job)))

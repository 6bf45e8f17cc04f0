"""A studio with a project, an artist and a job's cost object; and rows that other connections can see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from django.apps import apps

from farm.billing.models import CostObject, Rate
from farm.billing.seeds import seed_rates
from farm.studios.roles import Scope
from tests.billing.shop import Api, Shop, erase, make_shop


@pytest.fixture
def shop(db: None) -> Shop:
    return make_shop()


@pytest.fixture
def job(shop: Shop) -> CostObject:
    return shop.open()


@pytest.fixture
def api(shop: Shop) -> Api:
    return Api(shop, [str(s) for s in Scope])


@pytest.fixture
def open_shop(django_db_setup: None, django_db_blocker: Any) -> Iterator[Shop]:
    """A shop whose rows are committed, for tests with several connections; erased afterwards."""
    with django_db_blocker.unblock():
        if not Rate.objects.exists():  # a transactional test has emptied all tables
            seed_rates(apps, cast(Any, None))
        shop = make_shop()
        try:
            yield shop
        finally:
            erase(shop)

"""A farm whose rows other transactions see, with an events part beside it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from django.apps import apps

from farm.billing.models import Rate
from farm.billing.seeds import seed_rates
from tests.api import token_of
from tests.farm import Customer, local_fleet, open_customer
from tests.notifications.listening import Events, events_part


@pytest.fixture
def now() -> datetime:
    """Tokens are compared with the clock."""
    return datetime.now(UTC)


@pytest.fixture
def committed(transactional_db: None) -> None:
    """Rows that other transactions see; tests before may have emptied all tables."""
    local_fleet()
    if not Rate.objects.exists():
        seed_rates(apps, cast(Any, None))


@pytest.fixture
def customer(committed: None) -> Customer:
    return open_customer()


@pytest.fixture
def token(customer: Customer) -> str:
    return token_of(customer)


@pytest.fixture
def events(committed: None) -> Iterator[Events]:
    with events_part() as running:
        yield running

"""What tests of results share."""

from __future__ import annotations

from typing import Any, cast

import pytest
from django.apps import apps

from farm.billing.models import Rate
from farm.billing.seeds import seed_rates
from farm.results.reconcilers import grow_movie
from tests.farm import local_fleet


@pytest.fixture
def committed(transactional_db: None) -> None:
    """Rows that other transactions see; tests before may have emptied all tables."""
    local_fleet()
    if not Rate.objects.exists():
        seed_rates(apps, cast(Any, None))


@pytest.fixture
def messages_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that ask for a movie are carried out where they are sent, one inside the other."""
    monkeypatch.setattr(grow_movie, "delay", grow_movie)

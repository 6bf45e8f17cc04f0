"""A provider to buy from, and a fleet that does."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from farm.fleet import providers
from farm.fleet.models import Fleet
from tests.fleet.shop import Shop, shop_fleet


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Open a shop: a provider module like any other."""
    opened = Shop()
    module = ModuleType("farm.fleet.providers.shop")
    module.connect = lambda region: opened  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    providers.provider.cache_clear()
    return opened


@pytest.fixture
def fleet(shop: Shop) -> Fleet:
    return shop_fleet()

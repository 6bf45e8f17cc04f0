"""One farm for all fault tests: each hurts it, and it must be well again for the next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Farm


@pytest.fixture(scope="session")
def hurt_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    farm = Farm(tmp_path_factory.mktemp("farm"))
    farm.up()
    yield farm
    farm.down()
    time.sleep(1)
    left = [f"{p.pid} {' '.join(p.cmdline())[:120]}" for p in farm.strays()]
    assert left == [], "processes outlived the farm"


@pytest.fixture
def farm(hurt_farm: Farm) -> Iterator[Farm]:
    """The farm, with two machines at most; afterwards nothing may be wrong with it."""
    hurt_farm.set_fleet(machines=2)
    yield hurt_farm
    hurt_farm.wait_for(lambda: not hurt_farm.violations(), seconds=60, why=f"{hurt_farm.violations()} are gone")
    assert "0" in hurt_farm.books()


@pytest.fixture(scope="session")
def django_db_setup() -> None:
    """These tests look at their farm from outside, and need no database of their own."""


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path) -> None:
    """Nor a store."""

"""A studio with an inspected scene, on a farm whose one fleet has Blender 5.0 and no GPU."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

import pytest
from django.apps import apps

from farm.billing.models import Rate
from farm.billing.seeds import seed_rates
from farm.scenes.manifest import read_manifest
from farm.scenes.models import SceneVersion
from farm.scenes.services import create_scene, create_version, record_report
from farm.studios.authentication import Caller
from farm.studios.roles import Scope
from tests.farm import Customer, local_fleet, open_customer
from tests.scenes.reports import a_report

MakeVersion = Callable[..., SceneVersion]


@pytest.fixture
def customer(db: None) -> Customer:
    return open_customer()


@pytest.fixture
def farm(db: None) -> None:
    local_fleet(software={"blender": ["5.0.1"]}, max_machines=2)


@pytest.fixture
def committed(transactional_db: None) -> None:
    """Rows that other transactions see; tests before may have emptied all tables."""
    local_fleet()
    if not Rate.objects.exists():
        seed_rates(apps, cast(Any, None))


@pytest.fixture
def make_version(farm: None, customer: Customer, now: datetime) -> MakeVersion:
    """Give whole versions, with the report of these changes, or none."""
    caller = Caller(customer.user, customer.studio, frozenset(Scope), None, None)
    scene = create_scene(caller, project=customer.project, name="Scene")
    files = [{"path": path, "digest": "d3" * 32, "size": 3} for path in ("shots/a.blend", "tex/wood.png")]
    manifest = read_manifest("shots/a.blend", files)

    def make(*, report: dict[str, Any] | None = None, is_inspected: bool = True, **changes: Any) -> SceneVersion:
        version, _ = create_version(caller, scene, manifest, now=now)
        SceneVersion.objects.filter(pk=version.pk).update(status="whole")
        if is_inspected:
            record_report(version.pk, report or a_report(**changes), now=now)
        return SceneVersion.objects.get(pk=version.pk)

    return make

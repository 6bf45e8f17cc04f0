"""Two studios, and the API as each of them speaks it."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from tests.scenes.uploading import Api, Tenant, open_tenant


@pytest.fixture
def now() -> datetime:
    """Signed addresses are compared with the clock, so this is the present moment."""
    return datetime.now(UTC)


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test outlives a power cut; `tests/core/test_folder.py` is about the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def tenant(db: None) -> Tenant:
    return open_tenant("ours")


@pytest.fixture
def stranger(db: None) -> Tenant:
    return open_tenant("theirs")


@pytest.fixture
def api(tenant: Tenant) -> Api:
    return Api(tenant.token)


@pytest.fixture
def foreign(stranger: Tenant) -> Api:
    return Api(stranger.token)

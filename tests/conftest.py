"""
What all tests share: a database migrated by its owner, in which the tests are `farm`, as the processes are.

`make test` starts PostgreSQL and Valkey and names them in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

NEEDED = ("FARM_DATABASE_URL", "FARM_DATABASE_OWNER_URL", "FARM_BROKER_URL")

# How long a busy machine takes to think of examples says nothing about the code.
settings.register_profile("farm", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("farm")


def pytest_configure(config: pytest.Config) -> None:
    missing = [name for name in NEEDED if name not in os.environ]
    if missing:
        pytest.exit(
            f"{', '.join(missing)} not set: run the tests by 'make test', which starts what they need", returncode=2
        )


def _connect(url: str, database: str) -> psycopg.Connection:
    parts = urlsplit(url)
    return psycopg.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=parts.password,
        dbname=database,
        autocommit=True,
    )


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: Any) -> Iterator[None]:
    """Make a database for this run, migrated by its owner; then log in as `farm`."""
    from django.core.management import call_command
    from django.db import connection

    import farm.celery  # noqa: F401  (makes it the current app, as each process of the farm does)

    owner = os.environ["FARM_DATABASE_OWNER_URL"]
    home = urlsplit(owner).path.lstrip("/")
    name = f"test_{home}_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{os.getpid()}"
    with _connect(owner, home) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    as_farm = {key: connection.settings_dict[key] for key in ("USER", "PASSWORD", "NAME")}
    parts = urlsplit(owner)
    with django_db_blocker.unblock():
        connection.close()
        connection.settings_dict.update(USER=parts.username, PASSWORD=parts.password or "", NAME=name)
        call_command("migrate", verbosity=0)
        with connection.cursor() as cursor:
            # How transactional tests clean up, and how those that look at plans tell the planner what is there.
            cursor.execute("GRANT TRUNCATE, MAINTAIN ON ALL TABLES IN SCHEMA public TO farm")
        connection.close()
        connection.settings_dict.update(as_farm | {"NAME": name})
    yield
    with django_db_blocker.unblock():
        connection.close()
    with _connect(owner, home) as admin:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def now() -> datetime:
    """The moment at which a test happens."""
    return datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Any) -> None:
    """What guards passwords is slow by intent; here nobody steals them."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Any, settings: Any) -> None:
    """Each test has an object store of its own."""
    settings.FARM_STORAGE_URL = f"file://{tmp_path}/store"
    settings.DATA_DIR = tmp_path

"""Roles first: everything after is granted to them."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.operations import BtreeGistExtension
from django.db import migrations

from farm.core.tenancy import create_roles


class Migration(migrations.Migration):
    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    run_before: ClassVar[list[tuple[str, str]]] = [("contenttypes", "0001_initial"), ("sessions", "0001_initial")]
    operations: ClassVar[list[object]] = [create_roles(), BtreeGistExtension()]

"""Keys and checks that every table shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connection, models

if TYPE_CHECKING:
    from uuid import UUID

    _UuidField = models.UUIDField[UUID, UUID]  # generic to the type checker only
else:
    _UuidField = models.UUIDField


class UuidV7(models.Func):
    """PostgreSQL 18's `uuidv7()`: time-ordered, made by the database."""

    function = "uuidv7"
    template = "%(function)s()"
    output_field = models.UUIDField()


class ThisTransaction(models.Func):
    """The number of the transaction that asks."""

    template = "pg_current_xact_id()::text::bigint"
    output_field = models.BigIntegerField()


class UuidKey(_UuidField):
    """Primary key made by the database; an identifier, never a permission."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("primary_key", True)
        kwargs.setdefault("db_default", UuidV7())
        kwargs.setdefault("editable", False)
        super().__init__(**kwargs)


def new_ids(count: int) -> list[UUID]:
    """Have the database make keys, in order, for rows that are to be inserted together."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT uuidv7() FROM generate_series(1, %s)", [count])
        return [row[0] for row in cursor.fetchall()]

"""Keyset pages: ordered by id, which is time-ordered, so that ties, inserts and deep pages cost and lose nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import QueryDict
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.errors import Invalid

MAX_LIMIT = 200
DEFAULT_LIMIT = 50
MAX_INTEGER = 2**31 - 1
Row = TypeVar("Row", bound=Model)
Filter = Callable[[QuerySet[Any], str], QuerySet[Any]]


class UnknownFilter(Invalid):
    """There is no filter {field_name}. {why}"""

    code = "unknown-filter"


def page(
    request: Request,
    rows: QuerySet[Row],
    serializer: type[serializers.BaseSerializer[Any]],
    *,
    filters: Mapping[str, Filter] | None = None,
    newest_first: bool = True,
) -> Response:
    """
    Answer one page: `{"results": […], "next": cursor or null}`. Query: `limit` (1–200, default 50), `cursor`, filters.

    :raises UnknownFilter: a query parameter that is no filter of this list
    :raises Invalid: the limit, the cursor or a filter's value makes no sense
    """
    filters = filters or {}
    query = query_of(request.query_params, {*filters, "limit", "cursor"})
    for name in filters.keys() & query.keys():
        rows = filters[name](rows, query[name])
    limit = parse_number(query.get("limit", str(DEFAULT_LIMIT)), "limit", least=1, most=MAX_LIMIT)
    if cursor := query.get("cursor"):
        key = parse_id(cursor, "cursor")
        rows = rows.filter(pk__lt=key) if newest_first else rows.filter(pk__gt=key)
    found = list(rows.order_by("-pk" if newest_first else "pk")[: limit + 1])
    more = len(found) > limit
    found = found[:limit]
    return Response({"results": serializer(found, many=True).data, "next": str(found[-1].pk) if more else None})


def query_of(query: QueryDict, known: Iterable[str]) -> dict[str, str]:
    """
    Read the query of a request: each known parameter at most once.

    :raises UnknownFilter: another parameter
    :raises Invalid: one that is given twice, or that nothing can be compared with
    """
    names = sorted(known)
    found = {}
    for name, values in query.lists():
        if name not in names:
            raise UnknownFilter(name, f"Known here: {', '.join(names)}.")
        if len(values) > 1:
            raise Invalid(name, "it is given twice; separate several values by commas")
        if "\x00" in values[0]:
            raise Invalid(name, "it holds a NUL character")
        found[name] = str(values[0])
    return found


def parse_number(text: str, field: str, *, least: int = -MAX_INTEGER, most: int = MAX_INTEGER) -> int:
    """
    Parse a number from a query.

    :raises Invalid: it is none, or not between the limits
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        raise Invalid(field, f"{text[:40]!r} is not a number")
    if not least <= int(text) <= most:
        raise Invalid(field, f"{text} is not between {least:,} and {most:,}")
    return int(text)


def parse_id(text: str, field: str) -> UUID:
    """
    Parse an id from a query.

    :raises Invalid: it is none
    """
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(field, f"{text[:80]!r} is not an id") from None


def by_id(column: str, field: str) -> Filter:
    """Make a filter that compares a column with an id."""
    return lambda rows, value: rows.filter(**{column: parse_id(value, field)})


def by_number(column: str, field: str) -> Filter:
    """Make a filter that compares a column with a whole number."""
    return lambda rows, value: rows.filter(**{column: parse_number(value, field)})


def by_choice(column: str, field: str, allowed: list[str]) -> Filter:
    """Make a filter that takes one or several of the allowed values, separated by commas."""

    def apply(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        wanted = value.split(",")
        for word in wanted:
            if word not in allowed:
                raise Invalid(field, f"{word[:80]!r} is not one of {', '.join(allowed)}")
        return rows.filter(**{f"{column}__in": wanted})

    return apply


def page_schema(serializer: type[serializers.BaseSerializer[Any]]) -> Any:
    """Give the OpenAPI form of a page of these rows."""
    from drf_spectacular.utils import inline_serializer

    fields: dict[str, serializers.Field[Any, Any, Any, Any]] = {
        "results": serializer(many=True),
        "next": serializers.CharField(allow_null=True, help_text="Cursor of the next page; null: this is the last."),
    }
    return inline_serializer(f"{serializer.__name__.removesuffix('Serializer')}Page", fields)

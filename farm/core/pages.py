"""Keyset pages: ordered by id, which is time-ordered, so that ties, inserts and deep pages cost and lose nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from rest_framework import serializers
from rest_framework.response import Response

from farm.core.errors import Invalid

MAX_LIMIT = 200
Row = TypeVar("Row", bound=Model)
Filter = Callable[[QuerySet[Any], str], QuerySet[Any]]


class UnknownFilter(Invalid):
    """There is no filter {field_name}. {why}"""

    code = "unknown-filter"


def page(
    request: HttpRequest,
    rows: QuerySet[Row],
    serializer: type[serializers.BaseSerializer[Any]],
    *,
    filters: dict[str, Filter] | None = None,
    newest_first: bool = True,
) -> Response:
    """
    Answer one page: `{"results": […], "next": cursor or null}`. Query: `limit` (1–200, default 50), `cursor`, filters.

    :raises UnknownFilter: a query parameter that is no filter of this list
    :raises Invalid: the limit, the cursor or a filter's value makes no sense
    """
    filters = filters or {}
    for name, value in request.GET.items():
        if name in {"limit", "cursor"}:
            continue
        if name not in filters:
            raise UnknownFilter(name, f"Known here: {', '.join(sorted({*filters, 'limit', 'cursor'}))}.")
        rows = filters[name](rows, str(value))
    limit = _limit(request.GET.get("limit", "50"))
    if cursor := request.GET.get("cursor"):
        key = parse_id(cursor, "cursor")
        rows = rows.filter(pk__lt=key) if newest_first else rows.filter(pk__gt=key)
    found = list(rows.order_by("-pk" if newest_first else "pk")[: limit + 1])
    more = len(found) > limit
    found = found[:limit]
    return Response({"results": serializer(found, many=True).data, "next": str(found[-1].pk) if more else None})


def _limit(text: str) -> int:
    try:
        limit = int(text)
    except ValueError:
        raise Invalid("limit", f"{text!r} is not a number") from None
    if not 1 <= limit <= MAX_LIMIT:
        raise Invalid("limit", f"{limit} is not between 1 and {MAX_LIMIT}")
    return limit


def parse_id(text: str, field: str) -> UUID:
    """
    Parse an id from a query.

    :raises Invalid: it is none
    """
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(field, f"{text!r} is not an id") from None


def by_id(column: str, field: str) -> Filter:
    """Make a filter that compares a column with an id."""
    return lambda rows, value: rows.filter(**{column: parse_id(value, field)})


def by_choice(column: str, field: str, allowed: list[str]) -> Filter:
    """Make a filter that takes one or several of the allowed values, separated by commas."""

    def apply(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        wanted = value.split(",")
        for word in wanted:
            if word not in allowed:
                raise Invalid(field, f"{word!r} is not one of {', '.join(allowed)}")
        return rows.filter(**{f"{column}__in": wanted})

    return apply


def page_schema(serializer: type[serializers.BaseSerializer[Any]]) -> Any:
    """Give the OpenAPI form of a page of these rows."""
    from drf_spectacular.utils import inline_serializer

    return inline_serializer(
        f"{serializer.__name__}Page",
        {
            "results": serializer(many=True),
            "next": serializers.CharField(allow_null=True, help_text="Cursor of the next page."),
        },
    )

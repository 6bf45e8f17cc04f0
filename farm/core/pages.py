"""
Keyset pages: ordered by id, which is time-ordered, so that ties, inserts and deep pages cost and lose nothing.

A list may offer other orders. Each is of a column that an index has together with the id, which makes places unique.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, ExpressionWrapper, F, Func, Model, QuerySet, Value
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


@dataclass(frozen=True)
class Sort:
    """An order of a list: by a column (or an annotation of this name), then by id; `kind` is what its values are."""

    column: str
    is_descending: bool
    kind: type[int] | type[datetime]


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
    sorts: Mapping[str, Sort | None] | None = None,
    dress: Callable[[list[Row]], object] = lambda rows: None,
) -> Response:
    """
    Answer one page: `{"results": […], "next": cursor or null}`. Query: `limit` (1–200, default 50), `cursor`, filters.

    `sorts` are the orders there are beside that by id, by name; `-created` and `created` say None. `dress` gets the
    page's rows before they are shown, to add what is known of all of them at once.

    :raises UnknownFilter: a query parameter that is no filter of this list
    :raises Invalid: the limit, the cursor, the sort or a filter's value makes no sense
    """
    filters = filters or {}
    query = query_of(request.query_params, {*filters, "limit", "cursor", *(["sort"] if sorts else [])})
    for name in filters.keys() & query.keys():
        rows = filters[name](rows, query[name])
    limit = parse_number(query.get("limit", str(DEFAULT_LIMIT)), "limit", least=1, most=MAX_LIMIT)
    order = _order(query, sorts or {}, newest_first)
    with by_index() if isinstance(order, _BySort) else nullcontext():
        found = list(order.after(rows, query.get("cursor", ""))[: limit + 1])
    more = len(found) > limit
    found = found[:limit]
    dress(found)
    return Response({"results": serializer(found, many=True).data, "next": order.cursor(found[-1]) if more else None})


@contextmanager
def by_index() -> Iterator[None]:
    """
    Read rows by the index that has them in order, where there is one.

    The planner counts on a sort being cheap; of many rows that share a value, and of a job that is half its table, it
    would rather read and sort all.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_sort = off")
    yield
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_sort TO DEFAULT")


def _order(query: Mapping[str, str], sorts: Mapping[str, Sort | None], newest_first: bool) -> _ById | _BySort:
    if "sort" not in query:
        return _ById(newest_first)
    if query["sort"] not in sorts:
        raise Invalid("sort", f"{query['sort'][:80]!r} is not one of {', '.join(sorts)}")
    sort = sorts[query["sort"]]
    return _BySort(sort) if sort else _ById(query["sort"].startswith("-"))


@dataclass(frozen=True)
class _ById:
    """Places in the order of ids."""

    is_descending: bool

    def after(self, rows: QuerySet[Row], cursor: str) -> QuerySet[Row]:
        if cursor:
            key = parse_id(cursor, "cursor")
            rows = rows.filter(pk__lt=key) if self.is_descending else rows.filter(pk__gt=key)
        return rows.order_by("-pk" if self.is_descending else "pk")

    def cursor(self, row: Model) -> str:
        return str(row.pk)


@dataclass(frozen=True)
class _BySort:
    """Places in another order; ids run the same way as the column."""

    sort: Sort

    def after(self, rows: QuerySet[Row], cursor: str) -> QuerySet[Row]:
        column, sign, beyond = self.sort.column, *(("-", "<") if self.sort.is_descending else ("", ">"))
        if cursor:
            value, key = self._parse(cursor)
            # Compared as rows, which an index can begin at, however many share the value.
            here, there = Func(F(column), F("pk"), function="ROW"), Func(Value(value), Value(key), function="ROW")
            further = Func(here, there, arg_joiner=f" {beyond} ", template="%(expressions)s")
            rows = rows.filter(ExpressionWrapper(further, BooleanField()))
        return rows.order_by(f"{sign}{column}", f"{sign}pk")

    def cursor(self, row: Model) -> str:
        value = getattr(row, self.sort.column)
        told = [value.isoformat() if isinstance(value, datetime) else value, str(row.pk)]
        return base64.urlsafe_b64encode(json.dumps(told).encode()).decode()

    def _parse(self, cursor: str) -> tuple[Any, UUID]:
        try:
            value, key = json.loads(base64.urlsafe_b64decode(cursor.encode()))
            if self.sort.kind is datetime:
                return datetime.fromisoformat(value).astimezone(UTC), UUID(key)
            return parse_number(str(value), "cursor"), UUID(key)
        except (ValueError, TypeError, AttributeError, OverflowError, binascii.Error):
            raise Invalid("cursor", f"{cursor[:80]!r} is no cursor of this list") from None


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


def ids_of(text: str, field: str) -> list[UUID]:
    """
    Parse ids of a query, separated by commas.

    :raises Invalid: there is none, one is none, or there are more than fit an answer
    """
    ids = [parse_id(part, field) for part in text.split(",")]
    if len(ids) > MAX_LIMIT:
        raise Invalid(field, f"{len(ids)} are more than {MAX_LIMIT}")
    return ids


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

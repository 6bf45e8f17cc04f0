"""The public API as a program of a studio speaks it: by a token alone."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.test import Client

from farm.studios.roles import Scope
from farm.studios.services import issue_token
from tests.farm import Customer


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def code(self) -> str:
        """The problem's code; an answer that is none has ""."""
        return str(self.body.get("code", "")) if isinstance(self.body, dict) else ""

    @property
    def fields(self) -> list[tuple[str | None, str]]:
        return [(error["field"], error["code"]) for error in self.body["errors"]]


class Api:
    """Calls `/api/v1`; below `/`, anything else."""

    def __init__(self, customer: Customer | None = None, *, scopes: Sequence[str] | None = None) -> None:
        self.token = token_of(customer, scopes=scopes) if customer else ""
        self._client = Client(raise_request_exception=False)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        sent = body if isinstance(body, (bytes, str)) else "" if body is None else json.dumps(body)
        if self.token:
            headers = {"Authorization": f"Bearer {self.token}", **headers}
        kind = headers.pop("Content-Type", "application/json")
        address = path if path.startswith("/") else f"/api/v1/{path}"
        response = self._client.generic(method, address, sent, kind, headers=headers)
        leave_tenant()
        is_json = bool(response.content) and "json" in response.headers.get("Content-Type", "")
        is_packed = response.headers.get("Content-Encoding") == "gzip"
        content = gzip.decompress(response.content) if is_packed else response.content
        return Answer(response.status_code, json.loads(content) if is_json else None, dict(response.headers))

    def get(self, path: str, **headers: str) -> Answer:
        return self("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self("POST", path, body, **headers)


def token_of(customer: Customer, *, scopes: Sequence[str] | None = None, days: int = 1) -> str:
    """Make a token of a studio's owner, with all scopes unless said otherwise."""
    wanted = [str(s) for s in (Scope if scopes is None else scopes)]
    _, text = issue_token(
        studio=customer.studio, user=customer.user, name="test", scopes=wanted, days=days, now=datetime.now(UTC)
    )
    return text


def leave_tenant() -> None:
    """Be the process again: a request's SET LOCAL outlives it in the test's own transaction."""
    if connection.connection is None or not connection.in_atomic_block:
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('farm.studio', '', true), set_config('role', 'none', true)")


def raw_rows(statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Ask the database itself."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())

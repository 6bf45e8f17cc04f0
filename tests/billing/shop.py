"""A studio that renders, a program that calls the API for it, and the tables' owner, who can erase what it did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import psycopg
from django.conf import settings
from django.db import connection
from django.test import Client

from farm.billing.metering import EndedFact
from farm.billing.models import Budget, CostObject, UsageFact
from farm.billing.pricing import BudgetScope, Policy
from farm.billing.services import HoldRequest, hold, open_cost_object, set_policy, settle
from farm.studios.models import Membership, Project, Studio, User
from farm.studios.roles import Role
from farm.studios.services import issue_token

GPU = "NVIDIA L4"
RATE = 805_000  # micro-dollars per GPU-hour, of the default price list
MINUTE = 13_417  # 60,000 ms × 805,000 ÷ 3,600,000 = 13,416.67
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@dataclass
class Shop:
    """A studio that renders, and what tests do with it again and again."""

    studio: Studio
    project: Project
    artist: User
    now: datetime = NOW
    _frames: Iterator[int] = field(default_factory=lambda: count(1))

    def open(
        self, *, budget: int | None = None, project: Project | None = None, policy: Policy | None = None, **fields: Any
    ) -> CostObject:
        """Open a job's cost object, under a policy of the studio's own if one is given."""
        if policy is not None:
            set_policy(policy, studio=self.studio, now=self.now)
        wish: dict[str, Any] = {"name": "shot_010", "worker_classes": [GPU, "cpu"], "now": self.now} | fields
        return open_cost_object(
            studio=self.studio, project=project or self.project, artist=self.artist, budget_micro=budget, **wish
        )

    def request(self, job: CostObject, *, p95_ms: int | None = 60_000, **fields: Any) -> HoldRequest:
        wish: dict[str, Any] = {"worker_class": GPU, "gpus": 1} | fields
        return HoldRequest(attempt=uuid4(), cost_object=job.id, predicted_p95_ms=p95_ms, **wish)

    def start(self, job: CostObject, **fields: Any) -> UUID:
        """Hold money for one attempt, which must be granted."""
        request = self.request(job, **fields)
        answer = hold([request], now=self.now)
        assert answer.granted.keys() == {request.attempt}
        return request.attempt

    def ended(self, job: CostObject, attempt: UUID, **fields: Any) -> EndedFact:
        """Say how an attempt ended: a minute's frame, verified, unless said otherwise."""
        wish: dict[str, Any] = {
            "task": uuid4(),
            "generation": 1,
            "worker_class": GPU,
            "gpus": 1,
            "render_ms": 60_000,
            "setup_ms": 0,
            "outcome": "succeeded",
            "cause": "",
            "claimed_at": self.now,
            "started_at": self.now,
            "label": f"frame {next(self._frames)}",
        }
        return EndedFact(attempt=attempt, cost_object=job.id, **wish | fields)

    def render(
        self, job: CostObject, *, p95_ms: int | None = 3_600_000, after: timedelta = timedelta(hours=1), **fields: Any
    ) -> UsageFact:
        """Hold, render and settle one attempt; give its fact."""
        attempt = self.start(job, p95_ms=p95_ms, purpose=fields.get("purpose", "render"))
        settle([self.ended(job, attempt, **fields)], now=self.now + after)
        return UsageFact.objects.get(pk=attempt)

    def budget(self, scope: BudgetScope, subject: UUID | None = None) -> Budget:
        wanted = {BudgetScope.STUDIO: self.studio.id, BudgetScope.PROJECT: self.project.id}.get(scope, subject)
        return Budget.objects.get(scope=scope, subject=subject or wanted or uuid4())

    def cap(self, scope: BudgetScope, cap: int | None, subject: UUID | None = None) -> Budget:
        budget = self.budget(scope, subject)
        Budget.objects.filter(pk=budget.pk).update(cap_micro=cap)
        budget.refresh_from_db()
        return budget


def make_shop(*, currency: str = "USD", zone: str = "UTC") -> Shop:
    name = f"Studio {uuid4().hex}"
    studio = Studio.objects.create(name=name, currency=currency, zone=zone)
    artist = User.objects.create(email=f"{uuid4().hex}@example.com", name="Ada")
    Membership.objects.create(studio=studio, user=artist, role=Role.OWNER)
    return Shop(studio, Project.objects.create(studio=studio, name="Show"), artist)


class Api:
    """A member's program, calling the public API with a token."""

    def __init__(self, shop: Shop, scopes: list[str]) -> None:
        _, token = issue_token(
            studio=shop.studio, user=shop.artist, name="test", scopes=scopes, days=1, now=datetime.now(UTC)
        )
        self._client = Client(headers={"authorization": f"Bearer {token}"})

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = "" if body is None else json.dumps(body)
        response = self._client.generic(method, f"/api/v1/{path}", sent, "application/json", headers=headers)
        with connection.cursor() as cursor:  # the request's SET LOCAL outlives it in the test's own transaction
            cursor.execute("SELECT set_config('farm.studio', '', true), set_config('role', 'none', true)")
        return response.status_code, response.json() if response.content else None


@contextmanager
def owner() -> Iterator[psycopg.Connection[Any]]:
    """Connect as the owner of the tables, in one transaction."""
    url = settings.FARM_DATABASE_OWNER_URL
    with psycopg.connect(url, dbname=connection.settings_dict["NAME"]) as connected:
        yield connected


TABLES = (
    "billing_ledgerentry",
    "billing_ledgergroup",
    "billing_credit",
    "billing_usagefact",
    "billing_hold",
    "billing_budget",
    "billing_quotedrate",
    "billing_costobject",
    "billing_policy",
    "billing_rate",
    "studios_apitoken",
    "studios_auditrow",
    "studios_project",
    "studios_membership",
    "core_event",
)


def erase(shop: Shop) -> None:
    """Take back what a test committed, append-only rows too: as the owner, with rules and row-level security off."""
    connection.close()
    with owner() as connected:
        for table in (*TABLES, "studios_studio", "studios_user"):
            connected.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
            connected.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        for table in TABLES:
            connected.execute(f"DELETE FROM {table} WHERE studio_id = %s", [shop.studio.id])
        connected.execute("DELETE FROM studios_studio WHERE id = %s", [shop.studio.id])
        connected.execute("DELETE FROM studios_user WHERE id = %s", [shop.artist.id])
        connected.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in (*TABLES, "studios_studio", "studios_user"):
            connected.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
            connected.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")

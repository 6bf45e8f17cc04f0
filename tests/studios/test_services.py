"""Studios, projects and tokens: who may make what, and what is written down of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from farm.core.errors import Invalid
from farm.studios import services
from farm.studios.authentication import Caller
from farm.studios.models import ApiToken, AuditRow, Membership, Project, Studio, User
from farm.studios.roles import Role, Scope
from tests.farm import Customer, open_customer

pytestmark = pytest.mark.django_db

OPENING: dict[str, Any] = {
    "name": "Nordlicht",
    "currency": "EUR",
    "zone": "Europe/Berlin",
    "email": "Ada@Example.com",
    "is_operator": False,
}


@pytest.fixture
def customer() -> Customer:
    return open_customer()


@pytest.fixture
def caller(customer: Customer) -> Caller:
    return Caller(customer.user, customer.studio, frozenset(Scope), None, "192.0.2.7")


def audit_rows(act: str) -> list[AuditRow]:
    return list(AuditRow.objects.filter(act=act).order_by("id"))


class TestOpenStudio:
    def test_a_studio_has_an_owner_and_it_is_written_down(self) -> None:
        studio, user = services.open_studio(**OPENING)

        assert Membership.objects.get(studio=studio, user=user).role == Role.OWNER
        (row,) = audit_rows("member.joined")
        assert (row.studio_id, row.subject, row.params) == (studio.id, user.id, {"role": "owner"})

    def test_asked_again_the_ones_there_are_come(self) -> None:
        first = services.open_studio(**OPENING)

        again = services.open_studio(**OPENING | {"name": "NORDLICHT", "email": "ada@example.com"})

        assert again == first
        assert (Studio.objects.count(), User.objects.count(), Membership.objects.count()) == (1, 1, 1)
        assert len(audit_rows("member.joined")) == 1

    def test_a_second_owner_joins(self) -> None:
        studio, _ = services.open_studio(**OPENING)

        same, other = services.open_studio(**OPENING | {"email": "bob@example.com"})

        assert same == studio
        assert Membership.objects.get(user=other).role == Role.OWNER

    def test_the_owner_has_no_password(self) -> None:
        _, user = services.open_studio(**OPENING)

        assert not user.has_usable_password()

    def test_a_studio_s_currency_never_changes(self) -> None:
        services.open_studio(**OPENING)

        with pytest.raises(services.OtherCurrency, match="EUR"):
            services.open_studio(**OPENING | {"currency": "USD"})

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("currency", "eur"),
            ("currency", "EURO"),
            ("currency", "ＥＵＲ"),
            ("currency", "E1R"),
            ("zone", "Berlin"),
            ("zone", "../../etc/passwd"),
            ("zone", ""),
            ("email", "ada"),
            ("email", ""),
            ("studio", ""),
            ("studio", " "),
            ("studio", "a\nb"),
            ("studio", "x" * 201),
        ],
    )
    def test_what_makes_no_sense_is_refused_by_field(self, field: str, value: str) -> None:
        wish = OPENING | {"name" if field == "studio" else field: value}

        with pytest.raises(Invalid) as refusal:
            services.open_studio(**wish)

        assert refusal.value.field == field
        assert not Studio.objects.exists()


class TestCreateProject:
    def test_a_project_is_made_in_the_farm_s_first_region(self, caller: Caller) -> None:
        project = services.create_project(caller, name="Film")

        assert (project.studio_id, project.region) == (caller.studio.id, "local")
        (row,) = audit_rows("project.created")
        assert (row.subject, row.user_id, row.address) == (project.id, caller.user.id, "192.0.2.7")

    def test_a_name_is_taken_in_any_case_but_only_in_its_studio(self, caller: Caller) -> None:
        services.create_project(caller, name="Film")

        with pytest.raises(services.NameTaken, match="'FILM'"):
            services.create_project(caller, name="FILM")

        other = open_customer()
        services.create_project(Caller(other.user, other.studio, frozenset(Scope), None, None), name="Film")

    def test_a_region_that_the_farm_has_not_is_refused_with_those_it_has(self, caller: Caller, settings: Any) -> None:
        settings.FARM_REGIONS = ["eu-1", "us-1"]

        with pytest.raises(services.UnknownRegion, match=r"no region 'mars'. It has: eu-1, us-1\."):
            services.create_project(caller, name="Film", region="mars")

        assert services.create_project(caller, name="Film", region="us-1").region == "us-1"

    def test_a_refused_project_leaves_no_audit_row(self, caller: Caller) -> None:
        with pytest.raises(services.NameTaken):
            services.create_project(caller, name="Show")

        assert Project.objects.count() == 1
        assert audit_rows("project.created") == []


class TestIssueOwnToken:
    def issue(self, caller: Caller, now: datetime, **change: Any) -> ApiToken:
        wish: dict[str, Any] = {"name": "ci", "scopes": ["jobs:read"], "days": 10} | change
        token, _ = services.issue_own_token(caller, now=now, **wish)
        return token

    def test_it_is_the_caller_s_own_and_written_down(self, caller: Caller, now: datetime) -> None:
        token = self.issue(caller, now, scopes=["jobs:write", "jobs:read", "jobs:read"])

        assert (token.user_id, token.studio_id) == (caller.user.id, caller.studio.id)
        assert token.scopes == ["jobs:read", "jobs:write"]
        assert token.expires_at == now + timedelta(days=10)
        (row,) = audit_rows("token.issued")
        assert (row.subject, row.params) == (token.id, {"name": "ci", "scopes": ["jobs:read", "jobs:write"]})

    def test_it_is_no_wider_than_its_maker(self, customer: Customer, now: datetime) -> None:
        artist = Caller(customer.user, customer.studio, frozenset({Scope.JOBS_READ, Scope.STUDIO_WRITE}), None, None)

        with pytest.raises(services.ScopeTooWide, match="billing:read, jobs:write"):
            self.issue(artist, now, scopes=["jobs:read", "jobs:write", "billing:read"])

    def test_a_scope_there_is_not_is_refused(self, caller: Caller, now: datetime) -> None:
        with pytest.raises(Invalid, match="farm:own"):
            self.issue(caller, now, scopes=["farm:own"])

    @pytest.mark.parametrize("days", [0, -1, 367])
    def test_a_life_outside_a_day_and_a_year_is_refused(self, caller: Caller, now: datetime, days: int) -> None:
        with pytest.raises(Invalid) as refusal:
            self.issue(caller, now, days=days)

        assert refusal.value.field == "days"


class TestRevokeToken:
    def test_it_ends_once(self, caller: Caller, now: datetime) -> None:
        token, _ = services.issue_own_token(caller, name="ci", scopes=["jobs:read"], days=1, now=now)

        services.revoke_token(caller, token.id, now=now)
        services.revoke_token(caller, token.id, now=now + timedelta(hours=1))

        token.refresh_from_db()
        assert token.revoked_at == now
        assert [row.subject for row in audit_rows("token.revoked")] == [token.id]


class TestAudit:
    def test_a_row_is_never_changed_nor_deleted(self, caller: Caller) -> None:
        services.audit(caller, "door.opened")
        rows = AuditRow.objects.filter(act="door.opened")
        with pytest.raises(DatabaseError), transaction.atomic():
            rows.update(act="door.closed")
        with pytest.raises(DatabaseError), transaction.atomic():
            rows.delete()

        assert len(audit_rows("door.opened")) == 1

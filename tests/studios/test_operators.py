"""Operators' looks into studios: announced, written down, over after an hour, and never more than looking."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.core.cache import cache
from django.utils import timezone

from farm.studios.authentication import LOOK
from farm.studios.models import AuditRow, Membership, User
from farm.studios.roles import Role
from tests.api import Answer, Api
from tests.farm import Customer, open_customer, submit
from tests.studios.browser import Browser, with_password

pytestmark = pytest.mark.django_db


@pytest.fixture
def studio() -> Customer:
    """A studio that is not the operator's."""
    cache.clear()
    customer = open_customer("Nordlicht")
    submit(customer, now=datetime.now(UTC))
    return customer


@pytest.fixture
def user() -> User:
    return User.objects.create_user("operator@example.com", is_operator=True)


@pytest.fixture
def operator(user: User) -> Browser:
    with_password(user)
    browser = Browser()
    assert browser.sign_in(user.email).status == 200
    return browser


def look(browser: Browser, studio: Customer) -> Answer:
    return browser("POST", "/api/v1/looks", {"studio": str(studio.studio.id), "reason": "Ticket 7"})


class TestStudios:
    def test_an_operator_finds_them_all(self, operator: Browser, studio: Customer) -> None:
        open_customer("Other")

        assert [s["name"] for s in operator("GET", "/api/v1/studios").body["results"]] == ["Other", "Nordlicht"]
        assert [s["name"] for s in operator("GET", "/api/v1/studios?name=nord").body["results"]] == ["Nordlicht"]

    def test_nobody_else_does(self, studio: Customer) -> None:
        with_password(studio.user)
        browser = Browser()
        browser.sign_in(studio.user.email)

        assert browser("GET", "/api/v1/studios").code == "operators-only"
        assert look(browser, open_customer("Other")).code == "operators-only"

    def test_no_token_does(self, studio: Customer) -> None:
        User.objects.filter(pk=studio.user.pk).update(is_operator=True)
        api = Api(studio)

        assert api.get("studios").code == "browser-only"
        assert api.post("looks", {"studio": str(studio.studio.id), "reason": "x"}).code == "browser-only"


class TestLook:
    def test_without_one_a_studio_is_not_there(self, operator: Browser, studio: Customer) -> None:
        own = open_customer("Own").studio
        Membership.objects.create(studio=own, user=User.objects.get(is_operator=True), role=Role.OWNER)
        operator.studio = str(studio.studio.id)

        assert operator("GET", "/api/v1/jobs").code == "no-such-studio"

    def test_it_shows_the_studio_and_stands_in_its_audit_log(
        self, operator: Browser, studio: Customer, user: User
    ) -> None:
        answer = look(operator, studio)
        operator.studio = str(studio.studio.id)

        assert (answer.status, answer.body["studio"]) == (200, "Nordlicht")
        assert len(operator("GET", "/api/v1/jobs").body["results"]) == 1
        me = operator("GET", "/api/v1/me").body
        assert (me["studio"], me["is_looking"], me["studios"]) == ("Nordlicht", True, [])
        row = AuditRow.objects.get(act="operator.looked")
        assert (row.studio_id, row.user_id, row.address) == (studio.studio.id, user.id, "127.0.0.1")
        assert row.params == {"reason": "Ticket 7", "email": user.email}

    def test_it_changes_nothing(self, operator: Browser, studio: Customer) -> None:
        look(operator, studio)
        operator.studio = str(studio.studio.id)
        member = Membership.objects.get(studio=studio.studio).id

        answers = [
            operator("POST", "/api/v1/projects", {"name": "P"}),
            operator("PATCH", "/api/v1/studio", {"name": "X"}),
            operator("PATCH", f"/api/v1/members/{member}", {"role": "viewer"}),
            operator("POST", "/api/v1/members/invitations", {"email": "x@example.com", "role": "owner"}),
            operator("POST", "/api/v1/tokens", {"name": "x", "scopes": ["jobs:read"]}),
            operator("PATCH", "/api/v1/me", {"name": "X"}),
        ]

        assert [answer.code for answer in answers] == ["scope-missing"] * len(answers)

    def test_it_ends(self, operator: Browser, studio: Customer) -> None:
        look(operator, studio)
        operator.studio = str(studio.studio.id)

        with time_machine.travel(timezone.now() + LOOK + timedelta(seconds=1), tick=False):
            assert operator("GET", "/api/v1/jobs").code == "no-studio"

    def test_it_ends_with_the_operator_s_office(self, operator: Browser, studio: Customer, user: User) -> None:
        look(operator, studio)
        operator.studio = str(studio.studio.id)
        User.objects.filter(pk=user.pk).update(is_operator=False)

        assert operator("GET", "/api/v1/jobs").code == "no-studio"

    def test_it_is_of_one_studio_and_one_operator(self, operator: Browser, studio: Customer) -> None:
        other = open_customer("Other")
        colleague = User.objects.create_user("second@example.com", is_operator=True)
        with_password(colleague)
        second = Browser(str(studio.studio.id))
        second.sign_in(colleague.email)
        look(operator, studio)
        operator.studio = str(other.studio.id)

        assert operator("GET", "/api/v1/jobs").code == "no-studio"
        assert second("GET", "/api/v1/jobs").code == "no-studio"

    def test_it_needs_a_reason(self, operator: Browser, studio: Customer) -> None:
        answer = operator("POST", "/api/v1/looks", {"studio": str(studio.studio.id), "reason": " "})

        assert (answer.status, answer.fields[0][0]) == (422, "reason")
        assert not AuditRow.objects.filter(act="operator.looked").exists()

    def test_of_no_studio_there_is_none(self, operator: Browser) -> None:
        body = {"studio": "00000000-0000-0000-0000-000000000000", "reason": "x"}

        assert operator("POST", "/api/v1/looks", body).status == 404

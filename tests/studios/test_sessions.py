"""People in browsers: signing in by django-allauth, and sessions at the public API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core import mail
from django.core.cache import cache

from farm.studios.accounts import first_link
from farm.studios.models import Membership, User
from farm.studios.roles import Role
from tests.api import Api, token_of
from tests.farm import Customer, open_customer, submit
from tests.studios.browser import PASSWORD, Browser, with_password

pytestmark = pytest.mark.django_db


GUESSES = 5  # at one address within five minutes


def refused(browser: Browser, customer: Customer, password: str) -> str:
    """Try to sign in in vain; give why."""
    answer = browser.sign_in(customer.user.email, password)
    assert answer.status == 400, answer
    return str(answer.body["errors"][0]["code"])


@pytest.fixture
def customer() -> Customer:
    cache.clear()  # attempts to sign in that other tests counted
    return open_customer("Nordlicht")


@pytest.fixture
def browser(customer: Customer) -> Browser:
    with_password(customer.user)
    browser = Browser()
    assert browser.sign_in(customer.user.email).status == 200
    return browser


class TestFirstLink:
    def test_it_sets_a_password_that_then_opens_the_door(self, customer: Customer) -> None:
        link = first_link(customer.user)

        Browser().set_password(link)

        assert Browser().sign_in(customer.user.email).status == 200

    def test_it_works_once(self, customer: Customer) -> None:
        link = first_link(customer.user)
        Browser().set_password(link)

        assert Browser().set_password(link, "another long password").status == 400
        assert Browser().sign_in(customer.user.email, "another long password").status == 400

    def test_a_weak_password_is_refused(self, customer: Customer) -> None:
        assert Browser().set_password(first_link(customer.user), "password12").status == 400


class TestSignIn:
    def test_a_wrong_password_is_refused_and_says_nothing_of_the_address(self, customer: Customer) -> None:
        with_password(customer.user)

        known, unknown = Browser().sign_in(customer.user.email, "wrong"), Browser().sign_in("who@example.com", "wrong")

        assert known.status == unknown.status == 400
        assert known.body["errors"][0]["code"] == unknown.body["errors"][0]["code"]

    def test_guessing_is_slowed_down(self, customer: Customer) -> None:
        with_password(customer.user)

        assert {refused(Browser(), customer, f"guess {n}") for n in range(GUESSES)} == {"email_password_mismatch"}

        assert refused(Browser(), customer, "one guess more") == "too_many_login_attempts"
        assert refused(Browser(), customer, PASSWORD) == "too_many_login_attempts"

    @pytest.mark.parametrize(
        "disguise",
        [
            lambda n: {"REMOTE_ADDR": f"192.0.2.{n}"},
            lambda n: {"HTTP_X_FORWARDED_FOR": f"192.0.2.{n}"},
            lambda n: {"HTTP_HOST": f"localhost:{n}"},
        ],
    )
    def test_guessing_at_one_is_slowed_down_from_wherever_it_comes(self, customer: Customer, disguise: Any) -> None:
        with_password(customer.user)
        browsers = [Browser() for _ in range(GUESSES + 1)]
        for number, browser in enumerate(browsers):
            browser.client.defaults.update(disguise(number))

        answers = [refused(browser, customer, "guess") for browser in browsers]

        assert answers == ["email_password_mismatch"] * GUESSES + ["too_many_login_attempts"]

    def test_somebody_else_still_signs_in(self, customer: Customer) -> None:
        other = open_customer("Other")
        with_password(other.user)
        for number in range(GUESSES + 1):
            refused(Browser(), customer, f"guess {number}")

        assert Browser().sign_in(other.user.email).status == 200

    def test_nobody_registers_unless_the_operator_lets_them(self, customer: Customer) -> None:
        body = {"email": "new@example.com", "password": PASSWORD}

        assert Browser()("POST", "/_allauth/browser/v1/auth/signup", body).status == 403
        assert not User.objects.filter(email="new@example.com").exists()

    def test_a_forgotten_password_is_set_anew_by_mail(self, customer: Customer) -> None:
        with_password(customer.user)
        body = {"email": customer.user.email}

        assert Browser()("POST", "/_allauth/browser/v1/auth/password/request", body).status == 200

        link = next(word for word in str(mail.outbox[-1].body).split() if "/set-password/" in word)
        assert urlsplit(link).path.startswith("/set-password/")
        Browser().set_password(link, "a brand new password")
        assert Browser().sign_in(customer.user.email, "a brand new password").status == 200

    def test_one_who_is_no_longer_active_is_signed_out(self, browser: Browser, customer: Customer) -> None:
        User.objects.filter(pk=customer.user.pk).update(is_active=False)

        assert browser("GET", "/api/v1/me").status == 401


class TestSession:
    def test_it_acts_for_the_persons_studio(self, browser: Browser, customer: Customer) -> None:
        me = browser("GET", "/api/v1/me").body

        assert (me["user"], me["studio"]) == (customer.user.email, "Nordlicht")
        assert me["studios"] == [{"id": str(customer.studio.id), "name": "Nordlicht", "role": "owner"}]

    def test_it_chooses_among_several_studios_and_sees_only_the_chosen(self, customer: Customer) -> None:
        other = open_customer("Other")
        Membership.objects.create(studio=other.studio, user=customer.user, role=Role.ARTIST)
        submit(other, now=datetime.now(UTC))
        with_password(customer.user)
        browser = Browser()
        browser.sign_in(customer.user.email)

        assert browser("GET", "/api/v1/jobs").body["results"] == []
        browser.studio = str(other.studio.id)
        assert len(browser("GET", "/api/v1/jobs").body["results"]) == 1
        assert browser("PATCH", "/api/v1/studio", {"zone": "UTC"}).code == "scope-missing"

    @pytest.mark.parametrize("spell", [str, str.upper, lambda s: s.replace("-", ""), lambda s: f"{{{s}}}"])
    def test_a_studio_is_chosen_by_its_id_however_that_is_written(
        self, browser: Browser, customer: Customer, spell: Any
    ) -> None:
        browser.studio = spell(str(customer.studio.id))

        assert browser("GET", "/api/v1/me").body["studio"] == "Nordlicht"

    @pytest.mark.parametrize("wanted", ["0" * 8, "00000000-0000-0000-0000-000000000000", "Nordlicht", "'"])
    def test_a_studio_that_is_not_the_persons_is_not_there(self, browser: Browser, wanted: str) -> None:
        browser.studio = wanted

        assert (browser("GET", "/api/v1/jobs").status, browser("GET", "/api/v1/jobs").code) == (404, "no-such-studio")

    def test_another_studios_id_is_not_there(self, browser: Browser) -> None:
        browser.studio = str(open_customer("Other").studio.id)

        assert browser("GET", "/api/v1/me").code == "no-such-studio"

    def test_a_person_of_no_studio_is_told_so(self, browser: Browser, customer: Customer) -> None:
        Membership.objects.filter(user=customer.user).delete()

        answers = {browser("GET", f"/api/v1/{path}").code for path in ("studio", "members", "tokens", "jobs")}

        assert answers == {"no-studio"}

    def test_a_person_of_no_studio_is_somebody_all_the_same(self, browser: Browser, customer: Customer) -> None:
        Membership.objects.filter(user=customer.user).delete()

        me = browser("GET", "/api/v1/me").body
        changed = browser("PATCH", "/api/v1/me", {"name": "Ada"}).body

        assert (me["user"], me["studios"]) == (customer.user.email, [])
        assert (me["studio"], me["studio_id"], me["currency"]) == (None, None, None)
        assert changed == me | {"name": "Ada"}
        assert User.objects.get(pk=customer.user.pk).name == "Ada"

    def test_a_person_of_no_studio_changes_nothing_for_another_site(self, browser: Browser, customer: Customer) -> None:
        Membership.objects.filter(user=customer.user).delete()

        assert browser("PATCH", "/api/v1/me", {"name": "Ada"}, is_forged=True).code == "csrf-failed"

    def test_a_studio_left_behind_is_not_there_for_who_has_none(self, browser: Browser, customer: Customer) -> None:
        Membership.objects.filter(user=customer.user).delete()
        browser.studio = str(customer.studio.id)

        assert browser("GET", "/api/v1/me").body["studio"] is None
        assert browser("GET", "/api/v1/jobs").code == "no-studio"

    def test_another_sites_request_changes_nothing(self, browser: Browser) -> None:
        answer = browser("POST", "/api/v1/projects", {"name": "Forged"}, is_forged=True)

        assert (answer.status, answer.code) == (403, "csrf-failed")
        assert browser("POST", "/api/v1/projects", {"name": "Meant"}).status == 201

    def test_it_ends_when_the_person_signs_out(self, browser: Browser) -> None:
        browser("DELETE", "/_allauth/browser/v1/auth/session")

        assert browser("GET", "/api/v1/me").status == 401

    def test_sessions_are_listed_and_ended(self, browser: Browser, customer: Customer) -> None:
        second = Browser()
        second.sign_in(customer.user.email)
        sessions = browser("GET", "/_allauth/browser/v1/auth/sessions").body["data"]
        other = next(s["id"] for s in sessions if not s["is_current"])

        browser("DELETE", "/_allauth/browser/v1/auth/sessions", {"sessions": [other]})

        assert second("GET", "/api/v1/me").status == 401
        assert browser("GET", "/api/v1/me").status == 200

    def test_a_token_beside_it_is_the_token_that_counts(self, browser: Browser) -> None:
        stranger = open_customer("Stranger")
        browser.client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {token_of(stranger, scopes=['studio:read'])}"

        me = browser("GET", "/api/v1/me").body
        made = browser("POST", "/api/v1/projects", {"name": "P"})

        assert (me["user"], me["studio"], me["scopes"]) == (stranger.user.email, "Stranger", ["studio:read"])
        assert made.code == "scope-missing"

    def test_a_bad_token_beside_it_is_not_made_good_by_it(self, browser: Browser) -> None:
        browser.client.defaults["HTTP_AUTHORIZATION"] = "Bearer fh_unknown"

        assert browser("GET", "/api/v1/me").status == 401


class TestPortal:
    def test_its_page_is_every_other_address_and_runs_only_its_own_scripts(self, customer: Customer) -> None:
        answer = Browser().page("/jobs/any")

        assert answer.status_code in {200, 503}
        assert "script-src" not in answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Frame-Options"] == "DENY"

    @pytest.mark.parametrize("address", ["/api/v2/jobs", "/worker/v1/none", "/static/portal/none.js", "/files/none"])
    def test_it_is_no_answer_where_a_program_asks(self, address: str) -> None:
        assert Browser().page(address).status_code in {403, 404}

    def test_a_program_that_mistakes_an_address_is_told(self) -> None:
        assert Api().get("/jobs").code == "not-found"

"""Members, profiles, the studio's own settings."""

from __future__ import annotations

import pytest
from django.core import mail
from django.core.cache import cache

from farm.studios.models import AuditRow, Membership, User
from farm.studios.roles import Role
from tests.api import Api
from tests.farm import Customer, open_customer
from tests.studios.browser import Browser

pytestmark = pytest.mark.django_db(transaction=False)


@pytest.fixture
def customer() -> Customer:
    cache.clear()
    return open_customer("Nordlicht")


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


def invite(api: Api, email: str, role: str = "artist") -> str:
    answer = api.post("members", {"email": email, "role": role})
    assert answer.status == 201, answer.body
    return str(answer.body["id"])


class TestInvite:
    def test_a_newcomer_gets_a_link_by_mail_and_is_in(
        self, api: Api, django_capture_on_commit_callbacks: pytest.FixtureRequest
    ) -> None:
        with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
            invite(api, "bo@example.com")

        link = next(word for word in str(mail.outbox[-1].body).split() if "/set-password/" in word)
        browser = Browser()
        browser.set_password(link)
        browser.sign_in("bo@example.com")
        assert browser("GET", "/api/v1/me").body["studios"][0]["role"] == "artist"

    def test_somebody_with_an_account_keeps_it(self, api: Api) -> None:
        other = open_customer("Other")
        User.objects.get(pk=other.user.pk).set_password("x")
        person = User.objects.get(pk=other.user.pk)
        person.set_password("a long password")
        person.save()

        invite(api, other.user.email)

        assert Membership.objects.filter(user=other.user).count() == 2

    def test_a_member_is_not_invited_twice(self, api: Api, customer: Customer) -> None:
        person = User.objects.get(pk=customer.user.pk)
        person.set_password("a long password")
        person.save()

        answer = api.post("members", {"email": customer.user.email.upper(), "role": "viewer"})

        assert (answer.code, answer.fields) == ("already-member", [("email", "already-member")])

    def test_one_who_never_came_gets_another_link(self, api: Api) -> None:
        assert invite(api, "bo@example.com") == invite(api, "bo@example.com")

    def test_it_is_written_down(self, api: Api) -> None:
        invite(api, "bo@example.com")

        assert AuditRow.objects.get(act="member.invited").params == {"email": "bo@example.com", "role": "artist"}


class TestChangeRole:
    def test_the_new_role_holds_at_once(self, api: Api, customer: Customer) -> None:
        member = invite(api, "bo@example.com", "viewer")
        bo = Customer(customer.studio, User.objects.get(email="bo@example.com"), customer.project)
        theirs = Api(bo)
        assert theirs.post("projects", {"name": "P"}).code == "scope-missing"

        assert api("PATCH", f"members/{member}", {"role": "owner"}).body["role"] == "owner"

        assert theirs.post("projects", {"name": "P"}).status == 201

    def test_the_last_owner_stays_owner(self, api: Api, customer: Customer) -> None:
        own = Membership.objects.get(user=customer.user).id

        assert api("PATCH", f"members/{own}", {"role": "artist"}).code == "last-owner"
        assert api("DELETE", f"members/{own}").code == "last-owner"
        assert Membership.objects.get(user=customer.user).role == Role.OWNER

    def test_another_studios_member_is_not_there(self, api: Api) -> None:
        foreign = Membership.objects.get(user=open_customer("Other").user).id

        assert api("PATCH", f"members/{foreign}", {"role": "viewer"}).status == 404


class TestRemoveMember:
    def test_their_tokens_end_and_the_person_stays(self, api: Api, customer: Customer) -> None:
        member = invite(api, "bo@example.com")
        bo = Customer(customer.studio, User.objects.get(email="bo@example.com"), customer.project)
        theirs = Api(bo)

        assert api("DELETE", f"members/{member}").status == 204

        assert theirs.get("me").status == 401
        assert User.objects.filter(email="bo@example.com").exists()


class TestProfile:
    def test_name_language_and_zone_are_ones_own(self, api: Api) -> None:
        wish = {"name": "Ada", "language": "zh-CN", "zone": "Asia/Shanghai"}

        me = api("PATCH", "me", wish).body

        assert {key: me[key] for key in wish} == wish

    @pytest.mark.parametrize("wish", [{"language": "tlh"}, {"zone": "Mars/Olympus"}])
    def test_what_there_is_not_is_refused(self, api: Api, wish: dict[str, str]) -> None:
        answer = api("PATCH", "me", wish)

        assert (answer.status, answer.fields) == (422, [(next(iter(wish)), "invalid")])


class TestStudio:
    def test_it_is_renamed(self, api: Api) -> None:
        assert api("PATCH", "studio", {"name": "Südlicht"}).body["name"] == "Südlicht"

    def test_a_name_of_another_studio_is_taken(self, api: Api) -> None:
        open_customer("Other")

        assert api("PATCH", "studio", {"name": "other"}).code == "name-taken"

    def test_its_currency_never_changes(self, api: Api) -> None:
        assert api("PATCH", "studio", {"currency": "EUR"}).status == 422

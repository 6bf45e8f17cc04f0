"""Members, profiles, the studio's own settings."""

from __future__ import annotations

import pytest
from django.core.cache import cache

from farm.studios.models import Membership, User
from farm.studios.roles import Role
from tests.api import Api
from tests.farm import Customer, open_customer

pytestmark = pytest.mark.django_db(transaction=False)


@pytest.fixture
def customer() -> Customer:
    cache.clear()
    return open_customer("Nordlicht")


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


def enrol(customer: Customer, email: str, role: Role = Role.ARTIST) -> tuple[str, Customer]:
    """Make somebody a member: the membership's id, and they in the studio."""
    user = User.objects.create_user(email)
    membership = Membership.objects.create(studio=customer.studio, user=user, role=role)
    return str(membership.id), Customer(customer.studio, user, customer.project)


class TestChangeRole:
    def test_the_new_role_holds_at_once(self, api: Api, customer: Customer) -> None:
        member, bo = enrol(customer, "bo@example.com", Role.VIEWER)
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


class TestReach:
    """Who acts with less than all rights of an owner cannot deal with those who have more."""

    NARROW = ("studio:read", "studio:write")

    def test_a_narrow_token_makes_nobody_more_than_it_is(self, customer: Customer) -> None:
        member, _ = enrol(customer, "bo@example.com", Role.VIEWER)

        answer = Api(customer, scopes=self.NARROW)("PATCH", f"members/{member}", {"role": "owner"})

        assert (answer.status, answer.code) == (403, "role-too-wide")
        assert Membership.objects.get(pk=member).role == Role.VIEWER

    @pytest.mark.parametrize("role", list(Role))
    def test_it_takes_nobody_down_or_out(self, customer: Customer, role: Role) -> None:
        member, _ = enrol(customer, "bo@example.com", role)
        narrow = Api(customer, scopes=self.NARROW)

        answers = [narrow("PATCH", f"members/{member}", {"role": "viewer"}), narrow("DELETE", f"members/{member}")]

        assert [answer.code for answer in answers] == ["role-too-wide"] * 2
        assert Membership.objects.get(pk=member).role == role

    def test_a_token_deals_with_those_it_covers(self, customer: Customer) -> None:
        viewer, _ = enrol(customer, "vi@example.com", Role.VIEWER)
        artist, _ = enrol(customer, "bo@example.com", Role.ARTIST)
        scopes = [*self.NARROW, "scenes:read", "jobs:read"]

        assert Api(customer, scopes=scopes)("DELETE", f"members/{artist}").code == "role-too-wide"
        assert Api(customer, scopes=scopes)("DELETE", f"members/{viewer}").status == 204

    @pytest.mark.parametrize("role", [Role.VIEWER, Role.ARTIST, Role.PRODUCER])
    def test_only_owners_deal_with_members(self, customer: Customer, role: Role) -> None:
        own, member = enrol(customer, "bo@example.com", role)
        theirs = Api(member)
        others = Membership.objects.get(user=customer.user).id

        answers = [
            *(theirs("PATCH", f"members/{each}", {"role": "owner"}).code for each in (own, others)),
            *(theirs("DELETE", f"members/{each}").code for each in (own, others)),
        ]

        assert answers == ["scope-missing"] * 4


class TestRemoveMember:
    def test_their_tokens_end_and_the_person_stays(self, api: Api, customer: Customer) -> None:
        member, bo = enrol(customer, "bo@example.com")
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

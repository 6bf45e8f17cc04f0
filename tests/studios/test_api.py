"""What a studio's people do with projects and tokens over the API."""

from __future__ import annotations

import pytest

from farm.studios.authentication import token_digest
from farm.studios.models import ApiToken, AuditRow, Membership, User
from farm.studios.roles import ROLE_SCOPES, Role, Scope
from tests.api import Api
from tests.farm import Customer, open_customer

pytestmark = pytest.mark.django_db


@pytest.fixture
def customer() -> Customer:
    return open_customer("Nordlicht")


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


class TestMe:
    def test_it_says_who_the_token_acts_for_and_what_it_may_do(self, customer: Customer) -> None:
        assert Api(customer, scopes=["studio:read", "jobs:read"]).get("me").body == {
            "user": "nordlicht@example.com",
            "user_id": str(customer.user.id),
            "name": "",
            "language": "",
            "zone": "",
            "is_operator": False,
            "studios": [{"id": str(customer.studio.id), "name": "Nordlicht", "role": "owner"}],
            "studio": "Nordlicht",
            "studio_id": str(customer.studio.id),
            "currency": "USD",
            "is_looking": False,
            "scopes": ["jobs:read", "studio:read"],
        }

    def test_a_token_that_only_reads_changes_no_profile(self, customer: Customer) -> None:
        reading = [scope for scope in Scope if scope.endswith(":read")]
        answers = [
            Api(customer, scopes=scopes)("PATCH", "me", {"name": "X"})
            for scopes in (reading, [s for s in Scope if s != Scope.ACCOUNT_WRITE])
        ]

        assert [(answer.status, answer.code) for answer in answers] == [(403, "scope-missing")] * 2
        assert User.objects.get(pk=customer.user.pk).name == ""


class TestProjects:
    def test_one_is_made_and_found_by_its_name_in_any_case(self, api: Api) -> None:
        made = api.post("projects", {"name": "  Film  "})

        assert made.status == 201
        assert api.get("projects?name=FILM").body["results"] == [made.body]
        assert made.body["name"] == "Film"
        assert AuditRow.objects.get(act="project.created").params == {"name": "Film"}

    @pytest.mark.parametrize("name", ["", "a\nb", "\u202ex", "x" * 201, None, 7.5, [], {}])
    def test_what_is_no_name_is_refused(self, api: Api, name: object) -> None:
        answer = api.post("projects", {"name": name})

        assert (answer.status, [field for field, _ in answer.fields]) == (422, ["name"])

    def test_a_taken_name_is_a_conflict(self, api: Api) -> None:
        answer = api.post("projects", {"name": "SHOW"})

        assert (answer.status, answer.code, answer.fields) == (409, "name-taken", [("name", "name-taken")])

    def test_a_region_the_farm_has_not_is_refused(self, api: Api) -> None:
        answer = api.post("projects", {"name": "Film", "region": "mars"})

        assert (answer.status, answer.code) == (422, "unknown-region")


class TestTokens:
    def test_its_text_is_shown_once(self, api: Api) -> None:
        made = api.post("tokens", {"name": "ci", "scopes": ["jobs:read"]}).body

        text = made["token"]
        listed = api.get("tokens").body
        assert text.startswith(made["details"]["prefix"])
        assert text not in str(listed)
        assert "digest" not in listed["results"][0]
        assert {row["name"] for row in listed["results"]} == {"test", "ci"}

    def test_it_does_what_it_was_made_for_and_no_more(self, api: Api) -> None:
        made = api.post("tokens", {"name": "ci", "scopes": ["jobs:read"]}).body
        program = Api()
        program.token = made["token"]

        assert program.get("jobs").status == 200
        assert program.get("projects").code == "scope-missing"

    def test_a_revoked_one_is_refused_from_then_on(self, api: Api) -> None:
        made = api.post("tokens", {"name": "ci", "scopes": ["jobs:read"]}).body
        program = Api()
        program.token = made["token"]

        assert api("DELETE", f"tokens/{made['details']['id']}").status == 204
        assert api("DELETE", f"tokens/{made['details']['id']}").status == 204

        assert program.get("jobs").status == 401

    def test_a_token_may_not_make_one_that_may_more(self, customer: Customer) -> None:
        narrow = Api(customer, scopes=["account:write", "studio:write"])

        answer = narrow.post("tokens", {"name": "x", "scopes": ["jobs:write"]})

        assert (answer.status, answer.code) == (403, "scope-too-wide")

    @pytest.mark.parametrize("role", list(Role))
    def test_each_member_makes_some_that_may_what_their_role_may(self, api: Api, role: Role) -> None:
        Membership.objects.update(role=role)

        answers = {s: api.post("tokens", {"name": s, "scopes": [s]}).status for s in Scope}

        assert {s for s, status in answers.items() if status == 201} == ROLE_SCOPES[role]
        assert set(answers.values()) <= {201, 403}

    def test_one_made_with_a_token_lasts_no_longer_than_it(self, customer: Customer) -> None:
        maker = Api(customer)

        made = maker.post("tokens", {"name": "ci", "scopes": ["jobs:read"], "days": 366}).body["details"]

        assert made["expires_at"] == maker.get("tokens").body["results"][-1]["expires_at"]

    def test_one_made_with_a_token_ends_with_it_and_so_on(self, api: Api, customer: Customer) -> None:
        leaked = Api(customer)
        child, grandchild, bystander = Api(), Api(), Api(customer)
        scopes = ["account:write", "studio:read"]
        child.token = leaked.post("tokens", {"name": "child", "scopes": scopes}).body["token"]
        grandchild.token = child.post("tokens", {"name": "grandchild", "scopes": scopes}).body["token"]
        assert grandchild.get("me").status == 200

        digest = token_digest(leaked.token)
        assert api("DELETE", f"tokens/{ApiToken.objects.get(digest=digest).id}").status == 204

        assert [each.get("me").status for each in (leaked, child, grandchild, bystander)] == [401, 401, 401, 200]
        assert AuditRow.objects.get(act="token.revoked").params["ended"] == 3


class TestWhoseTokens:
    """Each sees and ends their own; who runs the studio, everybody's."""

    @pytest.fixture
    def artist(self, customer: Customer) -> Customer:
        user = User.objects.create_user("bo@example.com", name="Bo")
        Membership.objects.create(studio=customer.studio, user=user, role=Role.ARTIST)
        return Customer(customer.studio, user, customer.project)

    def ids(self, api: Api) -> list[str]:
        return [row["id"] for row in api.get("tokens").body["results"]]

    def test_an_artist_sees_their_own(self, api: Api, artist: Customer) -> None:
        theirs = Api(artist)
        (row,) = theirs.get("tokens").body["results"]

        assert (row["owner_id"], row["owner"]) == (str(artist.user.id), "Bo")

    def test_an_artist_ends_their_own_and_nobody_elses(self, api: Api, artist: Customer) -> None:
        (owners,) = self.ids(api)
        theirs = Api(artist)
        made = theirs.post("tokens", {"name": "cli", "scopes": ["jobs:write"]}).body["details"]["id"]

        assert theirs("DELETE", f"tokens/{made}").status == 204
        assert theirs("DELETE", f"tokens/{owners}").code == "not-found"
        assert api.get("me").status == 200

    def test_an_owner_sees_whose_each_is_and_ends_any(self, api: Api, artist: Customer) -> None:
        theirs = Api(artist)
        rows = {row["owner"]: row["id"] for row in api.get("tokens").body["results"]}
        assert rows.keys() == {"Bo", "nordlicht@example.com"}

        assert api("DELETE", f"tokens/{rows['Bo']}").status == 204

        assert theirs.get("me").status == 401

    def test_a_narrow_token_of_an_owner_sees_the_owners(self, customer: Customer, artist: Customer) -> None:
        theirs = Api(artist)
        narrow = Api(customer, scopes=["studio:read", "account:write"])

        assert len(self.ids(narrow)) == 1
        assert narrow("DELETE", f"tokens/{self.ids(theirs)[0]}").status == 404

    def test_those_of_who_has_left_are_listed_as_nobodys(self, api: Api, artist: Customer) -> None:
        Api(artist)
        membership = Membership.objects.get(user=artist.user).id
        api("DELETE", f"members/{membership}")

        row = next(row for row in api.get("tokens").body["results"] if row["owner_id"] == str(artist.user.id))

        assert row["owner"] == ""
        assert row["revoked_at"] is not None

    def test_who_comes_back_gets_none_back(self, api: Api, artist: Customer) -> None:
        theirs = Api(artist)
        membership = Membership.objects.get(user=artist.user)
        api("DELETE", f"members/{membership.id}")
        Membership.objects.create(studio=artist.studio, user=artist.user, role=Role.OWNER)

        assert theirs.get("me").status == 401

    def test_who_is_demoted_keeps_tokens_that_may_less(self, api: Api, customer: Customer, artist: Customer) -> None:
        theirs = Api(artist)
        membership = Membership.objects.get(user=artist.user).id
        assert Scope.JOBS_WRITE in theirs.get("me").body["scopes"]

        api("PATCH", f"members/{membership}", {"role": "viewer"})

        assert theirs.get("me").body["scopes"] == sorted(ROLE_SCOPES[Role.VIEWER])
        assert theirs.post("tokens", {"name": "x", "scopes": ["jobs:write"]}).code == "scope-too-wide"

    def test_a_strangers_is_not_there(self, api: Api) -> None:
        stranger = Api(open_customer("Stranger"))

        assert stranger("DELETE", f"tokens/{self.ids(api)[0]}").status == 404
        assert len(self.ids(stranger)) == 1

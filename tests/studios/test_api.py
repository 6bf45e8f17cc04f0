"""What a studio's people do with projects and tokens over the API."""

from __future__ import annotations

import pytest

from farm.studios.models import AuditRow, Membership
from farm.studios.roles import Role, Scope
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
            "scopes": ["jobs:read", "studio:read"],
        }


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
        answer = Api(customer, scopes=["studio:write"]).post("tokens", {"name": "x", "scopes": ["jobs:write"]})

        assert (answer.status, answer.code) == (403, "scope-too-wide")

    @pytest.mark.parametrize("role", [Role.VIEWER, Role.ARTIST, Role.PRODUCER])
    def test_only_owners_make_tokens(self, api: Api, role: Role) -> None:
        Membership.objects.update(role=role)

        answer = api.post("tokens", {"name": "ci", "scopes": ["jobs:read"]})

        assert (answer.status, answer.body["params"]) == (403, {"scope": str(Scope.STUDIO_WRITE)})

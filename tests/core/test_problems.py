"""Whatever goes wrong is told in one form, with a stable code."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection

from farm.core.errors import Invalid, NotFound, Refusal, Refusals
from farm.core.problems import CONTENT_TYPE
from tests.api import Answer, Api
from tests.farm import Customer, open_customer

NOBODY = "01890000-0000-7000-8000-000000000000"


class TooBlue(Refusal):
    """The {what} is too blue: {by} shades. Paint it red."""

    code = "too-blue"


@pytest.fixture
def customer() -> Customer:
    return open_customer()


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


def assert_problem(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code), answer.body
    assert answer.headers["Content-Type"] == CONTENT_TYPE
    assert answer.body.keys() == {"type", "title", "status", "code", "detail", "params", "errors"}
    assert answer.body["type"] == f"urn:farmhand:problem:{code}"
    assert answer.body["status"] == status
    assert len(answer.body["detail"]) > 10


@pytest.mark.django_db
class TestAnswer:
    """What an API view raises."""

    def test_a_row_that_is_not_there_is_404_with_its_id(self, api: Api) -> None:
        answer = api.get(f"jobs/{NOBODY}")

        assert_problem(answer, 404, "not-found")
        assert answer.body["params"] == {"what": "job", "id": NOBODY}

    def test_without_a_token_it_is_401_and_says_which_kind(self) -> None:
        answer = Api().get("projects")

        assert_problem(answer, 401, "not-authenticated")
        assert "send an API token" in answer.body["detail"]
        assert answer.headers["WWW-Authenticate"] == "Bearer"

    @pytest.mark.parametrize(
        "header", ["Basic abc", "Bearer", "Bearer ", "Token fh_x", "Bearer fh_unknown", "Bearer é"]
    )
    def test_with_a_token_that_is_none_it_is_401(self, header: str) -> None:
        answer = Api().get("projects", Authorization=header)

        assert_problem(answer, 401, "authentication-failed")
        assert answer.headers["WWW-Authenticate"] == "Bearer"

    def test_without_the_scope_it_is_403_and_names_it(self, customer: Customer) -> None:
        answer = Api(customer, scopes=["jobs:read"]).post("projects", {"name": "X"})

        assert_problem(answer, 403, "scope-missing")
        assert answer.body["params"] == {"scope": "studio:write"}

    @pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
    def test_a_method_that_is_not_there_is_405_and_names_those_that_are(self, api: Api, method: str) -> None:
        answer = api(method, "projects")

        assert_problem(answer, 405, "method-not-allowed")
        assert {"GET", "POST"} <= set(answer.headers["Allow"].split(", "))

    def test_head_is_answered_as_get_without_its_body(self, api: Api, customer: Customer) -> None:
        assert api("HEAD", "projects").status == 200
        assert Api(customer, scopes=["jobs:write"])("HEAD", "projects").status == 403

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"])
    def test_a_body_of_another_kind_is_415(self, api: Api, kind: str) -> None:
        answer = api("POST", "projects", "name=X", **{"Content-Type": kind})

        assert_problem(answer, 415, "unsupported-media-type")

    def test_an_answer_of_another_kind_is_406(self, api: Api) -> None:
        assert_problem(api.get("projects", Accept="text/csv"), 406, "not-acceptable")

    @pytest.mark.parametrize(
        "body",
        [
            '{"name": ',
            "{'name': 1}",
            b'{"name": "\xff"}',
            "[" * 200_000,
            '{"name": "a\\u0000b"}',
            '{"name": "\\ud800"}',
            '{"a\\u0000": 1}',
            '{"name": NaN}',
            '{"name": ' + "9" * 5000 + "}",
        ],
        ids=["cut", "quotes", "latin", "deep", "nul", "half a pair", "nul key", "nan", "long number"],
    )
    def test_a_body_that_is_no_json_is_400(self, api: Api, body: str) -> None:
        assert_problem(api("POST", "projects", body), 400, "parse-error")

    def test_a_text_outside_the_basic_plane_is_no_half_pair(self, api: Api) -> None:
        assert api("POST", "projects", '{"name": "\\ud83d\\udc04 \\\\u0000"}').body["name"] == "🐄 \\u0000"

    @pytest.mark.parametrize("body", ["[]", "7", '"x"', "null", "", "[1]"])
    def test_a_body_that_is_no_object_is_refused(self, api: Api, body: str) -> None:
        assert_problem(api("POST", "projects", body), 422, "invalid")

    def test_a_body_that_is_too_large_is_413_with_the_limit(self, api: Api, settings: Any) -> None:
        settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000

        answer = api.post("projects", {"name": "x" * 1000})

        assert_problem(answer, 413, "body-too-large")
        assert answer.body["params"] == {"limit": 1000}

    def test_fields_are_named_with_what_is_wrong_with_each(self, api: Api) -> None:
        answer = api.post("tokens", {"name": "", "scopes": ["jobs:read", "all"], "days": 1000})

        assert_problem(answer, 422, "invalid")
        assert set(answer.fields) == {("name", "blank"), ("scopes.1", "invalid-choice"), ("days", "max-value")}

    def test_an_unknown_field_is_refused(self, api: Api) -> None:
        answer = api.post("projects", {"name": "X", "colour": "red", "id": NOBODY, "is_paused": True})

        assert_problem(answer, 422, "invalid")
        assert [field for field, _ in answer.fields] == ["colour", "id", "is_paused"]


@pytest.mark.django_db
class TestOfRefusal:
    def answer_to(self, api: Api, refusal: Exception) -> Answer:
        with patch("farm.studios.services.create_project", side_effect=refusal):
            return api.post("projects", {"name": "X"})

    def test_a_refusal_is_told_with_its_sentence_parameters_and_field(self, api: Api) -> None:
        answer = self.answer_to(api, TooBlue(what="barn", by=3, field="colour"))

        assert_problem(answer, 409, "too-blue")
        assert answer.body["detail"] == "The barn is too blue: 3 shades. Paint it red."
        assert answer.body["params"] == {"what": "barn", "by": 3}
        assert answer.fields == [("colour", "too-blue")]

    def test_several_are_told_each(self, api: Api) -> None:
        several = Refusals(
            [TooBlue(what="barn", by=3, field="colour"), Invalid("roof", "it leaks"), NotFound(what="cow", id=7)]
        )

        answer = self.answer_to(api, several)

        assert_problem(answer, 422, "several")
        assert answer.fields == [("colour", "too-blue"), ("roof", "invalid"), (None, "not-found")]
        assert answer.body["errors"][0]["params"] == {"what": "barn", "by": 3}

    def test_what_a_refused_request_wrote_is_undone(self, api: Api, customer: Customer) -> None:
        with patch("farm.studios.services.audit", side_effect=TooBlue(what="barn", by=3)):
            assert api.post("projects", {"name": "X"}).status == 409

        assert [row["name"] for row in api.get("projects").body["results"]] == ["Show"]

    def test_braces_in_a_value_are_only_text(self, api: Api) -> None:
        answer = self.answer_to(api, TooBlue(what="{by}{0}{", by=3))

        assert answer.body["detail"].startswith("The {by}{0}{ is too blue")


@pytest.mark.django_db
class TestProblemMiddleware:
    @pytest.mark.parametrize("path", ["/api/v1/nothing", "/nothing", "/api/v1/jobs/7", "/worker/v1/nothing", "/files/"])
    def test_an_unknown_address_is_404(self, api: Api, path: str) -> None:
        assert_problem(api.get(path), 404, "not-found")

    def test_an_unknown_address_is_404_without_a_token_too(self) -> None:
        assert_problem(Api().get("nothing"), 404, "not-found")

    def test_a_host_that_is_not_the_farm_s_is_400(self, api: Api) -> None:
        assert_problem(api.get("projects", Host="elsewhere.example"), 400, "bad-request")

    def test_a_bug_is_500_logged_and_told_without_its_text(self, api: Api, caplog: pytest.LogCaptureFixture) -> None:
        with patch("farm.studios.services.create_project", side_effect=ZeroDivisionError("secret")):
            answer = api.post("projects", {"name": "X"})

        assert_problem(answer, 500, "internal-error")
        assert "secret" not in str(answer.body)
        assert "ZeroDivisionError: secret" in caplog.text


@pytest.fixture
def no_database(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The database is away: nobody listens where it was."""
    before = connection.settings_dict["PORT"]
    with socket.socket() as bound, django_db_blocker.unblock():
        bound.bind(("127.0.0.1", 0))
        connection.close()
        connection.settings_dict["PORT"] = bound.getsockname()[1]
        yield
        connection.settings_dict["PORT"] = before
        connection.close()


class TestUnavailable:
    @pytest.mark.parametrize(
        ("method", "path"),
        [("GET", "projects"), ("POST", "jobs"), ("GET", "/healthz"), ("POST", "/worker/v1/sync")],
    )
    def test_is_told_with_when_to_ask_again(self, no_database: None, method: str, path: str) -> None:
        api = Api()
        api.token = "fh_any"

        answer = api(method, path, {})

        assert_problem(answer, 503, "unavailable")
        assert answer.headers["Retry-After"] == "2"

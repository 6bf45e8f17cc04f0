"""`manage.py bootstrap`: the first studio, and its token."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from farm.studios.models import ApiToken, AuditRow, Project, Studio
from farm.studios.roles import Scope
from tests.api import Api

pytestmark = pytest.mark.django_db


def bootstrap(*more: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("bootstrap", "--json", *more, stdout=out)
    shown: dict[str, Any] = json.loads(out.getvalue())
    return shown


def program(token: str) -> Api:
    api = Api()
    api.token = token
    return api


class TestBootstrap:
    def test_its_token_may_do_everything_in_its_studio(self) -> None:
        shown = bootstrap("--studio", "Nordlicht", "--email", "ada@example.com", "--project", "Film")

        me = program(shown["token"]).get("me").body
        assert (me["studio"], me["user"]) == ("Nordlicht", "ada@example.com")
        assert me["scopes"] == sorted(Scope)
        assert [p["name"] for p in program(shown["token"]).get("projects").body["results"]] == ["Film"]

    def test_asked_again_it_makes_only_a_new_token(self) -> None:
        first, second = bootstrap(), bootstrap()

        assert first["token"] != second["token"]
        assert (Studio.objects.count(), Project.objects.count(), ApiToken.objects.count()) == (1, 1, 2)
        assert program(first["token"]).get("me").status == 200

    def test_what_it_did_is_written_down(self) -> None:
        bootstrap()

        acts = AuditRow.objects.order_by("id").values_list("act", flat=True)
        assert list(acts) == ["member.joined", "project.created", "token.issued"]

    def test_for_people_it_prints_the_token_and_what_to_do_with_it(self) -> None:
        out = io.StringIO()
        call_command("bootstrap", stdout=out)

        assert "token    fh_" in out.getvalue()
        assert "farmhand login" in out.getvalue()

    @pytest.mark.parametrize(
        ("more", "why"),
        [
            (["--currency", "dollars"], "currency"),
            (["--zone", "Nowhere"], "zone"),
            (["--email", "owner"], "email"),
            (["--days", "0"], "days"),
        ],
    )
    def test_what_makes_no_sense_is_refused_in_a_sentence_and_nothing_is_made(self, more: list[str], why: str) -> None:
        with pytest.raises(CommandError, match=f"The value of {why} is not valid"):
            call_command("bootstrap", *more)

        assert not Studio.objects.exists()

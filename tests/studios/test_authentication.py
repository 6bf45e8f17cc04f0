"""Tokens: known by their digest alone, good for a while, and only as good as their owner."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.test import RequestFactory

from farm.studios.authentication import Caller, UnknownToken, caller_of, token_digest
from farm.studios.models import ApiToken, Membership
from farm.studios.roles import ROLE_SCOPES, Role, Scope
from farm.studios.services import issue_token, revoke_token
from tests.api import Api, raw_rows, token_of
from tests.farm import Customer, open_customer

pytestmark = pytest.mark.django_db


@pytest.fixture
def customer() -> Customer:
    return open_customer()


@pytest.fixture
def token(customer: Customer, now: datetime) -> ApiToken:
    token, _ = issue(customer, now)
    return token


def issue(customer: Customer, now: datetime, *scopes: Scope) -> tuple[ApiToken, str]:
    wanted = [str(s) for s in scopes or tuple(Scope)]
    return issue_token(studio=customer.studio, user=customer.user, name="t", scopes=wanted, days=30, now=now)


def call(text: str, *, now: datetime, address: str = "192.0.2.7") -> Caller | None:
    request = RequestFactory().get("/", headers={"Authorization": f"Bearer {text}"}, REMOTE_ADDR=address)
    return caller_of(request, now=now)


class TestCallerOf:
    def test_a_token_speaks_for_its_owner_in_its_studio(self, customer: Customer, now: datetime) -> None:
        token, text = issue(customer, now, Scope.JOBS_READ)

        caller = call(text, now=now)

        assert caller is not None
        assert (caller.user.id, caller.studio.id, caller.token) == (customer.user.id, customer.studio.id, token.id)
        assert caller.scopes == {Scope.JOBS_READ}
        assert caller.address == "192.0.2.7"

    def test_without_a_header_there_is_nobody(self, now: datetime) -> None:
        assert caller_of(RequestFactory().get("/"), now=now) is None

    def test_it_does_not_act_in_another_studio_than_the_request_names(self, customer: Customer) -> None:
        api, other = Api(customer), open_customer("Other")

        assert api.get("me", **{"X-Farm-Studio": str(customer.studio.id)}).status == 200
        assert api.get("me", **{"X-Farm-Studio": str(other.studio.id)}).code == "no-such-studio"

    @pytest.mark.parametrize("spoil", [str.lower, str.upper, lambda t: t[:-1], lambda t: t + "x", lambda t: t[3:]])
    def test_a_token_that_is_only_alike_is_unknown(self, customer: Customer, now: datetime, spoil: object) -> None:
        _, text = issue(customer, now)
        assert callable(spoil)

        with pytest.raises(UnknownToken):
            call(spoil(text), now=now)

    def test_the_stored_digest_is_no_token(self, token: ApiToken, now: datetime) -> None:
        with pytest.raises(UnknownToken):
            call(token.digest, now=now)

    def test_it_ends_with_its_time(self, customer: Customer, now: datetime) -> None:
        _, text = issue(customer, now)

        assert call(text, now=now + timedelta(days=30) - timedelta(seconds=1))
        with pytest.raises(UnknownToken):
            call(text, now=now + timedelta(days=30))

    def test_it_ends_when_it_is_revoked(self, customer: Customer, now: datetime) -> None:
        token, text = issue(customer, now)
        caller = call(text, now=now)
        assert caller is not None

        revoke_token(caller, token.id, now=now)

        with pytest.raises(UnknownToken):
            call(text, now=now)

    def test_it_ends_when_its_owner_leaves_the_studio(self, customer: Customer, now: datetime) -> None:
        _, text = issue(customer, now)
        Membership.objects.all().delete()

        with pytest.raises(UnknownToken):
            call(text, now=now)

    def test_it_ends_when_its_owner_may_not_log_in_any_more(self, customer: Customer, now: datetime) -> None:
        _, text = issue(customer, now)
        customer.user.is_active = False
        customer.user.save()

        with pytest.raises(UnknownToken):
            call(text, now=now)

    @pytest.mark.parametrize("role", list(Role))
    @pytest.mark.parametrize("granted", [tuple(Scope), (Scope.JOBS_READ, Scope.BILLING_READ), (Scope.STUDIO_WRITE,)])
    def test_it_may_do_what_it_was_granted_as_far_as_its_owner_s_role_goes(
        self, customer: Customer, now: datetime, role: Role, granted: tuple[Scope, ...]
    ) -> None:
        _, text = issue(customer, now, *granted)
        Membership.objects.update(role=role)

        caller = call(text, now=now)

        assert caller is not None
        assert caller.scopes == set(granted) & ROLE_SCOPES[role]

    def test_its_use_is_noted_once_a_minute(self, customer: Customer, now: datetime) -> None:
        token, text = issue(customer, now)
        noted = []
        for seconds in (0, 30, 60, 61):
            call(text, now=now + timedelta(seconds=seconds))
            token.refresh_from_db()
            noted.append(token.last_used_at)

        assert noted == [now, now, now, now + timedelta(seconds=61)]


class TestWhatIsStored:
    def test_the_token_s_text_is_nowhere_in_the_database(self, customer: Customer) -> None:
        answer = Api(customer).post("tokens", {"name": "ci", "scopes": ["jobs:read"]})
        text = answer.body["token"]

        rows = raw_rows("SELECT t::text FROM studios_apitoken t UNION ALL SELECT a::text FROM studios_auditrow a")
        assert all(text not in row and text[9:] not in row for (row,) in rows)
        assert ApiToken.objects.get(name="ci").digest == token_digest(text)

    def test_texts_are_long_and_never_the_same(self, customer: Customer) -> None:
        texts = {token_of(customer) for _ in range(50)}

        assert len(texts) == 50
        assert min(map(len, texts)) >= 46

"""Invitations: what the studio sees of them, what whoever got the mail can do with it, and what nobody can."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.utils import timezone

from farm.studios import invitations
from farm.studios.accounts import first_link
from farm.studios.authentication import token_digest
from farm.studios.models import AuditRow, Invitation, Membership, User
from farm.studios.roles import Role, Scope
from tests.api import Answer, Api, raw_rows
from tests.farm import Customer, open_customer
from tests.studios.browser import PASSWORD, Browser, with_password

pytestmark = pytest.mark.django_db

NEWCOMER = {"name": "Bo", "password": PASSWORD}


@pytest.fixture(autouse=True)
def _mail_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests' transactions never commit: what waits for that happens at once."""
    monkeypatch.setattr(transaction, "on_commit", lambda act, **_: act())
    cache.clear()


@pytest.fixture
def customer() -> Customer:
    return open_customer("Nordlicht")


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


def invite(api: Api, email: str = "bo@example.com", role: str = "artist") -> Answer:
    return api.post("members/invitations", {"email": email, "role": role})


def token_in_mail() -> str:
    """Give the token of the mail that went out last."""
    link = next(word for word in str(mail.outbox[-1].body).split() if "/invite/" in word)
    return link.rpartition("/")[2]


def invited(api: Api, email: str = "bo@example.com", role: str = "artist") -> str:
    """Invite somebody and read their mail."""
    answer = invite(api, email, role)
    assert answer.status == 201, answer.body
    return token_in_mail()


def person(email: str = "bo@example.com") -> User:
    """Somebody with an account, in no studio."""
    user = User.objects.create_user(email)
    with_password(user)
    return user


def signed_in(email: str) -> Browser:
    browser = Browser()
    assert browser.sign_in(email).status == 200
    return browser


def look(browser: Browser, token: str) -> Answer:
    return browser("GET", f"/api/v1/invitations/{token}")


def accept(browser: Browser, token: str, body: Any = None, **more: Any) -> Answer:
    return browser("POST", f"/api/v1/invitations/{token}/accept", body or {}, **more)


class TestInvite:
    def test_nobody_is_a_member_before_they_said_yes(self, api: Api, customer: Customer) -> None:
        answer = invite(api, " Bo@Example.com")

        assert answer.status == 201
        assert (answer.body["email"], answer.body["role"]) == ("bo@example.com", "artist")
        assert answer.body["inviter"] == customer.user.email
        assert Membership.objects.filter(studio=customer.studio).count() == 1
        assert not User.objects.filter(email="bo@example.com").exists()

    def test_its_answer_is_the_same_whether_there_is_an_account_or_not(self, api: Api) -> None:
        known = person("known@example.com")
        User.objects.filter(pk=known.pk).update(name="Known", last_login=timezone.now())

        answers = [invite(api, email).body for email in ("known@example.com", "unknown@example.com")]

        own = {"id", "email", "created_at", "sent_at", "expires_at"}
        assert [{k: v for k, v in body.items() if k not in own} for body in answers] == [
            {"role": "artist", "inviter": "nordlicht@example.com"}
        ] * 2
        bodies = [str(message.body).rpartition("/invite/")[0] for message in mail.outbox]
        assert bodies[0] == bodies[1]

    def test_its_token_is_in_the_mail_alone(self, api: Api) -> None:
        token = invited(api)

        shown = [api.get(path).body for path in ("members/invitations", "members")]
        rows = raw_rows("SELECT t::text FROM studios_invitation t UNION ALL SELECT a::text FROM studios_auditrow a")
        assert token not in str(shown)
        assert [row for (row,) in rows if token in row] == []
        assert Invitation.objects.get().digest == token_digest(token)

    def test_a_member_is_not_invited(self, api: Api, customer: Customer) -> None:
        answer = invite(api, customer.user.email.upper())

        assert (answer.code, answer.fields) == ("already-member", [("email", "already-member")])

    def test_one_waits_at_a_time(self, api: Api) -> None:
        invite(api)

        assert invite(api, "BO@example.com", "viewer").code == "already-invited"
        assert len(api.get("members/invitations").body["results"]) == 1

    def test_the_database_keeps_it_so(self, api: Api, customer: Customer) -> None:
        invite(api)
        row = Invitation.objects.values("studio_id", "email", "role", "sent_at", "expires_at").get()

        with pytest.raises(IntegrityError), transaction.atomic():
            Invitation.objects.create(**row, digest="0" * 64)

    def test_one_that_is_over_makes_room_for_another(self, api: Api) -> None:
        invite(api)
        Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

        assert invite(api).status == 201
        assert len(api.get("members/invitations").body["results"]) == 1

    def test_asked_twice_with_one_key_it_sends_one_mail(self, api: Api) -> None:
        wish = {"email": "bo@example.com", "role": "artist"}
        first, again = (api.post("members/invitations", wish, **{"Idempotency-Key": "k"}) for _ in range(2))

        assert first.body == again.body
        assert len(mail.outbox) == 1

    def test_nobody_is_pestered(self, api: Api) -> None:
        for _ in range(invitations.MAILS_TO_ONE):
            made = invite(api)
            assert api("DELETE", f"members/invitations/{made.body['id']}").status == 204

        refused = invite(api)

        assert (refused.status, refused.code) == (429, "too-many-invitations")
        assert invite(api, "other@example.com").status == 201

    def test_a_farm_sends_no_studios_mass_mail(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(invitations, "MAILS_TO_ALL", 2)
        answers = [invite(api, f"{n}@example.com").status for n in range(3)]

        assert answers == [201, 201, 429]

    def test_it_is_written_down(self, api: Api) -> None:
        invite(api)

        assert AuditRow.objects.get(act="member.invited").params == {"email": "bo@example.com", "role": "artist"}

    @pytest.mark.parametrize("role", [Role.VIEWER, Role.ARTIST, Role.PRODUCER])
    def test_only_owners_invite(self, api: Api, role: Role) -> None:
        Membership.objects.update(role=role)

        assert invite(api, role="viewer").code == "scope-missing"


class TestReach:
    """Nobody hands out rights above those of the credential and the role they act with."""

    @pytest.mark.parametrize("role", list(Role))
    def test_a_narrow_token_invites_nobody_who_may_more(self, customer: Customer, role: Role) -> None:
        narrow = Api(customer, scopes=["studio:read", "studio:write"])

        answer = invite(narrow, role=role)

        assert (answer.status, answer.code) == (403, "role-too-wide")
        assert not Invitation.objects.exists()

    def test_a_token_invites_whom_it_covers(self, customer: Customer) -> None:
        scopes = [Scope.STUDIO_READ, Scope.STUDIO_WRITE, Scope.SCENES_READ, Scope.JOBS_READ]
        narrow = Api(customer, scopes=scopes)

        assert invite(narrow, role="viewer").status == 201
        assert invite(narrow, "other@example.com", "artist").code == "role-too-wide"

    def test_it_does_not_send_again_what_it_could_not_send(self, api: Api, customer: Customer) -> None:
        made = invite(api, role="owner")
        narrow = Api(customer, scopes=["studio:read", "studio:write"])

        assert narrow.post(f"members/invitations/{made.body['id']}/resend").code == "role-too-wide"


class TestResend:
    def test_the_new_link_works_and_the_old_does_not(self, api: Api) -> None:
        old = invited(api)
        row = Invitation.objects.get()
        Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

        again = api.post(f"members/invitations/{row.id}/resend")

        assert again.status == 200
        assert (again.body["id"], again.body["expires_at"] > again.body["sent_at"]) == (str(row.id), True)
        assert look(Browser(), old).code == "invitation-gone"
        assert look(Browser(), token_in_mail()).status == 200

    def test_nobody_is_pestered(self, api: Api) -> None:
        made = invite(api).body["id"]
        answers = [api.post(f"members/invitations/{made}/resend").status for _ in range(invitations.MAILS_TO_ONE)]

        assert answers == [200] * (invitations.MAILS_TO_ONE - 1) + [429]


class TestRevoke:
    def test_its_link_leads_nowhere(self, api: Api) -> None:
        token = invited(api)
        made = Invitation.objects.get().id

        assert api("DELETE", f"members/invitations/{made}").status == 204

        assert api("DELETE", f"members/invitations/{made}").status == 404
        assert api.get("members/invitations").body["results"] == []
        assert accept(Browser(), token, NEWCOMER).code == "invitation-gone"


class TestLook:
    def test_it_says_who_invites_whom_as_what(self, api: Api, customer: Customer) -> None:
        User.objects.filter(pk=customer.user.pk).update(name="Ada")
        token = invited(api)

        body = look(Browser(), token).body

        assert body.pop("expires_at") == Invitation.objects.get().expires_at.isoformat().replace("+00:00", "Z")
        assert body == {
            "studio": "Nordlicht",
            "email": "bo@example.com",
            "role": "artist",
            "inviter": "Ada",
            "has_account": False,
        }

    def test_it_says_whether_to_sign_in(self, api: Api) -> None:
        person()

        assert look(Browser(), invited(api)).body["has_account"] is True

    @pytest.mark.parametrize("token", ["x", "fhi_" + "A" * 43, "00000000-0000-0000-0000-000000000000", "%00", "é"])
    def test_of_what_is_none_it_says_so(self, api: Api, token: str) -> None:
        invite(api)

        assert look(Browser(), token).status == 404

    def test_the_stored_digest_is_no_token(self, api: Api) -> None:
        invite(api)

        assert look(Browser(), Invitation.objects.get().digest).code == "invitation-gone"

    def test_it_ends_with_its_time(self, api: Api) -> None:
        token = invited(api)
        Invitation.objects.update(expires_at=timezone.now())

        assert look(Browser(), token).code == "invitation-gone"
        assert accept(Browser(), token, NEWCOMER).code == "invitation-gone"


class TestAcceptAnew:
    def test_a_newcomer_gets_an_account_joins_and_is_signed_in(self, api: Api, customer: Customer) -> None:
        browser = Browser()

        answer = accept(browser, invited(api), NEWCOMER)

        assert answer.body == {"studio": "Nordlicht", "studio_id": str(customer.studio.id), "role": "artist"}
        me = browser("GET", "/api/v1/me").body
        assert (me["user"], me["name"], me["studio"]) == ("bo@example.com", "Bo", "Nordlicht")
        assert signed_in("bo@example.com")("GET", "/api/v1/jobs").status == 200
        row = AuditRow.objects.filter(act="member.joined").latest("id")
        assert row.params == {"role": "artist", "invitation": str(Invitation.objects.get().id)}

    def test_it_works_once(self, api: Api) -> None:
        token = invited(api)
        accept(Browser(), token, NEWCOMER)

        assert accept(Browser(), token, NEWCOMER | {"password": "another long password"}).code == "invitation-gone"
        assert Browser().sign_in("bo@example.com", "another long password").status == 400

    def test_their_session_is_listed_as_any_other(self, api: Api) -> None:
        browser = Browser()
        accept(browser, invited(api), NEWCOMER)

        sessions = browser("GET", "/_allauth/browser/v1/auth/sessions").body["data"]

        assert [session["is_current"] for session in sessions] == [True]

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"password": PASSWORD}, "name"),
            ({"name": "", "password": PASSWORD}, "name"),
            ({"name": "Bo"}, "password"),
            ({"name": "Bo", "password": "short"}, "password"),
            ({"name": "Bo", "password": "bo@example.com"}, "password"),
            ({"name": "Bo", "password": "password12"}, "password"),
            (NEWCOMER | {"role": "owner"}, "role"),
            (NEWCOMER | {"email": "x@example.com"}, "email"),
        ],
    )
    def test_what_will_not_do_is_refused_and_the_invitation_stays(
        self, api: Api, body: dict[str, str], field: str
    ) -> None:
        token = invited(api)

        answer = accept(Browser(), token, body)

        assert (answer.status, [name for name, _ in answer.fields]) == (422, [field])
        assert not User.objects.filter(email="bo@example.com").exists()
        assert look(Browser(), token).status == 200

    def test_who_has_an_account_signs_in_first(self, api: Api) -> None:
        person()

        answer = accept(Browser(), invited(api), NEWCOMER | {"password": "another long password"})

        assert answer.code == "sign-in-first"
        assert signed_in("bo@example.com")

    def test_one_whose_account_is_closed_does_not_open_it(self, api: Api) -> None:
        User.objects.create_user("bo@example.com", is_active=False)

        assert accept(Browser(), invited(api), NEWCOMER).code == "account-closed"
        assert not User.objects.get(email="bo@example.com").is_active

    def test_one_with_a_password_neither(self, api: Api) -> None:
        User.objects.filter(pk=person().pk).update(is_active=False)
        token = invited(api)

        assert look(Browser(), token).body["has_account"] is False
        assert accept(Browser(), token, NEWCOMER).code == "account-closed"

    def test_a_letter_that_only_looks_alike_opens_nobody_elses_account(self, api: Api) -> None:
        operator = User.objects.create_user("mike@example.com", is_operator=True)  # has not used the first link yet

        accept(Browser(), invited(api, "m\u0131ke@example.com"), NEWCOMER)

        operator.refresh_from_db()
        assert (operator.name, operator.has_usable_password()) == ("", False)
        assert not Membership.objects.filter(user=operator).exists()

    def test_another_site_signs_nobody_in(self, api: Api) -> None:
        assert accept(Browser(), invited(api), NEWCOMER, is_forged=True).code == "csrf-failed"
        assert not User.objects.filter(email="bo@example.com").exists()

    def test_a_claim_laid_to_the_mail_before_comes_to_nothing(self, api: Api) -> None:
        claimed = User.objects.create_user("bo@example.com", "the squatter's password")
        EmailAddress.objects.create(user=claimed, email="bo@example.com", primary=True, verified=False)

        accept(Browser(), invited(api), NEWCOMER)

        assert Browser().sign_in("bo@example.com", "the squatter's password").status == 400
        assert signed_in("bo@example.com")("GET", "/api/v1/me").body["user_id"] == str(claimed.id)


class TestAcceptSignedIn:
    def test_somebody_with_an_account_joins_with_it(self, api: Api, customer: Customer) -> None:
        bo = person()
        browser = signed_in(bo.email)

        answer = accept(browser, invited(api, role="producer"))

        assert (answer.status, answer.body["role"]) == (200, "producer")
        assert Membership.objects.get(user=bo).studio_id == customer.studio.id
        assert browser("GET", "/api/v1/me").body["studio"] == "Nordlicht"

    def test_a_member_of_other_studios_joins_whichever_they_have_chosen(self, api: Api, customer: Customer) -> None:
        other = open_customer("Other")
        with_password(other.user)
        browser = signed_in(other.user.email)
        browser.studio = str(customer.studio.id)  # left over from when they were here

        assert accept(browser, invited(api, other.user.email)).status == 200
        assert browser("GET", "/api/v1/me").body["studio"] == "Nordlicht"

    def test_somebody_else_does_not_join(self, api: Api) -> None:
        thief = person("thief@example.com")

        answer = accept(signed_in(thief.email), invited(api))

        assert (answer.status, answer.code) == (403, "invitation-for-other")
        assert not Membership.objects.filter(user=thief).exists()

    def test_an_address_that_was_only_claimed_does_not_count(self, api: Api) -> None:
        thief = person("thief@example.com")
        EmailAddress.objects.create(user=thief, email="bo@example.com", verified=False)

        assert accept(signed_in(thief.email), invited(api)).code == "invitation-for-other"

    def test_a_token_joins_nothing(self, api: Api) -> None:
        other = open_customer("Other")
        token = invited(api, other.user.email)

        answer = Api(other).post(f"invitations/{token}/accept", {})

        assert (answer.status, answer.code) == (403, "browser-only")

    def test_another_site_makes_nobody_join(self, api: Api) -> None:
        bo = person()

        assert accept(signed_in(bo.email), invited(api), is_forged=True).code == "csrf-failed"
        assert not Membership.objects.filter(user=bo).exists()

    def test_who_became_a_member_meanwhile_keeps_their_role(self, api: Api, customer: Customer) -> None:
        bo = person()
        token = invited(api, role="owner")
        Membership.objects.create(studio=customer.studio, user=bo, role=Role.VIEWER)

        assert accept(signed_in(bo.email), token).body["role"] == "viewer"
        assert Membership.objects.get(user=bo).role == Role.VIEWER


class TestInvitersWhoLeft:
    """An invitation is worth what who sent it could send now."""

    @pytest.fixture
    def second(self, customer: Customer) -> Membership:
        user = User.objects.create_user("second@example.com")
        return Membership.objects.create(studio=customer.studio, user=user, role=Role.OWNER)

    @pytest.fixture
    def token(self, customer: Customer, second: Membership) -> str:
        return invited(Api(Customer(customer.studio, second.user, customer.project)), role="viewer")

    def test_a_removed_members_invitations_end(self, api: Api, second: Membership, token: str) -> None:
        api("DELETE", f"members/{second.id}")

        assert api.get("members/invitations").body["results"] == []
        assert accept(Browser(), token, NEWCOMER).code == "invitation-gone"

    def test_a_demoted_members_too(self, api: Api, second: Membership, token: str) -> None:
        api("PATCH", f"members/{second.id}", {"role": "producer"})

        assert api.get("members/invitations").body["results"] == []
        assert accept(Browser(), token, NEWCOMER).code == "invitation-gone"

    def test_one_whose_account_was_closed_too(self, second: Membership, token: str) -> None:
        User.objects.filter(pk=second.user_id).update(is_active=False)

        assert accept(Browser(), token, NEWCOMER).code == "invitation-gone"

    def test_however_they_left(self, second: Membership, token: str) -> None:
        second.delete()

        assert look(Browser(), token).code == "invitation-gone"


class TestOtherStudios:
    def test_see_and_touch_nothing(self, api: Api) -> None:
        made = invite(api).body["id"]
        stranger = Api(open_customer("Stranger"))

        assert stranger.get("members/invitations").body["results"] == []
        assert stranger("DELETE", f"members/invitations/{made}").status == 404
        assert stranger.post(f"members/invitations/{made}/resend").status == 404
        assert invite(stranger).status == 201


class TestFirstLink:
    """What the operator prints for the first owner (see accounts.first_link)."""

    def test_it_shows_nothing_before_it_is_used(self) -> None:
        user = User.objects.create_user("bo@example.com")

        first_link(user)

        assert not EmailAddress.objects.filter(user=user, verified=True).exists()

    def test_used_it_shows_whose_the_mail_is(self) -> None:
        user = User.objects.create_user("bo@example.com")

        Browser().set_password(first_link(user))

        assert EmailAddress.objects.get(user=user).verified
        assert signed_in("bo@example.com")

    def test_a_claim_laid_to_the_mail_before_comes_to_nothing(self, settings: Any) -> None:
        settings.FARM_SELF_REGISTRATION = True
        claim = {"email": "bo@example.com", "password": "the squatter's password"}
        Browser()("POST", "/_allauth/browser/v1/auth/signup", claim)
        confirmation = next(word for word in str(mail.outbox[-1].body).split() if "/verify-email/" in word)

        link = first_link(User.objects.get(email="bo@example.com"))

        key = confirmation.rpartition("/")[2]
        assert Browser()("POST", "/_allauth/browser/v1/auth/email/verify", {"key": key}).status == 400
        assert Browser().sign_in("bo@example.com", "the squatter's password").status == 400
        Browser().set_password(link)
        assert Browser().sign_in("bo@example.com", "the squatter's password").status == 400
        assert signed_in("bo@example.com")

    def test_one_given_before_stays_good(self) -> None:
        user = User.objects.create_user("bo@example.com")
        first, _ = first_link(user), first_link(user)

        Browser().set_password(first)

        assert signed_in("bo@example.com")

    def test_sessions_from_before_end(self) -> None:
        bo = person()
        browser = signed_in(bo.email)
        EmailAddress.objects.all().delete()

        link = first_link(User.objects.get(pk=bo.pk))

        assert browser("GET", "/api/v1/me").status == 401
        assert Browser().set_password(link).status in {200, 401}
        assert browser("GET", "/api/v1/me").status == 401

    def test_somebody_who_showed_it_before_keeps_their_password(self) -> None:
        bo = person()

        first_link(bo)

        assert signed_in("bo@example.com")

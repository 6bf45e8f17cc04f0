"""Invitations to a studio: who was asked in, by whom, as what. Nobody is a member before they said yes."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.conf import settings
from django.core.mail import send_mail
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet, Sum

from farm.core.errors import Invalid, NotFound, Refusal
from farm.studios import accounts
from farm.studios.authentication import Caller, token_digest
from farm.studios.models import Invitation, Membership, User
from farm.studios.roles import ROLE_SCOPES, Role, Scope, beyond
from farm.studios.selectors import called
from farm.studios.services import audit, check_reach

LIFE = timedelta(days=7)
TOKEN_PREFIX = "fhi_"
DAY = timedelta(days=1)
MAILS_TO_ONE = 5  # a day and studio, so that nobody is pestered in the farm's name
MAILS_TO_ALL = 500
TEXT = """{inviter} invites you to the studio {studio} on Farmhand, as {role}.

Say yes here (the link works once, for {days} days):
{link}

If you expected no invitation, do nothing: you become a member of nothing by itself.
"""


class AlreadyMember(Refusal):
    """{email} is a member of this studio already, as {role}. Change the role instead."""

    code = "already-member"


class AlreadyInvited(Refusal):
    """{email} is invited already, as {role}. Send that invitation again, or take it back first."""

    code = "already-invited"


class TooManyMails(Refusal):
    """{limit} invitations went out to {whom} within a day, the most that the farm sends. Try again tomorrow."""

    code = "too-many-invitations"
    status = 429


class InvitationGone(Refusal):
    """This invitation was used or taken back, or is older than {days} days. Ask whoever invited you for a new one."""

    code = "invitation-gone"
    status = 404

    def __init__(self) -> None:
        super().__init__(days=LIFE.days)


class InvitationForOther(Refusal):
    """This invitation is for {email}, and you are signed in with another address. Sign out, then open it again."""

    code = "invitation-for-other"
    status = 403


class SignInFirst(Refusal):
    """{email} has an account already. Sign in with it, then open the invitation again."""

    code = "sign-in-first"
    status = 403


def pending() -> QuerySet[Invitation]:
    """Give the invitations that wait for an answer, expired ones too; each names its inviter."""
    return _unanswered().annotate(inviter=called("invited_by__"))


def invite(caller: Caller, *, email: str, role: Role, now: datetime) -> Invitation:
    """
    Ask somebody into the studio, by a mail that has the way in. Whether they have an account makes no difference here.

    :raises RoleTooWide: the role may do what the caller may not
    :raises AlreadyMember: they are one
    :raises AlreadyInvited: an invitation waits for their answer
    :raises TooManyMails: they, or all together, got as many as a day has
    """
    check_reach(caller, role)
    email = email.strip().lower()
    alike = Membership.objects.filter(user__email__iexact=email).values_list("user__email", "role")
    if role_now := next((role for address, role in alike if address.lower() == email), None):
        raise AlreadyMember(email=email, role=role_now, field="email")
    _unanswered().filter(email=email, expires_at__lte=now).update(revoked_at=now)
    _check_mails(email, now)
    text, digest = _new_token()
    try:
        with transaction.atomic():
            made = Invitation.objects.create(
                studio_id=caller.studio.id,
                email=email,
                role=role,
                digest=digest,
                invited_by_id=caller.user.id,
                sent_at=now,
                expires_at=now + LIFE,
            )
    except IntegrityError:
        waiting = _unanswered().filter(email=email).first()
        raise AlreadyInvited(email=email, role=waiting.role if waiting else role, field="email") from None
    audit(caller, "member.invited", subject=made.id, email=email, role=str(role))
    return _sent(caller, made.id, text)


def resend(caller: Caller, invitation_id: UUID, *, now: datetime) -> Invitation:
    """
    Send an invitation once more, in the caller's name, good for another week; the link of the mail before ends.

    :raises NotFound: no such invitation waits for an answer
    :raises RoleTooWide: its role may do what the caller may not
    :raises TooManyMails: they, or all together, got as many as a day has
    """
    found = _waiting(invitation_id)
    check_reach(caller, Role(found.role))
    _check_mails(found.email, now)
    text, digest = _new_token()
    Invitation.objects.filter(pk=found.pk).update(
        digest=digest, invited_by_id=caller.user.id, sent_at=now, mails=F("mails") + 1, expires_at=now + LIFE
    )
    audit(caller, "invitation.resent", subject=found.id, email=found.email)
    return _sent(caller, found.id, text)


def revoke(caller: Caller, invitation_id: UUID, *, now: datetime) -> None:
    """
    Take an invitation back: its link leads nowhere from now on.

    :raises NotFound: no such invitation waits for an answer
    """
    found = _waiting(invitation_id)
    Invitation.objects.filter(pk=found.pk).update(revoked_at=now)
    audit(caller, "invitation.revoked", subject=found.id, email=found.email)


def revoke_beyond(user_id: UUID, role: Role | None, *, now: datetime) -> None:
    """Take back what somebody of this role, or none any more, could not give now."""
    mine = _unanswered().filter(invited_by_id=user_id)
    mine.filter(role__in=[r for r in Role if not _may_invite(role, r)]).update(revoked_at=now)


def open_invitation(token: str, *, now: datetime) -> Invitation:
    """
    Find the invitation of a mail, and lock it.

    :raises InvitationGone: there is none, or it is over, or who sent it could not send it any more
    """
    rows = _unanswered().select_related("studio", "invited_by").select_for_update(of=("self",), no_key=True)
    found = rows.filter(digest=token_digest(token), expires_at__gt=now).first()
    if found is None or not _may_invite(_role_of_inviter(found), Role(found.role)):
        raise InvitationGone
    return found


def join(token: str, user: User, *, now: datetime, address: str | None) -> Membership:
    """
    Become a member, as somebody who is signed in and whose mail was invited.

    :raises InvitationGone: it is over
    :raises InvitationForOther: it went to another address than this person's
    """
    found = open_invitation(token, now=now)
    if not accounts.owns_mail(user, found.email):
        raise InvitationForOther(email=found.email)
    return _join(found, user, now=now, address=address)


def join_anew(token: str, *, name: str, password: str, now: datetime, address: str | None) -> Membership:
    """
    Become a member with a new account. Who holds the token got the mail: what somebody else set for it before ends.

    :raises InvitationGone: it is over
    :raises SignInFirst: the address has an account
    :raises Invalid: a name is missing
    :raises WeakPassword: the password is too easy to guess
    """
    found = open_invitation(token, now=now)
    if accounts.has_account(found.email):
        raise SignInFirst(email=found.email)
    if not name:
        raise Invalid("name", "say what you are called")
    user = accounts.open_account(found.email, name=name, password=password)
    return _join(found, user, now=now, address=address)


def _join(found: Invitation, user: User, *, now: datetime, address: str | None) -> Membership:
    membership, is_new = Membership.objects.get_or_create(
        studio_id=found.studio_id, user=user, defaults={"role": found.role}
    )
    Invitation.objects.filter(pk=found.pk).update(accepted_at=now)
    membership.user, membership.studio = user, found.studio
    joining = Caller(user, found.studio, frozenset(), token=None, address=address)
    if is_new:
        audit(joining, "member.joined", subject=user.id, role=str(membership.role), invitation=str(found.id))
    return membership


def _unanswered() -> QuerySet[Invitation]:
    return Invitation.objects.filter(accepted_at=None, revoked_at=None)


def _waiting(invitation_id: UUID) -> Invitation:
    found = _unanswered().select_for_update(no_key=True).filter(pk=invitation_id).first()
    if found is None:
        raise NotFound(what="invitation", id=invitation_id)
    return found


def _role_of_inviter(found: Invitation) -> Role | None:
    theirs = Membership.objects.filter(studio_id=found.studio_id, user=found.invited_by, user__is_active=True)
    role = theirs.values_list("role", flat=True).first() if found.invited_by else None
    return Role(role) if role else None


def _may_invite(inviter: Role | None, role: Role) -> bool:
    scopes = ROLE_SCOPES[inviter] if inviter else frozenset()
    return Scope.STUDIO_WRITE in scopes and not beyond(role, scopes)


def _check_mails(email: str, now: datetime) -> None:
    lately = Invitation.objects.filter(sent_at__gt=now - DAY)
    for rows, limit, whom in (
        (lately.filter(email=email), MAILS_TO_ONE, email),
        (lately, MAILS_TO_ALL, "all together"),
    ):
        if (rows.aggregate(all=Sum("mails"))["all"] or 0) >= limit:
            raise TooManyMails(limit=limit, whom=whom, field="email")


def _new_token() -> tuple[str, str]:
    text = TOKEN_PREFIX + secrets.token_urlsafe(32)
    return text, token_digest(text)


def _sent(caller: Caller, invitation_id: UUID, token: str) -> Invitation:
    made = pending().get(pk=invitation_id)
    text = TEXT.format(
        inviter=caller.user.name or caller.user.email,
        studio=caller.studio.name,
        role=made.role,
        days=LIFE.days,
        link=f"{settings.FARM_URL}/invite/{token}",
    )
    send = partial(send_mail, f"Farmhand: {caller.studio.name} invites you", text, None, [made.email])
    transaction.on_commit(send, robust=True)  # whom no mail reached gets it by sending again
    return made

"""Who belongs to a studio and in which role: changing and removing people; their own profile; the studio's."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Prefetch

from farm.core.errors import Invalid, NotFound, Refusal
from farm.studios import invitations
from farm.studios.authentication import Caller, Person
from farm.studios.models import ApiToken, Membership, Studio, User
from farm.studios.roles import Role
from farm.studios.services import NameTaken, audit, check_reach, check_zone
from farm.studios.tenancy import beyond_one_studio

LANGUAGES = ("", "en", "zh-CN")


class LastOwner(Refusal):
    """{email} is the last owner of the studio. Make somebody else an owner first."""

    code = "last-owner"


def change_role(caller: Caller, membership_id: UUID, *, role: Role, now: datetime) -> Membership:
    """
    Give a member another role; it holds from their next request on, for their tokens and what they invited too.

    :raises RoleTooWide: the member's role, or the new one, may do what the caller may not
    :raises LastOwner: a studio keeps an owner
    """
    membership = _member(membership_id)
    for either in (Role(membership.role), role):
        check_reach(caller, either)
    if role != Role.OWNER:
        _keep_an_owner(membership)
    membership.role = role
    membership.save(update_fields=["role"])
    invitations.revoke_beyond(membership.user_id, role, now=now)
    audit(caller, "member.changed", subject=membership.user_id, email=membership.user.email, role=str(role))
    return membership


def remove_member(caller: Caller, membership_id: UUID, *, now: datetime) -> None:
    """
    Take a member out of the studio; their tokens and invitations for it end at once, what they made stays.

    :raises RoleTooWide: the member may do what the caller may not
    :raises LastOwner: a studio keeps an owner
    """
    membership = _member(membership_id)
    check_reach(caller, Role(membership.role))
    _keep_an_owner(membership)
    ApiToken.objects.filter(user_id=membership.user_id, revoked_at=None).update(revoked_at=now)
    invitations.revoke_beyond(membership.user_id, None, now=now)
    with beyond_one_studio(caller.studio.id):
        Membership.objects.filter(pk=membership.pk).delete()
    audit(caller, "member.removed", subject=membership.user_id, email=membership.user.email)


def _member(membership_id: UUID) -> Membership:
    # All are locked in one order, so that two owners cannot remove each other at once.
    people = User.objects.only("id", "email", "name", "last_login")
    members = Membership.objects.prefetch_related(Prefetch("user", people)).order_by("id")
    locked = list(members.select_for_update(no_key=True))
    found = next((row for row in locked if row.id == membership_id), None)
    if found is None:
        raise NotFound(what="member", id=membership_id)
    return found


def _keep_an_owner(membership: Membership) -> None:
    if membership.role != Role.OWNER:
        return
    if not Membership.objects.filter(role=Role.OWNER).exclude(pk=membership.pk).exists():
        raise LastOwner(email=membership.user.email, field="role")


def change_profile(
    asking: Caller | Person, *, name: str | None = None, language: str | None = None, zone: str | None = None
) -> None:
    """
    Change how a person is called and spoken to; what is None stays.

    :raises Invalid: the portal does not speak the language, or there is no such time zone
    """
    if language is not None and language not in LANGUAGES:
        raise Invalid(
            "language", f"{language!r} is not spoken here; there are: en, zh-CN, or nothing for the browser's"
        )
    if zone:
        check_zone(zone)
    changes = {k: v for k, v in {"name": name, "language": language, "zone": zone}.items() if v is not None}
    if not changes:
        return
    with beyond_one_studio(asking.studio.id if isinstance(asking, Caller) else ""):
        User.objects.filter(pk=asking.user.id).update(**changes)
    if isinstance(asking, Caller):
        audit(asking, "profile.changed", subject=asking.user.id, **changes)


def change_studio(caller: Caller, *, name: str | None = None, zone: str | None = None) -> Studio:
    """
    Rename the studio, or let its invoices follow another zone's months from the next one on.

    :raises NameTaken: another studio is called so
    :raises Invalid: no such time zone
    """
    if zone is not None:
        check_zone(zone)
    changes: dict[str, Any] = {k: v for k, v in {"name": name, "zone": zone}.items() if v is not None}
    if changes:
        try:
            with transaction.atomic():
                Studio.objects.filter(pk=caller.studio.id).update(**changes)
        except IntegrityError:
            raise NameTaken(what="studio", name=name, field="name") from None
        audit(caller, "studio.changed", **changes)
    return Studio.objects.get(pk=caller.studio.id)

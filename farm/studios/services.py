"""What happens to studios, their members, projects and tokens."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, connection, transaction

from farm.core.errors import Invalid, NotFound, Refusal
from farm.studios.authentication import Caller, UnknownToken, new_token
from farm.studios.models import ApiToken, AuditRow, Membership, Project, Studio, User
from farm.studios.roles import Role, Scope, beyond
from farm.studios.selectors import tokens_seen_by, user_of

MAX_TOKEN_DAYS = 366


class NameTaken(Refusal):
    """There is already a {what} called {name!r} in this studio. Choose another name."""

    code = "name-taken"


class UnknownRegion(Refusal):
    """The farm has no region {region!r}. It has: {known}."""

    code = "unknown-region"
    status = 422


class OtherCurrency(Refusal):
    """There is already a studio called {name!r}, and its money is in {currency}. A currency never changes."""

    code = "other-currency"


class ScopeTooWide(Refusal):
    """You cannot grant {scopes}: your own token or role lacks it."""

    code = "scope-too-wide"
    status = 403


class RoleTooWide(Refusal):
    """You cannot give, change or take the role {role}: your own token or role lacks {scopes}."""

    code = "role-too-wide"
    status = 403


def check_reach(caller: Caller, role: Role) -> None:
    """
    See that a role may do nothing that whoever deals with it may not.

    :raises RoleTooWide: it may
    """
    if lacking := beyond(role, caller.scopes):
        raise RoleTooWide(role=str(role), scopes=", ".join(sorted(lacking)), field="role")


def audit(caller: Caller, act: str, *, subject: UUID | None = None, **params: Any) -> None:
    """Write who did what, in the transaction of the act."""
    AuditRow.objects.create(
        studio_id=caller.studio.id,
        user_id=caller.user.id,
        token_id=caller.token,
        act=act,
        subject=subject,
        params=params,
        address=caller.address,
    )


def create_project(caller: Caller, *, name: str, region: str = "") -> Project:
    """
    Make a project of the caller's studio, in the farm's first region unless said otherwise.

    :raises UnknownRegion: no such region has a store
    :raises NameTaken: the studio has a project of this name
    """
    region = region or settings.FARM_REGIONS[0]
    if region not in settings.FARM_REGIONS:
        raise UnknownRegion(region=region, known=", ".join(settings.FARM_REGIONS), field="region")
    try:
        with transaction.atomic():
            project = Project.objects.create(studio_id=caller.studio.id, name=name, region=region)
    except IntegrityError:
        raise NameTaken(what="project", name=name, field="name") from None
    audit(caller, "project.created", subject=project.id, name=name)
    return project


def issue_token(
    *, studio: Studio, user: User, name: str, scopes: list[str], days: int, now: datetime, maker: ApiToken | None = None
) -> tuple[ApiToken, str]:
    """
    Make a token and give its text, which is shown once and stored nowhere; it ends with the token that made it.

    :raises Invalid: an unknown scope, or a life longer than a year
    """
    if unknown := sorted(set(scopes) - set(Scope)):
        raise Invalid("scopes", f"there is no scope {unknown[0]!r}; known: {', '.join(Scope)}")
    if not 1 <= days <= MAX_TOKEN_DAYS:
        raise Invalid("days", f"{days} is not between 1 and {MAX_TOKEN_DAYS}")
    text, prefix, digest = new_token()
    end = now + timedelta(days=days)
    token = ApiToken.objects.create(
        studio=studio,
        user=user,
        name=name,
        prefix=prefix,
        digest=digest,
        scopes=sorted({str(scope) for scope in scopes}),
        expires_at=min(end, maker.expires_at) if maker else end,
        made_with=maker,
    )
    return token, text


def issue_own_token(caller: Caller, *, name: str, scopes: list[str], days: int, now: datetime) -> tuple[ApiToken, str]:
    """
    Make a token for the caller, no wider than what the caller may do, and no longer than the caller's own token lasts.

    :raises ScopeTooWide: a scope the caller lacks
    :raises UnknownToken: the caller's own token was revoked at this moment
    """
    too_wide = (set(scopes) & set(Scope)) - set(caller.scopes)
    if too_wide:
        raise ScopeTooWide(scopes=", ".join(sorted(too_wide)), field="scopes")
    maker = _living(caller.token) if caller.token else None
    token, text = issue_token(
        studio=caller.studio, user=caller.user, name=name, scopes=scopes, days=days, now=now, maker=maker
    )
    audit(caller, "token.issued", subject=token.id, name=name, scopes=token.scopes)
    return token, text


def _living(token_id: UUID) -> ApiToken:
    # Locked, so that whoever revokes it meanwhile finds what was made with it.
    found = ApiToken.objects.select_for_update(no_key=True).filter(pk=token_id, revoked_at=None).first()
    if found is None:
        raise UnknownToken
    return found


_REVOKE = """
WITH RECURSIVE line AS (
    SELECT id FROM studios_apitoken WHERE id = %s
    UNION SELECT made.id FROM studios_apitoken made JOIN line ON made.made_with_id = line.id
)
UPDATE studios_apitoken SET revoked_at = %s WHERE id IN (SELECT id FROM line) AND revoked_at IS NULL
"""


def revoke_token(caller: Caller, token_id: UUID, *, now: datetime) -> None:
    """
    End a token at once, with all that were made with it; one that has ended stays as it is.

    :raises NotFound: there is none, or it is another person's and the caller does not run the studio
    """
    token = tokens_seen_by(caller).filter(pk=token_id).first()
    if token is None:
        raise NotFound(what="token", id=token_id)
    ended = 0
    while found := _end_line(token.id, now):  # again, for what was being made with one of them at that moment
        ended += found
    if ended:
        audit(caller, "token.revoked", subject=token.id, owner=str(token.user_id), ended=ended)


def _end_line(token_id: UUID, now: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_REVOKE, [token_id, now])
        return int(cursor.rowcount)


@transaction.atomic
def open_studio(*, name: str, currency: str, zone: str, email: str, is_operator: bool) -> tuple[Studio, User]:
    """
    Open a studio with its owner; asked again, give the ones there are.

    :raises Invalid: no ISO 4217 code, no IANA zone, or no mail address
    :raises OtherCurrency: the studio is there, with another currency
    """
    _check_studio(name=name, currency=currency, zone=zone, email=email)
    studio = Studio.objects.filter(name__iexact=name).first()
    if studio is None:
        studio = Studio.objects.create(name=name, currency=currency, zone=zone)
    elif studio.currency != currency:
        raise OtherCurrency(name=studio.name, currency=studio.currency, field="currency")
    user = user_of(email) or User.objects.create_user(email, is_operator=is_operator)
    _, is_new = Membership.objects.get_or_create(studio=studio, user=user, defaults={"role": Role.OWNER})
    if is_new:
        opening = Caller(user, studio, frozenset(Scope), token=None, address=None)
        audit(opening, "member.joined", subject=user.id, role=str(Role.OWNER))
    return studio, user


def _check_studio(*, name: str, currency: str, zone: str, email: str) -> None:
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise Invalid("studio", f"{name[:200]!r} is not a name of 1 to 200 printable characters")
    if len(currency) != 3 or not currency.isascii() or not currency.isalpha() or not currency.isupper():
        raise Invalid("currency", f"{currency!r} is not a currency code such as USD or EUR")
    check_zone(zone)
    try:
        validate_email(email)
    except ValidationError:
        raise Invalid("email", f"{email!r} is not a mail address") from None


def check_zone(zone: str) -> None:
    """
    See that there is such a time zone.

    :raises Invalid: there is not
    """
    if zone not in available_timezones():
        raise Invalid("zone", f"{zone!r} is not a time zone such as UTC or Europe/Berlin")

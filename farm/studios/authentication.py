"""Who is asking: bearer tokens, and the scopes a view needs."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from django.db import connection
from django.http import HttpRequest, HttpResponse
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from farm.core.addresses import address_of
from farm.core.errors import Refusal
from farm.studios.models import AuditRow, Membership, Studio, User
from farm.studios.roles import LOOK_SCOPES, ROLE_SCOPES, Role, Scope, effective_scopes

TOKEN_PREFIX = "fh_"
LAST_USED_RESOLUTION = timedelta(minutes=1)
STUDIO_HEADER = "X-Farm-Studio"
LOOKED = "operator.looked"  # in the audit log
LOOK = timedelta(hours=1)


class NotABearerToken(Refusal):
    """Send the token as 'Authorization: Bearer <token>'."""

    code = "authentication-failed"
    status = 401


class UnknownToken(Refusal):
    """This token is unknown, expired or revoked, or its owner has left the studio. Make a new one and log in again."""

    code = "authentication-failed"
    status = 401


class NoSuchStudio(Refusal):
    """You are no member of the studio {studio!r}. Choose one of yours, or ask its owner for an invitation."""

    code = "no-such-studio"
    status = 404


class NoStudio(Refusal):
    """You are a member of no studio yet. Ask a studio's owner for an invitation."""

    code = "no-studio"
    status = 403


class ForgedRequest(Refusal):
    """The browser's request lacks its sign against forgery ({why}). Reload the page and do it again."""

    code = "csrf-failed"
    status = 403


class BrowserOnly(Refusal):
    """Only a person in a browser can do this, no token. Open the address there."""

    code = "browser-only"
    status = 403


class OperatorsOnly(Refusal):
    """Only the farm's operators may do this. Ask whoever runs the farm."""

    code = "operators-only"
    status = 403


class ScopeMissing(Refusal):
    """This needs the scope {scope}, which your token or your role in the studio lacks."""

    code = "scope-missing"
    status = 403


@dataclass(frozen=True)
class Caller:
    """Who a request acts for: one user, in one studio, with these scopes."""

    user: User
    studio: Studio
    scopes: frozenset[Scope]
    token: UUID | None
    address: str | None
    studios: tuple[tuple[Studio, Role], ...] = ()  # all that this person is a member of, as far as it was asked
    is_looking: bool = False  # an operator in a studio that is not theirs


@dataclass(frozen=True)
class Person:
    """Who is signed in and in no studio: sees and changes what is their own."""

    user: User
    address: str | None
    scopes: frozenset[Scope] = frozenset({Scope.STUDIO_READ, Scope.ACCOUNT_WRITE})


def new_token() -> tuple[str, str, str]:
    """Make a token: the text to show once, its recognisable prefix, and the digest to store."""
    text = TOKEN_PREFIX + secrets.token_urlsafe(32)
    return text, text[:9], token_digest(text)


def token_digest(text: str) -> str:
    """Give what is stored of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


_FIND = """
SELECT t.id, t.scopes, t.last_used_at, m.role,
       u.id, u.email, u.name, u.is_operator, s.id, s.name, s.currency, s.zone
  FROM studios_apitoken t
  JOIN studios_user u ON u.id = t.user_id AND u.is_active
  JOIN studios_studio s ON s.id = t.studio_id
  JOIN studios_membership m ON m.studio_id = t.studio_id AND m.user_id = t.user_id
 WHERE t.digest = %s AND t.revoked_at IS NULL AND t.expires_at > %s
"""

# Whoever else notes it at this moment says the same: nobody waits for the other's request to end.
_NOTE_USE = """
UPDATE studios_apitoken SET last_used_at = %s
 WHERE id IN (SELECT id FROM studios_apitoken WHERE id = %s FOR NO KEY UPDATE SKIP LOCKED)
"""


def caller_of(request: HttpRequest, *, now: datetime) -> Caller | None:
    """
    Find out who is asking, by the request's bearer token or else its session; None when there is neither.

    :raises NotABearerToken: the header is something else
    :raises UnknownToken: the token is unknown, expired or revoked, or its owner no longer a member
    :raises NoSuchStudio: the request names a studio that is not the token's, or not this person's
    :raises NoStudio: the person has none
    :raises ForgedRequest: a session's request that changes something may be another site's
    """
    kind, _, text = request.headers.get("Authorization", "").partition(" ")
    if not kind:
        return _session_caller(request, now)
    if kind.lower() != "bearer" or not text.strip():
        raise NotABearerToken
    with connection.cursor() as cursor:
        cursor.execute(_FIND, [token_digest(text.strip()), now])
        row = cursor.fetchone()
        if row is None:
            raise UnknownToken
        token, scopes, last_used, role = row[:4]
        if last_used is None or now - last_used > LAST_USED_RESOLUTION:
            cursor.execute(_NOTE_USE, [now, token])
    user = User(id=row[4], email=row[5], name=row[6], is_operator=row[7])
    studio = Studio(id=row[8], name=row[9], currency=row[10], zone=row[11])
    if studio_asked(request) not in {None, studio.id}:
        raise NoSuchStudio(studio=str(studio_asked(request)))
    return Caller(user, studio, effective_scopes(Role(role), scopes), token, address_of(request))


def _session_caller(request: HttpRequest, now: datetime) -> Caller | None:
    user = _signed_in(request)
    if user is None:
        return None
    _check_forgery(request)
    rows = Membership.objects.filter(user=user).select_related("studio").order_by("created_at", "id")
    studios = tuple((row.studio, Role(row.role)) for row in rows)
    wanted, address = studio_asked(request), address_of(request)
    for studio, role in studios:
        if wanted in {None, studio.id}:
            return Caller(user, studio, ROLE_SCOPES[role], None, address, studios)
    if wanted and (looked_into := _look_of(user, wanted, now)):
        return Caller(user, looked_into, LOOK_SCOPES, None, address, studios, is_looking=True)
    if studios:
        raise NoSuchStudio(studio=str(wanted))
    raise NoStudio


def _look_of(user: User, studio_id: UUID, now: datetime) -> Studio | None:
    if not user.is_operator:
        return None
    # The audit log itself is what lets them in: there is no look that is not in it.
    looks = AuditRow.objects.filter(studio_id=studio_id, user_id=user.id, act=LOOKED, at__gt=now - LOOK)
    latest = looks.select_related("studio").first()
    return latest.studio if latest else None


def studio_asked(request: HttpRequest) -> UUID | None:
    """
    Say which studio a request names, if it does.

    :raises NoSuchStudio: what it names is no id
    """
    text = request.headers.get(STUDIO_HEADER, "")
    try:
        return UUID(text) if text else None
    except ValueError:
        raise NoSuchStudio(studio=text[:64]) from None


def _signed_in(request: HttpRequest) -> User | None:
    user = getattr(request, "user", None)
    return user if isinstance(user, User) and user.is_active else None


def _check_forgery(request: HttpRequest) -> None:
    check = CSRFCheck(lambda _: HttpResponse())
    check.process_request(request)
    if rejected := check.process_view(request, None, (), {}):  # type: ignore[arg-type]
        raise ForgedRequest(why=rejected)


def caller(request: Request) -> Caller:
    """Give who an API view acts for, once its permission was checked."""
    return cast(Caller, request.auth)


def asking(request: Request) -> Caller | Person:
    """Give who asks a view that is for people of no studio too."""
    return cast("Caller | Person", request.auth)


class CallerAuthentication(BaseAuthentication):
    """Takes the caller that the tenant middleware found."""

    def authenticate(self, request: Request) -> tuple[User, Caller | Person] | None:
        refusal: Refusal | None = getattr(request._request, "refusal", None)
        if isinstance(refusal, NoStudio):
            user = cast(User, request._request.user)
            return user, Person(user, address_of(request._request))  # HasScope refuses them where a studio is needed
        if refusal is not None:
            raise refusal
        found: Caller | None = getattr(request._request, "caller", None)
        return (found.user, found) if found else None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class VisitorAuthentication(BaseAuthentication):
    """Lets in anybody in a browser, signed in or not, member of a studio or not: `request.auth` is None."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        visit = request._request
        if visit.headers.get("Authorization"):
            raise BrowserOnly
        _check_forgery(visit)  # of one who is not signed in too: another site must not sign them in
        user = _signed_in(visit)
        return (user, None) if user else None


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document names it."""

    target_class = "farm.studios.authentication.CallerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API token of a studio."}


class HasScope(BasePermission):
    """A view says `scopes = {"GET": Scope.JOBS_READ, …}`; a method without a scope is refused to everybody."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.auth is None:
            return False
        if isinstance(request.auth, Person) and not view.is_for_people:
            raise NoStudio
        method = str(request.method).lower()
        if method not in view.http_method_names or not hasattr(view, method):
            return True  # answered 405
        needed = view.scope_for(request.method)
        if needed is None or needed not in asking(request).scopes:
            raise ScopeMissing(scope=needed)
        return True

"""Who may listen: asked once when a stream opens, and again from time to time."""

from __future__ import annotations

from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from farm.core.errors import Invalid, NotFound, Refusal
from farm.core.pages import parse_id, query_of
from farm.notifications.selectors import jobs_there
from farm.notifications.streams import Ticket
from farm.studios.authentication import STUDIO_HEADER, Caller, NoSuchStudio, ScopeMissing, caller_of, studio_asked
from farm.studios.roles import Scope

MOST_JOBS = 20


class SignedOut(Refusal):
    """Nobody is signed in. Sign in, or send a token as 'Authorization: Bearer <token>'."""

    code = "not-authenticated"
    status = 401


class ForeignOrigin(Refusal):
    """Pages of {origin} may not listen to this farm."""

    code = "foreign-origin"
    status = 403


@transaction.atomic
def admit(request: HttpRequest) -> Ticket:
    """
    Say what whoever asks may hear.

    :raises ForeignOrigin: another site's page asks
    :raises SignedOut: there is no session and no token
    :raises Refusal: whatever `caller_of` refuses
    :raises NoSuchStudio: the token is another studio's
    :raises ScopeMissing: no right to see jobs
    :raises NotFound: one of the jobs is not there
    """
    request.get_host()  # refuses names that are not this farm's
    if (origin := request.headers.get("Origin", "")) and not is_own(request, origin):
        raise ForeignOrigin(origin=origin[:200])
    query = query_of(request.GET, {"studio", "job"})
    jobs = _jobs(query.get("job", ""))
    caller = _caller(request, query.get("studio", ""))
    if Scope.JOBS_READ not in caller.scopes:
        raise ScopeMissing(scope=Scope.JOBS_READ)
    for missing in jobs - jobs_there(caller.studio.id, jobs):
        raise NotFound(what="job", id=missing, field="job")
    return Ticket(caller.user.id, caller.studio.id, caller.scopes, jobs)


def _jobs(text: str) -> frozenset[UUID]:
    jobs = frozenset(parse_id(part, "job") for part in text.split(",") if part)
    if len(jobs) > MOST_JOBS:
        raise Invalid("job", f"{len(jobs)} jobs are more than {MOST_JOBS}; the list's messages name all others")
    return jobs


def _caller(request: HttpRequest, studio: str) -> Caller:
    if studio:  # a browser's EventSource sends no headers of ours
        request.META["HTTP_" + STUDIO_HEADER.upper().replace("-", "_")] = studio
        vars(request).pop("headers", None)
    for middleware in (SessionMiddleware, AuthenticationMiddleware):
        middleware(lambda _: HttpResponse()).process_request(request)
    caller = caller_of(request, now=timezone.now())
    if caller is None:
        raise SignedOut
    if studio and caller.studio.id != studio_asked(request):
        raise NoSuchStudio(studio=studio[:64])
    return caller


def is_own(request: HttpRequest, origin: str) -> bool:
    """Say whether a page is the farm's own: of its address, or of another name of this host at its port."""
    farm, here = urlsplit(settings.FARM_URL), urlsplit(f"//{request.get_host()}")
    of_this_host = f"{farm.scheme}://{here.netloc.removesuffix(f':{here.port}')}" + (
        f":{farm.port}" if farm.port else ""
    )
    return origin in {settings.FARM_URL, of_this_host}

"""The portal's one page: every address that is nothing else's is a view of it."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

NOT_BUILT = "The portal was not built. Run `make portal`, then `make down` and `make up`.\n"


@transaction.non_atomic_requests
@ensure_csrf_cookie
@require_safe
def portal(request: HttpRequest) -> HttpResponse:
    """
    Give the page that loads the portal; a browser asks for it anew each time, for its scripts once.

    :raises Http404: a program asks, which has mistaken the address
    """
    if "text/html" not in request.headers.get("Accept", ""):
        raise Http404
    page = settings.PORTAL_DIR / "index.html"
    if not page.exists():
        return HttpResponse(NOT_BUILT, status=503, content_type="text/plain; charset=utf-8")
    return HttpResponse(page.read_bytes(), headers={"Cache-Control": "no-cache"})

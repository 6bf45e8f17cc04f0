"""The way to `/events`, and a job's history."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_GET

from farm.core.errors import Refusal


class EventsElsewhere(Refusal):
    """This process answers no {path}. Whoever runs the farm has to route it to the events part."""

    code = "events-elsewhere"
    status = 404


@transaction.non_atomic_requests
@require_GET
def elsewhere(request: HttpRequest) -> HttpResponse:
    """
    Show the way to the events part, where no load balancer does: at a port of its own on the same host.

    So a page's stream is none of the few connections that its browser has to this port, and a session's cookie, which
    knows no ports, comes along.

    :raises EventsElsewhere: a load balancer should have
    """
    here = urlsplit(f"//{request.get_host()}").hostname
    origins = {urlsplit(origin).hostname: origin for origin in settings.EVENTS_ORIGINS}
    if here not in origins:
        raise EventsElsewhere(path=request.path)
    response = HttpResponse(status=307, headers={"Cache-Control": "no-store"})
    response.headers["Location"] = origins[here] + request.get_full_path()
    return response


events_urls = [path("events", elsewhere)]

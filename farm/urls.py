"""All addresses: each room serves its own resource below /api/v1; workers have their own door."""

from __future__ import annotations

from importlib import import_module

from csp.decorators import csp_exempt
from django.db import transaction
from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularSwaggerView

from farm.core.files import urls as file_urls
from farm.core.portal import portal
from farm.core.schema import serve_document
from farm.core.views import health
from farm.dispatch.api import worker_urls
from farm.notifications.api import events_urls
from farm.results.api import archive_urls

ROOMS = ("studios", "billing", "scenes", "fleet", "jobs", "dispatch", "results")

urlpatterns = [
    path("healthz", health),
    *(path("api/v1/", include(import_module(f"farm.{room}.api").urls)) for room in ROOMS),
    path("worker/v1/", include(worker_urls)),
    path("", include(file_urls)),
    path("", include(events_urls)),
    path("", include(archive_urls)),
    path("api/openapi.json", serve_document, name="openapi"),
    path(
        "api/docs",
        # Its page has its script inline.
        transaction.non_atomic_requests(csp_exempt()(SpectacularSwaggerView.as_view(url_name="openapi"))),
    ),
    path("_allauth/", include("allauth.headless.urls")),
    re_path(r"^(?!api/|worker/|_allauth/|static/|files/|archives/|store/|events|healthz).*$", portal),
]

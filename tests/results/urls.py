"""The farm's addresses, with those of this room whether they are among them yet or not."""

from __future__ import annotations

from django.urls import include, path

from farm.results.api import urls
from farm.urls import urlpatterns as farm_urls

urlpatterns = [*farm_urls, path("api/v1/", include(urls))]

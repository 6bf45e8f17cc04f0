"""`/events`, for uvicorn; all else is `farm.wsgi`."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "farm.settings")
django.setup()

from farm.notifications.server import EventsServer  # noqa: E402  (its models need the settings)

application = EventsServer()

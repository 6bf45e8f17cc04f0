"""The REST API, the worker API and signed files, for granian."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "farm.settings")
application = get_wsgi_application()

from farm.celery import app as app  # noqa: E402  (makes it the current app; needs settings)

"""A browser as far as the farm can tell: cookies, a sign against forgery, a chosen studio."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpResponse
from django.test import Client

from farm.studios.accounts import first_link
from farm.studios.models import User
from tests.api import Answer, leave_tenant

PASSWORD = "correct horse battery"


class Browser:
    """Speaks JSON with the farm's cookies."""

    def __init__(self, studio: str = "") -> None:
        self.client = Client(enforce_csrf_checks=True, raise_request_exception=False)
        self.studio = studio
        self.page("/sign-in")

    def __call__(self, method: str, address: str, body: Any = None, *, is_forged: bool = False) -> Answer:
        headers = {"X-Farm-Studio": self.studio} if self.studio else {}
        if not is_forged and (cookie := self.client.cookies.get("csrftoken")):
            headers["X-CSRFToken"] = cookie.value
        sent = "" if body is None else json.dumps(body)
        answer = self.client.generic(method, address, sent, "application/json", headers=headers)
        leave_tenant()
        is_json = bool(answer.content) and "json" in answer.headers.get("Content-Type", "")
        return Answer(answer.status_code, answer.json() if is_json else None, dict(answer.headers))

    def page(self, address: str) -> HttpResponse:
        """Open an address as a person does."""
        return self.client.get(address, headers={"Accept": "text/html,*/*"})  # type: ignore[return-value]

    def sign_in(self, email: str, password: str = PASSWORD) -> Answer:
        return self("POST", "/_allauth/browser/v1/auth/login", {"email": email, "password": password})

    def set_password(self, link: str, password: str = PASSWORD) -> Answer:
        """Do what the page behind a first link does."""
        key = urlsplit(link).path.rpartition("/")[2]
        return self("POST", "/_allauth/browser/v1/auth/password/reset", {"key": key, "password": password})


def with_password(user: User, password: str = PASSWORD) -> None:
    """Let a person sign in."""
    assert Browser().set_password(first_link(user), password).status in {200, 401}

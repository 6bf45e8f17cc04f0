"""Errors as `application/problem+json` (RFC 9457), with a stable code, parameters, the field, and what to do."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from farm.core.bodies import BodyTooLarge
from farm.core.errors import NotFound, Refusal, Refusals

logger = logging.getLogger(__name__)

WHO = "The farm does not know who asks: sign in, or send an API token as `Authorization: Bearer …`."
CONTENT_TYPE = "application/problem+json"
UNAVAILABLE = (OperationalError, InterfaceError)  # the database is away, or did not answer in time
RETRY_AFTER_S = 2


def problem(status: int, code: str, detail: str, **extra: Any) -> dict[str, Any]:
    """Make the body of a problem."""
    return {
        "type": f"urn:farmhand:problem:{code}",
        "title": code.replace("-", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": detail,
        "params": {},
        "errors": [],
        **extra,
    }


def _of_refusal(refusal: Refusal) -> dict[str, Any]:
    if isinstance(refusal, Refusals):
        errors = [_item(r) for r in refusal.refusals]
    else:
        errors = [_item(refusal)] if refusal.field else []
    return problem(refusal.status, refusal.code, refusal.sentence, params=_plain(refusal.params), errors=errors)


def _item(refusal: Refusal) -> dict[str, Any]:
    return {
        "field": refusal.field,
        "code": refusal.code,
        "detail": refusal.sentence,
        "params": _plain(refusal.params),
    }


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Give the values of a sentence as JSON has them."""
    return json.loads(json.dumps(params, default=str))  # type: ignore[no-any-return]


def _of_validation(error: exceptions.ValidationError) -> dict[str, Any]:
    errors = list(_flatten(error.detail, ""))
    detail = "; ".join(f"{e['field']}: {e['detail']}" if e["field"] else e["detail"] for e in errors[:5])
    return problem(422, "invalid", detail, errors=errors)


def _flatten(detail: Any, path: str) -> Iterator[dict[str, Any]]:
    if isinstance(detail, dict):
        for key, value in detail.items():
            name = "" if key == "non_field_errors" else str(key)
            yield from _flatten(value, f"{path}.{name}".strip(".") if name else path)
    elif isinstance(detail, list):
        for index, value in enumerate(detail):
            nested = isinstance(value, (dict, list))
            yield from _flatten(value, f"{path}[{index}]" if nested else path)
    else:
        code = str(getattr(detail, "code", "invalid")).replace("_", "-")
        yield {"field": path or None, "code": code, "detail": str(detail), "params": {}}


def answer(error: Exception, context: dict[str, Any]) -> Response | None:
    """Turn an exception of an API view into a problem; None lets it fly: to the middleware, which answers 503 or 500."""  # noqa: E501
    headers: dict[str, str] = {}
    if isinstance(error, Http404):
        error = NotFound(what="page or row", id=context["request"].path)
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    elif isinstance(error, exceptions.NotAuthenticated):
        error = exceptions.NotAuthenticated(WHO)
    elif isinstance(error, RequestDataTooBig):
        error = BodyTooLarge()
    if isinstance(error, Refusal):
        body = _of_refusal(error)
    elif isinstance(error, exceptions.ValidationError):
        body = _of_validation(error)
    elif isinstance(error, exceptions.APIException):
        code = str(error.default_code).replace("_", "-")
        body = problem(error.status_code, code, str(error.detail))
    else:
        return None
    if body["status"] == 401:
        headers["WWW-Authenticate"] = "Bearer"
    set_rollback()
    return Response(body, status=body["status"], headers=headers, content_type=CONTENT_TYPE)


def unavailable(error: Exception) -> HttpResponse:
    """Answer for a database that is away, or did not answer in time."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    logger.warning("database unavailable: %s", lines[0])
    detail = "The farm's database does not answer at the moment. Nothing was changed; try again in a few seconds."
    response = _http(problem(503, "unavailable", detail))
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


_CODES = {
    400: ("bad-request", "The request is malformed."),
    403: ("permission-denied", "You may not do this."),
    404: ("not-found", "There is nothing at {path}."),
    405: ("method-not-allowed", "{method} is not possible here."),
    413: ("body-too-large", "The request's body is too large."),
}


class ProblemMiddleware:
    """Answers what no view handled: unknown addresses, a database that is away, bugs. Never a page of HTML."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code < 400 or not response.headers.get("Content-Type", "").startswith("text/html"):
            return response
        return _in_json(request, response)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, UNAVAILABLE):
            return unavailable(error)
        if isinstance(error, Refusal):
            return _http(_of_refusal(error))
        if isinstance(error, (Http404, PermissionDenied, SuspiciousOperation)):
            return None  # Django knows the status; the words are put in on the way out
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
        return _http(_bug())


def _bug() -> dict[str, Any]:
    detail = "The farm made a mistake. It is logged; try again, or tell your operator the time and address."
    return problem(500, "internal-error", detail)


def _in_json(request: HttpRequest, page: HttpResponse) -> HttpResponse:
    """Say what one of Django's own error pages says."""
    if page.status_code >= 500:
        return _http(_bug())
    code, detail = _CODES.get(page.status_code, ("bad-request", "The request is malformed."))
    detail = detail.format(path=request.path, method=request.method)
    response = _http(problem(page.status_code, code, detail))
    if "Allow" in page.headers:
        response.headers["Allow"] = page.headers["Allow"]
    return response


def _http(body: dict[str, Any]) -> HttpResponse:
    return HttpResponse(json.dumps(body), status=body["status"], content_type=CONTENT_TYPE)

"""Errors as `application/problem+json` (RFC 9457), with a stable code, parameters, the field, and what to do."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from farm.core.errors import NotFound, Refusal, Refusals

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"


def problem(status: int, code: str, detail: str, **extra: Any) -> dict[str, Any]:
    """Make the body of a problem."""
    return {
        "type": f"urn:farmhand:problem:{code}",
        "title": code.replace("-", " "),
        "status": status,
        "code": code,
        "detail": detail,
        **extra,
    }


def _of_refusal(refusal: Refusal) -> dict[str, Any]:
    errors = [_item(r) for r in (refusal.refusals if isinstance(refusal, Refusals) else [refusal]) if r.field]
    params = {
        k: v if isinstance(v, (int, float, bool, list, dict, type(None))) else str(v) for k, v in refusal.params.items()
    }
    return problem(refusal.status, refusal.code, refusal.sentence, params=params, errors=errors)


def _item(refusal: Refusal) -> dict[str, Any]:
    return {"field": refusal.field, "code": refusal.code, "detail": refusal.sentence}


def _of_validation(error: exceptions.ValidationError) -> dict[str, Any]:
    errors = list(_flatten(error.detail, ""))
    detail = "; ".join(f"{e['field']}: {e['detail']}" if e["field"] else e["detail"] for e in errors[:5])
    return problem(422, "invalid", detail, params={}, errors=errors)


def _flatten(detail: Any, path: str) -> Any:
    if isinstance(detail, dict):
        for key, value in detail.items():
            name = "" if key == "non_field_errors" else str(key)
            yield from _flatten(value, f"{path}.{name}".strip(".") if name else path)
    elif isinstance(detail, list):
        for index, value in enumerate(detail):
            nested = isinstance(value, (dict, list))
            yield from _flatten(value, f"{path}[{index}]" if nested else path)
    else:
        yield {"field": path or None, "code": getattr(detail, "code", "invalid"), "detail": str(detail)}


def answer(error: Exception, context: dict[str, Any]) -> Response | None:
    """Turn an exception of an API view into a problem; None lets it fly (a bug, answered 500 by the middleware)."""
    headers: dict[str, str] = {}
    if isinstance(error, Http404):
        error = NotFound(what="page or row", id=context["request"].path)
    if isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    if isinstance(error, Refusal):
        body = _of_refusal(error)
    elif isinstance(error, exceptions.ValidationError):
        body = _of_validation(error)
    elif isinstance(error, exceptions.APIException):
        code = str(getattr(error, "default_code", "error")).replace("_", "-")
        body = problem(error.status_code, code, str(error.detail), params={}, errors=[])
        if error.status_code == 401:
            headers["WWW-Authenticate"] = "Bearer"
    else:
        return None
    set_rollback()
    return Response(body, status=body["status"], headers=headers, content_type=CONTENT_TYPE)


def unavailable(error: Exception) -> HttpResponse:
    """Answer a request that came while the database was away."""
    logger.warning(
        "database unavailable: %s",
        str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__,
    )
    response = _http(
        problem(
            503,
            "unavailable",
            "The farm's database does not answer at the moment. Nothing was changed; try again in a few seconds.",
            params={},
            errors=[],
        )
    )
    response.headers["Retry-After"] = "2"
    return response


class ProblemMiddleware:
    """Answers what no view handled: unknown addresses, a database that is away, bugs. Always JSON for the API."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            response = self.get_response(request)
        except (OperationalError, InterfaceError) as error:
            return unavailable(error)
        if response.status_code >= 400 and response.headers.get("Content-Type", "").startswith("text/html"):
            return self._plain(request, response.status_code)
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, (OperationalError, InterfaceError)):
            return unavailable(error)
        if isinstance(error, Refusal):
            return _http(_of_refusal(error))
        if isinstance(error, (Http404, PermissionDenied, SuspiciousOperation)):
            return None
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
        return _http(
            problem(
                500,
                "internal-error",
                "The farm made a mistake. It is logged; try again, or tell your operator the time and address.",
                params={},
                errors=[],
            )
        )

    def _plain(self, request: HttpRequest, status: int) -> HttpResponse:
        codes = {
            400: ("bad-request", "The request is malformed."),
            403: ("permission-denied", "You may not do this."),
            404: ("not-found", f"There is nothing at {request.path}."),
            405: ("method-not-allowed", f"{request.method} is not possible here."),
        }
        code, detail = codes.get(status, ("error", "The request failed."))
        return _http(problem(status, code, detail, params={}, errors=[]))


def _http(body: dict[str, Any]) -> HttpResponse:
    return HttpResponse(json.dumps(body), status=body["status"], content_type=CONTENT_TYPE)

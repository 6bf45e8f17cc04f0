"""The base of all API views, and what lets a request be repeated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast
from uuid import UUID

from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from farm.core.errors import Invalid, Refusal
from farm.core.models import IdempotencyKey

S = TypeVar("S", bound=serializers.BaseSerializer[Any])
KEY_HEADER = "Idempotency-Key"
MAX_KEY = 200


class KeyReused(Refusal):
    """The Idempotency-Key {key!r} was used before for a different request. Send a new key with a new request."""

    code = "idempotency-key-reused"
    status = 422


class KeyBusy(Refusal):
    """A request with the Idempotency-Key {key!r} is being carried out at this moment. Ask again in a second."""

    code = "idempotency-key-busy"


class ApiView(APIView):
    """A view whose `scopes` say what a token needs for each method."""

    scopes: ClassVar[dict[str, str]] = {}
    is_for_people: ClassVar[bool] = False  # of no studio too
    is_open: ClassVar[bool] = False  # asked without token or session, by an address that is itself a credential
    http_method_names = ["get", "post", "put", "patch", "delete", "head"]

    def scope_for(self, method: str) -> str | None:
        """Give the scope a method needs; None if there is no such method here."""
        return self.scopes.get("GET" if method == "HEAD" else method)

    def parse(self, request: Request, serializer: type[S]) -> Any:
        """Parse the body; fields that cannot be set are refused, so that a typo is never silently ignored."""
        parsed = serializer(data=request.data)
        parsed.is_valid(raise_exception=True)
        fields: dict[str, Any] = getattr(parsed, "fields", {})
        known = {name for name, field in fields.items() if not field.read_only}
        if unknown := sorted(set(request.data) - known):
            raise serializers.ValidationError({name: [_not_settable(name, fields)] for name in unknown})
        return parsed.validated_data


def _not_settable(name: str, fields: dict[str, Any]) -> str:
    return "This field cannot be set here." if name in fields else "There is no such field."


def once(act: Callable[..., Response]) -> Callable[..., Response]:
    """
    Carry out what creates or costs something; asked again with one `Idempotency-Key`, give the first answer again.

    The answer is stored in the transaction of the act: either both are there or neither. A twin that comes meanwhile
    waits for the first to end.

    :raises KeyReused: the key came before with another body
    :raises KeyBusy: the first request with this key did not end for long
    """

    @wraps(act)
    def wrapped(view: ApiView, request: Request, *args: Any, **kwargs: Any) -> Response:
        key = request.headers.get(KEY_HEADER, "")
        if not key:
            return act(view, request, *args, **kwargs)
        if len(key) > MAX_KEY:
            raise Invalid(KEY_HEADER, f"it is longer than {MAX_KEY} characters")
        studio, route = cast(Any, request.auth).studio.id, f"{request.method} {request.path}"
        digest = hashlib.sha256(json.dumps(request.data, sort_keys=True).encode()).hexdigest()
        _wait_for_twin(studio, route, key)
        stored = IdempotencyKey.objects.filter(studio_id=studio, route=route, key=key).first()
        if stored is None:
            response = act(view, request, *args, **kwargs)
            body = json.loads(cast(Any, request).accepted_renderer.render(response.data))
            IdempotencyKey.objects.create(
                studio_id=studio,
                route=route,
                key=key,
                request_digest=digest,
                status=response.status_code,
                body=body,
            )
            return response
        if stored.request_digest != digest:
            raise KeyReused(key=key)
        return Response(stored.body, status=stored.status, headers={"Idempotent-Replay": "true"})

    wrapped.takes_key = True  # type: ignore[attr-defined]  # for the OpenAPI document
    return wrapped


def _wait_for_twin(studio: UUID, route: str, key: str) -> None:
    """Lock the key until the end of this transaction."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{studio} {route} {key}"])
    except OperationalError:  # the lock timeout
        raise KeyBusy(key=key) from None


def health(request: HttpRequest) -> HttpResponse:
    """Say that this process answers and reaches its database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"healthy": True})

"""The base of all API views."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from farm.core.errors import Refusal
from farm.core.models import IdempotencyKey

S = TypeVar("S", bound=serializers.BaseSerializer[Any])


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

    def scope_for(self, method: str) -> str | None:
        return self.scopes.get(method)

    def parse(self, request: Request, serializer: type[S]) -> Any:
        """Parse the body; unknown fields are refused, so that a typo is never silently ignored."""
        parsed = serializer(data=request.data)
        parsed.is_valid(raise_exception=True)
        if isinstance(request.data, dict):
            unknown = set(request.data) - set(getattr(parsed, "fields", {}))
            if unknown:
                raise serializers.ValidationError({name: ["There is no such field."] for name in sorted(unknown)})
        return parsed.validated_data


def once(request: Request, act: Callable[[], Response]) -> Response:
    """
    Carry out what creates or costs something; asked again with one `Idempotency-Key`, give the first answer again.

    The answer is stored in the transaction of the act: either both are there or neither.

    :raises KeyReused: the key came before with another body
    :raises KeyBusy: the first request with this key has not ended
    """
    key = request.headers.get("Idempotency-Key", "")
    if not key:
        return act()
    if len(key) > 200:
        raise KeyReused(key=key[:20] + "…")
    studio, route = cast(Any, request.auth).studio.id, f"{request.method} {request.path}"
    body = json.dumps(request.data, sort_keys=True, default=str)
    digest = hashlib.sha256(body.encode()).hexdigest()
    stored = IdempotencyKey.objects.filter(studio_id=studio, route=route, key=key).first()
    if stored is not None:
        if stored.request_digest != digest:
            raise KeyReused(key=key)
        return Response(stored.body, status=stored.status, headers={"Idempotent-Replay": "true"})
    response = act()
    rendered = json.loads(request.accepted_renderer.render(response.data))
    try:
        with transaction.atomic():
            IdempotencyKey.objects.create(
                studio_id=studio,
                route=route,
                key=key,
                request_digest=digest,
                status=response.status_code,
                body=rendered,
            )
    except IntegrityError:  # its twin committed first: this transaction, act and all, is rolled back
        raise KeyBusy(key=key) from None
    return response


def health(request: HttpRequest) -> HttpResponse:
    """Say that this process answers and reaches its database."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"healthy": True})

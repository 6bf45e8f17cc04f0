"""The OpenAPI document: every operation names its problems, its scope, and the headers it takes."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from farm.core.pages import DEFAULT_LIMIT, MAX_LIMIT
from farm.core.views import KEY_HEADER, MAX_KEY

_KEY = OpenApiParameter(
    KEY_HEADER,
    str,
    OpenApiParameter.HEADER,
    description=f"A name of your own for this request, at most {MAX_KEY} characters. "
    "Sent again with it, the request is not carried out again: the first answer is given.",
)
_PAGE = [
    OpenApiParameter("limit", int, description=f"Rows of a page, 1 to {MAX_LIMIT}; {DEFAULT_LIMIT} unless said."),
    OpenApiParameter("cursor", str, description="The `next` of the page before."),
]


class ProblemError(serializers.Serializer[Any]):
    """One field at fault."""

    field = serializers.CharField(allow_null=True)
    code = serializers.CharField()
    detail = serializers.CharField()
    params = serializers.DictField()


class Problem(serializers.Serializer[Any]):
    """What went wrong (RFC 9457), why, and what to do next."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="Stable; programs decide by it.")
    detail = serializers.CharField(help_text="One sentence for a person.")
    params = serializers.DictField(help_text="The values in the sentence, to word it in another language.")
    errors = ProblemError(many=True)  # type: ignore[assignment]  # a field, though DRF has a property of this name


class Schema(AutoSchema):
    """Adds the problem answers, the scope a token needs, and pages' and keys' parameters to each operation."""

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular's, not DRF's
        text = super().get_description() or ""
        if getattr(self.view, "is_open", False):
            return f"{text}\n\nNo token is needed: the address is itself a credential."
        scope = getattr(self.view, "scope_for", lambda method: None)(self.method)
        return f"{text}\n\nScope: `{scope}`" if scope else text

    def get_override_parameters(self) -> list[Any]:
        return [*(_PAGE if self._is_page() else []), *([_KEY] if self._takes_key() else [])]

    def _is_page(self) -> bool:
        fields = getattr(_instance(self.get_response_serializers()), "fields", {})
        return {"results", "next"} <= set(fields)

    def _takes_key(self) -> bool:
        return hasattr(getattr(self.view, self.method.lower(), None), "takes_key")

    def _get_response_bodies(self, direction: Any = "response") -> Any:
        bodies = super()._get_response_bodies(direction)
        component = self.resolve_serializer(Problem(), "response").ref
        for status, words in self._problems():
            content = {"application/problem+json": {"schema": component}}
            bodies.setdefault(status, {"description": words, "content": content})
        return bodies

    def _problems(self) -> list[tuple[str, str]]:
        found = [
            ("401", "No valid token."),
            ("403", "The token lacks the scope."),
            ("503", "The database is away: try again in a moment."),
        ]
        if "{" in self.path:
            found.append(("404", "Not here, or not yours."))
        if self.method == "GET":
            found.append(("422", "A filter or cursor is not valid."))
        else:
            found.append(("409", "Not possible in the present state."))
        if self.method in {"POST", "PUT", "PATCH"}:
            found += [
                ("400", "The body is malformed."),
                ("413", "The body is too large."),
                ("415", "The body is not JSON."),
                ("422", "A value is not valid."),
            ]
        return sorted(found)


def _instance(serializer: Any) -> Any:
    return serializer() if isinstance(serializer, type) else serializer


def say_that_all_fields_come(result: dict[str, Any], **hints: Any) -> dict[str, Any]:
    """Mark every field of an answer as one that is always there: serializers leave none out."""
    for name, component in result["components"]["schemas"].items():
        if component.get("type") == "object" and "properties" in component and not name.endswith("Request"):
            component["required"] = sorted(component["properties"])
    return result


@cache
def document() -> str:
    """Make the document, once for each process: it takes a second."""
    return json.dumps(SchemaGenerator().get_schema(request=None, public=True))  # type: ignore[no-untyped-call]


@transaction.non_atomic_requests
def serve_document(request: HttpRequest) -> HttpResponse:
    """Give the OpenAPI document to whoever asks."""
    return HttpResponse(document(), content_type="application/json")

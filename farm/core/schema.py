"""The OpenAPI document: every operation names its problems, and its scope."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers


class ProblemError(serializers.Serializer[Any]):
    """One field at fault."""

    field = serializers.CharField(allow_null=True)
    code = serializers.CharField()
    detail = serializers.CharField()


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
    """Adds the problem answers, and the scope a token needs, to each operation."""

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular's, not DRF's
        text = super().get_description() or ""
        scope = getattr(self.view, "scope_for", lambda method: None)(self.method)
        return f"{text}\n\nScope: `{scope}`" if scope else text

    def _get_response_bodies(self, direction: Any = "response") -> Any:
        bodies = super()._get_response_bodies(direction)
        component = self.resolve_serializer(Problem(), "response").ref
        for status, words in self._problems():
            bodies.setdefault(
                status, {"description": words, "content": {"application/problem+json": {"schema": component}}}
            )
        return bodies

    def _problems(self) -> list[tuple[str, str]]:
        found = [("401", "No valid token."), ("403", "The token lacks the scope."), ("503", "Try again in a moment.")]
        if "{" in self.path:
            found.append(("404", "Not here, or not yours."))
        if self.method != "GET":
            found += [("409", "Not possible in the present state."), ("422", "A value is not valid.")]
        elif self.method == "GET":
            found.append(("422", "A filter or cursor is not valid."))
        return sorted(found)

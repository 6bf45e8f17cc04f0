"""The answers' types say what the farm's own document of its API says."""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path
from typing import Any

import pytest
from farmhand import answers

SCHEMAS: dict[str, Any] = json.loads((Path(__file__).parents[3] / "frontend/openapi.json").read_text())["components"][
    "schemas"
]
NAMES = {"Signed": "SignedRequest", "Order": "OrderRequest"}  # where the client's word is another
TYPED = {name: kind for name, kind in vars(answers).items() if typing.is_typeddict(kind)}
PLAIN = {"string": str, "integer": int, "number": float, "boolean": bool}


def properties(schema: Any) -> dict[str, Any]:
    """Give a schema's properties, those of what it extends too."""
    found = dict(schema.get("properties", {}))
    for part in schema.get("allOf", ()):
        found |= properties(SCHEMAS[part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part)
    return found


def is_nullable(schema: Any) -> bool:
    kinds = schema.get("type", "")
    choices = [*schema.get("oneOf", ()), *schema.get("anyOf", ())]
    return "null" in kinds or schema.get("nullable", False) or any(is_nullable(choice) for choice in choices)


def plain_kind(schema: Any) -> type | None:
    """Give the Python type of a plain value; None for what is no plain value."""
    kinds = schema.get("type", "")
    kind = next((kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"), "")
    return PLAIN.get(kind)


@pytest.mark.parametrize("name", sorted(TYPED))
class TestAnswers:
    def test_the_fields_are_the_same(self, name: str) -> None:
        assert set(typing.get_type_hints(TYPED[name])) == set(properties(SCHEMAS[NAMES.get(name, name)]))

    def test_what_may_be_null_says_so(self, name: str) -> None:
        hints = typing.get_type_hints(TYPED[name])
        said = {field for field, schema in properties(SCHEMAS[NAMES.get(name, name)]).items() if is_nullable(schema)}

        assert {field for field in hints if type(None) in typing.get_args(hints[field])} == said

    def test_plain_values_are_of_the_same_kind(self, name: str) -> None:
        hints = typing.get_type_hints(TYPED[name])
        kinds = {field: plain_kind(schema) for field, schema in properties(SCHEMAS[NAMES.get(name, name)]).items()}

        wrong = {field for field, kind in kinds.items() if kind and kind not in members(hints[field])}

        assert wrong == set()


def members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)

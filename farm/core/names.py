"""Names that people give: shown in terminals, tables and mails, never part of a path."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

MAX_NAME = 200


class NameField(serializers.CharField):
    """A name of one line: text, without control characters."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": MAX_NAME, **kwargs})

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        name = str(super().to_internal_value(data))
        if not name.isprintable():
            raise serializers.ValidationError(
                "A name has no control characters; people see it in terminals and tables.", code="not-printable"
            )
        return name

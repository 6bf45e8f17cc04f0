"""Request bodies: JSON of bounded size and depth, whose text a database can hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from farm.core.errors import Refusal
from farm.core.texts import is_storable

_SUSPICIOUS = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")  # NUL, or half of a surrogate pair


class BodyTooLarge(Refusal):
    """The request's body has more than {limit:,} bytes, the most that the farm reads at once. Send less."""

    code = "body-too-large"
    status = 413

    def __init__(self) -> None:
        super().__init__(limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


class JsonParser(JSONParser):
    """Reads JSON; what is nested too deeply, or holds text that nothing can store, is malformed."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        is_suspicious = _SUSPICIOUS.search(stream.read()) is not None
        stream.seek(0)
        try:
            parsed = super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise ParseError("The JSON is nested too deeply.") from None
        if is_suspicious and not _is_storable(parsed):
            raise ParseError("A text holds a NUL character or half a surrogate pair, which nothing can store.")
        return parsed


def _is_storable(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str) and not is_storable(item):
            return False
        if isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            waiting += item
    return True

"""What a renderer said, as numbered pieces in the store."""

from __future__ import annotations

from collections.abc import Iterator

from farm.core import keys
from farm.core.storage import NoSuchObject, store
from farm.dispatch.models import Attempt

LOST = b"\n[a piece of the log is missing here: its worker did not send it]\n"


def chunks(attempt: Attempt, first: int, last: int) -> Iterator[bytes]:
    """Give the pieces of a log from one up to another, one at a time; where one never came, a line that says so."""
    for number in range(first, last):
        try:
            yield store().read(keys.log_key(attempt.studio_id, attempt.id, number))
        except NoSuchObject:
            yield LOST


def tail(attempt: Attempt, size: int) -> bytes:
    """Give at most so many bytes of a log's end, beginning with a whole line if there is one."""
    text = b""
    for number in reversed(range(attempt.log_chunks)):
        text = b"".join(chunks(attempt, number, number + 1)) + text
        if len(text) > size:
            cut = text[-size:]
            return cut.partition(b"\n")[2] or cut
    return text

"""Storage keys, built here alone, from ids, numbers and digests only: no name a person chose is ever part of one."""

from __future__ import annotations

import re
from uuid import UUID

_KEY = re.compile(r"[0-9a-z]+(?:-[0-9a-z]+)*(?:/[0-9a-z]+(?:-[0-9a-z]+)*)+")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BadKey(ValueError):
    """{key!r} is no storage key: only this module makes them."""

    def __init__(self, key: str) -> None:
        super().__init__((self.__doc__ or "").format(key=key))


def blob_key(studio: UUID, digest: str) -> str:
    """Give the key of a file's content, stored once per studio."""
    return f"{studio_prefix(studio)}blob/{_digest(digest)}"


def output_key(studio: UUID, attempt: UUID, digest: str) -> str:
    """Give the key of a file that an attempt produced."""
    return f"{studio_prefix(studio)}output/{UUID(str(attempt))}/{_digest(digest)}"


def log_key(studio: UUID, attempt: UUID, number: int) -> str:
    """Give the key of one numbered piece of an attempt's log."""
    return f"{studio_prefix(studio)}log/{UUID(str(attempt))}/{int(number)}"


def delivery_key(studio: UUID, delivery: UUID, digest: str) -> str:
    """Give the key of a file that a studio takes away: a stitched frame, a movie or a segment of one."""
    return f"{studio_prefix(studio)}delivery/{UUID(str(delivery))}/{_digest(digest)}"


def studio_prefix(studio: UUID) -> str:
    """Give what all keys of a studio begin with: deleting below it deletes all its bytes."""
    return f"{UUID(str(studio))}/"


def is_blob(key: str) -> bool:
    """Say whether a key is that of a scene's file."""
    return key.split("/")[1:2] == ["blob"]


def is_digest(text: str) -> bool:
    """Say whether a text has the form of a digest: 64 lower-case hexadecimal digits."""
    return _DIGEST.fullmatch(text) is not None


def checked(key: str) -> str:
    """
    Give the key back if it has the form of one: lower-case words and digits, at least two segments, no dots.

    :raises BadKey: it does not
    """
    if len(key) > 500 or not _KEY.fullmatch(key):
        raise BadKey(key)
    return key


def _digest(text: str) -> str:
    if not is_digest(text):
        raise BadKey(text)
    return text

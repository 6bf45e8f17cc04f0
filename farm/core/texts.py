"""Text that a database can hold. Pure."""

from __future__ import annotations


def is_storable(text: str) -> bool:
    """Say whether a text holds no NUL character and no half of a surrogate pair: JSON can, a database cannot."""
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

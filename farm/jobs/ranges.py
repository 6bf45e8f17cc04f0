"""
What is wrong with a range, in a person's words; and the numbers of one that chooses among tasks. Pure.

`openjd-model` decides what a template's range is; this only says why it refused one, in the terms of who typed it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from farm.core.errors import Invalid, Refusal

_NUMBER = r"\s*(-?\s*[0-9]+)\s*"  # openjd-model reads "- 5" as it reads "-5"
_PART = re.compile(rf"{_NUMBER}(?:-{_NUMBER}(?::{_NUMBER})?)?", re.ASCII)
_OPEN = re.compile(rf"{_NUMBER}-\s*", re.ASCII)
_STEPLESS = re.compile(rf"{_NUMBER}-{_NUMBER}:\s*", re.ASCII)


class RangeTooLong(Refusal):
    """The range {text!r} has more than {limit:,} numbers. Choose fewer at once."""

    code = "range-too-long"
    status = 422


def numbers_of(text: str, *, most: int, field: str) -> list[int]:
    """
    Give the numbers of a range such as "1-10,15,20-40:2".

    :raises Invalid: it is none
    :raises RangeTooLong: it has more than `most` numbers
    """
    if why := complaint(text):
        raise Invalid(field, f"{why}; write a range as in 1-10,15,20-40:2")
    parts = [_span(part) for part in _PART.findall(text)]
    if sum(_length(part) for part in parts) > most:
        raise RangeTooLong(text=text[:200], limit=most, field=field)
    return [number for part in parts for number in part]


def _length(numbers: range) -> int:
    """Count them, also where there are more than `len` can say."""
    return (numbers[-1] - numbers[0]) // numbers.step + 1


def _span(part: Sequence[str]) -> range:
    first, last, step = _number(part[0]), _number(part[1] or part[0]), _number(part[2] or "1")
    return range(first, last + (1 if step > 0 else -1), step)


def _number(text: str) -> int:
    return int("".join(text.split()))


def complaint(text: str) -> str:
    """Say what is wrong with a range; "" if nothing of the usual is."""
    if not text.strip():
        return "it is empty"
    parts = text.split(",")
    for part in parts:
        if why := _of_part(part):
            return why
    return _of_overlap(parts)


def _of_part(part: str) -> str:
    shown = part.strip()
    if not shown:
        return "there is nothing before or after one of its commas"
    found = _PART.fullmatch(part)
    if found is None:
        return _of_misspelt(part, shown)
    first, last, step = (None if group is None else _number(group) for group in found.groups())
    if first is None or last is None:
        return ""
    if step == 0:
        return f"the step of {shown} is zero"
    if last < first and (step is None or step > 0):
        return f"{shown} runs backwards; its step must be negative, as in {first}-{last}:-1"
    if last > first and step is not None and step < 0:
        return f"{shown} runs forwards; its step must be positive"
    return ""


def _of_misspelt(part: str, shown: str) -> str:
    if not part.isascii() and any(letter.isdigit() and not letter.isascii() for letter in part):
        return f"{shown!r} has digits other than 0 to 9"
    if _OPEN.fullmatch(part):
        return f"{shown!r} has no end"
    if _STEPLESS.fullmatch(part):
        return f"{shown!r} has no step after its colon"
    return f"{shown!r} is neither a whole number nor a range of them"


def _of_overlap(parts: list[str]) -> str:
    spans = []
    for part in parts:
        found = _PART.fullmatch(part)
        if found is not None:
            span = _span(found.groups(default=""))
            spans.append((min(span[0], span[-1]), max(span[0], span[-1]), part.strip()))
    spans.sort()
    for (_, high, one), (low, _, other) in pairwise(spans):
        if low <= high:
            return f"{one} and {other} overlap; name each number once, the parts one after another"
    return ""

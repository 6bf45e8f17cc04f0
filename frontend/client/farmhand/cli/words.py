"""How numbers, times and names are said to a person."""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction

MICRO = 1_000_000


def plain(text: object) -> str:
    """
    Give a text from elsewhere as a terminal may show it: no escape sequence, nothing that turns the line around.

    Names and logs come from scenes, and a scene is somebody's program.
    """
    return "".join(letter if letter in "\n\t" or _is_harmless(letter) else "\ufffd" for letter in str(text))


def _is_harmless(letter: str) -> bool:
    return letter == "\u200d" or unicodedata.category(letter) not in {"Cc", "Cf", "Cs"}


def say_money(micro: int, currency: str) -> str:
    """Say an amount: to the cent, and below one unit as far as two digits show."""
    return f"{amounts(micro)[0]} {currency}"


def amounts(*micros: int) -> list[str]:
    """Write amounts that are read together, all to the same digit."""
    digits = max(2 if not micro else min(6, max(2, 1 - (Decimal(micro) / MICRO).adjusted())) for micro in micros)
    return [f"{Decimal(micro) / MICRO:,.{digits}f}" for micro in micros]


def exact(micro: int) -> str:
    """Write an amount to the micro-unit, so that a column of them adds up."""
    return f"{Decimal(micro) / MICRO:,.6f}"


def parse_money(text: str) -> int:
    """
    Give the micro-units of an amount such as 12.50.

    :raises ValueError: it is none, is negative, or is finer than a micro-unit
    """
    try:
        micro = Decimal(text.strip()) * MICRO
    except InvalidOperation:
        raise ValueError(f"{text!r} is no amount such as 12.50") from None
    if not micro.is_finite() or micro < 0 or micro != micro.to_integral_value():
        raise ValueError(f"{text!r} is no amount such as 12.50")
    return int(micro)


def say_rate(fps: str) -> str:
    """Say frames per second that come as a fraction, such as 24000/1001."""
    return f"{float(Fraction(fps)):.5g}"


def say_seconds(seconds: float) -> str:
    """Say a duration in two units at most."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, lower_size, lower in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // lower_size
            return f"{whole // size} {unit} {rest} {lower}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def say_bytes(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def say_count(count: int, what: str) -> str:
    """Say how many: `1 file`, `2 files`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def say_moment(text: str | None) -> str:
    """Say a moment in this machine's zone."""
    if not text:
        return "–"
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def parse_moment(text: str, *, now: datetime) -> datetime:
    """
    Give a moment: `2026-12-01T18:00` in this machine's zone unless it names one, or `+2h`, `+90m`, `+1d` from now.

    :raises ValueError: it is neither
    """
    units = {"m": "minutes", "h": "hours", "d": "days"}
    if text.startswith("+") and text[-1:] in units and text[1:-1].isdecimal() and len(text) < 9:
        return now + timedelta(**{units[text[-1]]: int(text[1:-1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no moment such as 2026-12-01T18:00 or +2h") from None
    return moment.astimezone()


def short(identifier: str) -> str:
    """Give the beginning of an id that is enough to name it."""
    return identifier[:13]

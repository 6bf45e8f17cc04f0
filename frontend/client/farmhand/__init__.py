"""Farmhand's Python SDK and command line: everything here goes through the farm's public API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Farm", "FarmError", "FarmhandError", "Refused", "Unreachable", "__version__"]

if TYPE_CHECKING:
    from farmhand.errors import FarmError, FarmhandError, Refused, Unreachable
    from farmhand.farm import Farm

_HOMES = {"Farm": "farmhand.farm"} | dict.fromkeys(
    ["FarmError", "FarmhandError", "Refused", "Unreachable"], "farmhand.errors"
)


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: `farmhand --help` need not wait for an HTTP client."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Addresses at which people fetch outputs."""

from __future__ import annotations

from datetime import datetime, timedelta

from farm.core.storage import store
from farm.dispatch.models import Output

VALID = timedelta(hours=1)
ROUND = timedelta(minutes=30)

_TYPES = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "webp": "image/webp",
    "tiff": "image/tiff",
    "openexr": "image/x-exr",
}


def address(output: Output, *, now: datetime) -> str:
    """Allow an output to be fetched for an hour, under its own name."""
    kind = _TYPES.get(output.format, "application/octet-stream")
    return store().sign_download(output.key, now=now, valid=VALID, filename=output.name, content_type=kind).url


def steady_moment(now: datetime) -> datetime:
    """
    Give the moment at which to sign addresses that a page asks for again and again.

    It is the same for half an hour, and so are they: what a browser has fetched it has. Each is valid for half an hour
    more at the least.
    """
    return datetime.fromtimestamp(now.timestamp() // ROUND.total_seconds() * ROUND.total_seconds(), now.tzinfo)

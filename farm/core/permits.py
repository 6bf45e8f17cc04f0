"""
Signed addresses below `/files/`: each allows one method on one key until it expires, and nothing else.

The signature covers all that is in the address: with another part number, length, sum, name or time it is not signed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.core.signing import BadSignature, Signer

from farm.core.errors import Refusal

BASE = "/files/"
WHOLE = -1  # the part number of an object that is sent in one piece

# What a browser may be told a file is: nothing it would run.
SAFE_TYPES = frozenset(
    {
        "application/octet-stream",
        "application/json",
        "application/pdf",
        "image/jpeg",
        "image/png",
        "image/tiff",
        "image/webp",
        "image/x-exr",
        "text/csv",
        "text/plain; charset=utf-8",
        "video/mp4",
    }
)


class AddressNotSigned(Refusal):
    """The farm did not sign this address for {method}, or it was changed on the way. Ask the farm for a new one."""

    code = "address-not-signed"
    status = 403


class AddressExpired(Refusal):
    """This address was valid until {until}. Ask the farm for a new one."""

    code = "address-expired"
    status = 403


@dataclass(frozen=True, kw_only=True)
class Permit:
    """What a signed address allows. Upload fields are empty in a download's, and the other way round."""

    method: str
    key: str
    expires: int  # seconds since 1970
    upload: str = ""
    part: int = WHOLE
    length: int = 0
    sha256: str = ""
    filename: str = ""
    content_type: str = ""

    def address(self) -> str:
        """Give the signed address, below the farm's own."""
        said = {name: value for name, default in _DEFAULTS.items() if (value := getattr(self, name)) != default}
        return f"{BASE}{self.key}?{urlencode({**said, 'signature': _signer().signature(self._text())})}"

    def _text(self) -> str:
        # As JSON, so that no value can pretend to be the beginning of the next.
        return json.dumps([getattr(self, name) for name in _NAMES])


_NAMES = [field.name for field in fields(Permit)]
_DEFAULTS = {field.name: field.default for field in fields(Permit) if field.name not in {"method", "key"}}


def permit_of(method: str, key: str, query: Mapping[str, str], *, now: datetime) -> Permit:
    """
    Give what the farm allowed by an address.

    :raises AddressNotSigned: the farm signed no such address for this method
    :raises AddressExpired: it did, for a time that is over
    """
    try:
        permit = Permit(
            method=method,
            key=key,
            expires=int(query["expires"]),
            upload=query.get("upload", ""),
            part=int(query.get("part", WHOLE)),
            length=int(query.get("length", 0)),
            sha256=query.get("sha256", ""),
            filename=query.get("filename", ""),
            content_type=query.get("content_type", ""),
        )
        signer = _signer()
        signer.unsign(f"{permit._text()}{signer.sep}{query['signature']}")
    except (KeyError, ValueError, BadSignature):
        raise AddressNotSigned(method=method) from None
    if permit.expires <= now.timestamp():
        raise AddressExpired(until=datetime.fromtimestamp(permit.expires, UTC).isoformat())
    return permit


def _signer() -> Signer:
    return Signer(salt="farm.core.permits", algorithm="sha256")

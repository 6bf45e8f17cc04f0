"""From where a request comes: what the operator's own proxies say of it, and nobody else."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from django.conf import settings
from django.http import HttpRequest


def address_of(request: HttpRequest) -> str | None:
    """
    Give the address of whoever asks; None behind a socket that has none.

    Each proxy notes whom it was asked by behind what the one before it noted, so that of n own proxies the last n
    notes are true, and all before them is what the asker likes to say.
    """
    text = request.headers.get("X-Forwarded-For", "")
    forwarded = [note.strip() for note in text.split(",")] if text else []
    proxies = settings.FARM_TRUSTED_PROXIES
    is_forwarded = 0 < proxies <= len(forwarded)
    found = _parse(forwarded[-proxies]) if is_forwarded else _parse(request.META.get("REMOTE_ADDR", ""))
    return str(found) if found else None


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    # A socket for both kinds shows IPv4 peers in IPv6's clothes, which limits by network would take for one network.
    return getattr(found, "ipv4_mapped", None) or found

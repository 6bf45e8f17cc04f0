"""
Files that the farm itself made go into the store: small ones by its interface, large ones as anybody's do, in parts
by signed requests. So nothing here knows which store it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urljoin
from uuid import UUID

import httpx
from django.conf import settings

from farm.core.keys import delivery_key
from farm.core.storage import store
from workers.protocol import PART_SIZE, SignedRequest, digest_of_parts

TIMEOUT_S = 30


@dataclass(frozen=True)
class Kept:
    """A file in the store."""

    key: str
    size: int
    digest: str


def keep_file(path: Path, *, studio: UUID, delivery: UUID, now: datetime) -> Kept:
    """
    Store a file under the key that its content and delivery give it; one that is there already is not sent again.

    :raises httpx.HTTPError: the store does not answer, or refuses
    :raises Refusal: what the store refuses
    """
    sums = [hashlib.sha256(part).hexdigest() for part in _parts(path)]
    digest = digest_of_parts(sums)
    kept = Kept(delivery_key(studio, delivery, digest), path.stat().st_size, digest)
    if store().stat(kept.key) is None:
        if len(sums) == 1:
            store().write(kept.key, path.read_bytes())
        else:
            _send_parts(path, kept, sums, now=now)
    return kept


def _send_parts(path: Path, kept: Kept, sums: list[str], *, now: datetime) -> None:
    upload = store().begin(kept.key)
    try:
        with httpx.Client(timeout=TIMEOUT_S) as client:
            for number, part in enumerate(_parts(path)):
                request = store().sign_part(kept.key, upload, number, length=len(part), sha256=sums[number], now=now)
                _send(client, request, part)
        store().complete(kept.key, upload, size=kept.size, digest=kept.digest)
    except BaseException:
        store().abort(kept.key, upload)
        raise


def _send(client: httpx.Client, request: SignedRequest, part: bytes) -> None:
    url = urljoin(settings.FARM_URL, request.url)
    client.request(request.method, url, headers=request.headers, content=part).raise_for_status()


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(PART_SIZE):
            yield part

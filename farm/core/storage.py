"""
The object store behind one small interface, chosen by `FARM_STORAGE_URL`.

`ObjectStore` has the shape of S3's multipart uploads. An object is there whole or not at all, and its digest is known
without reading it: up to 16 MiB the SHA-256 of the content, above that the SHA-256 of the SHA-256 sums of its 16 MiB
parts. Bytes travel by signed requests between client and store, past the farm's views; part numbers begin at 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from farm.core.errors import Refusal
from farm.core.permits import SAFE_TYPES
from workers.protocol import PART_SIZE, SignedRequest, digest_of_parts, part_count, part_length

UPLOAD_VALID = timedelta(minutes=15)
DOWNLOAD_VALID = timedelta(minutes=15)
MAX_DOWNLOAD_VALID = timedelta(hours=1)
MAX_PARTS = 10_000  # S3's limit
MAX_SIZE = MAX_PARTS * PART_SIZE  # 156.25 GiB
PIECE = 1024 * 1024  # bytes read, hashed and written at once


class NoSuchObject(Refusal):
    """There is no file at this address. It was never sent, or it has been deleted since the address was made."""

    code = "no-such-file"
    status = 404


class NoSuchUpload(Refusal):
    """This upload has ended: it was completed, or given up after 24 hours. Ask which parts are missing and go on."""

    code = "upload-over"


class PartsMissing(Refusal):
    """The upload lacks {count} of its {total} parts, the first of them number {first}. Send them, then ask again."""

    code = "parts-missing"

    def __init__(self, numbers: list[int], total: int) -> None:
        super().__init__(count=len(numbers), total=total, first=numbers[0])
        self.numbers = numbers


class ContentDiffers(Refusal):
    """What was sent ({found}) is not what was announced ({expected}). It was deleted; send it anew."""

    code = "content-differs"
    status = 422


class StoreFull(Refusal):
    """The farm's store is full; nothing of this request was kept. Tell your operator, and try again later."""

    code = "store-full"
    status = 507


class StoreUnreachable(Refusal):
    """The farm's store does not answer as it should ({why}). Nothing is lost; ask again in a minute."""

    code = "store-unreachable"
    status = 503


class StoreRefuses(Refusal):
    """The farm's store refuses the farm: {why}. Tell your operator, who checks its address, credentials and policy."""

    code = "store-refuses"
    status = 503


@dataclass(frozen=True, kw_only=True)
class Stat:
    """What the store knows of an object."""

    size: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """A finished part of an unfinished upload."""

    number: int
    length: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Listed:
    """An object as a listing names it."""

    key: str
    size: int
    modified: datetime


class ObjectStore(Protocol):
    """Where bytes are. Keys come from `farm.core.keys`."""

    def stat(self, key: str) -> Stat | None:
        """Give an object's size and digest without reading it; None when it is not there."""

    def sign_upload(self, key: str, *, length: int, sha256: str, now: datetime) -> SignedRequest:
        """Allow one PUT of a whole object of at most one part's size, with just this content, for 15 minutes."""

    def begin(self, key: str) -> str:
        """Begin an upload in parts and give its id."""

    def sign_part(
        self, key: str, upload: str, number: int, *, length: int, sha256: str, now: datetime
    ) -> SignedRequest:
        """Allow one PUT of a part, with just this content, for 15 minutes; a later PUT of the part replaces it."""

    def finished_parts(self, key: str, upload: str, *, after: int = -1, limit: int = 1000) -> list[Part]:
        """
        List the parts that are there whole, by number, those numbered above `after`.

        :raises NoSuchUpload: it was completed or aborted
        """

    def complete(self, key: str, upload: str, *, size: int, digest: str) -> Stat:
        """
        Make one object of an upload's parts; asked again, give the object there is.

        :raises PartsMissing: parts are missing; nothing changed
        :raises ContentDiffers: the parts are not this size or digest; the upload is deleted
        :raises NoSuchUpload: it was aborted, and no object is there
        """

    def abort(self, key: str, upload: str) -> None:
        """Delete an unfinished upload and its parts; one that has ended is left alone."""

    def discard_stale(self, before: datetime, *, keep: Collection[str]) -> int:
        """Abort the uploads begun before a time, but for those to keep; clear up what crashed writers left behind."""

    def sign_download(
        self,
        key: str,
        *,
        now: datetime,
        valid: timedelta = DOWNLOAD_VALID,
        filename: str = "",
        content_type: str = "application/octet-stream",
    ) -> SignedRequest:
        """Allow GETs of an object, whole or a range of it; `filename` is what a browser calls the saved file."""

    def stream(self, key: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """
        Give an object's content, or a range of it, in pieces.

        :raises NoSuchObject: it is not there
        """

    def read(self, key: str, *, limit: int = 64 * PIECE) -> bytes:
        """
        Give a small object's content.

        :raises NoSuchObject: it is not there
        :raises ValueError: it is larger than `limit`
        """

    def write(self, key: str, content: bytes) -> Stat:
        """
        Store a small object that the farm itself made, of at most one part's size.

        :raises StoreFull: there is no room
        """

    def delete(self, key: str) -> None:
        """Delete an object; one that is not there is left alone."""

    def delete_all(self, keys: Iterable[str]) -> None:
        """Delete many objects, in as few requests as the store allows."""

    def listing(self, prefix: str) -> Iterator[Listed]:
        """List the objects whose keys begin with a prefix that ends with `/`, in no particular order."""


def check_download(valid: timedelta, content_type: str) -> None:
    """
    See that a download's address may be signed.

    :raises ValueError: it would be valid too long, or its type is one that a browser would run
    """
    if valid > MAX_DOWNLOAD_VALID:
        raise ValueError(f"a download address is valid for at most {MAX_DOWNLOAD_VALID}")
    if content_type not in SAFE_TYPES:
        raise ValueError(f"{content_type} is no type that a browser may be told")


def check_all_there(parts: Sequence[Part], wanted: Stat) -> None:
    """
    See that no part of what is to be completed is missing.

    :raises PartsMissing: these are
    """
    total = part_count(wanted.size)
    if missing := sorted(set(range(total)) - {part.number for part in parts}):
        raise PartsMissing(missing, total)


def measure(parts: Sequence[Part]) -> Stat:
    """Give the size and digest of an object made of these parts; parts that do not fit together have no digest."""
    size = sum(part.length for part in parts)
    if any(part.length != part_length(size, place) or part.number != place for place, part in enumerate(parts)):
        return Stat(size=size, digest="")
    return Stat(size=size, digest=digest_of_parts(part.sha256 for part in parts))


def told(found: Stat) -> str:
    """Word what was found for a refusal."""
    return f"{found.size} bytes with digest {found.digest or 'none, as its parts do not fit together'}"


def store() -> ObjectStore:
    """Give the store that `FARM_STORAGE_URL` names."""
    return _store(settings.FARM_STORAGE_URL)


@cache
def _store(url: str) -> ObjectStore:
    # An adapter knows this interface, not the other way round; and a farm with a folder need not load boto3.
    parts = urlsplit(url)
    if parts.scheme == "s3":
        from farm.core.s3 import S3Store

        return S3Store.of_url(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/"):
        from farm.core.folder import FolderStore

        return FolderStore(Path(unquote(parts.path)))
    raise ImproperlyConfigured(
        f"FARM_STORAGE_URL is {url!r}. Name a folder, as in file:///srv/farmhand/store, or a bucket, as in "
        "s3://bucket/prefix?region=eu-central-1."
    )

"""What workers send: signed requests for outputs and logs, under keys of the attempt's own."""

from __future__ import annotations

from datetime import datetime

from farm.core import keys
from farm.core.errors import Invalid
from farm.core.storage import MAX_SIZE, ContentDiffers, NoSuchUpload, PartsMissing, store
from farm.dispatch.models import Attempt, OutputUpload
from farm.dispatch.moves import OPEN_ATTEMPTS
from workers.protocol import PART_SIZE, UploadGrant, UploadKind, UploadWish, digest_of_parts, part_count, part_length

MAX_LOG_CHUNK = 1024 * 1024
MAX_LOG_CHUNKS = 20_000


def upload_grant(attempt: Attempt, wish: UploadWish, *, now: datetime) -> UploadGrant:
    """
    Sign the requests that store one file of an attempt, or say that it is there.

    :raises Invalid: its parts, digest and size do not fit together, it is too large, or the attempt has ended
    """
    is_log = wish.kind is UploadKind.LOG
    _check(attempt, wish, limit=MAX_LOG_CHUNK if is_log else MAX_SIZE)
    key = _log_key(attempt, wish.name) if is_log else keys.output_key(attempt.studio_id, attempt.id, wish.digest)
    found = store().stat(key)
    if found is not None and (is_log or (found.size == wish.size and found.digest == wish.digest)):
        return UploadGrant(attempt=wish.attempt, kind=wish.kind, name=wish.name, already_there=True, parts=[])
    if wish.size <= PART_SIZE:
        parts = [store().sign_upload(key, length=wish.size, sha256=wish.digest, now=now)]
    else:
        upload = _upload_of(attempt, wish.digest, key)
        parts = [
            store().sign_part(key, upload, number, length=part_length(wish.size, number), sha256=sha256, now=now)
            for number, sha256 in enumerate(wish.parts)
        ]
    return UploadGrant(attempt=wish.attempt, kind=wish.kind, name=wish.name, already_there=False, parts=parts)


def _check(attempt: Attempt, wish: UploadWish, *, limit: int) -> None:
    if not 0 <= wish.size <= limit:
        raise Invalid("size", f"{wish.size} bytes is not between 0 and {limit}")
    if not all(keys.is_digest(s) for s in [wish.digest, *wish.parts]):
        raise Invalid("parts", "a digest is 64 hexadecimal digits")
    if len(wish.parts) != part_count(wish.size) or digest_of_parts(wish.parts) != wish.digest:
        raise Invalid("parts", "they do not make up the size and digest stated")
    if attempt.status not in OPEN_ATTEMPTS and wish.kind is UploadKind.OUTPUT:
        raise Invalid("attempt", "this attempt has ended; no output is taken of it any more")


def _log_key(attempt: Attempt, name: str) -> str:
    if not (name.isascii() and name.isdigit()) or int(name) >= MAX_LOG_CHUNKS:
        raise Invalid("name", f"{name[:20]!r} is not the number of a log chunk below {MAX_LOG_CHUNKS}")
    return keys.log_key(attempt.studio_id, attempt.id, int(name))


def _upload_of(attempt: Attempt, digest: str, key: str) -> str:
    """Give the store's id of this output's upload; the first to ask begins it."""
    row = OutputUpload.objects.filter(attempt=attempt, digest=digest).first()
    if row is None:
        row, _ = OutputUpload.objects.get_or_create(
            attempt=attempt, digest=digest, defaults={"studio_id": attempt.studio_id, "upload": store().begin(key)}
        )
    return row.upload


def is_stored(attempt: Attempt, digest: str, size: int) -> bool:
    """Say whether the store has an output, completing it if it came in parts. One HEAD, no download."""
    key = keys.output_key(attempt.studio_id, attempt.id, digest)
    found = store().stat(key)
    if found is None and size > PART_SIZE:
        upload = OutputUpload.objects.filter(attempt=attempt, digest=digest).first()
        try:
            found = store().complete(key, upload.upload, size=size, digest=digest) if upload else None
        except (PartsMissing, ContentDiffers):
            return False
        except NoSuchUpload:  # given up after a day: the worker is refused, asks for grants, and begins anew
            OutputUpload.objects.filter(attempt=attempt, digest=digest).delete()
            return False
    return found is not None and found.size == size and found.digest == digest

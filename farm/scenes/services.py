"""What happens to scenes: versions begin, files arrive and are verified, reports come in."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models import Exists, Max, OuterRef, QuerySet

from farm.core import keys
from farm.core.errors import Invalid, Refusal, raise_all
from farm.core.events import emit
from farm.core.moves import move_to
from farm.core.storage import (
    MAX_DOWNLOAD_VALID,
    ContentDiffers,
    NoSuchUpload,
    Part,
    PartsMissing,
    Stat,
    StoreRefuses,
    StoreUnreachable,
    store,
)
from farm.core.wakeups import wake_reconciler
from farm.scenes.manifest import Manifest
from farm.scenes.models import Blob, ManifestEntry, Scene, SceneVersion
from farm.scenes.moves import VERSION_MOVES, BlobState, VersionStatus
from farm.scenes.reports import ReportMalformed, check_report, refusal_of
from farm.scenes.selectors import is_complete, version_of
from farm.studios.authentication import Caller
from farm.studios.models import Project
from farm.studios.services import NameTaken, audit
from workers.protocol import PART_SIZE, SignedRequest, part_count, part_length

logger = logging.getLogger(__name__)

MAX_PARTS_AT_ONCE = 500
MAX_DIGESTS_AT_ONCE = 500
MAX_GARBAGE_AT_ONCE = 5_000
MAX_SIGNED_VERSIONS = 16
HALF_HOUR = 1800


class ManifestLies(Refusal):
    """The manifest says {digest} has {claimed} bytes; that content has {actual}. Hash the file, make a new version."""

    code = "manifest-lies"
    status = 422


class NotOfThisVersion(Refusal):
    """No file of this version has the digest {digest}."""

    code = "not-of-this-version"
    status = 422


@dataclass(frozen=True, kw_only=True)
class PartWish:
    """A part that a client is about to send."""

    digest: str
    number: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class PartGrant:
    """The request that sends a part; none when its blob is there already."""

    digest: str
    number: int
    length: int
    request: SignedRequest | None


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What became of a blob that a client says it sent."""

    digest: str
    answer: str  # there | incomplete | mismatch
    missing: list[int] = field(default_factory=list)  # part numbers, for incomplete
    why: str = ""  # and what to do, for mismatch
    size: int | None = None  # once it is there


# --- scenes and versions


def create_scene(caller: Caller, *, project: Project, name: str) -> Scene:
    """
    Make a scene, without a version yet.

    :raises NameTaken: the project has a scene of this name
    """
    try:
        with transaction.atomic():
            scene = Scene.objects.create(studio_id=caller.studio.id, project=project, name=name)
    except IntegrityError:
        raise NameTaken(what="scene", name=name, field="name") from None
    audit(caller, "scene.created", subject=scene.id, name=name)
    return scene


_TOUCH = """
INSERT INTO scenes_blob (studio_id, digest, state, upload, touched_at)
SELECT %s, digest, 'uploading', '', %s FROM unnest(%s::text[]) AS digest ORDER BY digest COLLATE "C"
    ON CONFLICT (studio_id, digest) DO UPDATE SET touched_at = greatest(scenes_blob.touched_at, excluded.touched_at)
RETURNING id, digest, state = 'there', size
"""

_LIST = """
INSERT INTO scenes_manifestentry (studio_id, version_id, path, source, blob_id, size)
SELECT %s, %s, path, source, blob, size
  FROM unnest(%s::text[], %s::text[], %s::uuid[], %s::bigint[]) WITH ORDINALITY AS f (path, source, blob, size, place)
 ORDER BY place
"""


@transaction.atomic
def create_version(
    caller: Caller, scene: Scene, manifest: Manifest, *, now: datetime
) -> tuple[SceneVersion, list[str]]:
    """
    Begin a version and give the digests the farm lacks, each once; with none, the version is whole at once.

    :raises ManifestLies: the farm has a content of the same digest and another size
    """
    Scene.objects.select_for_update().get(pk=scene.pk)  # one version gets one number
    blobs, missing = _touch_blobs(scene.studio_id, manifest.sizes(), now=now)
    latest = SceneVersion.objects.filter(scene=scene).aggregate(Max("number"))["number__max"] or 0
    version = SceneVersion.objects.create(
        studio_id=scene.studio_id,
        scene=scene,
        number=latest + 1,
        entry=manifest.entry,
        file_count=len(manifest.files),
        byte_count=manifest.byte_count,
        warnings=manifest.warnings,
        created_by=caller.user.id,
    )
    _list_files(version, manifest, blobs)
    audit(caller, "scene.version-created", subject=version.id, scene=str(scene.id), number=version.number)
    if not missing:
        _become_whole(version, now=now)
    return version, missing


def _touch_blobs(studio: UUID, sizes: dict[str, int], *, now: datetime) -> tuple[dict[str, UUID], list[str]]:
    """Have a row for each digest, locked against the collector until the transaction ends; say which are missing."""
    with connection.cursor() as cursor:
        cursor.execute(_TOUCH, [studio, now, list(sizes)])
        rows = cursor.fetchall()
    raise_all(
        [
            ManifestLies(field="files", digest=digest, claimed=sizes[digest], actual=size)
            for _, digest, there, size in rows
            if there and size != sizes[digest]
        ]
    )
    there = {digest for _, digest, is_there, _ in rows if is_there}
    return {digest: blob for blob, digest, _, _ in rows}, [digest for digest in sizes if digest not in there]


def _list_files(version: SceneVersion, manifest: Manifest, blobs: dict[str, UUID]) -> None:
    files = manifest.files
    columns = (
        [file.path for file in files],
        [file.source for file in files],
        [blobs[file.digest] for file in files],
        [file.size for file in files],
    )
    with connection.cursor() as cursor:
        cursor.execute(_LIST, [version.studio_id, version.id, *columns])


def _become_whole(version: SceneVersion, *, now: datetime) -> None:
    if move_to(version, VersionStatus.WHOLE, moves=VERSION_MOVES, whole_at=now):
        emit("scene.whole", studio=version.studio_id, subject=version.id, scene=str(version.scene_id))
        wake_reconciler("farm.jobs.reconcilers.inspect_versions")


# --- parts


@transaction.atomic
def sign_parts(version: SceneVersion, wishes: Sequence[PartWish], *, now: datetime) -> list[PartGrant]:
    """
    Allow the sending of parts of files that this version lists and the farm lacks.

    :raises NotOfThisVersion: a digest is none of the version's
    :raises ManifestLies: the content is there, and not of the size that the manifest claims
    :raises Invalid: a part number or sum cannot belong to its file
    """
    sizes = _claimed_sizes(version, {wish.digest for wish in wishes})
    blobs = _lock_blobs(version, sizes, now=now)
    raise_all([wrong for place, wish in enumerate(wishes) if (wrong := _wrong(place, wish, sizes, blobs))])
    _begin_uploads([blob for blob in blobs.values() if _needs_upload(blob, sizes[blob.digest])])
    return [_grant(wish, blobs[wish.digest], sizes[wish.digest], now=now) for wish in wishes]


def _wrong(place: int, wish: PartWish, sizes: dict[str, int], blobs: dict[str, Blob]) -> Refusal | None:
    at = f"parts[{place}]"
    if wish.digest not in sizes:
        return NotOfThisVersion(field=f"{at}.digest", digest=wish.digest)
    size, blob = sizes[wish.digest], blobs[wish.digest]
    if blob.state == BlobState.THERE and blob.size != size:
        return ManifestLies(field=f"{at}.digest", digest=wish.digest, claimed=size, actual=blob.size)
    if not 0 <= wish.number < part_count(size):
        return Invalid(f"{at}.number", f"a file of {size} bytes has parts 0 to {part_count(size) - 1}")
    if size <= PART_SIZE and wish.sha256 != wish.digest:
        return Invalid(f"{at}.sha256", "a file of one part is named by that part's sum; it changed, so hash it anew")
    return None


def _needs_upload(blob: Blob, size: int) -> bool:
    return blob.state != BlobState.THERE and size > PART_SIZE and not blob.upload


def _begin_uploads(blobs: Sequence[Blob]) -> None:
    for blob in blobs:
        blob.upload = store().begin(keys.blob_key(blob.studio_id, blob.digest))
    Blob.objects.bulk_update(blobs, ["upload"])


def _grant(wish: PartWish, blob: Blob, size: int, *, now: datetime) -> PartGrant:
    length = part_length(size, wish.number)
    request = None if blob.state == BlobState.THERE else _sign(wish, blob, size, length, now=now)
    return PartGrant(digest=wish.digest, number=wish.number, length=length, request=request)


def _sign(wish: PartWish, blob: Blob, size: int, length: int, *, now: datetime) -> SignedRequest:
    key = keys.blob_key(blob.studio_id, blob.digest)
    if size <= PART_SIZE:
        return store().sign_upload(key, length=length, sha256=wish.sha256, now=now)
    return store().sign_part(key, blob.upload, wish.number, length=length, sha256=wish.sha256, now=now)


def finished_parts(version: SceneVersion, digest: str, *, after: int, limit: int) -> tuple[bool, list[Part]]:
    """
    Say whether a file is there, and if not which of its parts are, by number, those above `after`.

    :raises NotOfThisVersion: the digest is none of the version's
    """
    entry = _entries(version, [digest]).select_related("blob").first()
    if entry is None:
        raise NotOfThisVersion(field="digest", digest=digest)
    blob, key = entry.blob, keys.blob_key(version.studio_id, digest)
    if blob.state == BlobState.THERE:
        return True, []
    if entry.size <= PART_SIZE:
        found = store().stat(key)
        whole = [Part(number=0, length=found.size, sha256=found.digest)] if found and after < 0 else []
        return False, whole
    if not blob.upload:
        return False, []
    try:
        return False, store().finished_parts(key, blob.upload, after=after, limit=limit)
    except NoSuchUpload:
        return False, []


# --- completion


@transaction.atomic
def confirm_blobs(version: SceneVersion, digests: Sequence[str], *, now: datetime) -> list[Confirmation]:
    """
    Verify files that a client says it has sent; when all of the version's are there it becomes whole.

    A file of the wrong content is deleted from the store, and the answer says what to do.

    :raises NotOfThisVersion: a digest is none of the version's
    """
    # Locked first: of two confirmations that each bring one of the last two files, the later one sees both.
    SceneVersion.objects.select_for_update().get(pk=version.pk)
    sizes = _claimed_sizes(version, set(digests))
    raise_all(
        [
            NotOfThisVersion(field=f"digests[{place}]", digest=digest)
            for place, digest in enumerate(digests)
            if digest not in sizes
        ]
    )
    blobs = _lock_blobs(version, sizes, now=now)
    answers = {digest: _verify(blob, sizes[digest]) for digest, blob in blobs.items()}
    Blob.objects.bulk_update(blobs.values(), ["state", "size", "upload"])
    version.refresh_from_db(fields=["status"])
    if is_complete(version.pk):
        _become_whole(version, now=now)
    return [answers[digest] for digest in digests]


def _claimed_sizes(version: SceneVersion, digests: Collection[str]) -> dict[str, int]:
    return dict(_entries(version, digests).values_list("blob__digest", "size"))


def _entries(version: SceneVersion, digests: Collection[str]) -> QuerySet[ManifestEntry]:
    return ManifestEntry.objects.filter(version=version, blob__studio=version.studio_id, blob__digest__in=list(digests))


def _lock_blobs(version: SceneVersion, sizes: dict[str, int], *, now: datetime) -> dict[str, Blob]:
    """Lock blobs in the order of their digests, as everybody does, and touch them so that no collector wants them."""
    rows = Blob.objects.filter(studio_id=version.studio_id, digest__in=list(sizes)).order_by("digest")
    blobs = {blob.digest: blob for blob in rows.select_for_update()}
    Blob.objects.filter(pk__in=[blob.pk for blob in blobs.values()]).update(touched_at=now)
    return blobs


def _verify(blob: Blob, size: int) -> Confirmation:
    """Compare what the store has with the digest and the claimed size; the blob's row in memory says what was found."""
    key = keys.blob_key(blob.studio_id, blob.digest)
    if blob.state != BlobState.THERE:
        # Asked first: an earlier completion may have been done and its answer lost.
        found = store().stat(key) or (_complete(blob, key, size) if size > PART_SIZE else None)
        if isinstance(found, Confirmation):
            return found
        if found is None:
            return Confirmation(digest=blob.digest, answer="incomplete", missing=[0])
        if found.digest != blob.digest:
            store().delete(key)
            return _mismatch(
                blob.digest, f"its digest is {found.digest}; it was deleted; hash the file anew and send it"
            )
        blob.state, blob.size, blob.upload = BlobState.THERE, found.size, ""
    if blob.size != size:
        lie = ManifestLies(digest=blob.digest, claimed=size, actual=blob.size)
        return _mismatch(blob.digest, lie.sentence)
    return Confirmation(digest=blob.digest, answer="there", size=blob.size)


def _complete(blob: Blob, key: str, size: int) -> Stat | Confirmation:
    """Make one object of the parts that were sent."""
    try:
        if not blob.upload:
            raise NoSuchUpload
        return store().complete(key, blob.upload, size=size, digest=blob.digest)
    except PartsMissing as refusal:
        return Confirmation(digest=blob.digest, answer="incomplete", missing=refusal.numbers)
    except NoSuchUpload:
        blob.upload = ""
        return Confirmation(digest=blob.digest, answer="incomplete", missing=list(range(part_count(size))))
    except ContentDiffers as refusal:
        blob.upload = ""
        return _mismatch(blob.digest, f"{refusal.sentence} If the file has changed, hash it and make a new version.")


def _mismatch(digest: str, why: str) -> Confirmation:
    return Confirmation(digest=digest, answer="mismatch", why=why)


# --- reports


def record_report(version_id: UUID, report: Any, *, now: datetime) -> None:
    """
    Take down what inspection found: the version is inspected, or refused with the report's reason.

    A report that does not have the agreed form refuses the version too. A version that has been inspected stays so.

    :raises NotFound: there is no such version
    """
    version = version_of(version_id)
    try:
        check_report(report)
        refusal = refusal_of(report)
    except ReportMalformed as fault:
        report, refusal = None, f"The scene could not be inspected: its report was not usable, as {fault}."
    status = VersionStatus.REFUSED if refusal else VersionStatus.INSPECTED
    if move_to(version, status, moves=VERSION_MOVES, report=report, refusal=refusal, inspected_at=now):
        emit(f"scene.{status}", studio=version.studio_id, subject=version.id, scene=str(version.scene_id))


# --- downloads


def signed_downloads(version_id: UUID, *, now: datetime) -> dict[str, SignedRequest]:
    """
    Give a request for each file of a version, by digest, valid for at least half an hour.

    They are made once per half hour and process, and serve all workers of the version.
    """
    return _signed_downloads(version_id, int(now.timestamp()) // HALF_HOUR)


@lru_cache(maxsize=MAX_SIGNED_VERSIONS)
def _signed_downloads(version_id: UUID, half_hours: int) -> dict[str, SignedRequest]:
    made = datetime.fromtimestamp(half_hours * HALF_HOUR, UTC)
    blobs = Blob.objects.filter(manifestentry__version=version_id, state=BlobState.THERE).distinct()
    return {
        digest: store().sign_download(keys.blob_key(studio, digest), now=made, valid=MAX_DOWNLOAD_VALID)
        for studio, digest in blobs.values_list("studio_id", "digest")
    }


# --- garbage


def abort_stale_uploads(*, before: datetime) -> int:
    """Delete the parts of uploads that nobody went on with since a time."""
    _forget_uploads(before)
    going_on = Blob.objects.exclude(upload="").values_list("upload", flat=True)
    return store().discard_stale(before, keep=set(going_on))


@transaction.atomic
def _forget_uploads(before: datetime) -> None:
    """Take stale uploads from their blobs: from here nobody goes on with them."""
    stale = Blob.objects.select_for_update(skip_locked=True).filter(touched_at__lt=before).exclude(upload="")
    Blob.objects.filter(pk__in=[blob.pk for blob in stale]).update(upload="")


def delete_unreferenced(*, before: datetime) -> int:
    """
    Delete blobs that no version lists and that nobody touched since a time; give how many.

    A blob stops being there in a transaction of its own, before its bytes go: whatever fails in between, no row says
    "there" of what is not.
    """
    deleted = 0
    for blob in list(_unreferenced(before).order_by("touched_at").values_list("pk", flat=True)[:MAX_GARBAGE_AT_ONCE]):
        try:
            deleted += _withdraw(blob, before) and _delete(blob, before)
        except (OSError, StoreUnreachable, StoreRefuses):  # it does not keep the others; the next beat tries again
            logger.exception("blob %s could not be deleted", blob)
    return deleted


def _unreferenced(before: datetime) -> QuerySet[Blob]:
    listed = ManifestEntry.objects.filter(blob=OuterRef("pk"))
    return Blob.objects.filter(~Exists(listed), touched_at__lt=before)


@transaction.atomic
def _withdraw(blob: UUID, before: datetime) -> bool:
    """Stop promising a blob, if it is still unreferenced once its row is locked."""
    locked = Blob.objects.select_for_update(skip_locked=True).filter(pk=blob, touched_at__lt=before).first()
    if locked is None or not _unreferenced(before).filter(pk=blob).exists():
        return False
    Blob.objects.filter(pk=blob).update(state=BlobState.UPLOADING, size=None)
    return True


@transaction.atomic
def _delete(blob: UUID, before: datetime) -> bool:
    """Delete a withdrawn blob's bytes and row, holding the lock that whoever wants it must wait for."""
    locked = Blob.objects.select_for_update(skip_locked=True).filter(pk=blob, state=BlobState.UPLOADING).first()
    if locked is None or not _unreferenced(before).filter(pk=blob).exists():
        return False
    key = keys.blob_key(locked.studio_id, locked.digest)
    store().delete(key)
    if locked.upload:
        store().abort(key, locked.upload)
    locked.delete()
    return True

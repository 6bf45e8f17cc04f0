"""What there is to know of scenes, without changing anything."""

from __future__ import annotations

from uuid import UUID

from django.db.models import BigIntegerField, Exists, F, OuterRef, Q, QuerySet, Subquery

from farm.core.errors import NotFound
from farm.scenes.models import Blob, ManifestEntry, Scene, SceneVersion
from farm.scenes.moves import BlobState, VersionStatus
from workers.protocol import ManifestFile

# An entry whose claim about the size is untrue never counts as there.
NOT_THERE = ~Q(blob__state=BlobState.THERE) | ~Q(blob__size=F("size"))


def manifest_of(version_id: UUID) -> list[ManifestFile]:
    """Give a version's files in the manifest's order."""
    rows = ManifestEntry.objects.filter(version_id=version_id).order_by("pk")
    return [
        ManifestFile(path=path, source=source, digest=digest, size=size)
        for path, source, digest, size in rows.values_list("path", "source", "blob__digest", "size")
    ]


def missing_of(version_id: UUID) -> QuerySet[Blob]:
    """Give the blobs that a version lacks, each once, with the size its manifest claims as `claimed_size`."""
    lacking = ManifestEntry.objects.filter(NOT_THERE, version_id=version_id, blob=OuterRef("pk"))
    claimed = Subquery(lacking.values("size")[:1], output_field=BigIntegerField())
    return Blob.objects.filter(Exists(lacking)).annotate(claimed_size=claimed)


def is_complete(version_id: UUID) -> bool:
    """Say whether every file of a version is in the store, verified."""
    return not ManifestEntry.objects.filter(NOT_THERE, version_id=version_id).exists()


def versions_without_report() -> QuerySet[SceneVersion]:
    """Give the whole versions that nobody has inspected yet, oldest first."""
    return SceneVersion.objects.filter(status=VersionStatus.WHOLE).order_by("pk")


def scene_of(scene_id: UUID) -> Scene:
    """
    Find one of the caller's scenes.

    :raises NotFound: there is none
    """
    scene = Scene.objects.filter(pk=scene_id).first()
    if scene is None:
        raise NotFound(what="scene", id=scene_id)
    return scene


def version_of(version_id: UUID) -> SceneVersion:
    """
    Find one of the caller's scene versions, without its report.

    :raises NotFound: there is none
    """
    version = SceneVersion.objects.defer("report").filter(pk=version_id).first()
    if version is None:
        raise NotFound(what="scene version", id=version_id)
    return version


def latest_version(scene_id: UUID) -> SceneVersion | None:
    """Give a scene's newest version, without its report."""
    return SceneVersion.objects.defer("report").filter(scene_id=scene_id).order_by("-number").first()

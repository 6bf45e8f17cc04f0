"""Files' contents, and the scenes made of them."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Lower, Now

from farm.core.fields import UuidKey
from farm.core.moves import choices
from farm.scenes.moves import BlobState, VersionStatus
from farm.studios.models import Project, Studio


class Blob(models.Model):
    """
    One file's content, stored once per studio and named by its digest.

    `there` is a promise: the collector takes a blob's row, locked, before it takes its bytes, and who relies on a blob
    sets `touched_at` in the same transaction.
    """

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.CASCADE, db_index=False)  # the constraint below is an index
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=16, choices=choices(BlobState), default=BlobState.UPLOADING)
    size = models.BigIntegerField(null=True)  # known once it is there; until then each manifest only claims one
    upload = models.CharField(max_length=200, default="", blank=True)  # the store's id of its unfinished upload
    touched_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["studio", "digest"], name="one_blob_per_studio_and_digest")]
        indexes = [models.Index(fields=["touched_at"], name="blobs_by_touch")]


class Scene(models.Model):
    """A named upload, in versions."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.CASCADE)
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint("project", Lower("name"), name="one_scene_per_name")]


class SceneVersion(models.Model):
    """A manifest, one path of it the entry that opens, and what inspection found."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.CASCADE)
    scene = models.ForeignKey(Scene, models.CASCADE, db_index=False)
    number = models.IntegerField()
    status = models.CharField(max_length=16, choices=choices(VersionStatus), default=VersionStatus.UPLOADING)
    entry = models.TextField()
    file_count = models.IntegerField()
    byte_count = models.BigIntegerField()
    warnings = models.JSONField(default=list)  # what the manifest's reader should know
    report = models.JSONField(null=True)
    refusal = models.TextField(default="", blank=True)
    created_by = models.UUIDField(null=True)  # a user; people leave, versions stay
    created_at = models.DateTimeField(db_default=Now())
    whole_at = models.DateTimeField(null=True)
    inspected_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["scene", "number"], name="one_version_per_number")]
        indexes = [
            models.Index(fields=["id"], condition=models.Q(status=VersionStatus.WHOLE), name="versions_without_report")
        ]


class ManifestEntry(models.Model):
    """One file of a version: laid out at `path` below the scene folder; `source` is how the scene spells it."""

    id = UuidKey()  # in the order of the manifest
    studio = models.ForeignKey(Studio, models.CASCADE, db_index=False)  # rows are found by their version
    version = models.ForeignKey(SceneVersion, models.CASCADE, db_index=False)
    path = models.TextField()
    source = models.TextField(null=True)
    blob = models.ForeignKey(Blob, models.PROTECT, db_index=False)  # the index below serves it
    size = models.BigIntegerField()  # as the manifest claims; the blob's own is compared when it is there

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "path"], name="one_entry_per_path")]
        indexes = [models.Index(fields=["blob", "version"], name="entries_by_blob")]

"""Events: what happened that people or programs want to hear of."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from farm.core.fields import ThisTransaction, UuidKey


class Event(models.Model):
    """One thing that happened; append-only. `notifications` is its only reader."""

    id = UuidKey()
    studio_id = models.UUIDField()
    kind = models.TextField()  # "job.succeeded", "scene.inspected", ...
    subject = models.UUIDField()  # the job, scene version, ... it is about
    params = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())
    # The transaction that wrote it (a full transaction id). Ids are made before they are committed: a reader who kept
    # the last id would miss what commits late. One who keeps the oldest transaction that ran misses nothing.
    revision = models.BigIntegerField(db_default=ThisTransaction())

    class Meta:
        indexes = [
            models.Index(fields=["studio_id", "revision"], name="events_since"),
            models.Index(fields=["subject", "id"], name="events_about"),
        ]


class IdempotencyKey(models.Model):
    """The stored answer to a request that created or cost something, so that asking twice does it once."""

    id = UuidKey()
    studio_id = models.UUIDField()
    route = models.TextField()
    key = models.TextField()
    request_digest = models.TextField()
    status = models.IntegerField()
    body = models.JSONField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["studio_id", "route", "key"], name="one_answer_per_idempotency_key")
        ]

"""Fleets say which machines to buy; a worker is one boot of one machine."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from farm.core.fields import UuidKey
from farm.core.moves import choices
from farm.fleet.moves import WorkerStatus
from farm.studios.models import Studio


class Fleet(models.Model):
    """Which machines to buy, for what, and how many at most."""

    id = UuidKey()
    name = models.CharField(max_length=64, unique=True)
    provider = models.CharField(max_length=32)
    region = models.CharField(max_length=64, default="local")
    purposes = ArrayField(models.CharField(max_length=16))
    settings = models.JSONField(default=dict)  # the provider's own: instance types, zones, market, ...
    software = models.JSONField(default=dict)  # {"blender": ["5.0.1"]}: what its workers said they have
    sharing = models.CharField(
        max_length=16, default="farm"
    )  # "farm": slots are anyone's; "studio": bound by first work
    min_machines = models.IntegerField(default=0)
    max_machines = models.IntegerField(default=1)
    idle_timeout_s = models.IntegerField(default=120)
    max_life_s = models.IntegerField(default=24 * 3600)
    boot_timeout_s = models.IntegerField(default=15 * 60)
    is_paused = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())


class Worker(models.Model):
    """One boot of one machine, with slots. Never reused, never identified by name or address."""

    id = UuidKey()
    fleet = models.ForeignKey(Fleet, models.PROTECT)
    studio = models.ForeignKey(
        Studio, models.PROTECT, null=True
    )  # bound by its first assignment, where sharing says so
    status = models.CharField(max_length=16, choices=choices(WorkerStatus), default=WorkerStatus.REQUESTED)
    cause = models.TextField(blank=True)  # why it is draining or gone
    machine_id = models.TextField(blank=True)  # the provider's name for it
    boot_id = models.TextField(blank=True)
    secret_digest = models.CharField(max_length=64, unique=True, null=True)  # one-time; null once used
    token_digest = models.CharField(max_length=64, unique=True, null=True)
    agent_version = models.CharField(max_length=32, blank=True)
    sandboxed = models.BooleanField(default=True)
    slots = models.JSONField(default=list)  # [{"index", "gpu_model", "vram_mib"}]
    cores = models.IntegerField(default=0)
    memory_mib = models.IntegerField(default=0)
    disk_mib = models.BigIntegerField(default=0)
    software = models.JSONField(default=dict)
    # What it said last:
    free_disk_mib = models.BigIntegerField(default=0)
    scene_versions = ArrayField(models.UUIDField(), default=list)  # on its disk
    slot_steps = models.JSONField(default=dict)  # {slot index: step in memory}
    slot_use = models.JSONField(default=list)  # GPU use, memory, power
    last_seen_at = models.DateTimeField(null=True)
    idle_since = models.DateTimeField(null=True)
    quarantined_at = models.DateTimeField(null=True)
    requested_at = models.DateTimeField(db_default=Now())
    registered_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["fleet"], name="present_workers", condition=~Q(status="gone"))]

    @property
    def worker_class(self) -> str:
        """What it is billed as: its GPU model, or "cpu"."""
        model: str = self.slots[0]["gpu_model"] if self.slots else ""
        return model or "cpu"


class FleetDecision(models.Model):
    """A launch, refusal, drain or end, with the numbers that led to it; append-only."""

    id = UuidKey()
    fleet = models.ForeignKey(Fleet, models.PROTECT)
    worker_id = models.UUIDField(null=True)
    kind = models.CharField(max_length=16)  # launch | refused | drain | end
    reason = models.CharField(max_length=64)
    params = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())

"""Fleets say which machines to buy; a worker is one boot of one machine."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from farm.core.fields import UuidKey
from farm.core.moves import choices
from farm.fleet.moves import LaunchStatus, WorkerStatus
from farm.fleet.pools import FleetMarket, Market
from farm.studios.models import Studio


class Farm(models.Model):
    """The one row of what holds for the whole farm: who it is to its providers, and what no policy may exceed."""

    id = UuidKey()
    is_paused = models.BooleanField(default=False)  # no machine is launched
    max_machines = models.IntegerField(null=True)  # None: no limit
    max_launches_per_hour = models.IntegerField(null=True)
    max_micro_per_hour = models.BigIntegerField(null=True)  # micro-dollars, at the price paid
    max_micro_per_day = models.BigIntegerField(null=True)  # of a day in UTC
    reached = models.JSONField(default=dict)  # {limit: since}: alarmed once, until there is room again
    only = models.BooleanField(default=True, unique=True)  # a second row would be another True

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(only=True), name="one_farm")]


class Fleet(models.Model):
    """Which machines to buy, for what, and how many at most."""

    id = UuidKey()
    name = models.CharField(max_length=64, unique=True)
    provider = models.CharField(max_length=32)
    region = models.CharField(max_length=64, default="local")
    zones = ArrayField(models.CharField(max_length=64), default=list)  # empty: all of the region
    instance_types = ArrayField(models.CharField(max_length=64), default=list)  # empty: all with one of its GPUs
    gpu_models = ArrayField(models.CharField(max_length=64), default=list)
    market = models.CharField(max_length=32, choices=choices(FleetMarket), default=FleetMarket.ON_DEMAND)
    price_cap_micro = models.BigIntegerField(null=True)  # micro-dollars of a GPU-hour; a dearer pool is left alone
    studios = ArrayField(models.UUIDField(), default=list)  # who may use it; empty: everybody
    purposes = ArrayField(models.CharField(max_length=16))
    settings = models.JSONField(default=dict)  # the provider's own: image, subnets, slots, ...
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


class Pool(models.Model):
    """What is remembered of one instance type in one zone on one market: its price, what it granted and refused."""

    id = UuidKey()
    provider = models.CharField(max_length=32)
    region = models.CharField(max_length=64)
    instance_type = models.CharField(max_length=64)
    zone = models.CharField(max_length=64)
    market = models.CharField(max_length=16, choices=choices(Market))
    gpu = models.CharField(max_length=64, blank=True)
    slots = models.IntegerField(default=1)
    vcpus = models.IntegerField(default=0)
    memory_mib = models.IntegerField(default=0)
    vram_mib = models.IntegerField(default=0)
    price_micro = models.BigIntegerField(null=True)  # of a machine-hour now; None: not known
    on_demand_micro = models.BigIntegerField(null=True)
    priced_at = models.DateTimeField(null=True)
    offered_at = models.DateTimeField()  # when the provider last said that it sells this here
    granted = models.FloatField(default=0)  # machines, fading with a half-life of 30 minutes
    refused = models.FloatField(default=0)
    counted_at = models.DateTimeField()
    granted_at = models.DateTimeField(null=True)
    refused_at = models.DateTimeField(null=True)
    refusals = models.IntegerField(default=0)  # in a row
    refused_until = models.DateTimeField(null=True)  # not asked before
    refusal = models.CharField(max_length=64, blank=True)  # the last one's code, and its sentence
    sentence = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "region", "instance_type", "zone", "market"], name="one_row_per_pool"
            )
        ]


class Launch(models.Model):
    """One request for machines to a provider. Its id is what makes asking again safe, and what its machines carry."""

    id = UuidKey()
    fleet = models.ForeignKey(Fleet, models.PROTECT)
    status = models.CharField(max_length=16, choices=choices(LaunchStatus), default=LaunchStatus.ASKED)
    pools = models.JSONField()  # [[instance type, zone, market], ...]
    count = models.IntegerField()
    came = models.IntegerField(default=0)
    refusal = models.CharField(max_length=64, blank=True)  # the code of what was refused of it, if anything was
    spec = models.JSONField()  # of the fleet as it was asked for: a repetition must say the same
    secret_digest = models.CharField(max_length=64, unique=True, null=True)  # null: nobody may register any more
    asked_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True)
    forgotten_at = models.DateTimeField(null=True)  # nothing of it is left with the provider but machines

    class Meta:
        indexes = [
            models.Index(fields=["fleet"], name="unforgotten_launches", condition=Q(forgotten_at=None)),
            models.Index(fields=["asked_at"], name="launches_by_time"),
        ]


class Worker(models.Model):
    """One boot of one machine, with slots. Never reused, never identified by name or address."""

    id = UuidKey()
    fleet = models.ForeignKey(Fleet, models.PROTECT)
    launch = models.ForeignKey(Launch, models.PROTECT, null=True)  # None: started by hand
    studio = models.ForeignKey(
        Studio, models.PROTECT, null=True
    )  # bound by its first assignment, where sharing says so
    status = models.CharField(max_length=16, choices=choices(WorkerStatus), default=WorkerStatus.REQUESTED)
    cause = models.TextField(blank=True)  # why it is draining or gone
    was_taken_back = models.BooleanField(default=False)  # by the cloud: warned, or gone without a word
    machine_id = models.TextField(blank=True)  # the provider's name for it
    instance_type = models.CharField(max_length=64, blank=True)
    zone = models.CharField(max_length=64, blank=True)
    market = models.CharField(max_length=16, choices=choices(Market), default=Market.ON_DEMAND)
    price_micro = models.BigIntegerField(default=0)  # micro-dollars an hour, as they are now
    on_demand_micro = models.BigIntegerField(null=True)  # what it would cost on demand
    paid_micro = models.BigIntegerField(default=0)  # until `paid_until`
    paid_until = models.DateTimeField(null=True)
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
        indexes = [
            models.Index(fields=["fleet"], name="present_workers", condition=~Q(status="gone")),
            models.Index(fields=["launch"], name="workers_of_launch"),
        ]

    @property
    def worker_class(self) -> str:
        """What it is billed as: its GPU model, or "cpu"."""
        model: str = self.slots[0]["gpu_model"] if self.slots else ""
        return model or "cpu"


class SeenWorker(models.Model):
    """A worker as everybody may see it: a view without whose work it does, but whether it is the asking studio's."""

    id = UuidKey()
    fleet = models.ForeignKey(Fleet, models.DO_NOTHING, related_name="+")
    status = models.CharField(max_length=16, choices=choices(WorkerStatus))
    cause = models.TextField()
    was_taken_back = models.BooleanField()
    instance_type = models.CharField(max_length=64)
    zone = models.CharField(max_length=64)
    market = models.CharField(max_length=16, choices=choices(Market))
    agent_version = models.CharField(max_length=32)
    sandboxed = models.BooleanField()
    slots = models.JSONField()
    cores = models.IntegerField()
    memory_mib = models.IntegerField()
    disk_mib = models.BigIntegerField()
    free_disk_mib = models.BigIntegerField()
    software = models.JSONField()
    slot_use = models.JSONField()
    last_seen_at = models.DateTimeField(null=True)
    idle_since = models.DateTimeField(null=True)
    quarantined_at = models.DateTimeField(null=True)
    requested_at = models.DateTimeField()
    registered_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)
    is_bound = models.BooleanField()  # to some studio
    is_own = models.BooleanField()  # to the asking one

    class Meta:
        managed = False
        db_table = "fleet_seenworker"


class FleetDecision(models.Model):
    """A launch, refusal, drain or end, with the numbers that led to it; append-only."""

    id = UuidKey()
    fleet = models.ForeignKey(Fleet, models.PROTECT)
    worker_id = models.UUIDField(null=True)
    kind = models.CharField(max_length=16)  # launch | refused | drain | end | alarm
    reason = models.CharField(max_length=64)
    params = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())


class Spending(models.Model):
    """What a fleet's machines cost on a day in UTC, at the price paid."""

    id = UuidKey()
    fleet = models.ForeignKey(Fleet, models.PROTECT)
    day = models.DateField()
    paid_micro = models.BigIntegerField(default=0)
    on_demand_micro = models.BigIntegerField(default=0)  # what the same would have cost on demand
    machine_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["fleet", "day"], name="one_spending_per_fleet_and_day")]

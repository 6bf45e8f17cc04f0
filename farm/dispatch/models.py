"""Attempts, what they produced, and how fast they were."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from farm.core.fields import UuidKey
from farm.core.moves import choices
from farm.dispatch.moves import AttemptStatus
from farm.fleet.models import Worker
from farm.jobs.models import Job, Step, Task
from farm.studios.models import Studio

LIVE = Q(status__in=["assigned", "started"])


class Attempt(models.Model):
    """One try of a task on one worker. `generation` is the fence: it counts only while the task still carries it."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT, db_index=False)
    job = models.ForeignKey(Job, models.PROTECT, db_index=False)
    step = models.ForeignKey(Step, models.PROTECT, db_index=False)
    task = models.ForeignKey(Task, models.PROTECT)
    worker = models.ForeignKey(Worker, models.PROTECT, db_index=False)
    slot = models.IntegerField()
    generation = models.IntegerField()
    status = models.CharField(max_length=16, choices=choices(AttemptStatus), default=AttemptStatus.ASSIGNED)
    worker_class = models.CharField(max_length=64)
    lease_until = models.DateTimeField()
    claimed_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    progress = models.FloatField(default=0)
    elapsed_ms = models.BigIntegerField(default=0)
    log_chunks = models.IntegerField(default=0)
    cause = models.CharField(max_length=32, blank=True)
    sentence = models.TextField(blank=True)
    setup_ms = models.BigIntegerField(default=0)
    render_ms = models.BigIntegerField(default=0)
    peak_memory_mib = models.IntegerField(default=0)
    device = models.CharField(max_length=200, blank=True)
    # False while its hold is open. A lost attempt stays unsettled until somebody takes the task: it may yet deliver.
    is_settled = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task"], condition=LIVE, name="one_live_attempt_per_task")]
        indexes = [
            models.Index(fields=["worker"], name="live_attempts_of_a_worker", condition=LIVE),
            models.Index(fields=["lease_until"], name="leases", condition=LIVE),
            models.Index(fields=["worker", "ended_at"], name="failures_of_a_worker", condition=Q(status="failed")),
            models.Index(fields=["job", "-id"], name="attempts_of_a_job"),
            models.Index(fields=["task"], name="lost_and_unsettled", condition=Q(status="lost", is_settled=False)),
        ]


class Output(models.Model):
    """One file an attempt produced, verified. `is_current`: of the task's latest success."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT, db_index=False)
    job = models.ForeignKey(Job, models.PROTECT, db_index=False)
    task = models.ForeignKey(Task, models.PROTECT, db_index=False)
    attempt = models.ForeignKey(Attempt, models.PROTECT)
    frame = models.IntegerField(null=True)
    name = models.TextField()
    role = models.CharField(max_length=16)
    key = models.TextField()
    size = models.BigIntegerField()
    digest = models.CharField(max_length=64)
    format = models.CharField(max_length=32, blank=True)
    width = models.IntegerField(null=True)
    height = models.IntegerField(null=True)
    channels = models.IntegerField(null=True)
    bit_depth = models.IntegerField(null=True)
    statistics = models.JSONField(null=True)
    is_current = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(
                fields=["job", "role", "frame"], name="current_outputs_of_a_job", condition=Q(is_current=True)
            ),
            models.Index(fields=["task"], name="current_outputs_of_a_task", condition=Q(is_current=True)),
        ]


class OutputUpload(models.Model):
    """An output of several parts that is on its way: the store's id of its upload."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT, db_index=False)
    attempt = models.ForeignKey(Attempt, models.CASCADE)
    digest = models.CharField(max_length=64)
    upload = models.CharField(max_length=200)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "digest"], name="one_upload_per_output")]


class Pace(models.Model):
    """How long the latest frames of a step took on one class of worker: what predictions are made from."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT)
    step = models.ForeignKey(Step, models.CASCADE)
    worker_class = models.CharField(max_length=64)
    recent_ms = ArrayField(models.IntegerField(), default=list)  # newest last, at most `RECENT`
    recent_tasks = ArrayField(models.IntegerField(), default=list)  # the same frames' places in the step

    class Meta:
        constraints = [models.UniqueConstraint(fields=["step", "worker_class"], name="one_pace_per_step_and_class")]


class Quote(models.Model):
    """A range of money and time for a job, as it was told; kept, so that its accuracy can be reported."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT)
    job = models.ForeignKey(Job, models.CASCADE)
    worker_class = models.CharField(max_length=64)
    basis = models.CharField(max_length=16)  # "scouts", "frames"
    tasks = models.IntegerField()  # how many the range is for
    slots = models.IntegerField()  # how many at once the time is for
    p10_micro = models.BigIntegerField()
    p50_micro = models.BigIntegerField()
    p90_micro = models.BigIntegerField()
    p10_s = models.IntegerField()
    p50_s = models.IntegerField()
    p90_s = models.IntegerField()
    at = models.DateTimeField(db_default=Now())


class Reaper(models.Model):
    """When the reaper last looked: one row, so that it knows when it was blind."""

    id = models.IntegerField(primary_key=True, default=1)
    at = models.DateTimeField()


class Allowance(models.Model):
    """What a studio or a project may count on, and the most it may have, in slots at once."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.CASCADE)
    subject = models.UUIDField(unique=True)  # the studio itself, or one of its projects
    guaranteed_slots = models.IntegerField(default=0)
    max_slots = models.IntegerField(null=True)  # None: as many as there are


class Limit(models.Model):
    """How much of a thing that is not a machine's may be in use at once: licences, for instance."""

    id = UuidKey()
    name = models.CharField(max_length=64, unique=True)
    most = models.FloatField()
    is_per_host = models.BooleanField(default=False)  # False: each task at work uses its part; True: each worker does

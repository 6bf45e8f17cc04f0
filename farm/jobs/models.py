"""Jobs, their steps and tasks."""

from __future__ import annotations

from datetime import UTC, datetime

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now

from farm.billing.models import CostObject
from farm.core.fields import UuidKey
from farm.core.moves import choices
from farm.jobs.moves import Approval, JobStatus, Purpose, StepStatus, SuspendedBy, TaskStatus
from farm.scenes.models import SceneVersion
from farm.studios.models import Project, Studio, User

NO_DEADLINE = datetime(9999, 12, 31, tzinfo=UTC)  # where jobs without one stand in the order of deadlines


def due() -> Case:
    """
    Give a job's place in the order of deadlines.

    (COALESCE would do, but PostgreSQL does not know that it tells nobody anything, and under row-level security begins
    at a place in an index only by what it knows.)
    """
    return Case(When(deadline__isnull=True, then=Value(NO_DEADLINE)), default=F("deadline"))


class Job(models.Model):
    """An OpenJD job, as it was submitted, and how far it is."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT)
    project = models.ForeignKey(Project, models.PROTECT)
    cost_object = models.OneToOneField(CostObject, models.PROTECT)
    scene_version = models.ForeignKey(SceneVersion, models.PROTECT, null=True)
    created_by = models.ForeignKey(User, models.PROTECT, null=True)
    name = models.CharField(max_length=200)
    purpose = models.CharField(max_length=16, choices=choices(Purpose), default=Purpose.RENDER)
    renderer = models.CharField(max_length=64, blank=True)  # "" for a studio's own template
    template = models.TextField()  # the OpenJD text it was submitted with
    parameters = models.JSONField(default=dict)  # {name: {"type", "value"}}, resolved
    status = models.CharField(max_length=16, choices=choices(JobStatus), default=JobStatus.ACTIVE)
    suspended_by = models.CharField(max_length=16, choices=choices(SuspendedBy), blank=True)
    approval = models.CharField(max_length=16, choices=choices(Approval), default=Approval.NONE)
    priority = models.IntegerField(default=50)
    deadline = models.DateTimeField(null=True)
    storm_forgiven = models.IntegerField(default=0)  # failures a person has seen and resumed after
    timeout_s = models.IntegerField(null=True)  # a person's own limit for one task
    no_progress_s = models.IntegerField(default=1800)
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["studio", "-id"], name="jobs_of_a_studio"),
            models.Index(fields=["studio", "priority", "id"], name="jobs_by_priority"),
            models.Index(F("studio"), due(), F("id"), name="jobs_by_deadline"),
            models.Index(fields=["status"], name="live_jobs", condition=Q(status__in=["active", "suspended"])),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(priority__gte=0, priority__lte=100), name="priority_is_0_to_100"),
            models.UniqueConstraint(
                fields=["scene_version"], condition=Q(purpose="inspection"), name="one_inspection_per_version"
            ),
        ]


class JobAfter(models.Model):
    """A job begins only after another has succeeded."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT)
    job = models.ForeignKey(Job, models.CASCADE, related_name="waits_for")
    after = models.ForeignKey(Job, models.CASCADE, related_name="waited_for_by")


class Step(models.Model):
    """An OpenJD step of a job. Counters follow its tasks in the same transaction."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT)
    job = models.ForeignKey(Job, models.CASCADE, related_name="steps")
    index = models.IntegerField()
    name = models.CharField(max_length=200)
    status = models.CharField(max_length=16, choices=choices(StepStatus))
    depends_on = ArrayField(models.UUIDField(), default=list)
    document = models.JSONField()  # {"environments", "script", "extensions", "input_paths", "output_paths"}
    parameter_types = models.JSONField(default=dict)  # {"Frame": "INT"}
    requirements = models.JSONField(default=dict)  # see fleet.requirements
    outputs = models.JSONField(null=True)  # what each task must leave, see jobs.outputs; null: a bundle's OUT folders
    pending = models.IntegerField(default=0)
    ready = models.IntegerField(default=0)
    leased = models.IntegerField(default=0)
    succeeded = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    cancelled = models.IntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "index"], name="one_step_per_index")]
        indexes = [models.Index(fields=["job"], name="steps_with_ready_tasks", condition=Q(ready__gt=0))]

    @property
    def counts(self) -> dict[TaskStatus, int]:
        return {status: getattr(self, str(status)) for status in TaskStatus}


class Task(models.Model):
    """One point of a step's parameter space. In Farmhand's own templates: a frame."""

    id = UuidKey()
    # Its step's, which alone the database checks: two checks more would cost a large job as much as its rows.
    studio = models.ForeignKey(Studio, models.PROTECT, db_index=False, db_constraint=False)
    job = models.ForeignKey(Job, models.CASCADE, related_name="tasks", db_index=False, db_constraint=False)
    step = models.ForeignKey(Step, models.CASCADE, related_name="tasks", db_index=False)
    index = models.IntegerField()  # place in the step's parameter space
    rank = models.IntegerField()  # order of dispatch: first, middle, last, then halving; what a person retries is first
    parameters = models.JSONField()  # {"Frame": "12"}
    frame = models.IntegerField(null=True)
    status = models.CharField(max_length=16, choices=choices(TaskStatus))
    generation = models.IntegerField(default=0)
    failures = models.IntegerField(default=0)
    failed_on = ArrayField(models.UUIDField(), default=list)  # workers
    interruptions = models.IntegerField(default=0)
    is_scout = models.BooleanField(default=False)
    changed_at = models.DateTimeField(db_default=Now())
    # The transaction that changed it last (a full transaction id): a reader who keeps the oldest transaction that ran
    # when it last read finds every change since, without a lock on the job.
    revision = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["step", "index"], name="one_task_per_index")]
        indexes = [
            models.Index(fields=["step", "rank"], name="ready_tasks", condition=Q(status="ready")),
            models.Index(fields=["job", "revision"], name="tasks_changed_since"),
        ]

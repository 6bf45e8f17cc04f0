"""What money is about: rates, policies, cost objects, budgets, holds, facts, credits, and the ledger."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField, DateTimeRangeField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from farm.billing.pricing import STANDARD_TIER, BudgetScope, HoldStatus, WhenRefused
from farm.core.fields import UuidKey
from farm.core.moves import choices
from farm.studios.models import Project, Studio


def _own_studio() -> models.ForeignKey[Studio, Studio]:
    """
    The studio of a row that has a cost object: there for row-level security alone.

    That it is the cost object's, and exists, follows from the statements that write it; a check of each of a farm's
    million ledger entries, and an index of them, would cost more than all else about them.
    """
    return models.ForeignKey(Studio, models.PROTECT, db_constraint=False, db_index=False)


class Rate(models.Model):
    """
    What a GPU-hour costs: for one studio, or for all that have no rate of their own.

    A row never changes, but that an open end of its validity is closed once, when the next rate is written.
    """

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT, null=True)  # none: the default of all studios
    worker_class = models.TextField()  # "cpu", or the GPU's name: "NVIDIA L4"
    tier = models.TextField(default=STANDARD_TIER)
    currency = models.CharField(max_length=3)
    micro_per_gpu_hour = models.BigIntegerField()
    valid = DateTimeRangeField()  # half-open
    source = models.TextField(blank=True)  # where the number comes from
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        # The exclusion constraint `one_rate_at_a_time` is written in the migration: it spans a NULL studio.
        constraints = [
            models.CheckConstraint(condition=Q(micro_per_gpu_hour__gte=0), name="rate_is_not_negative"),
            models.CheckConstraint(
                condition=Q(valid__isempty=False, valid__lower_inf=False), name="rate_has_a_beginning"
            ),
        ]


class PolicyRow(models.Model):
    """Who pays for what, from a moment on: for one studio, or for all that have none of their own. Append-only."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT, null=True)
    valid_from = models.DateTimeField()
    scene_error_cap_seconds = models.IntegerField(null=True)  # none: the scene's faults cost nothing
    free_setup_seconds = models.IntegerField(default=300)
    cancel_grace_seconds = models.IntegerField(default=15)
    free_scout_gpu_seconds = models.IntegerField(default=600)
    when_refused = models.CharField(max_length=16, choices=choices(WhenRefused), default=WhenRefused.STOP)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "billing_policy"
        constraints = [
            models.UniqueConstraint(
                fields=["studio", "valid_from"], nulls_distinct=False, name="one_policy_per_studio_and_moment"
            )
        ]


class CostObject(models.Model):
    """What usage is charged to and reported by: one row per job. May be re-tagged; money rows never."""

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT)
    project = models.ForeignKey(Project, models.PROTECT)
    name = models.TextField()
    artist_id = models.UUIDField()
    artist_name = models.TextField()
    sequence = models.TextField(blank=True)
    shot = models.TextField(blank=True)
    tags = models.JSONField(default=dict)
    currency = models.CharField(max_length=3)
    policy = models.JSONField()  # as it was quoted; `pricing.Policy`
    created_at = models.DateTimeField(db_default=Now())


class QuotedRate(models.Model):
    """The rate a cost object keeps for one worker class, whatever the price list says later. Append-only."""

    id = UuidKey()
    studio = _own_studio()
    cost_object = models.ForeignKey(CostObject, models.PROTECT, db_index=False, related_name="quoted_rates")
    worker_class = models.TextField()
    rate = models.ForeignKey(Rate, models.PROTECT, db_index=False)
    micro_per_gpu_hour = models.BigIntegerField()
    quoted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cost_object", "worker_class"], name="one_quoted_rate_per_worker_class")
        ]


class Budget(models.Model):
    """
    What may be spent by a studio in a month, by a project, or by a job (its cost object).

    The row is there before anybody sets a cap, so that a cap set later knows what is held and spent already.
    """

    id = UuidKey()
    studio = models.ForeignKey(Studio, models.PROTECT)
    scope = models.CharField(max_length=16, choices=choices(BudgetScope))
    subject = models.UUIDField()  # the studio, project or cost object
    month = models.DateField(null=True)  # its first day, in the studio's zone; of studios' budgets only
    cap_micro = models.BigIntegerField(null=True)  # none: no limit
    held_micro = models.BigIntegerField(default=0)
    spent_micro = models.BigIntegerField(default=0)
    told = ArrayField(models.SmallIntegerField(), default=list)  # percents of the cap that were announced
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject", "month"], nulls_distinct=False, name="one_budget_per_subject"),
            models.CheckConstraint(
                condition=Q(scope=BudgetScope.STUDIO, month__isnull=False, month__day=1)
                | (~Q(scope=BudgetScope.STUDIO) & Q(month__isnull=True)),
                name="studio_budgets_are_monthly",
            ),
            models.CheckConstraint(
                condition=Q(held_micro__gte=0, spent_micro__gte=0) & (Q(cap_micro__isnull=True) | Q(cap_micro__gte=0)),
                name="budget_is_not_negative",
            ),
        ]


class Hold(models.Model):
    """Money set aside for one attempt, from its claim to its end."""

    attempt = models.UUIDField(primary_key=True)
    studio = _own_studio()
    cost_object = models.ForeignKey(CostObject, models.PROTECT, db_index=False)
    worker_class = models.TextField()
    gpus = models.SmallIntegerField()
    micro_per_gpu_hour = models.BigIntegerField()
    purpose = models.CharField(max_length=32)
    amount_micro = models.BigIntegerField()
    month = models.DateField()  # the studio's budget month in which it was taken, and settles
    status = models.CharField(max_length=16, choices=choices(HoldStatus), default=HoldStatus.OPEN)
    taken_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_micro__gte=0, gpus__gte=1), name="hold_is_not_negative")
        ]
        indexes = [models.Index(fields=["cost_object"], condition=Q(status=HoldStatus.OPEN), name="open_holds")]


class UsageFact(models.Model):
    """What one attempt used, and what of it the studio pays. Append-only."""

    attempt = models.UUIDField(primary_key=True)
    task = models.UUIDField()
    generation = models.IntegerField()
    studio = _own_studio()
    cost_object = models.ForeignKey(CostObject, models.PROTECT, db_index=False)
    label = models.TextField(blank=True)  # "frame 12"
    purpose = models.CharField(max_length=32)
    is_scout = models.BooleanField()
    worker_class = models.TextField()
    gpus = models.SmallIntegerField()
    micro_per_gpu_hour = models.BigIntegerField()
    outcome = models.CharField(max_length=16)
    cause = models.TextField(blank=True)
    reported_render_ms = models.BigIntegerField()  # as the worker said
    reported_setup_ms = models.BigIntegerField()
    render_ms = models.BigIntegerField()  # as far as it can be true
    setup_ms = models.BigIntegerField()
    billable_ms = models.BigIntegerField()  # the line: rendering, and setup beyond what is free
    payable_ms = models.BigIntegerField()  # what of it the policy lets the studio pay
    held_micro = models.BigIntegerField()
    gross_micro = models.BigIntegerField()
    charged_micro = models.BigIntegerField()
    over_hold_micro = models.BigIntegerField()  # payable, but more than was held: the farm's
    is_charged = models.BooleanField()
    reason = models.CharField(max_length=32)  # `pricing.Reason`
    hold_month = models.DateField()  # of the studio's budget
    month = models.DateField()  # of the invoice: in which the attempt ended
    claimed_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    cancelled_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["task", "generation"], condition=Q(is_charged=True), name="one_charged_fact_per_generation"
            ),
            models.CheckConstraint(
                condition=Q(charged_micro__gte=0, over_hold_micro__gte=0, charged_micro__lte=F("held_micro"))
                & Q(gross_micro__gte=F("charged_micro") + F("over_hold_micro"))
                & (Q(is_charged=True) | Q(charged_micro=0, over_hold_micro=0)),
                name="charged_is_within_gross_and_hold",
            ),
        ]
        indexes = [
            models.Index(fields=["cost_object", "attempt"], name="facts_of_cost_object"),
            models.Index(fields=["studio", "ended_at"], name="facts_of_studio"),
            models.Index(fields=["task"], name="facts_of_task"),
        ]


class Credit(models.Model):
    """Money given back on a fact after it was written. Append-only."""

    id = UuidKey()
    studio = _own_studio()
    fact = models.ForeignKey(UsageFact, models.PROTECT, db_index=False, related_name="credits")
    reason = models.CharField(max_length=32)
    gpu_ms = models.BigIntegerField()
    amount_micro = models.BigIntegerField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["fact", "reason"], name="one_credit_per_fact_and_reason"),
            models.CheckConstraint(condition=Q(amount_micro__gte=0, gpu_ms__gte=0), name="credit_is_not_negative"),
        ]
        indexes = [models.Index(fields=["studio"], name="credits_of_studio")]


class LedgerGroup(models.Model):
    """One booking: entries that sum to zero. Its key makes it happen once. Append-only."""

    id = UuidKey()
    studio = _own_studio()
    cost_object = models.ForeignKey(CostObject, models.PROTECT, db_index=False)
    attempt = models.UUIDField()
    currency = models.CharField(max_length=3)
    key = models.TextField()  # "usage:<attempt>", "scouts:<attempt>"
    occurred_at = models.DateTimeField()
    recorded_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["key"], name="one_booking_per_key")]


class LedgerEntry(models.Model):
    """One side of a booking. Append-only."""

    id = UuidKey()
    group = models.ForeignKey(LedgerGroup, models.PROTECT, related_name="entries")
    studio = _own_studio()
    account = models.TextField()  # "receivable", "revenue:<worker class>", "credit:<reason>", "over-hold"
    amount_micro = models.BigIntegerField()

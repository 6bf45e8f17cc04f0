"""What can be asked about money."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.contrib.postgres.fields import DateTimeRangeField
from django.db.models import BigIntegerField, Count, F, Func, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce, Lower

from farm.billing.models import Budget, Credit, PolicyRow, Rate, UsageFact
from farm.billing.pricing import BudgetScope, Policy, WhenRefused


def policy_of(studio: UUID, *, now: datetime) -> Policy:
    """Give the policy in force for a studio: the latest of its own, else the latest of all."""
    row = (
        PolicyRow.objects.filter(Q(studio=studio) | Q(studio=None), valid_from__lte=now)
        .order_by(F("studio").asc(nulls_last=True), "-valid_from")
        .first()
    )
    if row is None:
        return Policy()
    return Policy(
        scene_error_cap_seconds=row.scene_error_cap_seconds,
        free_setup_seconds=row.free_setup_seconds,
        cancel_grace_seconds=row.cancel_grace_seconds,
        free_scout_gpu_seconds=row.free_scout_gpu_seconds,
        when_refused=WhenRefused(row.when_refused),
    )


def rates_of(studio: UUID, currency: str, *, now: datetime) -> QuerySet[Rate]:
    """Give the rates in force for a studio: its own, and the defaults where it has none."""
    in_force = Rate.objects.filter(currency=currency, valid__contains=now)
    own = in_force.filter(studio=studio)
    return in_force.filter(Q(studio=studio) | Q(studio=None) & ~Q(worker_class__in=own.values("worker_class")))


def closed_at(moment: datetime) -> Func:
    """Make the expression that ends a validity at a moment."""
    return Func(Lower("valid"), Value(moment), function="tstzrange", output_field=DateTimeRangeField())


def forgiven_gpu_ms(studio: UUID, *, reason: str, begin: datetime, end: datetime) -> int:
    """Give the GPU-milliseconds that were credited for a reason, of facts that ended in a period."""
    given = Credit.objects.filter(studio=studio, reason=reason, fact__ended_at__gte=begin, fact__ended_at__lt=end)
    return int(given.aggregate(total=Coalesce(Sum("gpu_ms"), 0))["total"])


def job_budgets(cost_objects: Sequence[UUID]) -> dict[UUID, Budget]:
    """Give the budgets of jobs by their cost objects: each has one, which knows what was held and spent, cap or not."""
    rows = Budget.objects.filter(scope=BudgetScope.JOB, subject__in=cost_objects, month=None)
    return {row.subject: row for row in rows}


def statement(studio: UUID) -> QuerySet[UsageFact]:
    """Give a studio's facts with what was credited on each later (`forgiven_micro`)."""
    given = Credit.objects.filter(fact=OuterRef("pk")).order_by().values("fact").annotate(total=Sum("amount_micro"))
    forgiven = Coalesce(Subquery(given.values("total"), output_field=BigIntegerField()), 0)
    return UsageFact.objects.filter(studio=studio).annotate(forgiven_micro=forgiven).select_related("cost_object")


def totals(lines: QuerySet[UsageFact]) -> dict[str, Any]:
    """Add up a statement's lines: what its pages show sums to exactly this."""
    return lines.aggregate(
        count=Count("pk"),
        render_ms=Coalesce(Sum("render_ms"), 0),
        billable_ms=Coalesce(Sum("billable_ms"), 0),
        gross_micro=Coalesce(Sum("gross_micro"), 0),
        charged_micro=Coalesce(Sum(F("charged_micro") - F("forgiven_micro")), 0),
    )


def decimal(micro: int) -> str:
    """Write micro-units as a decimal number of the currency's units, all six places."""
    return str(Decimal(micro).scaleb(-6).quantize(Decimal("0.000001")))

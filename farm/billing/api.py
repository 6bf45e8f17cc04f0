"""`/api/v1/budgets`, `/rates`, `/policy`, `/statement`, `/cost-objects`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import QuerySet
from django.urls import path
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.billing import selectors, services
from farm.billing.models import Budget, CostObject, Rate, UsageFact
from farm.billing.pricing import BudgetScope, Reason, WhenRefused
from farm.core.errors import Invalid, NotFound
from farm.core.moves import choices
from farm.core.pages import MAX_LIMIT, Filter, by_choice, by_id, ids_of, page, page_schema, parse_id, query_of
from farm.core.views import ApiView, once
from farm.studios.authentication import Caller
from farm.studios.models import Project, Studio
from farm.studios.roles import Scope

MOST_MICRO = 10**15  # a thousand million of the currency's units


class MoneySerializer(serializers.Serializer[Any]):
    """An amount of money, twice: exactly, and to read."""

    micro = serializers.IntegerField(help_text="In millionths of the currency's unit.")
    currency = serializers.CharField(help_text="ISO 4217.")
    amount = serializers.CharField(help_text="In the currency's units, as a decimal number.")


def money(micro: int, currency: str) -> dict[str, Any]:
    """Write an amount as the API shows it."""
    return {"micro": micro, "currency": currency, "amount": selectors.decimal(micro)}


@extend_schema_field(MoneySerializer)
class Money(serializers.Field[Any, Any, Any, Any]):
    """Shows an amount computed from the row, or nothing."""

    def __init__(self, micro: Callable[[Any], int | None], currency: Callable[[Any], str], **kwargs: Any) -> None:
        super().__init__(source="*", read_only=True, **kwargs)
        self._micro, self._currency = micro, currency

    def to_representation(self, value: Any) -> dict[str, Any] | None:
        micro = self._micro(value)
        return None if micro is None else money(micro, self._currency(value))


@extend_schema_field(MoneySerializer(allow_null=True))
class MaybeMoney(Money):
    """Shows an amount that may not be there."""


class BudgetSerializer(serializers.ModelSerializer[Budget]):
    """What may be spent, is held and was spent by a studio in a month, a project, or a job."""

    cap = MaybeMoney(lambda b: b.cap_micro, lambda b: b.studio.currency, help_text="Null: no limit.")
    held = Money(lambda b: b.held_micro, lambda b: b.studio.currency, help_text="Set aside for what runs now.")
    spent = Money(lambda b: b.spent_micro, lambda b: b.studio.currency)
    left = MaybeMoney(
        lambda b: None if b.cap_micro is None else b.cap_micro - b.held_micro - b.spent_micro,
        lambda b: b.studio.currency,
        help_text="Below zero when the cap was lowered under what is held and spent.",
    )

    class Meta:
        model = Budget
        fields = ["id", "scope", "subject", "month", "cap", "held", "spent", "left", "created_at"]


class NewBudgetSerializer(serializers.Serializer[Any]):
    scope = serializers.ChoiceField(choices=choices(BudgetScope))
    subject = serializers.UUIDField(required=False, help_text="The project, or the job's cost object.")
    month = serializers.DateField(
        required=False, help_text="First day of the month; of a studio's budget. This month unless said."
    )
    cap_micro = serializers.IntegerField(min_value=0, max_value=MOST_MICRO)


class CapSerializer(serializers.Serializer[Any]):
    cap_micro = serializers.IntegerField(
        min_value=0, max_value=MOST_MICRO, allow_null=True, help_text="Null lifts the limit."
    )


class RateSerializer(serializers.ModelSerializer[Rate]):
    """What a GPU-hour costs (for "cpu": an hour of a slot)."""

    per_gpu_hour = Money(lambda r: r.micro_per_gpu_hour, lambda r: r.currency)
    is_own = serializers.SerializerMethodField(help_text="Agreed with this studio, not the default.")
    valid_from = serializers.DateTimeField(source="valid.lower")
    valid_to = serializers.DateTimeField(source="valid.upper", allow_null=True)

    class Meta:
        model = Rate
        fields = ["id", "worker_class", "tier", "per_gpu_hour", "is_own", "valid_from", "valid_to", "source"]

    def get_is_own(self, rate: Rate) -> bool:
        return rate.studio_id is not None


class PolicySerializer(serializers.Serializer[Any]):
    """Who pays for what. A job keeps the policy it was quoted."""

    scene_error_cap_seconds = serializers.IntegerField(
        allow_null=True,
        help_text="A task's first failure by the scene's fault costs up to so many seconds; null: nothing.",
    )
    free_setup_seconds = serializers.IntegerField(help_text="Of each session's start and scene load.")
    cancel_grace_seconds = serializers.IntegerField(help_text="What you cancel costs at most so many seconds more.")
    free_scout_gpu_seconds = serializers.IntegerField(help_text="A day, for scouts of jobs you do not continue.")
    when_refused = serializers.ChoiceField(
        choices=choices(WhenRefused),
        help_text="What happens to a running attempt that outruns its hold when the budget is used up.",
    )


class LineSerializer(serializers.ModelSerializer[UsageFact]):
    """One attempt: what it used, what that is worth, what of it you do not pay, and why."""

    rate = Money(lambda f: f.micro_per_gpu_hour, lambda f: f.cost_object.currency, help_text="Per GPU-hour.")
    gross = Money(lambda f: f.gross_micro, lambda f: f.cost_object.currency)
    credit = Money(lambda f: f.gross_micro - f.charged_micro + f.forgiven_micro, lambda f: f.cost_object.currency)
    charged = Money(lambda f: f.charged_micro - f.forgiven_micro, lambda f: f.cost_object.currency)
    over_hold = Money(
        lambda f: f.over_hold_micro,
        lambda f: f.cost_object.currency,
        help_text="Part of the credit: used beyond what was set aside, so the farm pays it.",
    )
    reason = serializers.ChoiceField(choices=choices(Reason), help_text="Why it costs what it costs.")
    forgiven = Money(
        lambda f: f.forgiven_micro, lambda f: f.cost_object.currency, help_text="Part of the credit: given back later."
    )

    class Meta:
        model = UsageFact
        fields = [
            "attempt",
            "task",
            "generation",
            "cost_object",
            "label",
            "purpose",
            "is_scout",
            "worker_class",
            "gpus",
            "render_ms",
            "setup_ms",
            "billable_ms",
            "rate",
            "gross",
            "credit",
            "charged",
            "over_hold",
            "forgiven",
            "outcome",
            "cause",
            "reason",
            "started_at",
            "ended_at",
        ]


class TotalsSerializer(serializers.Serializer[Any]):
    """What all lines of the statement sum to, those on other pages too."""

    count = serializers.IntegerField()
    render_ms = serializers.IntegerField()
    billable_ms = serializers.IntegerField()
    gross = MoneySerializer()
    credit = MoneySerializer()
    charged = MoneySerializer()


class StatementSerializer(serializers.Serializer[Any]):
    """A page of lines, and the totals of all pages."""

    results = LineSerializer(many=True)
    next = serializers.CharField(allow_null=True, help_text="Cursor of the next page.")
    totals = TotalsSerializer()


class CostObjectSerializer(serializers.ModelSerializer[CostObject]):
    """What a job is charged to and reported by, and the terms it keeps."""

    policy = PolicySerializer()
    rates = serializers.SerializerMethodField(help_text="The quoted price of a GPU-hour, by worker class.")

    class Meta:
        model = CostObject
        fields = [
            "id",
            "project",
            "name",
            "artist_id",
            "artist_name",
            "sequence",
            "shot",
            "tags",
            "currency",
            "policy",
            "rates",
            "created_at",
        ]

    @extend_schema_field(serializers.DictField(child=MoneySerializer()))
    def get_rates(self, cost_object: CostObject) -> dict[str, Any]:
        quoted = cost_object.quoted_rates.order_by("worker_class")
        return {q.worker_class: money(q.micro_per_gpu_hour, cost_object.currency) for q in quoted}


class CostSerializer(serializers.Serializer[Any]):
    """What a job has cost so far."""

    cost_object = serializers.UUIDField()
    charged = MoneySerializer(help_text="What was given back is left out.")
    held = MoneySerializer(help_text="Set aside for what runs now.")
    cap = MoneySerializer(allow_null=True, help_text="The job's own budget; null: no limit.")


class CostListSerializer(serializers.Serializer[Any]):
    """The costs asked for, as far as they are there, in that order."""

    results = CostSerializer(many=True)


class CostsView(ApiView):
    """What several jobs cost."""

    scopes = {"GET": Scope.BILLING_READ}

    @extend_schema(
        responses=CostListSerializer,
        operation_id="costs",
        parameters=[
            OpenApiParameter("cost_objects", str, required=True, description=f"Ids by commas, at most {MAX_LIMIT}.")
        ],
    )
    def get(self, request: Request) -> Response:
        """What jobs have cost so far, for a list of them."""
        wanted = ids_of(query_of(request.query_params, {"cost_objects"}).get("cost_objects", ""), "cost_objects")
        found, currency = selectors.job_budgets(wanted), _caller(request).studio.currency
        return Response({"results": [_cost(found[key], currency) for key in dict.fromkeys(wanted) if key in found]})


def _cost(budget: Budget, currency: str) -> dict[str, Any]:
    return {
        "cost_object": budget.subject,
        "charged": money(budget.spent_micro, currency),
        "held": money(budget.held_micro, currency),
        "cap": None if budget.cap_micro is None else money(budget.cap_micro, currency),
    }


class TagsSerializer(serializers.Serializer[Any]):
    sequence = serializers.CharField(max_length=200, allow_blank=True, required=False)
    shot = serializers.CharField(max_length=200, allow_blank=True, required=False)
    tags = serializers.DictField(child=serializers.CharField(max_length=200, allow_blank=True), required=False)

    def validate_tags(self, tags: dict[str, str]) -> dict[str, str]:
        if len(tags) > 50 or any(len(name) > 100 for name in tags):
            raise serializers.ValidationError("At most 50 tags, with names of at most 100 characters.")
        return tags


def _caller(request: Request) -> Caller:
    return cast(Caller, request.auth)


def _budgets() -> QuerySet[Budget]:
    return Budget.objects.select_related("studio")


class BudgetsView(ApiView):
    """The studio's budgets."""

    scopes = {"GET": Scope.BILLING_READ, "POST": Scope.BILLING_WRITE}
    filters: dict[str, Filter] = {
        "scope": by_choice("scope", "scope", [str(s) for s in BudgetScope]),
        "subject": by_id("subject", "subject"),
        "month": lambda rows, value: rows.filter(month=_date(value, "month")),
    }

    @extend_schema(
        parameters=[
            OpenApiParameter("scope", str, description="studio, project or job; several separated by commas."),
            OpenApiParameter("subject", UUID),
            OpenApiParameter("month", date),
        ],
        responses=page_schema(BudgetSerializer),
        operation_id="budgets_list",
    )
    def get(self, request: Request) -> Response:
        return page(request, _budgets(), BudgetSerializer, filters=self.filters)

    @extend_schema(request=NewBudgetSerializer, responses={201: BudgetSerializer}, operation_id="budgets_create")
    @once
    def post(self, request: Request) -> Response:
        """Set a cap where there is none. A studio's monthly cap stands for the months after it, until it is changed."""
        wish = self.parse(request, NewBudgetSerializer)
        budget = services.set_budget(
            _caller(request),
            scope=BudgetScope(wish["scope"]),
            subject=wish.get("subject"),
            month=wish.get("month"),
            cap_micro=wish["cap_micro"],
            now=timezone.now(),
        )
        return Response(BudgetSerializer(budget).data, status=201)


class BudgetView(ApiView):
    """One budget."""

    scopes = {"GET": Scope.BILLING_READ, "PATCH": Scope.BILLING_WRITE}

    @extend_schema(responses=BudgetSerializer, operation_id="budgets_get")
    def get(self, request: Request, budget_id: UUID) -> Response:
        budget = _budgets().filter(pk=budget_id).first()
        if budget is None:
            raise NotFound(what="budget", id=budget_id)
        return Response(BudgetSerializer(budget).data)

    @extend_schema(request=CapSerializer, responses=BudgetSerializer, operation_id="budgets_cap")
    def patch(self, request: Request, budget_id: UUID) -> Response:
        """Change or lift the cap. Below what is held and spent, it only keeps more from starting."""
        wish = self.parse(request, CapSerializer)
        budget = services.change_cap(_caller(request), budget_id, cap_micro=wish["cap_micro"])
        return Response(BudgetSerializer(budget).data)


class RatesView(ApiView):
    """The rates in force for the studio."""

    scopes = {"GET": Scope.BILLING_READ}

    @extend_schema(
        parameters=[OpenApiParameter("worker_class", str, description='"cpu", or a GPU\'s name.')],
        responses=page_schema(RateSerializer),
        operation_id="rates_list",
    )
    def get(self, request: Request) -> Response:
        studio = _caller(request).studio
        rates = selectors.rates_of(studio.id, studio.currency, now=timezone.now())
        filters: dict[str, Filter] = {"worker_class": lambda rows, value: rows.filter(worker_class=value)}
        return page(request, rates, RateSerializer, filters=filters, newest_first=False)


class PolicyView(ApiView):
    """The policy in force for the studio."""

    scopes = {"GET": Scope.BILLING_READ}

    @extend_schema(responses=PolicySerializer, operation_id="policy")
    def get(self, request: Request) -> Response:
        policy = selectors.policy_of(_caller(request).studio.id, now=timezone.now())
        return Response(PolicySerializer(policy).data)


class StatementView(ApiView):
    """What was used and what it costs, line by line, oldest attempt first."""

    scopes = {"GET": Scope.BILLING_READ}

    @extend_schema(
        parameters=[
            OpenApiParameter("cost_object", UUID, description="Of one job."),
            OpenApiParameter("project", UUID, description="Of one project."),
            OpenApiParameter("from", str, description="Ended at or after this moment, or day in the studio's zone."),
            OpenApiParameter("to", str, description="Ended before this moment, or day in the studio's zone."),
        ],
        responses=StatementSerializer,
        operation_id="statement",
    )
    def get(self, request: Request) -> Response:
        studio = _caller(request).studio
        lines = selectors.statement(studio.id)
        filters = _statement_filters(studio)
        answer = page(request, lines, LineSerializer, filters=filters, newest_first=False)
        for name in filters.keys() & request.query_params.keys():
            lines = filters[name](lines, request.query_params[name])
        answer.data["totals"] = _totals(lines, studio.currency)
        return answer


def _statement_filters(studio: Studio) -> dict[str, Filter]:
    zone = studio.zone
    return {
        "cost_object": lambda rows, value: rows.filter(
            cost_object=_known(CostObject, "cost object", value, "cost_object")
        ),
        "project": lambda rows, value: rows.filter(cost_object__project=_known(Project, "project", value, "project")),
        "from": lambda rows, value: rows.filter(ended_at__gte=_moment(value, "from", zone)),
        "to": lambda rows, value: rows.filter(ended_at__lt=_moment(value, "to", zone)),
    }


def _totals(lines: QuerySet[UsageFact], currency: str) -> dict[str, Any]:
    sums = selectors.totals(lines)
    gross, charged = sums.pop("gross_micro"), sums.pop("charged_micro")
    return sums | {
        "gross": money(gross, currency),
        "credit": money(gross - charged, currency),
        "charged": money(charged, currency),
    }


def _known(model: type[CostObject] | type[Project], what: str, value: str, field: str) -> UUID:
    key = parse_id(value, field)
    if not model._default_manager.filter(pk=key).exists():
        raise NotFound(what=what, id=key, field=field)
    return key


def _date(value: str, field: str) -> date:
    try:
        parsed = parse_date(value)
    except ValueError:
        parsed = None
    if parsed is None:
        raise Invalid(field, f"{value!r} is not a day such as 2026-11-01")
    return parsed


def _moment(value: str, field: str, zone: str) -> datetime:
    """Parse a moment with its offset from UTC, or a day, which begins at midnight in the studio's zone."""
    try:
        moment = parse_datetime(value)
    except ValueError:
        moment = None
    if moment is None or len(value) <= len("2026-11-01"):
        return datetime.combine(_date(value, field), time(), tzinfo=ZoneInfo(zone))
    if moment.tzinfo is None:
        raise Invalid(field, f"{value!r} does not say its offset from UTC, as 2026-11-01T12:00:00Z does")
    return moment


class CostObjectView(ApiView):
    """What one job is charged to."""

    scopes = {"GET": Scope.BILLING_READ, "PATCH": Scope.BILLING_WRITE}

    @extend_schema(responses=CostObjectSerializer, operation_id="cost_objects_get")
    def get(self, request: Request, cost_object_id: UUID) -> Response:
        cost_object = CostObject.objects.filter(pk=cost_object_id).first()
        if cost_object is None:
            raise NotFound(what="cost object", id=cost_object_id)
        return Response(CostObjectSerializer(cost_object).data)

    @extend_schema(request=TagsSerializer, responses=CostObjectSerializer, operation_id="cost_objects_retag")
    def patch(self, request: Request, cost_object_id: UUID) -> Response:
        """Change what it is reported by. The money stays as it is."""
        wish = self.parse(request, TagsSerializer)
        return Response(CostObjectSerializer(services.retag(_caller(request), cost_object_id, **wish)).data)


urls = [
    path("budgets", BudgetsView.as_view()),
    path("budgets/<uuid:budget_id>", BudgetView.as_view()),
    path("rates", RatesView.as_view()),
    path("policy", PolicyView.as_view()),
    path("statement", StatementView.as_view()),
    path("costs", CostsView.as_view()),
    path("cost-objects/<uuid:cost_object_id>", CostObjectView.as_view()),
]

"""`/api/v1`: what people see of running work: why, quotes, attempts, outputs, logs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.urls import path
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core import keys
from farm.core.errors import NotFound
from farm.core.pages import by_choice, by_id, by_number, page, page_schema, parse_number, query_of
from farm.core.storage import store
from farm.core.views import ApiView
from farm.dispatch import quotes, selectors
from farm.dispatch.files import address
from farm.dispatch.models import Attempt, Output, Quote
from farm.dispatch.moves import AttemptStatus
from farm.jobs import selectors as jobs
from farm.studios.roles import Scope
from workers.protocol import OutputRole

MAX_CHUNKS = 200  # of a log, in one answer


class WhySerializer(serializers.Serializer[Any]):
    """What a job does or waits for: a code with its numbers, and the English sentence."""

    code = serializers.CharField()
    params = serializers.DictField()
    sentence = serializers.CharField()


class QuoteSerializer(serializers.ModelSerializer[Quote]):
    """A range for what remains of a job, on one class of worker."""

    currency = serializers.CharField(source="job.cost_object.currency", read_only=True)

    class Meta:
        model = Quote
        fields = [
            "worker_class",
            "basis",
            "tasks",
            "slots",
            "currency",
            "p10_micro",
            "p50_micro",
            "p90_micro",
            "p10_s",
            "p50_s",
            "p90_s",
            "at",
        ]


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    """One try of a task on one worker."""

    frame = serializers.IntegerField(source="task.frame", read_only=True, allow_null=True)

    class Meta:
        model = Attempt
        fields = [
            "id",
            "task",
            "frame",
            "worker",
            "worker_class",
            "generation",
            "status",
            "progress",
            "cause",
            "sentence",
            "setup_ms",
            "render_ms",
            "elapsed_ms",
            "peak_memory_mib",
            "device",
            "log_chunks",
            "claimed_at",
            "started_at",
            "ended_at",
        ]


class OutputSerializer(serializers.ModelSerializer[Output]):
    """A verified file. `url` is valid for an hour; below the farm's own address when it begins with a slash."""

    url = serializers.SerializerMethodField()

    class Meta:
        model = Output
        fields = [
            "id",
            "task",
            "attempt",
            "frame",
            "name",
            "role",
            "size",
            "digest",
            "format",
            "width",
            "height",
            "channels",
            "bit_depth",
            "statistics",
            "created_at",
            "url",
        ]

    def get_url(self, output: Output) -> str:
        return address(output, now=timezone.now())


class WhyView(ApiView):
    """Why a job waits."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(responses=WhySerializer, operation_id="jobs_why")
    def get(self, request: Request, job_id: UUID) -> Response:
        found = selectors.why(jobs.job(job_id))
        return Response({"code": found.code, "params": found.params, "sentence": found.sentence})


class QuotesView(ApiView):
    """What a job will cost."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(
        responses=QuoteSerializer(many=True),
        operation_id="jobs_quotes",
        parameters=[OpenApiParameter("slots", int, description="How many slots at once the time is for (default 1).")],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Quote what remains of a job from the frames it has rendered: one range for each class of worker that did."""
        query = query_of(request.query_params, {"slots"})
        slots = parse_number(query.get("slots", "1"), "slots", least=1, most=10_000)
        return Response(QuoteSerializer(quotes.quote(jobs.job(job_id), slots=slots), many=True).data)


class AttemptsView(ApiView):
    """The tries of a job's tasks."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(
        responses=page_schema(AttemptSerializer),
        operation_id="jobs_attempts",
        parameters=[
            OpenApiParameter("task", OpenApiTypes.UUID),
            OpenApiParameter("status", str, description="One or several, separated by commas."),
        ],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Newest first."""
        filters = {"task": by_id("task", "task"), "status": by_choice("status", "status", list(AttemptStatus))}
        rows = Attempt.objects.filter(job=jobs.job(job_id)).select_related("task")
        return page(request, rows, AttemptSerializer, filters=filters)


class OutputsView(ApiView):
    """A job's verified files."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(
        responses=page_schema(OutputSerializer),
        operation_id="jobs_outputs",
        parameters=[
            OpenApiParameter("role", str, description="One or several, separated by commas."),
            OpenApiParameter("task", OpenApiTypes.UUID),
            OpenApiParameter("frame", int),
        ],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """The current ones, oldest first."""
        filters = {
            "role": by_choice("role", "role", list(OutputRole)),
            "task": by_id("task", "task"),
            "frame": by_number("frame", "frame"),
        }
        rows = Output.objects.filter(job=jobs.job(job_id), is_current=True)
        return page(request, rows, OutputSerializer, filters=filters, newest_first=False)


class LogView(ApiView):
    """What an attempt's renderer said."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(
        responses={(200, "text/plain"): OpenApiTypes.STR},
        operation_id="attempts_log",
        parameters=[OpenApiParameter("since", int, description="First chunk to give (default 0).")],
    )
    def get(self, request: Request, attempt_id: UUID) -> HttpResponse:
        """The log as text, from chunk `since` on; the header `Farm-Log-Next` names the chunk to ask for next."""
        attempt = Attempt.objects.filter(pk=attempt_id).first()
        if attempt is None:
            raise NotFound(what="attempt", id=attempt_id)
        query = query_of(request.query_params, {"since"})
        first = parse_number(query.get("since", "0"), "since", least=0)
        last = min(attempt.log_chunks, first + MAX_CHUNKS)
        pieces = [store().read(keys.log_key(attempt.studio_id, attempt.id, n)) for n in range(first, last)]
        response = HttpResponse(b"".join(pieces), content_type="text/plain; charset=utf-8")
        response.headers["Farm-Log-Next"] = str(max(first, last))
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


urls = [
    path("jobs/<uuid:job_id>/why", WhyView.as_view()),
    path("jobs/<uuid:job_id>/quotes", QuotesView.as_view()),
    path("jobs/<uuid:job_id>/attempts", AttemptsView.as_view()),
    path("jobs/<uuid:job_id>/outputs", OutputsView.as_view()),
    path("attempts/<uuid:attempt_id>/log", LogView.as_view()),
]

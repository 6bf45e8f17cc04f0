"""`/api/v1`: what people see of running work: why, quotes, attempts, outputs, logs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import path
from django.utils import timezone
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.errors import Invalid, NotFound
from farm.core.pages import MAX_LIMIT, by_choice, by_id, by_number, ids_of, page, page_schema, parse_number, query_of
from farm.core.views import ApiView
from farm.dispatch import logs, quotes, selectors
from farm.dispatch.ends import label_of
from farm.dispatch.files import address
from farm.dispatch.forecasts import forecasts
from farm.dispatch.models import Attempt, Output, Quote
from farm.dispatch.moves import AttemptStatus
from farm.fleet.models import Worker
from farm.jobs import selectors as jobs
from farm.studios.roles import Scope
from workers.protocol import OutputRole

MAX_CHUNKS = 200  # of a log, in one answer
MAX_TAIL = 1_000_000
MOST_SLOTS = 10_000
LOG_TYPE = "text/plain; charset=utf-8"


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
    worker_name = serializers.CharField(read_only=True, help_text="Its fleet's, and the end of its id.")

    class Meta:
        model = Attempt
        fields = [
            "id",
            "step",
            "task",
            "frame",
            "worker",
            "worker_name",
            "slot",
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


class NewQuoteSerializer(serializers.Serializer[Any]):
    """What a quote is for."""

    slots = serializers.IntegerField(
        min_value=1, max_value=MOST_SLOTS, required=False, default=1, help_text="How many at once the time is for."
    )


class QuotesView(ApiView):
    """What a job will cost."""

    scopes = {"GET": Scope.JOBS_READ, "POST": Scope.JOBS_WRITE}

    @extend_schema(
        responses=QuoteSerializer(many=True),
        operation_id="jobs_quotes",
        parameters=[
            OpenApiParameter("slots", int, description="A quote for so many slots at once, as it would be now.")
        ],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """
        What was quoted last, one range for each class of worker; before that, or for a number of slots, what would be.

        Nothing is kept of it: a quote that is to be compared with what came out is asked for by POST.
        """
        query = query_of(request.query_params, {"slots"})
        job, now = jobs.job(job_id), timezone.now()
        if "slots" in query:
            slots = parse_number(query["slots"], "slots", least=1, most=MOST_SLOTS)
            found = quotes.draft(job, slots=slots, now=now)
        else:
            found = quotes.latest_quotes(job.id) or quotes.draft(job, now=now)
        return Response(QuoteSerializer(found, many=True).data)

    @extend_schema(request=NewQuoteSerializer, responses=QuoteSerializer(many=True), operation_id="jobs_quote")
    def post(self, request: Request, job_id: UUID) -> Response:
        """Quote what remains of a job from the frames it has rendered, and keep it."""
        wish = self.parse(request, NewQuoteSerializer)
        return Response(QuoteSerializer(quotes.quote(jobs.job(job_id), **wish), many=True).data)


class ForecastSerializer(serializers.Serializer[Any]):
    """How far a job is, and what it will cost."""

    job = serializers.UUIDField()
    slots = serializers.IntegerField(help_text="At work for it now.")
    eta_s = serializers.IntegerField(allow_null=True, help_text="Seconds left at that; null: nothing to tell it from.")
    quotes = QuoteSerializer(many=True)


class ForecastListSerializer(serializers.Serializer[Any]):
    """The forecasts of the jobs asked for, as far as they are there, in that order."""

    results = ForecastSerializer(many=True)


class ForecastsView(ApiView):
    """How far several jobs are."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(
        responses=ForecastListSerializer,
        operation_id="forecasts",
        parameters=[
            OpenApiParameter("jobs", str, required=True, description=f"Ids separated by commas, at most {MAX_LIMIT}.")
        ],
    )
    def get(self, request: Request) -> Response:
        """Slots at work, seconds left and the latest quotes of jobs, for a list of them."""
        wanted = ids_of(query_of(request.query_params, {"jobs"}).get("jobs", ""), "jobs")
        return Response({"results": ForecastSerializer(forecasts(wanted), many=True).data})


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
        return page(request, rows, AttemptSerializer, filters=filters, dress=name_workers)


def name_workers(attempts: list[Attempt]) -> None:
    """Note on each of these attempts what its worker is called."""
    rows = Worker.objects.filter(pk__in={a.worker_id for a in attempts}).values_list("pk", "fleet__name")
    names = {worker: f"{fleet} {worker.hex[-4:]}" for worker, fleet in rows}
    for attempt in attempts:
        attempt.worker_name = names[attempt.worker_id]  # type: ignore[attr-defined]


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
        parameters=[
            OpenApiParameter("since", int, description="First chunk to give (default 0)."),
            OpenApiParameter("tail", int, description=f"About so many bytes of the end, at most {MAX_TAIL:,}."),
            OpenApiParameter("download", bool, description="true: all of it, as a file."),
        ],
    )
    def get(self, request: Request, attempt_id: UUID) -> HttpResponseBase:
        """The log as text, from chunk `since` on; the header `Farm-Log-Next` names the chunk to ask for next."""
        attempt = Attempt.objects.select_related("task", "job").defer("job__template").filter(pk=attempt_id).first()
        if attempt is None:
            raise NotFound(what="attempt", id=attempt_id)
        query = query_of(request.query_params, {"since", "tail", "download"})
        if len(query) > 1:
            raise Invalid(sorted(query)[1], "give one of since, tail and download")
        if query.get("download", "false") not in {"true", "false"}:
            raise Invalid("download", "it is true or false")
        if query.get("download") == "true":
            return _as_file(attempt)
        if "tail" in query:
            size = parse_number(query["tail"], "tail", least=1, most=MAX_TAIL)
            return _as_text(logs.tail(attempt, size), following=attempt.log_chunks)
        first = parse_number(query.get("since", "0"), "since", least=0)
        last = min(attempt.log_chunks, first + MAX_CHUNKS)
        return _as_text(b"".join(logs.chunks(attempt, first, last)), following=max(first, last))


def _as_text(text: bytes, *, following: int) -> HttpResponse:
    response = HttpResponse(text, content_type=LOG_TYPE)
    response.headers["Farm-Log-Next"] = str(following)
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _as_file(attempt: Attempt) -> StreamingHttpResponse:
    name = f"{attempt.job.name} {label_of(attempt.task)} attempt {attempt.generation}.log"
    headers = {
        "Content-Disposition": content_disposition_header(True, name.replace("/", "-")) or "attachment",
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingHttpResponse(logs.chunks(attempt, 0, attempt.log_chunks), content_type=LOG_TYPE, headers=headers)


urls = [
    path("forecasts", ForecastsView.as_view()),
    path("jobs/<uuid:job_id>/why", WhyView.as_view()),
    path("jobs/<uuid:job_id>/quotes", QuotesView.as_view()),
    path("jobs/<uuid:job_id>/attempts", AttemptsView.as_view()),
    path("jobs/<uuid:job_id>/outputs", OutputsView.as_view()),
    path("attempts/<uuid:attempt_id>/log", LogView.as_view()),
]

"""`/api/v1/jobs`, `/tasks`, `/templates`: order, watch and steer work."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.urls import path
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.errors import Invalid, NotFound
from farm.core.names import NameField
from farm.core.pages import (
    Filter,
    Sort,
    by_choice,
    by_id,
    by_number,
    page,
    page_schema,
    parse_id,
)
from farm.core.views import ApiView, once
from farm.jobs import expansion, grid_api, orders, selectors, services, steering_api
from farm.jobs.models import Job, Step
from farm.jobs.moves import JobState, JobStatus, Purpose, TaskStatus
from farm.jobs.serializers import JobSerializer, StepSerializer, TaskSerializer
from farm.scenes.models import SceneVersion
from farm.studios.authentication import caller
from farm.studios.models import Project
from farm.studios.roles import Scope
from farm.studios.selectors import project_of
from farm.studios.services import audit
from workers.renderers import load_renderer, renderer_names

MAX_TEMPLATE_CHARS = 1_000_000
MAX_TAGS = 50
MAX_TAG_NAME = 100
MAX_RANGE = 10_000  # characters

_RANGE = "A range such as 1-10,15,20-40:2."


class OrderSerializer(serializers.Serializer[Any]):
    """What to render, and how. Either `renderer` (one of the farm's) or `template` (OpenJD text of your own)."""

    project = serializers.UUIDField()
    scene_version = serializers.UUIDField(required=False, allow_null=True, default=None)
    name = NameField(required=False, allow_blank=True, default="")
    renderer = serializers.CharField(required=False, allow_blank=True, default="", max_length=64)
    template = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=MAX_TEMPLATE_CHARS, trim_whitespace=False
    )
    parameters = serializers.DictField(
        child=serializers.CharField(allow_blank=True, max_length=4096), required=False, default=dict
    )
    priority = serializers.IntegerField(min_value=0, max_value=100, required=False, default=50)
    deadline = serializers.DateTimeField(required=False, allow_null=True, default=None)
    budget_micro = serializers.IntegerField(min_value=0, max_value=2**53, required=False, allow_null=True, default=None)
    after = serializers.ListField(child=serializers.UUIDField(), max_length=100, required=False, default=list)
    sequence = NameField(required=False, allow_blank=True, default="")
    shot = NameField(required=False, allow_blank=True, default="")
    tags = serializers.DictField(child=serializers.CharField(max_length=200), required=False, default=dict)
    scouts = serializers.CharField(
        required=False, default="none", max_length=1000, help_text="none, auto, or frames such as 1,12,24"
    )
    fleet = serializers.CharField(required=False, allow_blank=True, default="", max_length=64)
    renderer_version = serializers.RegexField(
        r"^([0-9]+(\.[0-9]+)*)?\Z", required=False, allow_blank=True, default="", max_length=16
    )
    accept_newer_renderer = serializers.BooleanField(required=False, default=False)
    allow_missing_files = serializers.BooleanField(required=False, default=False)
    suspended = serializers.BooleanField(required=False, default=False)
    timeout_s = serializers.IntegerField(
        min_value=10, max_value=7 * 86400, required=False, allow_null=True, default=None
    )
    no_progress_s = serializers.IntegerField(min_value=10, max_value=86400, required=False, default=1800)

    def validate_tags(self, tags: dict[str, str]) -> dict[str, str]:
        if len(tags) > MAX_TAGS or any(len(name) > MAX_TAG_NAME for name in tags):
            raise serializers.ValidationError(
                f"At most {MAX_TAGS} tags, with names of at most {MAX_TAG_NAME} characters."
            )
        return tags


class OfferSerializer(serializers.Serializer[Any]):
    """A class of worker that a fleet has: a GPU's name, or "cpu"."""

    fleet = serializers.CharField()
    worker_class = serializers.CharField()


class CheckedStepSerializer(serializers.Serializer[Any]):
    """A step that the order would have, and the fleets that could run it."""

    name = serializers.CharField()
    tasks = serializers.IntegerField()
    fleets = serializers.ListField(child=serializers.CharField())
    offers = OfferSerializer(many=True)


class CheckSerializer(serializers.Serializer[Any]):
    """What an order would come to; nothing was created."""

    name = serializers.CharField()
    tasks = serializers.IntegerField()
    steps = CheckedStepSerializer(many=True)
    parameters = serializers.DictField(child=serializers.CharField())
    warnings = serializers.ListField(child=serializers.CharField())


class PrioritySerializer(serializers.Serializer[Any]):
    """0 to 100, higher first."""

    priority = serializers.IntegerField(min_value=0, max_value=100)


class ChoiceSerializer(serializers.Serializer[Any]):
    """Some tasks of a job, told in one of three ways: by ids, by frames, or by their places in one of its steps."""

    tasks = serializers.ListField(child=serializers.UUIDField(), max_length=10_000, required=False, default=list)
    frames = serializers.CharField(required=False, default="", allow_blank=True, max_length=MAX_RANGE, help_text=_RANGE)
    step = serializers.UUIDField(required=False, allow_null=True, default=None)
    indexes = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=MAX_RANGE, help_text=f"Of `step`. {_RANGE}"
    )

    def validate(self, wish: dict[str, Any]) -> dict[str, Any]:
        if sum(bool(wish[way]) for way in ("tasks", "frames", "indexes")) > 1:
            raise serializers.ValidationError("Name tasks, frames or indexes; not several of them.")
        return wish


class SelectionSerializer(ChoiceSerializer):
    """Which tasks: failed, missing (all that have not succeeded), or those in the list (succeeded ones too)."""

    which = serializers.ChoiceField(choices=["failed", "missing", "list"], default="failed")


class TaskListSerializer(ChoiceSerializer):
    """Chosen tasks of a job."""

    def validate(self, wish: dict[str, Any]) -> dict[str, Any]:
        if not (wish["tasks"] or wish["frames"] or wish["indexes"]):
            raise serializers.ValidationError({"tasks": [serializers.ErrorDetail("Name at least one.", "min-length")]})
        return super().validate(wish)


class MovedSerializer(serializers.Serializer[Any]):
    """How many tasks changed."""

    tasks = serializers.IntegerField()


class TemplateSerializer(serializers.Serializer[Any]):
    """A renderer of the farm: its OpenJD template, and the parameters to make a form of."""

    name = serializers.CharField()
    template = serializers.CharField()
    parameters = serializers.ListField(child=serializers.DictField())


def read_order(request: Request, view: ApiView) -> tuple[Project, SceneVersion | None, orders.JobOrder]:
    """
    Read an order as it was sent, with the project and the scene version it names.

    :raises NotFound: one of them is not there
    """
    wish = view.parse(request, OrderSerializer)
    project = project_of(wish.pop("project"))
    version_id = wish.pop("scene_version")
    version = SceneVersion.objects.filter(pk=version_id).first() if version_id else None
    if version_id and version is None:
        raise NotFound(what="scene version", id=version_id, field="scene_version")
    return project, version, orders.JobOrder(**wish)


class CheckView(ApiView):
    """Try an order."""

    scopes = {"POST": Scope.JOBS_WRITE}

    @extend_schema(request=OrderSerializer, responses=CheckSerializer, operation_id="jobs_check")
    def post(self, request: Request) -> Response:
        """Say whether an order is valid, how many tasks it has and which fleets could run it. Creates nothing."""
        _, version, order = read_order(request, self)
        planned = orders.plan(order, version=version)
        steps = [_checked(*both) for both in zip(planned.expansion.steps, planned.steps, strict=True)]
        return Response(
            {
                "name": order.name or planned.expansion.name,
                "tasks": planned.expansion.task_count,
                "steps": steps,
                "parameters": {name: value["value"] for name, value in planned.expansion.parameters.items()},
                "warnings": planned.warnings,
            }
        )


def _checked(step: expansion.ExpandedStep, planned: orders.PlannedStep) -> dict[str, Any]:
    return {
        "name": step.name,
        "tasks": len(step.points),
        "fleets": planned.fleets,
        "offers": OfferSerializer(planned.offers, many=True).data,
    }


def _by_name(rows: QuerySet[Job], value: str) -> QuerySet[Job]:
    return rows.filter(name__icontains=value)


def _by_text(column: str) -> Filter:
    return lambda rows, value: rows.filter(**{column: value})


def _by_state(rows: QuerySet[Job], value: str) -> QuerySet[Job]:
    wanted = value.split(",")
    for word in wanted:
        if word not in set(JobState):
            raise Invalid("state", f"{word[:80]!r} is not one of {', '.join(JobState)}")
    return selectors.in_state(rows, [JobState(word) for word in wanted])


def _by_artist(request: Request) -> Filter:
    def apply(rows: QuerySet[Job], value: str) -> QuerySet[Job]:
        return rows.filter(created_by=caller(request).user.id if value == "me" else parse_id(value, "artist"))

    return apply


def _by_purpose(request: Request) -> QuerySet[Job]:
    """Without a word about it: no inspections."""
    rows = selectors.jobs()
    return rows if "purpose" in request.query_params else rows.filter(purpose=Purpose.RENDER)


_SORTS = {
    "-created": None,
    "created": None,
    "-priority": Sort("priority", True, int),
    "deadline": Sort("due", False, datetime),
}


class JobsView(ApiView):
    """The studio's jobs."""

    scopes = {"GET": Scope.JOBS_READ, "POST": Scope.JOBS_WRITE}

    @extend_schema(
        responses=page_schema(JobSerializer),
        operation_id="jobs_list",
        parameters=[
            OpenApiParameter("project", OpenApiTypes.UUID),
            OpenApiParameter("status", str, description="One or several, separated by commas."),
            OpenApiParameter("state", str, description="One or several, separated by commas: " + ", ".join(JobState)),
            OpenApiParameter("name", str, description="A part of the name, in any case."),
            OpenApiParameter("artist", str, description="Who ordered it: a user's id, or me."),
            OpenApiParameter("sequence", str),
            OpenApiParameter("shot", str),
            OpenApiParameter("renderer", str),
            OpenApiParameter("scene_version", OpenApiTypes.UUID),
            OpenApiParameter("purpose", str, description="render unless said; inspection; several by commas."),
            OpenApiParameter("sort", str, enum=list(_SORTS), description="-created unless said."),
        ],
    )
    def get(self, request: Request) -> Response:
        """Newest first, unless sorted otherwise; inspections are there when asked for by `purpose`."""
        filters = {
            "project": by_id("project", "project"),
            "status": by_choice("status", "status", list(JobStatus)),
            "state": _by_state,
            "name": _by_name,
            "artist": _by_artist(request),
            "sequence": _by_text("cost_object__sequence"),
            "shot": _by_text("cost_object__shot"),
            "renderer": _by_text("renderer"),
            "scene_version": by_id("scene_version", "scene_version"),
            "purpose": by_choice("purpose", "purpose", list(Purpose)),
        }
        return page(request, _by_purpose(request), JobSerializer, filters=filters, sorts=_SORTS, dress=selectors.count)

    @extend_schema(request=OrderSerializer, responses={201: JobSerializer}, operation_id="jobs_submit")
    @once
    def post(self, request: Request) -> Response:
        """Order a job."""
        project, version, order = read_order(request, self)
        job = services.submit_job(
            project=project, artist=caller(request).user, order=order, version=version, now=timezone.now()
        )
        audit(caller(request), "job.submitted", subject=job.id, name=job.name)
        return Response(JobSerializer(selectors.job(job.id)).data, status=201)


class JobView(ApiView):
    """One job."""

    scopes = {"GET": Scope.JOBS_READ, "PATCH": Scope.JOBS_WRITE}

    @extend_schema(responses=JobSerializer, operation_id="jobs_get")
    def get(self, request: Request, job_id: UUID) -> Response:
        return Response(JobSerializer(selectors.job(job_id)).data)

    @extend_schema(request=PrioritySerializer, responses=JobSerializer, operation_id="jobs_change")
    @once
    def patch(self, request: Request, job_id: UUID) -> Response:
        """Change the job's priority: 0 to 100, higher first."""
        wish = self.parse(request, PrioritySerializer)
        job = selectors.job(job_id)
        services.change_priority(job, wish["priority"])
        audit(caller(request), "job.priority", subject=job.id, **wish)
        return Response(JobSerializer(selectors.job(job_id)).data)


def _chosen(job: Job, wish: dict[str, Any]) -> list[UUID]:
    """Give the ids of chosen tasks. Those that are another job's are found out where they are moved."""
    if wish["frames"] or wish["indexes"]:
        return selectors.chosen_tasks(job.id, **{way: wish[way] for way in ("frames", "step", "indexes")})
    return list(wish["tasks"])


class JobRetryView(ApiView):
    """Tasks once more."""

    scopes = {"POST": Scope.JOBS_WRITE}

    @extend_schema(request=SelectionSerializer, responses=MovedSerializer, operation_id="jobs_retry")
    @once
    def post(self, request: Request, job_id: UUID) -> Response:
        """Render again: the failed tasks, all missing ones, or a list. The old output stays until a new one is verified."""  # noqa: E501
        wish = self.parse(request, SelectionSerializer)
        job = selectors.job(job_id)
        tasks = _chosen(job, wish) if wish["which"] == "list" else ()
        count = services.retry_tasks(job, services.Selection(wish["which"], tasks), now=timezone.now())
        audit(caller(request), "job.retried", subject=job.id, which=wish["which"], tasks=count)
        return Response({"tasks": count})


class TasksCancelView(ApiView):
    """Chosen tasks."""

    scopes = {"POST": Scope.JOBS_WRITE}

    @extend_schema(request=TaskListSerializer, responses=MovedSerializer, operation_id="jobs_cancel_tasks")
    @once
    def post(self, request: Request, job_id: UUID) -> Response:
        """Cancel these tasks of the job, as far as they have not ended."""
        wish = self.parse(request, TaskListSerializer)
        job = selectors.job(job_id)
        count = services.cancel_tasks(job, _chosen(job, wish), now=timezone.now())
        audit(caller(request), "job.tasks-cancelled", subject=job.id, tasks=count)
        return Response({"tasks": count})


class StepsView(ApiView):
    """The job's steps."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(responses=page_schema(StepSerializer), operation_id="jobs_steps")
    def get(self, request: Request, job_id: UUID) -> Response:
        return page(request, Step.objects.filter(job=selectors.job(job_id)), StepSerializer, newest_first=False)


class TasksView(ApiView):
    """The job's tasks."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(
        responses=page_schema(TaskSerializer),
        operation_id="jobs_tasks",
        parameters=[
            OpenApiParameter("status", str, description="One or several, separated by commas."),
            OpenApiParameter("step", OpenApiTypes.UUID),
            OpenApiParameter("frame", int),
            OpenApiParameter("index", int, description="Its place in its step."),
        ],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """In the order of the steps' parameter spaces."""
        filters = {
            "status": by_choice("status", "status", list(TaskStatus)),
            "step": by_id("step", "step"),
            "frame": by_number("frame", "frame"),
            "index": by_number("index", "index"),
        }
        rows = selectors.tasks_of(selectors.job(job_id).id)
        return page(request, rows, TaskSerializer, filters=filters, newest_first=False)


class TemplatesView(ApiView):
    """The farm's renderers."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(responses=TemplateSerializer(many=True), operation_id="templates_list")
    def get(self, request: Request) -> Response:
        found = []
        for name in renderer_names():
            text = load_renderer(name).template
            found.append({"name": name, "template": text, "parameters": expansion.parameter_definitions(text)})
        return Response(found)


urls = [
    path("templates", TemplatesView.as_view()),
    path("jobs", JobsView.as_view()),
    path("jobs/check", CheckView.as_view()),
    path("jobs/<uuid:job_id>", JobView.as_view()),
    path("jobs/<uuid:job_id>/retry", JobRetryView.as_view()),
    path("jobs/<uuid:job_id>/cancel-tasks", TasksCancelView.as_view()),
    path("jobs/<uuid:job_id>/steps", StepsView.as_view()),
    path("jobs/<uuid:job_id>/tasks", TasksView.as_view()),
    *grid_api.urls,
    *steering_api.urls,
]

"""`/api/v1/jobs/{id}/grid` and `/changes`: what a page that shows every task of a job needs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.urls import path
from django.views.decorators.gzip import gzip_page
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.pages import parse_number, query_of
from farm.core.views import ApiView
from farm.jobs import grid, selectors
from farm.jobs.serializers import CountsSerializer, JobSerializer
from farm.studios.roles import Scope


class GridStepSerializer(serializers.Serializer[Any]):
    """A step, its tasks a letter each: pending, ready, leased, succeeded, failed, cancelled, by the first one."""

    id = serializers.UUIDField()
    index = serializers.IntegerField()
    name = serializers.CharField()
    status = serializers.CharField()
    count = serializers.IntegerField()
    frames = serializers.ListField(
        child=serializers.ListField(child=serializers.IntegerField(), min_length=3, max_length=3),
        allow_null=True,
        help_text="Runs (first, last, by), laid end to end in the order of the tasks; null: they have no frames.",
    )
    statuses = serializers.CharField()


class GridSerializer(serializers.Serializer[Any]):
    """All tasks of a job."""

    job = serializers.UUIDField()
    revision = serializers.IntegerField(help_text="Ask for changes since this.")
    steps = GridStepSerializer(many=True)


class StepCountsSerializer(CountsSerializer):
    """A step's status, and its tasks by theirs."""

    id = serializers.UUIDField()
    status = serializers.CharField()


class ChangedStepSerializer(serializers.Serializer[Any]):
    """Tasks of a step: their indexes, and in the same order their statuses, a letter each."""

    step = serializers.UUIDField()
    indexes = serializers.ListField(child=serializers.IntegerField())
    statuses = serializers.CharField()


class ChangesSerializer(serializers.Serializer[Any]):
    """What has changed of a job. A task may come twice; what comes later is right."""

    revision = serializers.IntegerField(help_text="Ask with this next time.")
    is_reload = serializers.BooleanField(help_text="Too much has changed to be listed: take the grid anew.")
    job = JobSerializer()
    steps = StepCountsSerializer(many=True)
    changes = ChangedStepSerializer(many=True)


class GridView(ApiView):
    """All tasks of a job."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(responses=GridSerializer, operation_id="jobs_grid")
    def get(self, request: Request, job_id: UUID) -> Response:
        """Every task's status as a letter, a text for each step: 100,000 tasks in one answer."""
        query_of(request.query_params, ())
        job = selectors.job(job_id)
        found = grid.grid_of(job.id)
        steps = [
            {
                "id": step.id,
                "index": step.index,
                "name": step.name,
                "status": step.status,
                "count": len(found.letters[step.id]),
                "frames": grid.frames_of(step.id),
                "statuses": found.letters[step.id],
            }
            for step in grid.steps_of(job.id)
        ]
        return Response({"job": job.id, "revision": found.revision, "steps": steps})


class ChangesView(ApiView):
    """What has changed of a job."""

    scopes = {"GET": Scope.JOBS_READ}

    @extend_schema(
        responses=ChangesSerializer,
        operation_id="jobs_changes",
        parameters=[OpenApiParameter("since", int, required=True, description="The revision of the answer before.")],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """The tasks that changed since a revision, and the job and its steps as they are now."""
        query = query_of(request.query_params, {"since"})
        since = parse_number(query.get("since", ""), "since", least=0, most=2**53)
        selectors.job(job_id)
        found = grid.changes_of(job_id, since=since)
        steps = [{"id": s.id, "status": s.status, **s.counts} for s in grid.steps_of(job_id)]
        return Response(
            {
                "revision": found.revision,
                "is_reload": found.is_reload,
                "job": JobSerializer(selectors.job(job_id)).data,
                "steps": steps,
                "changes": found.steps,
            }
        )


urls = [
    path("jobs/<uuid:job_id>/grid", gzip_page(GridView.as_view())),
    path("jobs/<uuid:job_id>/changes", gzip_page(ChangesView.as_view())),
]

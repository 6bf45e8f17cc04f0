"""`/api/v1/jobs/{id}/suspend`, `/resume`, `/cancel`, and the same to several jobs at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.urls import path
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from farm.core.errors import Refusal
from farm.core.moves import choices
from farm.core.views import ApiView, once
from farm.jobs import selectors, services
from farm.jobs.models import Job
from farm.jobs.moves import JobStatus
from farm.jobs.serializers import JobSerializer
from farm.studios.authentication import caller
from farm.studios.roles import Scope
from farm.studios.services import audit

MAX_BULK = 200


class BulkSerializer(serializers.Serializer[Any]):
    """One thing to do to several jobs."""

    jobs = serializers.ListField(child=serializers.UUIDField(), min_length=1, max_length=MAX_BULK)
    act = serializers.ChoiceField(choices=["suspend", "resume", "cancel", "priority"])
    priority = serializers.IntegerField(min_value=0, max_value=100, required=False, help_text="For `priority`.")

    def validate(self, wish: dict[str, Any]) -> dict[str, Any]:
        if (wish["act"] == "priority") is not ("priority" in wish):
            raise serializers.ValidationError({"priority": ["It belongs to the act `priority`, and is needed there."]})
        return wish


class BulkProblemSerializer(serializers.Serializer[Any]):
    """Why nothing was done to a job."""

    code = serializers.CharField()
    detail = serializers.CharField()
    params = serializers.DictField()


class BulkResultSerializer(serializers.Serializer[Any]):
    """What became of one of the jobs."""

    job = serializers.UUIDField()
    is_done = serializers.BooleanField()
    job_status = serializers.ChoiceField(choices=choices(JobStatus), allow_null=True, help_text="As it is now.")
    problem = BulkProblemSerializer(allow_null=True)


class BulkAnswerSerializer(serializers.Serializer[Any]):
    """What became of each job, in the order they were named."""

    results = BulkResultSerializer(many=True)


_ACTS: dict[str, tuple[str, Callable[[Job], object]]] = {
    "suspend": ("job.suspended", services.suspend_job),
    "resume": ("job.resumed", lambda job: services.resume_job(job, now=timezone.now())),
    "cancel": ("job.cancelled", lambda job: services.cancel_job(job, now=timezone.now())),
}


class JobSuspendView(ApiView):
    """A pause."""

    scopes = {"POST": Scope.JOBS_WRITE}

    @extend_schema(request=None, responses=JobSerializer, operation_id="jobs_suspend")
    @once
    def post(self, request: Request, job_id: UUID) -> Response:
        """Start nothing new; what runs finishes."""
        return _act(request, job_id, "suspend")


class JobResumeView(ApiView):
    """The end of a pause."""

    scopes = {"POST": Scope.JOBS_WRITE}

    @extend_schema(request=None, responses=JobSerializer, operation_id="jobs_resume")
    @once
    def post(self, request: Request, job_id: UUID) -> Response:
        """Go on. After scouts this is the approval; after failures it forgives those there are."""
        return _act(request, job_id, "resume")


class JobCancelView(ApiView):
    """The end of a job."""

    scopes = {"POST": Scope.JOBS_WRITE}

    @extend_schema(request=None, responses=JobSerializer, operation_id="jobs_cancel")
    @once
    def post(self, request: Request, job_id: UUID) -> Response:
        """Cancel what has not ended; what runs is stopped within seconds, and charged until it stopped."""
        return _act(request, job_id, "cancel")


def _act(request: Request, job_id: UUID, verb: str) -> Response:
    words, act = _ACTS[verb]
    job = selectors.job(job_id)
    act(job)
    audit(caller(request), words, subject=job.id)
    return Response(JobSerializer(selectors.job(job_id)).data)


class JobsBulkView(ApiView):
    """Several jobs at once."""

    scopes = {"POST": Scope.JOBS_WRITE}

    @extend_schema(request=BulkSerializer, responses=BulkAnswerSerializer, operation_id="jobs_bulk")
    @once
    def post(self, request: Request) -> Response:
        """Suspend, resume or cancel jobs, or change their priority, and say of each what became of it."""
        wish = self.parse(request, BulkSerializer)
        ids, act = list(dict.fromkeys(wish["jobs"])), _bulk_act(request, wish)
        refusals = services.act_on_jobs(ids, act, stops=wish["act"] == "cancel")
        now = dict(Job.objects.filter(pk__in=ids).values_list("pk", "status"))
        return Response({"results": [_result(j, now.get(j), r) for j, r in zip(ids, refusals, strict=True)]})


def _bulk_act(request: Request, wish: dict[str, Any]) -> Callable[[Job], None]:
    def act(job: Job) -> None:
        if wish["act"] == "priority":
            services.change_priority(job, wish["priority"])
            audit(caller(request), "job.priority", subject=job.id, priority=wish["priority"])
        else:
            words, carry_out = _ACTS[wish["act"]]
            carry_out(job)
            audit(caller(request), words, subject=job.id)

    return act


def _result(job: UUID, status: str | None, refusal: Refusal | None) -> dict[str, Any]:
    problem = refusal and {"code": refusal.code, "detail": refusal.sentence, "params": refusal.params}
    return {"job": job, "is_done": refusal is None, "job_status": status, "problem": problem}


urls = [
    path("jobs/bulk", JobsBulkView.as_view()),
    path("jobs/<uuid:job_id>/suspend", JobSuspendView.as_view()),
    path("jobs/<uuid:job_id>/resume", JobResumeView.as_view()),
    path("jobs/<uuid:job_id>/cancel", JobCancelView.as_view()),
]

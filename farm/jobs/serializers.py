"""How jobs, steps and tasks are shown to people."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from farm.core.moves import choices
from farm.jobs.models import Job, Step, Task
from farm.jobs.moves import JobState, JobStatus, TaskStatus, job_state


class CountsSerializer(serializers.Serializer[Any]):
    """Tasks by status."""

    pending = serializers.IntegerField()
    ready = serializers.IntegerField()
    leased = serializers.IntegerField()
    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField()
    cancelled = serializers.IntegerField()


class JobSerializer(serializers.ModelSerializer[Job]):
    """A job and how far it is."""

    project_name = serializers.CharField(source="project.name", read_only=True)
    state = serializers.SerializerMethodField(help_text="Its status; an active job is waiting, or rendering.")
    artist = serializers.UUIDField(source="cost_object.artist_id", read_only=True)
    artist_name = serializers.CharField(source="cost_object.artist_name", read_only=True)
    sequence = serializers.CharField(source="cost_object.sequence", read_only=True)
    shot = serializers.CharField(source="cost_object.shot", read_only=True)
    tags = serializers.DictField(child=serializers.CharField(), source="cost_object.tags", read_only=True)
    tasks = serializers.SerializerMethodField()
    parameters = serializers.SerializerMethodField()

    class Meta:
        model = Job
        fields = [
            "id",
            "name",
            "project",
            "project_name",
            "scene_version",
            "cost_object",
            "artist",
            "artist_name",
            "sequence",
            "shot",
            "tags",
            "renderer",
            "parameters",
            "purpose",
            "status",
            "state",
            "suspended_by",
            "approval",
            "priority",
            "deadline",
            "tasks",
            "created_at",
            "ended_at",
        ]

    @extend_schema_field(CountsSerializer)
    def get_tasks(self, job: Job) -> dict[str, int]:
        return {str(s): getattr(job, f"{s}_tasks") for s in TaskStatus}

    @extend_schema_field(serializers.ChoiceField(choices=choices(JobState)))
    def get_state(self, job: Job) -> str:
        return str(job_state(JobStatus(job.status), leased=job.leased_tasks))  # type: ignore[attr-defined]  # `count`

    def get_parameters(self, job: Job) -> dict[str, str]:
        return {name: value["value"] for name, value in job.parameters.items()}


class StepSerializer(serializers.ModelSerializer[Step]):
    """A step of a job."""

    class Meta:
        model = Step
        fields = [
            "id",
            "index",
            "name",
            "status",
            "depends_on",
            "requirements",
            "pending",
            "ready",
            "leased",
            "succeeded",
            "failed",
            "cancelled",
        ]


class TaskSerializer(serializers.ModelSerializer[Task]):
    """A task: one frame, or one point of the step's parameter space."""

    class Meta:
        model = Task
        fields = [
            "id",
            "step",
            "index",
            "frame",
            "parameters",
            "status",
            "generation",
            "failures",
            "interruptions",
            "is_scout",
            "changed_at",
        ]

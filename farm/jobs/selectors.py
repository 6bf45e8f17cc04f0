"""What there is to know of jobs, without changing anything."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet, Sum

from farm.core.errors import NotFound
from farm.jobs.models import Job, Step, Task
from farm.jobs.moves import Purpose, TaskStatus


def _counted() -> QuerySet[Job]:
    """Give jobs with their counts of tasks by status; without their templates, which are long."""
    return Job.objects.defer("template").annotate(**{f"{s}_tasks": Sum(f"steps__{s}") for s in TaskStatus})


def jobs() -> QuerySet[Job]:
    """Give the jobs people ordered."""
    return _counted().filter(purpose=Purpose.RENDER).select_related("project")


def job(job_id: UUID) -> Job:
    """
    Give a job, inspections included.

    :raises NotFound: it is not there, or another studio's
    """
    found = _counted().select_related("project", "studio", "cost_object").filter(pk=job_id).first()
    if found is None:
        raise NotFound(what="job", id=job_id)
    return found


def tasks_of(job_id: UUID) -> QuerySet[Task]:
    """
    Give a job's tasks, to be paged by their ids.

    They were inserted together, in the order of their steps and indexes: said between which ids they lie, no page
    looks through the tasks of other jobs.
    """
    steps = list(Step.objects.filter(job=job_id).defer("document", "outputs").order_by("index"))
    first = Task.objects.values_list("pk", flat=True).get(step=steps[0], index=0)
    last = Task.objects.values_list("pk", flat=True).get(step=steps[-1], index=sum(steps[-1].counts.values()) - 1)
    return Task.objects.filter(job=job_id, pk__range=(first, last))


def task(task_id: UUID) -> Task:
    """
    Give a task.

    :raises NotFound: it is not there, or another studio's
    """
    found = Task.objects.select_related("job", "step").filter(pk=task_id).first()
    if found is None:
        raise NotFound(what="task", id=task_id)
    return found

"""What there is to know of jobs, without changing anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, Sum

from farm.core.errors import Invalid, NotFound
from farm.jobs.expansion import MAX_TASKS
from farm.jobs.models import Job, Step, Task, due
from farm.jobs.moves import JobState, JobStatus, TaskStatus
from farm.jobs.ranges import numbers_of


def jobs() -> QuerySet[Job]:
    """Give the studio's jobs, to be paged and then counted; without their templates, which are long."""
    rows = Job.objects.defer("template").select_related("project", "cost_object")
    return rows.annotate(due=due())


def count(rows: Iterable[Job]) -> None:
    """Note on each of these jobs how many of its tasks are in each status: one query for all of them."""
    found = {job.pk: job for job in rows}
    names = [f"{s}_tasks" for s in TaskStatus]
    for job in found.values():
        vars(job).update(dict.fromkeys(names, 0))
    sums: Any = Step.objects.filter(job__in=list(found)).order_by().values("job")
    for row in sums.annotate(**{f"{s}_tasks": Sum(str(s)) for s in TaskStatus}):
        vars(found[row["job"]]).update({name: row[name] for name in names})


def in_state(rows: QuerySet[Job], states: Sequence[JobState]) -> QuerySet[Job]:
    """Narrow jobs to those that are in one of these states, as people see them."""
    at_work = Exists(Step.objects.filter(job=OuterRef("pk"), leased__gt=0))
    wanted = Q(pk=None)
    for state in states:
        if state is JobState.RENDERING:
            wanted |= Q(at_work, status=JobStatus.ACTIVE)
        elif state is JobState.WAITING:
            wanted |= Q(~at_work, status=JobStatus.ACTIVE)
        else:
            wanted |= Q(status=str(state))
    return rows.filter(wanted)


def job(job_id: UUID) -> Job:
    """
    Give a job, inspections included.

    :raises NotFound: it is not there, or another studio's
    """
    found = jobs().select_related("studio").filter(pk=job_id).first()
    if found is None:
        raise NotFound(what="job", id=job_id)
    count([found])
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


def chosen_tasks(job_id: UUID, *, frames: str = "", step: UUID | None = None, indexes: str = "") -> list[UUID]:
    """
    Give the tasks of a job that a range of frames names, or of a step that a range of indexes does.

    :raises Invalid: it is no range, or of indexes without their step
    :raises RangeTooLong: it has more numbers than a job has tasks
    """
    rows = Task.objects.filter(job=job_id)
    if frames:
        rows = rows.filter(frame__in=numbers_of(frames, most=MAX_TASKS, field="frames"))
    if indexes:
        if step is None:
            raise Invalid("step", "indexes are of one step; name it")
        rows = rows.filter(step=step, index__in=numbers_of(indexes, most=MAX_TASKS, field="indexes"))
    return list(rows.values_list("pk", flat=True))


def task(task_id: UUID) -> Task:
    """
    Give a task.

    :raises NotFound: it is not there, or another studio's
    """
    found = Task.objects.select_related("job", "step").filter(pk=task_id).first()
    if found is None:
        raise NotFound(what="task", id=task_id)
    return found

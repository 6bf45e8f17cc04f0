"""Tasks as columns: every task once, and nothing of other jobs looked at."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.db import connection, connections, transaction
from hypothesis import given
from hypothesis import strategies as st

from farm.jobs import grid
from farm.jobs.models import Job, Step, Task
from farm.jobs.moves import TaskStatus
from farm.jobs.services import cancel_tasks
from farm.studios.tenancy import become_tenant
from tests.api import leave_tenant
from tests.farm import TWO_STEPS, Customer, dispatch, start_worker, submit
from tests.jobs.plans import analyze, rows_looked_at


def commit() -> None:
    """Something else is committed: transactions are numbered on."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()")


class TestLetters:
    def test_no_two_statuses_begin_alike(self) -> None:
        assert sorted(s[0] for s in TaskStatus) == ["c", "f", "l", "p", "r", "s"]


@pytest.mark.django_db
@pytest.mark.usefixtures("farm")
class TestGridOf:
    def test_it_has_a_letter_for_each_task_in_the_order_of_indexes(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1-5", now=now)
        Task.objects.filter(job=job, index=1).update(status="succeeded")
        Task.objects.filter(job=job, index=3).update(status="failed")

        found = grid.grid_of(job.id)

        assert list(found.letters.values()) == ["rsrfr"]

    def test_each_step_has_its_own(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, template=TWO_STEPS, now=now)

        letters = grid.grid_of(job.id).letters

        assert [letters[step.id] for step in grid.steps_of(job.id)] == ["rr", "p"]

    def test_it_looks_at_no_other_job_s_tasks(self, customer: Customer, now: datetime) -> None:
        submit(customer, frames="1-5000", now=now)
        job = submit(customer, frames="1-40", now=now)
        analyze("jobs_task", "jobs_step", "jobs_job")
        become_tenant(customer.studio.id)

        assert rows_looked_at("jobs_task", lambda: grid.grid_of(job.id)) == 40
        leave_tenant()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("committed")
class TestChangesOf:
    def test_only_what_changed_since_comes(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1-5", now=now)
        since = grid.grid_of(job.id).revision
        tasks = list(Task.objects.filter(job=job).order_by("index"))
        cancel_tasks(job, [tasks[1].id, tasks[4].id], now=now)

        found = grid.changes_of(job.id, since=since)

        (step,) = found.steps
        assert dict(zip(step["indexes"], step["statuses"], strict=True)) == {1: "c", 4: "c"}
        assert grid.changes_of(job.id, since=found.revision).steps == []

    def test_what_a_worker_takes_is_a_change(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="1-3", now=now)
        start_worker(now=now)
        since = grid.grid_of(job.id).revision
        dispatch(now=now)

        (step,) = grid.changes_of(job.id, since=since).steps

        assert (step["indexes"], step["statuses"]) == ([0], "l")

    def test_a_change_that_is_committed_late_is_not_missed(self, customer: Customer, now: datetime) -> None:
        """It began before the reader looked, and nobody else could see it then."""
        job = submit(customer, frames="1-3", now=now)
        other = connections.create_connection("default")
        other.settings_dict = connection.settings_dict | {"ATOMIC_REQUESTS": False}
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute(
                "UPDATE jobs_task SET status = 'failed', revision = pg_current_xact_id()::text::bigint "
                "WHERE job_id = %s AND index = 2",
                [job.id],
            )
            commit()
            before = grid.changes_of(job.id, since=grid.grid_of(job.id).revision)
            other.commit()
        other.close()

        after = grid.changes_of(job.id, since=before.revision)

        assert "f" not in "".join(step["statuses"] for step in before.steps)
        assert [(step["indexes"], step["statuses"]) for step in after.steps] == [([2], "f")]

    def test_too_many_are_not_listed(self, customer: Customer, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(grid, "MOST_CHANGES", 4)
        few, many = submit(customer, frames="1-4", now=now), submit(customer, frames="1-5", now=now)

        assert not grid.changes_of(few.id, since=0).is_reload
        found = grid.changes_of(many.id, since=0)
        assert (found.is_reload, found.steps) == (True, [])

    def test_a_revision_of_another_farm_is_answered_by_a_reload(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, now=now)

        found = grid.changes_of(job.id, since=2**50)

        assert found.is_reload
        assert found.revision < 2**50

    def test_it_looks_at_nothing_else(self, customer: Customer, now: datetime) -> None:
        submit(customer, frames="1-5000", now=now)
        job = submit(customer, frames="1-2000", now=now)
        since = grid.grid_of(job.id).revision
        cancel_tasks(job, list(Task.objects.filter(job=job).values_list("pk", flat=True)[:30]), now=now)
        analyze("jobs_task")

        with transaction.atomic():
            become_tenant(customer.studio.id)
            looked_at = rows_looked_at("jobs_task", lambda: grid.changes_of(job.id, since=since))

        assert looked_at == 30


@pytest.mark.django_db
@pytest.mark.usefixtures("farm")
class TestFramesOf:
    def test_they_come_in_the_order_of_the_tasks(self, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="10,1-3", now=now)

        assert grid.frames_of(Step.objects.get(job=job).id) == ((1, 3, 1), (10, 10, 1))

    def test_tasks_without_frames_have_none(self, customer: Customer, now: datetime) -> None:
        job: Job = submit(customer, template=TWO_STEPS, now=now)

        assert grid.frames_of(Step.objects.get(job=job, index=1).id) is None


class TestRuns:
    @pytest.mark.parametrize(
        ("numbers", "written"),
        [
            ([], []),
            ([7], [(7, 7, 1)]),
            ([1, 2, 3], [(1, 3, 1)]),
            ([1, 11, 21, 22], [(1, 21, 10), (22, 22, 1)]),
            ([3, 2, 1], [(3, 1, -1)]),
            ([1, 2, 1, 2], [(1, 2, 1), (1, 2, 1)]),
            ([5, 5, 5], [(5, 5, 1)] * 3),
        ],
    )
    def test_they_are_written_shortly(self, numbers: list[int], written: list[tuple[int, int, int]]) -> None:
        assert grid.runs(numbers) == written

    @given(st.lists(st.integers(-20, 20)))
    def test_laid_end_to_end_they_are_the_numbers(self, numbers: list[int]) -> None:
        found = [n for first, last, by in grid.runs(numbers) for n in range(first, last + (1 if by > 0 else -1), by)]

        assert found == numbers

"""A status changes in one way only."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import pytest

from farm.core.moves import Moves, choices, move_to, sources
from farm.dispatch.moves import ATTEMPT_MOVES, AttemptStatus
from farm.fleet.moves import WORKER_MOVES, WorkerStatus
from farm.jobs.moves import JOB_MOVES, STEP_MOVES, TASK_MOVES, JobStatus, StepStatus, TaskStatus
from farm.scenes.moves import VERSION_MOVES, VersionStatus
from tests.farm import open_customer, submit


class Light(StrEnum):
    RED = "red"
    AMBER = "amber"
    GREEN = "green"


MOVES: Moves[Light] = {Light.RED: {Light.AMBER}, Light.AMBER: {Light.RED, Light.GREEN}, Light.GREEN: {Light.AMBER}}


class TestSources:
    def test_all_statuses_that_may_move_there_are_given(self) -> None:
        assert sources(MOVES, Light.AMBER) == [Light.RED, Light.GREEN]

    @pytest.mark.parametrize(
        ("kind", "moves"),
        [
            (TaskStatus, TASK_MOVES),
            (StepStatus, STEP_MOVES),
            (JobStatus, JOB_MOVES),
            (AttemptStatus, ATTEMPT_MOVES),
            (WorkerStatus, WORKER_MOVES),
            (VersionStatus, VERSION_MOVES),
        ],
    )
    def test_every_table_of_the_farm_names_every_status_and_none_moves_to_itself(
        self, kind: type[StrEnum], moves: Moves[StrEnum]
    ) -> None:
        assert set(moves) == set(kind)
        assert all(status not in targets for status, targets in moves.items())


class TestChoices:
    def test_a_field_offers_what_the_enum_has(self) -> None:
        assert choices(Light) == [("red", "red"), ("amber", "amber"), ("green", "green")]


@pytest.mark.django_db
class TestMoveTo:
    def test_the_row_moves_with_its_fields_in_the_database_and_in_memory(self, now: datetime) -> None:
        job = submit(open_customer(), now=now)

        assert move_to(job, JobStatus.SUSPENDED, moves=JOB_MOVES, suspended_by="person")

        assert (job.status, job.suspended_by) == ("suspended", "person")
        job.refresh_from_db()
        assert (job.status, job.suspended_by) == ("suspended", "person")

    def test_a_row_that_has_moved_meanwhile_stays(self, now: datetime) -> None:
        job = submit(open_customer(), now=now)
        stale = type(job).objects.get(pk=job.pk)
        assert move_to(job, JobStatus.CANCELLED, moves=JOB_MOVES)

        assert not move_to(stale, JobStatus.SUSPENDED, moves=JOB_MOVES, suspended_by="person")

        assert (stale.status, stale.suspended_by) == ("active", "")
        job.refresh_from_db()
        assert (job.status, job.suspended_by) == ("cancelled", "")

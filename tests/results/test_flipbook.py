"""Frames in order, each with the picture there is of it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from farm.dispatch.models import Output
from farm.results import flipbook
from farm.results.flipbook import Frame, pictures, places_of, step_shown
from farm.studios.tenancy import become_tenant
from tests.api import leave_tenant
from tests.farm import TWO_STEPS, open_customer, submit
from tests.jobs.plans import analyze, rows_looked_at
from tests.results.film import Film

pytestmark = pytest.mark.django_db

TWO_CAMERAS = """
specificationVersion: jobtemplate-2023-09
name: Two cameras
parameterDefinitions:
- {name: Frames, type: STRING, default: "1-3"}
steps:
- name: Render
  parameterSpace:
    taskParameterDefinitions:
    - {name: Camera, type: STRING, range: [left, right]}
    - {name: Frame, type: INT, range: "{{Param.Frames}}"}
  script: {actions: {onRun: {command: echo}}}
"""


def shown(film: Film, *, role: str = "proxy", first: int = 0, limit: int = 500) -> list[Frame]:
    step = step_shown(film.job.id)
    assert step is not None
    return pictures(film.job, step, places_of(step).from_frame(first, limit), role=role, now=film.now)


class TestStepShown:
    def test_it_is_the_first_with_frames(self, now: datetime) -> None:
        job = submit(open_customer(), template=TWO_STEPS, now=now)

        assert step_shown(job.id) == job.steps.get(name="First").id

    def test_a_job_without_frames_has_none(self, now: datetime) -> None:
        text = TWO_STEPS.replace("Frame, type: INT", "Part, type: INT")

        assert step_shown(submit(open_customer(), template=text, now=now).id) is None


class TestPlacesOf:
    def test_frames_are_found_in_order(self, now: datetime) -> None:
        film = Film("1-5,20-22", now=now)
        step = step_shown(film.job.id)
        assert step is not None

        places = places_of(step)

        assert len(places) == 8
        assert places.from_frame(4, 3) == [(4, 3), (5, 4), (20, 5)]
        assert places.from_frame(6, 9) == [(20, 5), (21, 6), (22, 7)]
        assert places.from_frame(23, 9) == []
        assert places.of([21, 7, 1, 21]) == [(1, 0), (21, 6)]

    def test_of_several_cameras_the_first_is_shown(self, now: datetime) -> None:
        film = Film("1-3", now=now, template=TWO_CAMERAS)
        step = step_shown(film.job.id)
        assert step is not None

        assert places_of(step).from_frame(1, 9) == [(1, 0), (2, 1), (3, 2)]


class TestPictures:
    def test_a_missing_frame_is_shown_as_such(self, now: datetime) -> None:
        film = Film("1-3", now=now)
        film.render(1, 3)

        found = shown(film)

        assert [(f.frame, f.index, f.status, f.url is None) for f in found] == [
            (1, 0, "s", False),
            (2, 1, "l", True),
            (3, 2, "s", False),
        ]
        assert (found[0].width, found[0].height) == (96, 64)
        assert found[1].digest is None

    def test_one_that_is_rendered_again_keeps_its_picture_meanwhile(self, now: datetime) -> None:
        film = Film("1-3", now=now)
        film.render(1)
        before = shown(film)[0]
        film.retry(1)

        after = shown(film)[0]

        assert (after.status, after.url) == ("r", before.url)

    def test_each_role_has_its_own(self, now: datetime) -> None:
        film = Film("1", now=now)
        film.render(1)

        digests = {role: shown(film, role=role)[0].digest for role in ("proxy", "render", "thumbnail")}

        wanted = dict(Output.objects.filter(job=film.job).values_list("role", "digest"))
        assert digests == {**wanted, "thumbnail": None}

    def test_an_address_is_the_same_for_half_an_hour_and_valid_for_half_an_hour_more(self, now: datetime) -> None:
        film = Film("1", now=now)
        film.render(1)
        addresses = []
        for minutes in (0, 29, 30):
            film.now = now + timedelta(minutes=minutes)
            addresses.append(shown(film)[0].url)
            assert flipbook.valid_until(film.now) - film.now >= timedelta(minutes=30)

        assert addresses[0] == addresses[1] != addresses[2]

    def test_only_the_frames_shown_are_looked_at(self, now: datetime) -> None:
        film = Film("1-3000", now=now)
        film.render(1, 3000)
        shown(film)  # its frames are known from now on
        analyze("jobs_task", "dispatch_output", "jobs_step")
        become_tenant(film.customer.studio.id)

        assert rows_looked_at("jobs_task", lambda: shown(film, limit=20)) == 20
        leave_tenant()

"""What people are told of movies and quality."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from django.db import connection
from django.test import Client
from django.urls import resolve

from farm.core.permits import permit_of
from farm.dispatch.models import Output
from farm.jobs.models import Job
from farm.studios.services import issue_token
from tests.api import Api
from tests.farm import TWO_STEPS, open_customer
from tests.results.film import Film, jpeg, picture

pytestmark = pytest.mark.django_db


def ask(film: Film, what: str, *, scopes: tuple[str, ...] = ("jobs:read",), customer: Any = None) -> tuple[int, Any]:
    customer = customer or film.customer
    _, token = issue_token(
        studio=customer.studio, user=customer.user, name="test", scopes=list(scopes), days=1, now=datetime.now(UTC)
    )
    response = Client(headers={"authorization": f"Bearer {token}"}).get(f"/api/v1/jobs/{film.job.id}/{what}")
    with connection.cursor() as cursor:  # the request's SET LOCAL outlives it in the test's own transaction
        cursor.execute("SELECT set_config('farm.studio', '', true), set_config('role', 'none', true)")
    return response.status_code, response.json()


class TestMovie:
    def test_waits_before_the_first_frame(self, now: datetime) -> None:
        film = Film("1-3", now=now, slots=3)

        status, told = ask(film, "movie")

        assert status == 200
        assert (told["status"], told["complete"], told["url"], told["version"]) == ("waiting", False, None, 0)
        assert (told["frames"], told["present"], told["missing"]) == (3, 0, [1, 2, 3])

    def test_names_what_is_in_it_and_what_is_missing(self, now: datetime) -> None:
        film = Film("1-4", now=now, slots=4)
        film.report({"scenes": [{"name": "A", "active": True, "fps": [24000, 1001]}]})
        film.render(1, size=(65, 49))
        film.render(2)
        film.deliver({3: b"torn"})
        film.grow()

        _, told = ask(film, "movie")

        assert (told["status"], told["complete"], told["version"]) == ("growing", False, 1)
        assert (told["frames"], told["present"], told["shown"], told["missing"]) == (4, 2, 2, [4])
        assert told["odd_sizes"] == [{"frame": 2, "width": 96, "height": 64}]
        assert [(bad["frame"], bad["why"][:18]) for bad in told["unreadable"]] == [(3, "it does not decode")]
        assert (told["width"], told["height"], told["padding"]) == (66, 50, {"right": 1, "bottom": 1})
        assert told["fps"] == "24000/1001"

    def test_is_complete_when_every_frame_has_succeeded_and_is_in_it(self, now: datetime) -> None:
        film = Film("1-2", now=now, slots=2)
        film.render(1, 2)
        film.grow()

        _, told = ask(film, "movie")

        assert (told["status"], told["complete"], told["missing"], told["trouble"]) == ("complete", True, [], "")
        assert told["size"] == film.movie.size

    def test_is_complete_no_longer_while_a_frame_is_rendered_again(self, now: datetime) -> None:
        film = Film("1-2", now=now, slots=2)
        film.render(1, 2)
        film.grow()

        film.retry(2)
        _, again = ask(film, "movie")
        film.deliver({2: jpeg(picture(9))})
        _, not_yet = ask(film, "movie")
        film.grow(now=now + timedelta(seconds=10))
        _, at_last = ask(film, "movie")

        assert [told["status"] for told in (again, not_yet, at_last)] == ["growing", "growing", "complete"]
        assert [told["complete"] for told in (again, not_yet, at_last)] == [False, False, True]

    def test_gives_an_address_that_is_signed_for_an_hour(self, now: datetime) -> None:
        film = Film("1", now=now, slots=1)
        film.render(1)
        film.grow()
        Job.objects.filter(pk=film.job.pk).update(name='A/B "shot"')

        _, told = ask(film, "movie")
        response = Client().get(told["url"])

        assert b"".join(response.streaming_content)[4:8] == b"ftyp"  # type: ignore[attr-defined]
        assert response["Content-Type"] == "video/mp4"
        assert "A-B" in response["Content-Disposition"]
        path, _, query = told["url"].partition("?")
        values = dict(pair.split("=", 1) for pair in query.split("&"))
        assert path == f"/files/{film.movie.key}"
        with pytest.raises(Exception, match="changed on the way"):
            permit_of("GET", path.removeprefix("/files/"), values | {"expires": "9999999999"}, now=now)

    def test_says_why_there_is_none(self, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
        film = Film("1", now=now, slots=1)
        film.render(1)
        monkeypatch.setattr("farm.results.sandbox.shutil.which", lambda name: None)
        film.grow()

        _, told = ask(film, "movie")

        assert told["status"] == "waiting"
        assert "bubblewrap is not installed" in told["trouble"]

    @pytest.mark.parametrize("what", ["movie", "quality"])
    def test_of_another_studio_is_not_there(self, what: str, now: datetime) -> None:
        film = Film("1", now=now, slots=1)
        film.render(1)
        film.grow()

        status, told = ask(film, what, customer=open_customer())

        assert (status, told["code"]) == (404, "not-found")

    @pytest.mark.parametrize("what", ["movie", "quality"])
    def test_needs_the_scope(self, what: str, now: datetime) -> None:
        film = Film("1", now=now, slots=1)

        assert ask(film, what, scopes=("scenes:read",))[0] == 403


class TestQuality:
    def test_lists_what_looks_wrong(self, now: datetime) -> None:
        film = Film("1-3", now=now, slots=3)
        film.render(1, 2, 3)
        plain = {"mean": [0.5] * 3, "max": [1.0] * 3, "nan": 0, "inf": 0, "alpha": None, "uniform": False}
        renders = Output.objects.filter(job=film.job, role="render")
        renders.update(statistics=plain)
        renders.filter(frame=2).update(statistics=plain | {"max": [0.0] * 3, "nan": 4})

        _, told = ask(film, "quality")

        assert told["checked"] == 3
        assert told["counts"] == {"black": 1, "nan": 1}
        assert [(f["frame"], f["kind"]) for f in told["findings"]] == [(2, "black"), (2, "nan")]
        assert told["findings"][0]["sentence"] == "Frame 2 is black."

    def test_compares_only_frames_of_one_camera(self, now: datetime) -> None:
        template = """
specificationVersion: jobtemplate-2023-09
name: Cameras
steps:
- name: Render
  parameterSpace:
    taskParameterDefinitions:
    - {name: Camera, type: STRING, range: [front, back]}
    - {name: Frame, type: INT, range: "1-5"}
  script: {actions: {onRun: {command: echo}}}
"""
        film = Film("", now=now, template=template, slots=10)
        film.render(1, 2, 3, 4, 5)
        film.render(1, 2, 3, 4, 5)  # by now the other camera's
        for output in Output.objects.filter(job=film.job, role="render").select_related("task"):
            level = 0.2 if output.task.parameters["Camera"] == "front" else 0.9
            Output.objects.filter(pk=output.pk).update(statistics={"mean": [level] * 3, "max": [1.0] * 3})

        _, told = ask(film, "quality")

        assert (told["checked"], told["findings"]) == (10, [])

    def test_of_a_job_without_frames_is_empty(self, now: datetime) -> None:
        _, told = ask(Film("1", now=now, slots=1), "quality")

        assert told == {"checked": 0, "counts": {}, "findings": []}


class TestFrames:
    def test_pages_go_on_from_frame_to_frame(self, now: datetime) -> None:
        film = Film("1-7", now=now)
        film.render(2)
        api = Api(film.customer)

        first = api.get(f"jobs/{film.job.id}/frames?limit=4").body
        second = api.get(f"jobs/{film.job.id}/frames?limit=4&from={first['next']}").body

        assert (first["total"], first["first"], first["last"], first["fps"]) == (7, 1, 7, "24/1")
        assert [f["frame"] for f in first["frames"] + second["frames"]] == [1, 2, 3, 4, 5, 6, 7]
        assert [f["frame"] for f in first["frames"] if f["url"]] == [2]
        assert (first["next"], second["next"]) == (5, None)

    def test_chosen_frames_come_alone(self, now: datetime) -> None:
        film = Film("1-7", now=now)

        answer = Api(film.customer).get(f"jobs/{film.job.id}/frames?frames=6-9,2&role=thumbnail").body

        assert [f["frame"] for f in answer["frames"]] == [2, 6, 7]

    def test_a_job_without_frames_has_none(self, now: datetime) -> None:
        film = Film("1", now=now, template=TWO_STEPS.replace("Frame, type: INT", "Part, type: INT"))

        answer = Api(film.customer).get(f"jobs/{film.job.id}/frames").body

        assert (answer["step"], answer["total"], answer["frames"], answer["first"]) == (None, 0, [], None)

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ("role=report", "role"),
            ("limit=501", "limit"),
            ("from=x", "from"),
            ("frames=x", "frames"),
            ("frames=1-501", "frames"),
            ("frames=1&from=1", "frames"),
        ],
    )
    def test_a_question_that_is_none_is_refused(self, now: datetime, query: str, field: str) -> None:
        film = Film("1", now=now)

        assert [name for name, _ in Api(film.customer).get(f"jobs/{film.job.id}/frames?{query}").fields] == [field]

    def test_a_picture_is_fetched_without_a_token(self, now: datetime) -> None:
        film = Film("1", now=now)
        film.render(1)
        (frame,) = Api(film.customer).get(f"jobs/{film.job.id}/frames").body["frames"]

        answer = Client().get(frame["url"], headers={"Range": "bytes=0-1"})

        assert (answer.status_code, answer.headers["Content-Type"]) == (206, "image/jpeg")
        assert b"".join(cast(Any, answer).streaming_content) == b"\xff\xd8"


class TestArchive:
    def test_it_is_signed_then_fetched_without_a_token(self, now: datetime) -> None:
        film = Film("1-3", now=now)
        film.render(1, 2, 3)
        Job.objects.filter(pk=film.job.pk).update(name="Beach/night")
        told = Api(film.customer).post(f"jobs/{film.job.id}/archive", {"frames": "2-3"}).body

        answer = Client().get(told["url"])

        content = b"".join(cast(Any, answer).streaming_content)
        answer.close()
        assert (told["files"], told["bytes"], told["name"]) == (2, len(b"render 2") * 2, "Beach_night.zip")
        assert answer.headers["Content-Disposition"] == 'attachment; filename="Beach_night.zip"'
        assert int(answer.headers["Content-Length"]) == len(content)
        assert zipfile.ZipFile(io.BytesIO(content)).namelist() == ["2.png", "3.png"]

    def test_what_is_not_there_is_refused(self, now: datetime) -> None:
        film = Film("1-3", now=now)
        api = Api(film.customer)

        assert api.post(f"jobs/{film.job.id}/archive").code == "nothing-to-download"
        assert api.post(f"jobs/{film.job.id}/archive", {"role": "report"}).fields == [("role", "invalid-choice")]
        assert Client().get("/archives/x").json()["code"] == "address-not-signed"

    def test_it_holds_no_transaction(self, now: datetime) -> None:
        assert resolve("/archives/x").func._non_atomic_requests == {"default"}  # type: ignore[attr-defined]

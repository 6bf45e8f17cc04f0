"""The SDK's front: ids, projects, watching, and which calls carry a key."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from farmhand.errors import FarmError
from farmhand.farm import Ambiguous, Farm, MovieGrew, NoMovie, NoneSuch, NoProject, ProjectNeeded

from tests.frontend.client.small_farm import PROJECT, SmallFarm

ONE, TWO = "01a22ebc-17ad-7253-99c6-a09bb683b378", "01a22ebc-17ae-7000-8000-000000000000"
JOBS = "/api/v1/jobs"


def page(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"results": list(rows), "next": None}


class TestFindJob:
    def test_a_whole_id_is_not_looked_up(self, farm: Farm, small: SmallFarm) -> None:
        assert farm.find_job(ONE.upper()) == ONE
        assert small.asked == []

    def test_a_beginning_is_looked_up_among_its_neighbours(self, farm: Farm, small: SmallFarm) -> None:
        small.answers[JOBS] = page({"id": ONE}, {"id": "01a22eb0-0000-7000-8000-000000000000"})

        assert farm.find_job("01a22ebc-17ad") == ONE
        assert UUID("01a22ebc-17ad-ffff-ffff-ffffffffffff") == UUID(small.asked[0][1].split("cursor=")[1][:36])

    def test_a_beginning_of_several_is_refused_with_their_ids(self, farm: Farm, small: SmallFarm) -> None:
        small.answers[JOBS] = page({"id": TWO}, {"id": ONE})

        with pytest.raises(Ambiguous, match=f"{TWO}, {ONE}"):
            farm.find_job("01a22ebc")

    @pytest.mark.parametrize("wanted", ["01a22ebc", "farm at dusk", "", "abc"])
    def test_what_is_not_there_is_refused(self, farm: Farm, small: SmallFarm, wanted: str) -> None:
        small.answers[JOBS] = page()

        with pytest.raises(NoneSuch, match="job list"):
            farm.find_job(wanted)

    def test_last_is_the_one_remembered_else_the_newest(self, farm: Farm, small: SmallFarm) -> None:
        small.answers[JOBS] = page({"id": TWO})

        assert farm.find_job("last", last=ONE) == ONE
        assert farm.find_job("last") == TWO

    def test_last_of_none_says_what_to_do(self, farm: Farm, small: SmallFarm) -> None:
        small.answers[JOBS] = page()

        with pytest.raises(NoneSuch, match="job submit"):
            farm.find_job("last")


class TestFindVersion:
    @pytest.fixture(autouse=True)
    def _scenes(self, small: SmallFarm) -> None:
        small.scenes = [{"id": "s1", "name": "Dusk", "project": "p"}, {"id": "s2", "name": "Dawn", "project": "p"}]
        small.answers["/api/v1/scenes/s1/versions"] = page(
            {"id": TWO, "status": "inspected"}, {"id": ONE, "status": "inspected"}
        )
        small.answers["/api/v1/scenes/s2/versions"] = page()

    def test_a_scenes_name_is_its_newest_version(self, farm: Farm) -> None:
        assert farm.find_version("Dusk") == TWO

    def test_a_version_that_is_still_uploading_is_not_meant(self, farm: Farm, small: SmallFarm) -> None:
        small.answers["/api/v1/scenes/s1/versions"] = page(
            {"id": TWO, "status": "uploading"}, {"id": ONE, "status": "whole"}
        )

        assert farm.find_version("Dusk") == ONE
        assert farm.find_version("last") == ONE

    def test_a_scene_whose_only_version_is_still_uploading_is_refused(self, farm: Farm, small: SmallFarm) -> None:
        small.answers["/api/v1/scenes/s1/versions"] = page({"id": TWO, "status": "uploading"})

        with pytest.raises(NoneSuch, match="no whole version of scene"):
            farm.find_version("Dusk")

    def test_a_scene_without_a_version_is_refused(self, farm: Farm) -> None:
        with pytest.raises(NoneSuch, match="Dawn"):
            farm.find_version("Dawn")

    def test_a_beginning_is_looked_up_in_all_scenes(self, farm: Farm) -> None:
        assert farm.find_version("01a22ebc-17ad") == ONE

    def test_last_is_the_newest_of_all(self, farm: Farm) -> None:
        assert farm.find_version("last") == TWO

    def test_what_is_not_there_is_refused(self, farm: Farm) -> None:
        with pytest.raises(NoneSuch, match="Noon"):
            farm.find_version("Noon")


class TestProject:
    def test_the_only_one_needs_no_name(self, farm: Farm) -> None:
        assert farm.project()["id"] == PROJECT["id"]

    def test_a_name_is_found_in_any_case(self, farm: Farm) -> None:
        assert farm.project("DEMO")["id"] == PROJECT["id"]

    def test_an_unknown_one_is_refused_with_those_there_are(self, farm: Farm) -> None:
        with pytest.raises(NoProject, match="It has: Demo"):
            farm.project("Spring")

    def test_of_several_one_has_to_be_named(
        self, farm: Farm, small: SmallFarm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(farm, "projects", lambda: iter([PROJECT, {**PROJECT, "name": "Spring"}]))

        with pytest.raises(ProjectNeeded, match="Demo, Spring"):
            farm.project()


class TestOpenScene:
    def test_a_scene_that_somebody_made_a_moment_before_is_used(self, farm: Farm, small: SmallFarm) -> None:
        small.fail("POST", "/api/v1/scenes", status=409, code="name-taken")
        small.scenes = []
        real = small.answer

        def answer(method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
            found = real(method, path, query, body)
            small.scenes = [{"id": "theirs", "name": "A"}]  # from the second look on it is there
            return found

        small.answer = answer  # type: ignore[method-assign]

        assert farm.open_scene("A", project="p")["id"] == "theirs"


class TestKeys:
    def test_calls_with_a_key_go_where_the_farm_takes_one(self, farm: Farm, small: SmallFarm) -> None:
        small.answers |= {
            "POST /api/v1/jobs": {},
            "POST /api/v1/jobs/j/retry": {"tasks": 1},
            "POST /api/v1/budgets": {},
        }
        small.answers["/api/v1/budgets"] = page()

        farm.submit_job({})
        farm.retry_tasks("j", "failed")
        farm.set_budget("studio", 1)
        farm.open_scene("A", project="p")

        assert len(set(small.keys)) == 4
        paths = json.loads((Path(__file__).parents[3] / "frontend/openapi.json").read_text())["paths"]
        keyed = {path for path, verbs in paths.items() if "Idempotency-Key" in json.dumps(verbs.get("post", {}))}
        assert keyed >= {"/api/v1/jobs", "/api/v1/jobs/{job_id}/retry", "/api/v1/budgets", "/api/v1/scenes"}
        assert "/api/v1/scenes/{scene_id}/versions" in keyed

    def test_a_budget_that_is_there_is_changed(self, farm: Farm, small: SmallFarm) -> None:
        small.answers["/api/v1/budgets"] = page({"id": "b"})
        small.answers["PATCH /api/v1/budgets/b"] = {"id": "b"}

        farm.set_budget("studio", None)

        assert small.bodies[-1] == ("PATCH /api/v1/budgets/b", {"cap_micro": None})


class TestWatchJob:
    def test_each_frame_is_news_once_and_none_is_lost(self, farm: Farm, small: SmallFarm) -> None:
        job = {"id": "j", "status": "active", "tasks": {"leased": 1}}
        small.answers |= {"/api/v1/jobs/j": job, "/api/v1/jobs/j/why": {"sentence": ""}}
        outputs: list[dict[str, Any]] = [{"id": "3"}]
        small.answers["/api/v1/jobs/j/outputs"] = {"results": outputs, "next": None}
        news = farm.watch_job("j", every=0)

        first = [output["id"] for output in next(news).outputs]
        outputs.append({"id": "2"})  # committed later, with an earlier id
        second = [output["id"] for output in next(news).outputs]
        job["status"] = "succeeded"
        last = next(news)

        assert (first, second, last.outputs) == (["3"], ["2"], [])
        assert last.has_ended
        assert list(news) == []

    def test_the_last_look_takes_everything(self, farm: Farm, small: SmallFarm) -> None:
        job = {"id": "j", "status": "succeeded", "tasks": {"leased": 0}}
        small.answers |= {"/api/v1/jobs/j": job, "/api/v1/jobs/j/why": {"sentence": ""}}
        small.answers["/api/v1/jobs/j/outputs"] = page({"id": "1"})

        list(farm.watch_job("j", every=0))

        assert "cursor" not in next(path for method, path in small.asked if "outputs" in path)


class TestPullMovie:
    def movie(self, small: SmallFarm, content: bytes, digest: str, **more: Any) -> None:
        small.files["movie"] = content
        found = {"url": "/files/movie", "size": len(content), "digest": digest, "trouble": "", **more}
        small.answers["/api/v1/jobs/j/movie"] = found

    def test_it_lands_where_a_person_said(self, farm: Farm, small: SmallFarm, tmp_path: Path) -> None:
        self.movie(small, b"film", hashlib.sha256(b"film").hexdigest())

        farm.pull_movie("j", tmp_path / "My: film.mp4")

        assert (tmp_path / "My: film.mp4").read_bytes() == b"film"

    def test_there_may_be_none_yet(self, farm: Farm, small: SmallFarm, tmp_path: Path) -> None:
        self.movie(small, b"", "", url=None)

        with pytest.raises(NoMovie, match="no frame has a picture yet"):
            farm.pull_movie("j", tmp_path / "a.mp4")

    def test_one_that_grows_meanwhile_is_asked_for_again(self, farm: Farm, small: SmallFarm, tmp_path: Path) -> None:
        self.movie(small, b"film", "0" * 64)
        small.fail("GET", "/files/", times=99, status=404, code="no-such-file")
        real = small.answer
        serial = iter(range(1, 99))

        def answer(method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
            small.answers["/api/v1/jobs/j/movie"]["digest"] = f"{next(serial):064}"
            return real(method, path, query, body)

        small.answer = answer  # type: ignore[method-assign]

        with pytest.raises(MovieGrew):
            farm.pull_movie("j", tmp_path / "a.mp4")


class TestLog:
    def test_a_refusal_is_a_refusal(self, farm: Farm) -> None:
        with pytest.raises(FarmError):
            farm.log("a")

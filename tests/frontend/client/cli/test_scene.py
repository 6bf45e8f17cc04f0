"""`scene push`, `report`, `list`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.frontend.client.cli.conftest import Run
from tests.frontend.client.small_farm import SmallFarm

Write = Callable[[str, bytes], Path]

REPORT: dict[str, Any] = {
    "entry": "a.blend",
    "saved_by": "5.0",
    "refusal": None,
    "scenes": [],
    "dependencies": [],
    "problems": [],
}


class TestPush:
    def test_it_says_what_went_and_what_comes_next(
        self, run: Run, small: SmallFarm, folder: Path, write: Write
    ) -> None:
        write("a.blend", b"scene")
        write("a.blend1", b"older")

        ran = run("scene", "push", str(folder), "--scene", "Dusk")

        assert ran.code == 0
        assert "Dusk version 1 is on the farm: 1 file, 5 bytes; 1 of them new to the farm, 5 bytes sent." in ran.out
        assert "Left out: a.blend1." in ran.err
        assert "farmhand job submit version-0 --watch" in ran.err

    def test_progress_goes_to_standard_error(self, run: Run, folder: Path, write: Write) -> None:
        write("a.blend", b"scene")

        ran = run("scene", "push", str(folder))

        assert "Sending: 1 of 1 files, 5 bytes of 5 bytes" in ran.err
        assert "Sending" not in ran.out

    def test_json_says_all_of_it(self, run: Run, folder: Path, write: Write) -> None:
        write("a.blend", b"scene")

        found = run("scene", "push", str(folder), "--json").json

        assert found["version"]["id"] == "version-0"
        assert (found["files"], found["bytes"], found["sent_files"], found["sent_bytes"]) == (1, 5, 1, 5)
        assert set(found) >= {"scene", "skipped", "warnings", "report"}

    def test_the_report_is_waited_for_on_request(self, run: Run, small: SmallFarm, folder: Path, write: Write) -> None:
        write("a.blend", b"scene")
        small.answers["/api/v1/scene-versions/version-0/report"] = REPORT
        real = small.answer
        looks = iter(["whole", "whole"])

        def answer(method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
            status, found = real(method, path, query, body)
            if path == "/api/v1/scene-versions/version-0":
                found = {**found, "status": next(looks, "inspected")}
            return status, found

        small.answer = answer  # type: ignore[method-assign]

        ran = run("scene", "push", str(folder), "--wait-report")

        assert ran.code == 0
        assert "Waiting for a machine to inspect the scene" in ran.err
        assert "Nothing stands in the way of rendering it." in ran.out

    def test_a_scene_that_cannot_be_read_is_not_offered_to_be_rendered(
        self, run: Run, small: SmallFarm, folder: Path, write: Write
    ) -> None:
        write("a.blend", b"scene")
        refusal = {"code": "not_a_blend", "sentence": "a.blend is a zip."}
        small.answers["/api/v1/scene-versions/version-0/report"] = {**REPORT, "refusal": refusal}
        real = small.answer

        def answer(method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
            status, found = real(method, path, query, body)
            return status, ({**found, "status": "refused"} if path == "/api/v1/scene-versions/version-0" else found)

        small.answer = answer  # type: ignore[method-assign]

        ran = run("scene", "push", str(folder), "--wait-report")

        assert "✗ a.blend is a zip." in ran.out
        assert "job submit" not in ran.err

    def test_a_scene_that_lacks_something_is_not_offered_to_be_rendered_as_it_is(
        self, run: Run, small: SmallFarm, folder: Path, write: Write
    ) -> None:
        write("a.blend", b"scene")
        problem = {"code": "no_camera", "severity": "error", "sentence": "It has no camera."}
        small.answers["/api/v1/scene-versions/version-0/report"] = {**REPORT, "problems": [problem]}
        real = small.answer

        def answer(method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
            status, found = real(method, path, query, body)
            return status, ({**found, "status": "inspected"} if path == "/api/v1/scene-versions/version-0" else found)

        small.answer = answer  # type: ignore[method-assign]

        ran = run("scene", "push", str(folder), "--wait-report")

        assert "✗ It has no camera." in ran.out
        assert "job submit" not in ran.err

    def test_a_folder_of_several_scenes_asks_which(self, run: Run, folder: Path, write: Write) -> None:
        write("a.blend", b"")
        write("b.blend", b"")

        ran = run("scene", "push", str(folder))

        assert ran.code == 1
        assert "Name one with --entry" in ran.err


class TestReport:
    def test_it_may_not_be_there_yet(self, run: Run, small: SmallFarm) -> None:
        version = "01a22ebc-17ad-7253-99c6-a09bb683b378"
        small.fail("GET", f"/api/v1/scene-versions/{version}/report", status=409, code="report-missing")

        ran = run("scene", "report", version)

        assert ran.code == 1
        assert "--wait` waits for it" in ran.err


class TestList:
    def test_scenes_are_shown_with_their_latest_versions(self, run: Run, small: SmallFarm) -> None:
        small.scenes = [{"id": "s", "name": "Dusk [bold]", "project": "p"}]
        latest = {"id": "01a22ebc-17ad-7253-99c6-a09bb683b378", "number": 3, "status": "inspected"}
        latest |= {"file_count": 2, "byte_count": 756_000, "created_at": "2026-11-30T12:00:00Z"}
        small.answers["/api/v1/scenes/s"] = {"id": "s", "name": "Dusk [bold]", "latest_version": latest}

        ran = run("scene", "list")

        assert "Dusk [bold]  01a22ebc-17ad    3  inspected      2  756 kB" in ran.out

    def test_none_says_what_to_do(self, run: Run) -> None:
        ran = run("scene", "list")

        assert "No scenes yet." in ran.out
        assert "farmhand scene push FOLDER" in ran.err

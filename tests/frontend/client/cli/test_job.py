"""`job …`: what is asked of the farm, what is shown, and how it ends."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from farmhand import profiles

from tests.frontend.client.cli.conftest import Run
from tests.frontend.client.small_farm import SmallFarm

JOB = "01a22ebc-17ad-7253-99c6-a09bb683b378"
AT = f"/api/v1/jobs/{JOB}"
NOON = "2026-11-30T12:00:00Z"


def page(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"results": list(rows), "next": None}


def counts(**tasks: int) -> dict[str, int]:
    return dict.fromkeys(["pending", "ready", "leased", "succeeded", "failed", "cancelled"], 0) | tasks


@pytest.fixture
def job(small: SmallFarm) -> dict[str, Any]:
    """A job of the farm, as it stands; tests move it."""
    found = {
        "id": JOB,
        "name": "Dusk",
        "project_name": "Demo",
        "scene_version": None,
        "cost_object": "cost",
        "parameters": {"Frames": "1-3", "Scene": ""},
        "status": "active",
        "suspended_by": "",
        "approval": "none",
        "priority": 50,
        "tasks": counts(ready=3),
        "created_at": NOON,
    }
    small.answers |= {AT: found, f"{AT}/why": {"code": "next", "params": {}, "sentence": "3 tasks are ready."}}
    small.answers |= {f"{AT}/outputs": page(), f"{AT}/attempts": page(), f"{AT}/tasks": page(), f"{AT}/quotes": []}
    for act in ("suspend", "resume", "cancel"):
        small.answers[f"POST {AT}/{act}"] = found
    return found


def output(small: SmallFarm, frame: int, content: bytes = b"png") -> dict[str, Any]:
    small.files[f"{frame}"] = content
    row = {"id": f"{frame}", "task": f"t{frame}", "frame": frame, "name": f"frame_{frame:04}.png", "role": "render"}
    row |= {"width": 640, "height": 360, "size": len(content), "digest": hashlib.sha256(content).hexdigest()}
    return row | {"url": f"/files/{frame}"}


def attempt(frame: int, status: str, **more: Any) -> dict[str, Any]:
    row = {"id": f"a{frame}", "task": f"t{frame}", "frame": frame, "status": status, "generation": 1, "device": "CPU"}
    row |= {"render_ms": 4200, "started_at": NOON, "sentence": "", "cause": "", "progress": 1.0, "elapsed_ms": 4200}
    return row | more


class TestWatch:
    def test_frames_are_named_as_they_arrive_and_the_end_is_0(
        self, run: Run, small: SmallFarm, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        arrived = [output(small, 1)]

        def later(seconds: float) -> None:
            small.answers[f"{AT}/outputs"] = page(*arrived)
            job.update(status="succeeded", tasks=counts(succeeded=3))
            small.answers[f"{AT}/why"] = {"sentence": "All 3 tasks succeeded."}

        monkeypatch.setattr("farmhand.farm.time.sleep", later)

        ran = run("job", "watch", JOB)

        assert ran.code == 0
        assert "3 tasks are ready." in ran.err
        assert "✓ frame 1      640×360  3 bytes  frame_0001.png" in ran.err
        assert ran.out == "succeeded  Dusk: All 3 tasks succeeded.\n"
        assert "farmhand job pull 01a22ebc-17ad" in ran.err

    def test_a_job_that_failed_is_4_and_says_why(self, run: Run, small: SmallFarm, job: dict[str, Any]) -> None:
        job.update(status="failed", tasks=counts(succeeded=1, failed=2))
        failures = [attempt(2, "failed", sentence="No camera."), attempt(3, "failed", sentence="No camera.")]
        small.answers[f"{AT}/attempts"] = page(*failures)

        ran = run("job", "watch", JOB)

        assert ran.code == 4
        assert "✗ frame 2 and 1 more: No camera." in ran.out
        assert "farmhand job retry 01a22ebc-17ad --failed --watch" in ran.err

    def test_a_cancelled_job_is_4(self, run: Run, job: dict[str, Any]) -> None:
        job.update(status="cancelled", tasks=counts(cancelled=3))

        assert run("job", "watch", JOB).code == 4

    def test_scouts_that_are_done_are_5_with_the_quote(self, run: Run, small: SmallFarm, job: dict[str, Any]) -> None:
        job.update(status="suspended", suspended_by="approval", tasks=counts(pending=21, succeeded=3))
        quote = {"worker_class": "cpu", "basis": "scouts", "tasks": 21, "slots": 1, "currency": "USD"}
        quote |= {"p10_micro": 10_000, "p50_micro": 20_000, "p90_micro": 30_000, "p10_s": 40, "p50_s": 60, "p90_s": 80}
        small.answers[f"{AT}/quotes"] = [quote]

        ran = run("job", "watch", JOB)

        assert ran.code == 5
        assert "21 tasks  1 cpu slot  0.010 – 0.030 USD, likely 0.020  40 s – 1 min 20 s, likely 1 min " in ran.out
        assert "farmhand job continue 01a22ebc-17ad --watch" in ran.err

    def test_a_suspended_job_whose_tasks_still_run_is_watched_on(
        self, run: Run, small: SmallFarm, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job.update(status="suspended", suspended_by="person", tasks=counts(leased=1))
        looks: list[float] = []

        def later(seconds: float) -> None:
            looks.append(seconds)
            job["tasks"] = counts(succeeded=1)

        monkeypatch.setattr("farmhand.farm.time.sleep", later)

        assert run("job", "watch", JOB).code == 5
        assert len(looks) == 1

    def test_what_had_arrived_before_is_only_counted(self, run: Run, small: SmallFarm, job: dict[str, Any]) -> None:
        job.update(status="succeeded", tasks=counts(succeeded=3))
        small.answers[f"{AT}/outputs"] = page(output(small, 1), output(small, 2))

        ran = run("job", "watch", JOB)

        assert "2 files had arrived before." in ran.err
        assert "frame 1" not in ran.err

    def test_interrupted_it_says_that_the_job_goes_on(
        self, run: Run, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(seconds: float) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("farmhand.farm.time.sleep", interrupt)

        ran = run("job", "watch", JOB)

        assert ran.code == 130
        assert "You stopped watching; the job goes on." in ran.err
        assert "farmhand job watch 01a22ebc-17ad" in ran.err

    def test_json_gives_the_job_as_it_ended(self, run: Run, job: dict[str, Any]) -> None:
        job.update(status="succeeded", tasks=counts(succeeded=3))

        assert run("job", "watch", JOB, "--json").json["status"] == "succeeded"


class TestSubmit:
    def test_the_id_is_the_result_and_last_is_remembered(
        self, run: Run, small: SmallFarm, job: dict[str, Any], url: str
    ) -> None:
        small.answers["POST /api/v1/jobs"] = job

        ran = run("job", "submit", "--project", "Demo")

        assert ran.out == f"{JOB}\n"
        assert profiles.recall(url, "job") == JOB

    def test_each_run_has_a_key_of_its_own_unless_it_is_said(
        self, run: Run, small: SmallFarm, job: dict[str, Any]
    ) -> None:
        small.answers["POST /api/v1/jobs"] = job

        run("job", "submit")
        run("job", "submit")
        run("job", "submit", "--idempotency-key", "nightly-2026-11-30")

        assert len(set(small.keys)) == 3
        assert small.keys[-1] == "nightly-2026-11-30"

    def test_it_may_be_watched(self, run: Run, small: SmallFarm, job: dict[str, Any]) -> None:
        small.answers["POST /api/v1/jobs"] = job
        job.update(status="succeeded", tasks=counts(succeeded=3))

        ran = run("job", "submit", "--watch", "--json")

        assert ran.code == 0
        assert ran.json["id"] == JOB


class TestStatus:
    def test_it_says_how_far_it_is_and_what_it_cost(self, run: Run, small: SmallFarm, job: dict[str, Any]) -> None:
        money = {"micro": 45_000, "currency": "USD", "amount": "0.045"}
        totals = {"count": 1, "charged": money, "credit": {**money, "micro": 0}}
        small.answers["/api/v1/statement"] = {"results": [], "next": None, "totals": totals}

        out = run("job", "status", JOB).out

        for line in (
            "active  Dusk",
            "3 tasks are ready.",
            "tasks     3 ready",
            "with      Frames=1-3",
            "0.045 USD so far",
        ):
            assert line in out
        assert "Scene=" not in out

    def test_a_token_that_may_not_see_money_still_sees_the_job(
        self, run: Run, small: SmallFarm, job: dict[str, Any]
    ) -> None:
        small.fail("GET", "/api/v1/statement", status=403, code="permission-denied")

        ran = run("job", "status", JOB)

        assert ran.code == 0
        assert "not for your token to see" in ran.out


class TestList:
    def test_names_are_shown_as_they_are(self, run: Run, small: SmallFarm, job: dict[str, Any]) -> None:
        small.answers["/api/v1/jobs"] = page({**job, "name": "[red]Dusk[/red]"})

        assert "01a22ebc-17ad  [red]Dusk[/red]  Demo     active   0/3" in run("job", "list").out


class TestContinue:
    def test_a_job_that_waits_for_approval_goes_on(self, run: Run, small: SmallFarm, job: dict[str, Any]) -> None:
        job.update(status="suspended", suspended_by="approval")

        assert run("job", "continue", JOB).code == 0
        assert small.count("POST", f"{AT}/resume") == 1

    def test_one_that_does_not_is_left_alone(self, run: Run, small: SmallFarm, job: dict[str, Any]) -> None:
        job.update(approval="scouting")

        ran = run("job", "continue", JOB)

        assert ran.code == 1
        assert "Its scouts still render." in ran.err
        assert small.count("POST", AT) == 0


class TestSteering:
    @pytest.mark.parametrize("act", ["suspend", "resume", "cancel"])
    def test_the_farm_is_asked(self, run: Run, small: SmallFarm, job: dict[str, Any], act: str) -> None:
        assert run("job", act, JOB).code == 0
        assert small.count("POST", f"{AT}/{act}") == 1

    def test_a_priority_is_changed(self, run: Run, small: SmallFarm, job: dict[str, Any]) -> None:
        small.answers[f"PATCH {AT}"] = job

        run("job", "priority", JOB, "80")

        assert small.bodies[-1] == (f"PATCH {AT}", {"priority": 80})


class TestRetry:
    @pytest.fixture(autouse=True)
    def _tasks(self, small: SmallFarm, job: dict[str, Any]) -> None:
        small.answers[f"{AT}/tasks"] = page(*({"id": f"t{frame}", "frame": frame} for frame in (3, 7, 8)))
        small.answers[f"POST {AT}/retry"] = {"tasks": 2}

    def test_the_failed_ones_unless_said(self, run: Run, small: SmallFarm) -> None:
        ran = run("job", "retry", JOB)

        assert small.bodies[-1] == (f"POST {AT}/retry", {"which": "failed"})
        assert "2 tasks will be rendered again." in ran.err

    def test_all_that_are_missing(self, run: Run, small: SmallFarm) -> None:
        run("job", "retry", JOB, "--missing")

        assert small.bodies[-1] == (f"POST {AT}/retry", {"which": "missing"})

    def test_chosen_frames(self, run: Run, small: SmallFarm) -> None:
        run("job", "retry", JOB, "--frames", "3,7-8")

        assert small.bodies[-1] == (f"POST {AT}/retry", {"which": "list", "tasks": ["t3", "t7", "t8"]})

    def test_frames_it_does_not_have_are_named(self, run: Run, small: SmallFarm) -> None:
        ran = run("job", "retry", JOB, "--frames", "3-9")

        assert ran.code == 1
        assert "The job has no frames 4-6,9." in ran.err
        assert small.count("POST", AT) == 0


class TestLogs:
    def test_the_last_that_failed_is_shown_unless_a_frame_is_named(
        self, run: Run, small: SmallFarm, job: dict[str, Any]
    ) -> None:
        small.answers[f"{AT}/attempts"] = page(attempt(2, "failed", sentence="No camera."))
        small.logs["a2"] = ["Fra:1\n", "Error: no camera\n"]

        ran = run("job", "logs", JOB)

        assert ran.code == 0
        assert ran.out == "Fra:1\nError: no camera\n"
        assert "Frame 2, try 1: failed on CPU, 4.2 s" in ran.err
        assert "No camera." in ran.err

    def test_a_running_one_is_followed_to_its_end(
        self, run: Run, small: SmallFarm, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        small.answers[f"{AT}/tasks"] = page({"id": "t3", "frame": 3})
        small.answers[f"{AT}/attempts"] = page(attempt(3, "started"))
        small.logs["a3"] = ["one "]

        def later(seconds: float) -> None:
            small.logs["a3"].append("two ")
            small.answers[f"{AT}/attempts"] = page(attempt(3, "succeeded"))

        monkeypatch.setattr("farmhand.cli.job.time.sleep", later)

        assert run("job", "logs", JOB, "--frame", "3", "--follow").out == "one two "

    def test_json_holds_the_attempt_and_its_log(self, run: Run, small: SmallFarm, job: dict[str, Any]) -> None:
        small.answers[f"{AT}/attempts"] = page(attempt(2, "failed"))
        small.logs["a2"] = ["one"]

        found = run("job", "logs", JOB, "--json").json

        assert (found["attempt"]["id"], found["log"]) == ("a2", "one")

    def test_without_an_attempt_there_is_no_log(self, run: Run, job: dict[str, Any]) -> None:
        ran = run("job", "logs", JOB)

        assert ran.code == 1
        assert "farmhand job why" in ran.err

    def test_a_frame_it_does_not_have_is_refused(self, run: Run, job: dict[str, Any]) -> None:
        assert run("job", "logs", JOB, "--frame", "99").code == 1


class TestPull:
    def test_frames_land_in_a_folder_and_what_lacks_is_said(
        self, run: Run, small: SmallFarm, job: dict[str, Any], tmp_path: Path
    ) -> None:
        job["tasks"] = counts(succeeded=2, failed=1)
        small.answers[f"{AT}/outputs"] = page(output(small, 1), output(small, 2))

        ran = run("job", "pull", JOB, str(tmp_path / "out"))

        assert f"2 files (6 bytes) fetched to {tmp_path / 'out'}." in ran.out
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["frame_0001.png", "frame_0002.png"]
        assert "1 of 3 tasks have not succeeded" in ran.err

    def test_a_folder_of_the_jobs_name_is_made_here(
        self, run: Run, small: SmallFarm, job: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        job["name"] = "../Dusk: take 2"
        small.answers[f"{AT}/outputs"] = page(output(small, 1))

        found = run("job", "pull", JOB, "--json").json

        assert found["folder"] == ".._Dusk_ take 2"
        assert (tmp_path / found["folder"] / "frame_0001.png").exists()

    def test_nothing_to_fetch_is_a_refusal(self, run: Run, job: dict[str, Any], tmp_path: Path) -> None:
        assert run("job", "pull", JOB, str(tmp_path / "out")).code == 1


class TestMovie:
    def movie(self, small: SmallFarm, **more: Any) -> None:
        small.files["movie"] = b"film"
        found = {"url": "/files/movie", "size": 4, "digest": hashlib.sha256(b"film").hexdigest(), "trouble": ""}
        found |= {"version": 1, "present": 3, "shown": 3, "frames": 3, "fps": "24/1", "width": 640, "height": 360}
        small.answers[f"{AT}/movie"] = found | {"missing": [], "unreadable": []} | more

    def test_it_is_fetched_and_described(self, run: Run, small: SmallFarm, job: dict[str, Any], tmp_path: Path) -> None:
        self.movie(small, missing=[2])

        ran = run("job", "movie", JOB, str(tmp_path / "a.mp4"))

        assert f"{tmp_path / 'a.mp4'}: 640×360, 3 frames at 24 a second, 4 bytes." in ran.out
        assert "Frames 2 are missing" in ran.err

    def test_it_is_waited_for_until_it_shows_all_there_is(
        self, run: Run, small: SmallFarm, job: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.movie(small, shown=1)
        job["status"] = "succeeded"
        monkeypatch.setattr("farmhand.cli.job.time.sleep", lambda seconds: self.movie(small))

        ran = run("job", "movie", JOB, str(tmp_path / "a.mp4"), "--wait")

        assert ran.code == 0
        assert "The movie shows 1 of 3 frames that are there" in ran.err

    def test_trouble_that_stays_is_said(self, run: Run, small: SmallFarm, job: dict[str, Any], tmp_path: Path) -> None:
        self.movie(small, url=None, version=0, shown=0, trouble="the encoder is away")
        job["status"] = "succeeded"

        ran = run("job", "movie", JOB, str(tmp_path / "a.mp4"), "--wait")

        assert ran.code == 1
        assert "the encoder is away" in ran.err


class TestQuality:
    def test_findings_are_named_by_frame(self, run: Run, small: SmallFarm, job: dict[str, Any]) -> None:
        finding = {"kind": "black", "frame": 2, "task": "t", "params": {}, "sentence": "It is black."}
        small.answers[f"{AT}/quality"] = {"checked": 3, "counts": {"black": 1}, "findings": [finding]}

        out = run("job", "quality", JOB).out

        assert "3 frames looked at, 1 finding." in out
        assert "frame 2: It is black." in out

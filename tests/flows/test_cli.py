"""The command line against a whole farm: what a person types, from the folder to the bill."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from farmhand.digests import PART_SIZE

from tests.harness import FARM_PYTHON, ROOT, TEMPLATE, Farm

FAILING = TEMPLATE.replace("sleep {{Param.Seconds}};", "test {{Task.Param.Frame}} -ne 2 ||  exit 1;")
SAID = TEMPLATE.replace("sleep {{Param.Seconds}};", "echo frame {{Task.Param.Frame}} says hello;")


@dataclass
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(scope="module")
def whole_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    farm = Farm(tmp_path_factory.mktemp("farm"))
    farm.up()
    yield farm
    farm.down()


@pytest.fixture
def environment(whole_farm: Farm, tmp_path: Path) -> dict[str, str]:
    """A person with a home of their own, who has the farm's token."""
    homes = {f"XDG_{name}_HOME": str(tmp_path / name.lower()) for name in ("CONFIG", "CACHE", "STATE")}
    farm = {"FARMHAND_URL": whole_farm.variables["FARM_URL"], "FARMHAND_TOKEN": whole_farm.token}
    return os.environ | homes | farm


Run = Callable[..., Ran]


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    def run(*words: str | Path) -> Ran:
        ran = subprocess.run(
            [sys.executable, "-m", "farmhand", *words], env=environment, capture_output=True, text=True, timeout=110
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    return run


@pytest.fixture
def template(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "job.yaml"
        path.write_text(text)
        return path

    return write


def scene(folder: Path) -> Path:
    """Write a folder of one large file and two small ones."""
    folder.mkdir()
    (folder / "shot.blend").write_bytes(b"BLENDER-v500 but not really" + os.urandom(100))
    (folder / "wood.png").write_bytes(os.urandom(2000))
    (folder / "cache.bin").write_bytes(os.urandom(10 * PART_SIZE + 5))
    return folder


def finished_parts(farm: Farm) -> int:
    return sum(path.name != "key" for path in (farm.folder / "store" / "uploads").glob("*/*"))


def await_parts(farm: Farm, pushing: subprocess.Popen[Any], *, count: int) -> None:
    """Wait until so many parts lie in the store, or the push has ended."""
    while finished_parts(farm) < count and pushing.poll() is None:
        time.sleep(0.005)


class TestUploads:
    def test_one_that_was_killed_goes_on_and_one_changed_file_travels_alone(
        self, whole_farm: Farm, run: Run, environment: dict[str, str], tmp_path: Path
    ) -> None:
        folder = scene(tmp_path / "shot")
        total = sum(path.stat().st_size for path in folder.iterdir())

        pushing = subprocess.Popen([sys.executable, "-m", "farmhand", "scene", "push", folder], env=environment)
        await_parts(whole_farm, pushing, count=2)
        pushing.send_signal(signal.SIGKILL)
        pushing.wait()
        time.sleep(1)  # what was on the line still lands
        there = finished_parts(whole_farm)
        again = run("scene", "push", folder, "--json").json
        (folder / "wood.png").write_bytes(os.urandom(3000))
        changed = run("scene", "push", folder, "--json").json

        assert 2 <= there < 11
        assert again["version"]["status"] in {"whole", "inspected", "refused"}
        assert again["sent_bytes"] <= total - (there - 1) * PART_SIZE
        assert (changed["sent_files"], changed["sent_bytes"]) == (1, 3000)

    def test_a_farm_that_restarts_meanwhile_is_waited_for(
        self, whole_farm: Farm, environment: dict[str, str], tmp_path: Path
    ) -> None:
        folder = scene(tmp_path / "shot")
        before = finished_parts(whole_farm)

        pushing = subprocess.Popen(
            [sys.executable, "-m", "farmhand", "scene", "push", folder, "--scene", "Patient", "--json"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        await_parts(whole_farm, pushing, count=before + 1)
        os.kill(whole_farm.part("web"), signal.SIGKILL)  # so that it is away in mid-sending, however slow the start
        out, err = pushing.communicate(timeout=110)

        assert pushing.returncode == 0
        assert "trying again in" in err
        assert json.loads(out)["files"] == 3

    def test_what_is_no_scene_is_refused_by_its_report(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "fake.blend").write_bytes(b"PK\x03\x04 this is a zip")

        ran = run("scene", "push", tmp_path / "fake.blend", "--wait-report")

        assert ran.code == 0
        assert "✗" in ran.out
        assert run("job", "check", "last", "--frames", "1").code == 1


class TestJobs:
    def test_a_job_is_watched_paid_for_and_fetched(
        self, run: Run, template: Callable[[str], Path], tmp_path: Path
    ) -> None:
        order = ["--template", template(SAID), "-p", "Frames=1-4", "--name", "Four", "--budget", "5"]

        submitted = run("job", "submit", *order, "--watch")

        assert submitted.code == 0
        assert "succeeded  Four: All 4 tasks succeeded." in submitted.out
        assert submitted.err.count("✓") == 4
        job = run("job", "status", "last", "--json").json
        assert (job["tasks"]["succeeded"], job["why"]["code"]) == (4, "succeeded")

        pulled = run("job", "pull", "last", tmp_path / "out", "--json").json
        assert sorted(path.read_text() for path in (tmp_path / "out").iterdir()) == [f"{n}\n" for n in range(1, 5)]
        assert len(pulled["fetched"]) == 4
        assert len(run("job", "pull", "last", tmp_path / "out", "--json").json["kept"]) == 4

        bill = run("bill", "show", "--job", "last", "--json").json
        assert sorted(line["label"] for line in bill["lines"]) == sorted({line["label"] for line in bill["lines"]})
        assert len(bill["lines"]) == bill["totals"]["count"] == 4
        assert sum(line["charged"]["micro"] for line in bill["lines"]) == bill["totals"]["charged"]["micro"]
        rows = list(csv.DictReader(io.StringIO(run("bill", "show", "--job", "last", "--csv", "-").out)))
        assert {row["job"] for row in rows} == {"Four"}
        budgets = run("bill", "budget", "list", "--json").json
        mine = next(budget for budget in budgets if budget["subject"] == job["cost_object"])
        assert mine["cap"]["amount"].startswith("5")

    def test_what_a_short_task_said_can_be_read(self, run: Run, template: Callable[[str], Path]) -> None:
        run("job", "submit", "--template", template(SAID), "-p", "Frames=7", "--watch")

        assert re.search(r"frame 7 says hello", run("job", "logs", "last", "--frame", "7").out)

    def test_a_job_that_fails_is_4_and_its_failed_task_is_tried_again(
        self, run: Run, template: Callable[[str], Path]
    ) -> None:
        submitted = run("job", "submit", "--template", template(FAILING), "-p", "Frames=1-6", "--watch")
        retried = run("job", "retry", "last", "--failed", "--json")

        assert submitted.code in {4, 5}  # 5: it suspended itself since its first tasks failed
        assert "✗ " in submitted.out
        assert retried.json["tasks"] == 1

    def test_a_key_makes_one_job_of_two_orders(self, run: Run, template: Callable[[str], Path]) -> None:
        order = ["--template", template(TEMPLATE), "-p", "Frames=1", "--idempotency-key", "once", "--suspended"]

        first, second = (run("job", "submit", *order).out for _ in range(2))

        assert first == second

    def test_it_is_suspended_resumed_and_cancelled(self, run: Run, template: Callable[[str], Path]) -> None:
        run("job", "submit", "--template", template(TEMPLATE), "-p", "Frames=1-50", "-p", "Seconds=30")

        statuses = [run("job", act, "last", "--json").json["status"] for act in ("suspend", "resume", "cancel")]

        assert statuses[:2] == ["suspended", "active"]
        assert run("job", "watch", "last").code == 4

    def test_watching_is_stopped_and_the_job_goes_on(
        self, run: Run, template: Callable[[str], Path], environment: dict[str, str]
    ) -> None:
        run("job", "submit", "--template", template(TEMPLATE), "-p", "Frames=1", "-p", "Seconds=5")
        watching = subprocess.Popen(
            [sys.executable, "-m", "farmhand", "job", "watch", "last"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watching.stderr
        first = watching.stderr.readline()

        watching.send_signal(signal.SIGINT)
        said = watching.stderr.read()
        watching.stderr.close()

        assert watching.wait() == 130
        assert first.strip()
        assert "the job goes on" in said
        assert run("job", "watch", "last").code == 0

    def test_a_typo_in_a_parameter_is_said_before_anything_is_made(
        self, run: Run, template: Callable[[str], Path]
    ) -> None:
        ran = run("job", "check", "--template", template(TEMPLATE), "-p", "Frames=1", "-p", "Secnods=3", "--json")

        assert ran.code == 1
        assert ran.json["error"]["code"] == "unknown-parameter"


class TestFarmPython:
    def test_the_farms_own_environment_has_the_command(self) -> None:
        ran = subprocess.run(
            [FARM_PYTHON.with_name("farmhand"), "--version"], cwd=ROOT, capture_output=True, text=True, check=True
        )

        assert ran.stdout.startswith("farmhand ")

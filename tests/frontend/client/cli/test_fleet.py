"""`fleet …`: what there is, what was decided, and the two commands of operators."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontend.client.cli.conftest import Run
from tests.frontend.client.small_farm import SmallFarm

NIGHT = "22222222-0000-7000-8000-000000000001"


@pytest.fixture(autouse=True)
def fleets(small: SmallFarm) -> list[dict[str, Any]]:
    counts = {"starting": 3, "ready": 12, "draining": 1, "own": 8, "others": 4, "nobody": 1}
    rows: list[dict[str, Any]] = [
        {
            "id": "l", "name": "local", "provider": "local", "region": "local", "market": "on-demand",
            "max_machines": 1, "is_paused": True, "machines": dict.fromkeys(counts, 0),
        },
        {
            "id": NIGHT, "name": "night", "provider": "ec2", "region": "us-east-1", "market": "spot",
            "max_machines": 40, "is_paused": False, "machines": counts,
        },
    ]  # fmt: skip
    small.answers["/api/v1/fleets"] = {"results": rows, "next": None}
    small.answers["/api/v1/farm"] = {"is_paused": False, "limits": None, "standing": None, "reached": None}
    return rows


class TestList:
    def test_each_fleet_has_a_line(self, run: Run) -> None:
        ran = run("fleet", "list")

        assert ran.out.splitlines()[1].split() == [
            "local", "(paused)", "local", "on-demand", "0", "0", "0", "0", "0", "1",
        ]  # fmt: skip
        assert ran.out.splitlines()[2].split() == [
            "night", "ec2", "us-east-1", "spot", "12", "3", "1", "8", "4", "40",
        ]  # fmt: skip
        assert ran.err == ""

    def test_a_farm_that_is_paused_says_so(self, run: Run, small: SmallFarm) -> None:
        small.answers["/api/v1/farm"]["is_paused"] = True

        assert "The farm is paused" in run("fleet", "list").err

    def test_as_json_it_is_what_the_farm_says(self, run: Run, fleets: list[dict[str, Any]]) -> None:
        assert run("fleet", "list", "--json").json["fleets"] == fleets


class TestLog:
    def test_decisions_come_with_their_reasons(self, run: Run, small: SmallFarm) -> None:
        made: dict[str, Any] = {
            "id": "d",
            "fleet": NIGHT,
            "worker": None,
            "kind": "launch",
            "reason": "work-ready",
            "params": {},
        }
        made |= {"sentence": "4 machines asked for (work-ready), 4 were wished for.", "at": "2026-12-01T02:00:00Z"}
        small.answers["/api/v1/decisions"] = {"results": [made], "next": None}

        ran = run("fleet", "log", "night", "--kind", "launch")

        assert "night  launch  4 machines asked for (work-ready)" in ran.out

    def test_a_fleet_there_is_not_is_named(self, run: Run) -> None:
        ran = run("fleet", "log", "day")

        assert ran.code == 1
        assert "There is no fleet 'day'. There are: local, night." in ran.err


class TestPause:
    def test_a_fleet_is_paused_by_its_name(self, run: Run, small: SmallFarm) -> None:
        small.answers[f"POST /api/v1/fleets/{NIGHT}/pause"] = {"name": "night", "is_paused": True}

        assert run("fleet", "pause", "NIGHT").out == "Fleet night launches nothing more.\n"

    def test_all_is_the_whole_farm(self, run: Run, small: SmallFarm) -> None:
        small.answers["POST /api/v1/farm/resume"] = {"is_paused": False}

        assert run("fleet", "resume", "all").out == "The farm launches again.\n"

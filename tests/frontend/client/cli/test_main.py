"""Exit codes, errors for people and programs, and what never needs a farm."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from farmhand import __version__
from farmhand.cli import app
from typer.main import get_command

from tests.frontend.client.cli.conftest import Run
from tests.frontend.client.small_farm import SmallFarm


def commands(group: object, *above: str) -> list[tuple[str, ...]]:
    """Give all commands there are, as their words."""
    found: list[tuple[str, ...]] = []
    for name, command in getattr(group, "commands").items():  # noqa: B009  (typer's groups have no common public type)
        found += commands(command, *above, name) if hasattr(command, "commands") else [(*above, name)]
    return found


COMMANDS = commands(get_command(app))


class TestHelp:
    @pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
    def test_every_command_explains_itself_and_speaks_json(self, run: Run, words: tuple[str, ...]) -> None:
        ran = run(*words, "--help")

        assert ran.code == 0
        assert "--json" in ran.out

    def test_the_version_is_said(self, run: Run) -> None:
        ran = run("--version")

        assert (ran.code, ran.out) == (0, f"farmhand {__version__}\n")

    def test_it_runs_as_a_module_and_without_colours_where_none_are_wanted(self) -> None:
        ran = subprocess.run(
            [sys.executable, "-m", "farmhand", "--help"],
            env=os.environ | {"NO_COLOR": "1", "FORCE_COLOR": ""},
            capture_output=True,
            text=True,
            check=True,
        )

        assert "Send scenes to a Farmhand farm" in ran.stdout
        assert "\x1b[3" not in ran.stdout


class TestExitCodes:
    def test_done_is_0(self, run: Run) -> None:
        assert run("whoami").code == 0

    def test_a_refusal_is_1_and_says_what_to_do(self, run: Run, small: SmallFarm) -> None:
        small.fail("GET", "/api/v1/jobs", times=9, status=409, code="scene-not-whole")

        ran = run("job", "list")

        assert ran.code == 1
        assert "error: The farm says scene-not-whole." in ran.err
        assert "`farmhand scene push` the folder again" in ran.err

    def test_wrong_usage_is_2(self, run: Run) -> None:
        assert run("job", "retry", "last", "--failed", "--missing").code == 2
        assert run("job", "submit", "last", "-p", "Frames").code == 2
        assert run("bill", "budget", "set", "much").code == 2
        assert run("no-such-command").code == 2

    def test_a_farm_that_does_not_answer_is_3(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FARMHAND_URL", "http://127.0.0.1:1")

        ran = run("whoami")

        assert ran.code == 3
        assert "trying again in" in ran.err

    def test_no_token_is_1_and_names_login(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("FARMHAND_TOKEN")

        ran = run("whoami")

        assert ran.code == 1
        assert "farmhand login" in ran.err


class TestErrorsForPrograms:
    def test_a_refusal_is_one_object_on_standard_output(self, run: Run, small: SmallFarm) -> None:
        small.fail("GET", "/api/v1/jobs", times=9, status=409, code="scene-not-whole")

        ran = run("job", "list", "--json")

        assert ran.json == {
            "error": {"code": "scene-not-whole", "detail": "The farm says scene-not-whole.", "errors": [], "params": {}}
        }

    def test_one_of_our_own_has_the_same_shape(self, run: Run) -> None:
        ran = run("scene", "push", "/nowhere/at/all", "--json")

        assert ran.json["error"]["code"] == "nothing-there"
        assert set(ran.json["error"]) == {"code", "detail", "errors", "params"}

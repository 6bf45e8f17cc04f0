"""The browser portal: its own unit tests, and its stories in a real Chromium against a whole real farm."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.house.portal import NODE, PORTAL, node_variables
from tests.harness import FARM_PYTHON, ROOT, Farm, make_sample_scene


def node(*command: str, env: dict[str, str] | None = None, timeout: float = 120) -> None:
    """Run one of the portal's programs; what it said is shown when it fails."""
    own = node_variables() | {"NO_COLOR": "1"} | (env or {})
    done = subprocess.run(
        [NODE / command[0], *command[1:]],
        cwd=PORTAL,
        env=own,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


class TestUnits:
    def test_the_portals_own_tests_pass(self) -> None:
        node("npm", "run", "--silent", "test")


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    farm = Farm(tmp_path / "farm")
    farm.up()
    try:
        yield farm
    finally:
        farm.down()


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """The sample scene's folder, with its texture."""
    return make_sample_scene(tmp_path / "scene")


class TestStories:
    @pytest.mark.timeout(900)
    def test_people_do_in_a_browser_what_the_farm_is_for(self, farm: Farm, scene: Path, tmp_path: Path) -> None:
        chromium = shutil.which("chromium")
        assert chromium, "The portal's stories need Chromium: `make test` checks for it first."
        shown = subprocess.run(
            [FARM_PYTHON, "manage.py", "bootstrap", "--json", "--studio", "Nordlicht", "--email", "ada@example.com"],
            cwd=ROOT, env=farm.env | farm.variables, check=True, capture_output=True, text=True,
        )  # fmt: skip
        first = json.loads(shown.stdout)
        env = {
            "E2E_URL": farm.variables["FARM_URL"],
            "E2E_LINK": first["portal"],
            "E2E_EMAIL": first["user"],
            "E2E_SCENE": str(scene),
            "E2E_CHROMIUM": chromium,
            "E2E_OUT": str(tmp_path / "out"),
        }

        node("npx", "playwright", "test", env=env, timeout=840)

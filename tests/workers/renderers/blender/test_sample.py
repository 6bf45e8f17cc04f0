"""The sample scene."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import OpenImageIO
import pytest

from tests.workers.renderers.conftest import Sessions

pytestmark = pytest.mark.timeout(300)

SCRIPT = Path(__file__).parents[4] / "workers/renderers/blender/sample.py"


def pixels(file: Path) -> Any:
    return OpenImageIO.ImageBuf(str(file)).get_pixels(OpenImageIO.FLOAT)


@pytest.fixture(scope="module")
def farm(launcher: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    options = ["--background", "--factory-startup", "--python-exit-code", "1", "--python", str(SCRIPT)]
    subprocess.run([launcher / "blender", *options, "--", folder], check=True, capture_output=True)
    return folder / "farm.blend"


class TestMakeScene:
    def test_it_is_a_scene_and_one_texture(self, farm: Path) -> None:
        files = sorted(str(file.relative_to(farm.parent)) for file in farm.parent.rglob("*") if file.is_file())

        assert files == ["farm.blend", "textures/field.png"]
        assert sum(file.stat().st_size for file in farm.parent.rglob("*")) < 2_000_000

    def test_its_report_has_no_problems(self, sessions: Sessions, farm: Path) -> None:
        sessions.inspect(farm).run()

        report: dict[str, Any] = json.loads((sessions.out / "report.json").read_text())
        assert report["problems"] == []
        assert [(d["path"], d["state"]) for d in report["dependencies"]] == [("//textures/field.png", "found")]
        assert report["scenes"][0]["frames"] == {"start": 1, "end": 48, "step": 1}

    def test_its_frames_differ_and_are_pictures(self, sessions: Sessions, farm: Path) -> None:
        session = sessions.render(farm, "1-48", ResolutionPercent="10", Samples="1")
        session.enter()

        ended = session.run("CHUNK[INT]", Frame="1,48")

        assert ended.is_success, ended.lines
        first, last = (pixels(sessions.out / f"frame_0000{n}.png") for n in ("01", "48"))
        assert first.std() > 0.1
        assert abs(first - last).mean() > 0.02

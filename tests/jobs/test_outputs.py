"""Which files a task must leave, by the rule that its step carries."""

from __future__ import annotations

import json

from farm.jobs.outputs import expected_outputs, inspection_rule, render_rule
from tests.scenes.reports import a_scene
from workers.protocol import OutputRole
from workers.renderers import load_renderer

BLENDER = load_renderer("blender")
PARAMETERS = {"Scene": "", "FileFormat": "PNG", "ColorDepth": "SCENE", "ResolutionPercent": "0"}


class TestExpectedOutputs:
    def test_a_frame_leaves_a_picture_of_the_scene_s_size(self) -> None:
        rule = json.loads(json.dumps(render_rule(BLENDER, PARAMETERS, a_scene())))

        (picture,) = expected_outputs(rule, {"Frame": "12"}) or []

        assert (picture.role, picture.width, picture.height) == (OutputRole.RENDER, 960, 540)
        assert "12" in picture.name

    def test_an_inspection_leaves_its_report(self) -> None:
        rule = json.loads(json.dumps(inspection_rule(BLENDER)))

        (report,) = expected_outputs(rule, {}) or []

        assert (report.name, report.role) == ("report.json", OutputRole.REPORT)

    def test_a_studio_s_own_template_leaves_what_it_likes(self) -> None:
        assert expected_outputs(None, {"Frame": "1"}) is None

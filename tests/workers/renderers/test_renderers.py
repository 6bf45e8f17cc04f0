"""The loader of the renderers' package data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from openjd.model import decode_job_template

from workers.protocol import OutputRole
from workers.renderers import UnembeddableScript, UnknownRenderer, embeddable, load_renderer, renderer_names


class TestRendererNames:
    def test_every_folder_with_a_template_is_a_renderer(self) -> None:
        assert renderer_names() == ["blender"]


class TestLoadRenderer:
    @pytest.mark.parametrize("which", ["template", "inspect_template"])
    def test_its_templates_are_openjd(self, which: str) -> None:
        template = json.loads(getattr(load_renderer("blender"), which))

        decode_job_template(template=template, supported_extensions=["TASK_CHUNKING"])

    @pytest.mark.parametrize("which", ["template", "inspect_template"])
    def test_its_templates_carry_every_script_that_their_scripts_import(self, which: str) -> None:
        files = _embedded(getattr(load_renderer("blender"), which))

        imported = {
            line.split()[1]
            for text in files.values()
            for line in text.splitlines()
            if line.startswith("from ") and (Path("workers/renderers/blender") / f"{line.split()[1]}.py").exists()
        }

        assert imported <= {name.removesuffix(".py") for name in files}
        assert not [text for text in files.values() if "workers.renderers" in text]

    def test_an_inspection_leaves_a_report(self) -> None:
        (output,) = load_renderer("blender").inspect_outputs

        assert (output.name, output.role, output.format) == ("report.json", OutputRole.REPORT, None)

    def test_an_unknown_renderer_is_refused_with_those_there_are(self) -> None:
        with pytest.raises(UnknownRenderer, match="no renderer maya: choose one of blender"):
            load_renderer("maya")

    def test_the_loader_is_light(self) -> None:
        code = (
            "import sys, workers.renderers; print([m for m in ('yaml', 'openjd', 'bpy', 'numpy') if m in sys.modules])"
        )

        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

        assert said.strip() == "[]"


class TestEmbeddable:
    def test_imports_of_neighbours_become_plain(self, tmp_path: Path) -> None:
        script = tmp_path / "a.py"
        script.write_text("import json\nfrom workers.renderers.blender.outputs import (\n    frame_name,\n)\n")

        assert embeddable(script) == "import json\nfrom outputs import (\n    frame_name,\n)\n"

    @pytest.mark.parametrize("text", ["f'{{x}'", "{'a': {}}"])
    def test_what_openjd_would_take_for_a_format_string_is_refused(self, tmp_path: Path, text: str) -> None:
        script = tmp_path / "a.py"
        script.write_text(text)

        with pytest.raises(UnembeddableScript, match=r"a\.py"):
            embeddable(script)


def _embedded(template: str) -> dict[str, str]:
    step = json.loads(template)["steps"][0]
    scripts = [step["script"], *(environment["script"] for environment in step.get("stepEnvironments", []))]
    return {
        file.get("filename", file["name"]): file["data"]
        for script in scripts
        for file in script.get("embeddedFiles", [])
    }

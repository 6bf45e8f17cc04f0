"""Templates and parameters become steps and tasks, as `openjd-model` itself would have it, or are refused in words."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openjd.model import (
    DocumentType,
    IntRangeExpr,
    StepParameterSpaceIterator,
    create_job,
    decode_job_template,
    document_string_to_object,
)

from farm.core.errors import Refusal, Refusals
from farm.jobs import expansion
from farm.jobs.expansion import Expansion, expand
from tests.farm import TEMPLATE
from tests.jobs.spaces import Written, ranges, template, templates
from workers.renderers import load_renderer

BLENDER = load_renderer("blender").template
GOOD = {"SceneFile": "shots/a.blend", "Frames": "1-3"}

TYPED = """
specificationVersion: jobtemplate-2023-09
name: "{{Param.Title}}"
parameterDefinitions:
- {name: Title, type: STRING, default: Untitled, minLength: 2, maxLength: 8}
- {name: Depth, type: INT, default: 8, allowedValues: [8, 16, 32]}
- {name: Percent, type: INT, default: 0, minValue: 0, maxValue: 100}
- {name: Gain, type: FLOAT, default: 1, minValue: 0}
- {name: Needed, type: STRING}
- {name: In, type: PATH, objectType: FILE, dataFlow: IN, default: a.txt}
- {name: Out, type: PATH, dataFlow: OUT, default: out}
- {name: Tool, type: PATH, default: bin}
steps:
- name: Only
  script: {actions: {onRun: {command: "true"}}}
"""


def refusal_of(text: str, values: dict[str, str]) -> Refusal:
    with pytest.raises(Refusal) as raised:
        expand(text, values)
    return raised.value


def rows(found: Expansion) -> list[dict[str, str]]:
    (step,) = found.steps
    return [dict(zip(step.names, point, strict=True)) for point in step.points]


def by_openjd(text: str, *, whole_chunks: int | None = None) -> list[dict[str, str]]:
    """Lay a template's only step out by `openjd-model` alone."""
    document = document_string_to_object(document=text, document_type=DocumentType.YAML)
    job = create_job(
        job_template=decode_job_template(template=document, supported_extensions=["TASK_CHUNKING"]),
        job_parameter_values={},
    )
    points: Iterator[Any] = iter(
        StepParameterSpaceIterator(space=job.steps[0].parameterSpace, chunks_task_count_override=whole_chunks)
    )
    return [{name: str(value.value) for name, value in point.items()} for point in points]


class TestExpand:
    @given(templates())
    def test_the_tasks_are_those_of_openjd_model_in_its_order(self, text: str) -> None:
        assert rows(expand(text, {})) == by_openjd(text)

    @given(ranges())
    def test_a_range_has_one_task_for_each_number(self, written: Written) -> None:
        found = [int(row["Frame"]) for row in rows(expand(TEMPLATE, {"Frames": written.text}))]

        assert len(found) == len(set(found))
        assert set(found) == written.numbers

    @given(ranges(), st.integers(1, 7), st.sampled_from(["CONTIGUOUS", "NONCONTIGUOUS"]), st.sampled_from([0, 60]))
    def test_the_chunks_of_a_range_cover_it_exactly(
        self, written: Written, size: int, kind: str, target_s: int
    ) -> None:
        chunks = {"defaultTaskCount": size, "rangeConstraint": kind, "targetRuntimeSeconds": target_s}
        chunked = {"name": "Frame", "type": "CHUNK[INT]", "range": written.text, "chunks": chunks}
        text = template([chunked], extensions=("TASK_CHUNKING",))

        found = rows(expand(text, {}))

        numbers = [n for row in found for n in IntRangeExpr.from_str(row["Frame"])]
        assert len(numbers) == len(set(numbers))
        assert set(numbers) == written.numbers
        assert max(len(IntRangeExpr.from_str(row["Frame"])) for row in found) <= size
        assert found == by_openjd(text, whole_chunks=size)

    def test_a_step_without_a_space_is_one_task(self) -> None:
        (step,) = expand(TYPED, {"Needed": "x"}).steps

        assert (step.names, step.points) == ([], [()])

    def test_parameters_are_resolved_with_their_types(self) -> None:
        found = expand(TYPED, {"Needed": "x", "Title": "Shot", "Gain": "0.5"})

        assert found.name == "Shot"
        assert found.parameters["Gain"] == {"type": "FLOAT", "value": "0.5"}
        assert found.parameters["Depth"] == {"type": "INT", "value": "8"}
        assert found.parameters["In"] == {"type": "PATH", "value": "a.txt"}
        assert (found.input_files, found.input_paths, found.output_paths) == (["In"], ["In", "Tool"], ["Out"])

    def test_paths_are_written_plainly(self) -> None:
        assert expand(BLENDER, GOOD | {"SceneFile": "a/./b//c.blend"}).parameters["SceneFile"]["value"] == "a/b/c.blend"

    def test_what_a_step_depends_on_comes_before_it(self) -> None:
        text = json.dumps(
            {
                "specificationVersion": "jobtemplate-2023-09",
                "name": "Order",
                "steps": [
                    {"name": name, "dependencies": [{"dependsOn": d} for d in needs], "script": RUN}
                    if needs
                    else {"name": name, "script": RUN}
                    for name, needs in {
                        "Movie": ["Stitch"],
                        "Stitch": ["Tiles", "Masks"],
                        "Tiles": [],
                        "Masks": [],
                    }.items()
                ],
            }
        )

        assert [s.name for s in expand(text, {}).steps] == ["Tiles", "Masks", "Stitch", "Movie"]


RUN = {"actions": {"onRun": {"command": "true"}}}


class TestRefusals:
    @pytest.mark.parametrize("frames", ["", "10-", "a-b", "10-1", "1-10,5-15", "５-７", "1,,2", "1-10:0"])
    def test_a_bad_range_names_its_parameter_its_value_and_how_to_write_one(self, frames: str) -> None:
        refusal = refusal_of(TEMPLATE, {"Frames": frames})

        assert (refusal.code, refusal.field) == ("invalid-range", "parameters.Frames")
        assert f"The range {frames!r} of the parameter Frames is not valid: " in refusal.sentence
        assert refusal.sentence.endswith("Write one range as 1-10, every fifth as 1-100:5, several as 1,5,10-20.")

    def test_a_range_of_two_parameters_names_both(self) -> None:
        text = TEMPLATE.replace('range: "{{Param.Frames}}"', 'range: "{{Param.First}}-{{Param.Last}}"').replace(
            '- {name: Frames, type: STRING, default: "1-3"}',
            "- {name: First, type: INT, default: 1}\n- {name: Last, type: INT, default: 9}",
        )

        refusal = refusal_of(text, {"First": "20"})

        assert (refusal.code, refusal.field) == ("invalid-range", "parameters.First")
        assert "'20-9' of the parameter First and Last" in refusal.sentence

    @pytest.mark.parametrize("frames", ["1-10000000", "1-200001", "0-9223372036854775807", "1-100000,200001-300001"])
    def test_too_many_tasks_are_refused_before_they_are_laid_out(self, frames: str) -> None:
        began = time.monotonic()
        refusal = refusal_of(TEMPLATE, {"Frames": frames})

        assert (refusal.code, refusal.field) == ("too-many-tasks", "parameters.Frames")
        assert "200,000" in refusal.sentence
        assert time.monotonic() - began < 5

    def test_the_limit_is_for_the_whole_job(self) -> None:
        two = TEMPLATE + TEMPLATE.partition("steps:\n")[2].replace("Count", "Again")

        refusal = refusal_of(two, {"Frames": "1-150000"})

        assert refusal.params == {"step": "Again", "count": 150_000, "left": 50_000, "limit": 200_000}

    @pytest.mark.parametrize(
        ("values", "field", "code", "words"),
        [
            ({"Nope": "1"}, "Nope", "unknown-parameter", "It has: SceneFile, Frames, "),
            ({"frames": "1"}, "frames", "unknown-parameter", "has no parameter frames"),
            ({"FileFormat": "BMP"}, "FileFormat", "invalid-parameter", "'BMP' .* one of SCENE, PNG, OPEN_EXR"),
            ({"Samples": "-1"}, "Samples", "invalid-parameter", "'-1' .* at least 0"),
            ({"Samples": "99999999"}, "Samples", "invalid-parameter", "at most 16777216"),
            ({"Samples": "many"}, "Samples", "invalid-parameter", "whole number"),
            ({"Samples": "1.5"}, "Samples", "invalid-parameter", "whole number"),
            ({"Samples": "１０"}, "Samples", "invalid-parameter", "0 to 9"),
            ({"Samples": "1_0"}, "Samples", "invalid-parameter", "0 to 9"),
            ({"Samples": ""}, "Samples", "invalid-parameter", "whole number"),
            ({"ResolutionPercent": "1001"}, "ResolutionPercent", "invalid-parameter", "at most 1000"),
            ({"Camera": "x" * 5000}, "Camera", "invalid-parameter", "5000 characters"),
            ({"Frames": ""}, "Frames", "invalid-parameter", "it is empty"),
            ({"SceneFile": "/etc/passwd"}, "SceneFile", "invalid-parameter", "relative to the uploaded folder"),
            ({"SceneFile": "../a.blend"}, "SceneFile", "invalid-parameter", r"without '\.\.'"),
            ({"SceneFile": "a/../../b.blend"}, "SceneFile", "invalid-parameter", r"without '\.\.'"),
            ({"SceneFile": "C:\\a.blend"}, "SceneFile", "invalid-parameter", "relative"),
            ({"SceneFile": "C:/a.blend"}, "SceneFile", "invalid-parameter", "relative"),
            ({"SceneFile": ""}, "SceneFile", "invalid-parameter", "must name a file"),
            ({"SceneFile": "."}, "SceneFile", "invalid-parameter", "must name a file"),
            ({"OutputDir": "/tmp"}, "OutputDir", "invalid-parameter", "relative"),
        ],
    )
    def test_a_value_is_refused_by_name_with_what_would_do(
        self, values: dict[str, str], field: str, code: str, words: str
    ) -> None:
        with pytest.raises(Refusal, match=words) as raised:
            expand(BLENDER, GOOD | values)

        assert (raised.value.code, raised.value.field) == (code, f"parameters.{field}")

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            ({"Title": "x"}, "1 characters; from 2 to 8"),
            ({"Title": "much too long"}, "from 2 to 8"),
            ({"Depth": "12"}, "one of 8, 16, 32"),
            ({"Percent": "-0.5"}, "whole number"),
            ({"Gain": "nan"}, "a number such as"),
            ({"Gain": "inf"}, "a number such as"),
            ({"Gain": "-0.1"}, "at least 0"),
            ({"Gain": "1e999"}, "a number such as"),
        ],
    )
    def test_limits_of_a_studio_s_own_template_hold_too(self, values: dict[str, str], words: str) -> None:
        with pytest.raises(expansion.InvalidParameter, match=words):
            expand(TYPED, {"Needed": "x"} | values)

    def test_a_missing_value_is_named(self) -> None:
        refusal = refusal_of(TYPED, {})

        assert (refusal.code, refusal.field) == ("missing-parameter", "parameters.Needed")

    def test_all_that_is_wrong_is_told_at_once(self) -> None:
        refusal = refusal_of(BLENDER, {"Frames": "1", "Samples": "x", "Nope": "1"})

        assert isinstance(refusal, Refusals)
        assert {(r.code, r.field) for r in refusal.refusals} == {
            ("unknown-parameter", "parameters.Nope"),
            ("missing-parameter", "parameters.SceneFile"),
            ("invalid-parameter", "parameters.Samples"),
        }

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "not a valid YAML"),
            ("{", "not a valid JSON"),
            ("- a\n- b", "not a valid YAML"),
            ("a: b", "specificationVersion"),
            ("\x00", "not valid"),
            ("specificationVersion: jobtemplate-2099-01\nname: x\nsteps: []", "jobtemplate-2099-01"),
            ("specificationVersion: jobtemplate-2023-09\nname: x\nsteps: []", "at least 1 item"),
            (TEMPLATE + "nonsense: 1", "nonsense"),
            (TEMPLATE.replace("Param.Frames", "Param.Frame"), "Param.Frame"),
            ("!!python/object/apply:os.system ['true']", "not a valid YAML"),
            ("[" * 5000, "not a valid YAML"),
            ('{"a":' * 100_000, "recursion|not a valid JSON"),
        ],
    )
    def test_what_is_no_template_is_refused(self, text: str, words: str) -> None:
        with pytest.raises(expansion.InvalidTemplate, match=words) as raised:
            expand(text, {})

        assert raised.value.field == "template"

    def test_aliases_that_stand_for_millions_are_refused_at_once(self) -> None:
        lines = ["specificationVersion: jobtemplate-2023-09", "name: x", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
        began = time.monotonic()

        assert refusal_of("\n".join(lines), {}).code == "template-too-large"
        assert time.monotonic() - began < 5

    @pytest.mark.parametrize("escape", [r"\u0000", r"\ud800"])
    def test_a_text_that_nothing_can_store_is_refused(self, escape: str) -> None:
        text = json.dumps({"specificationVersion": "jobtemplate-2023-09", "name": "x", "steps": [{"name": "S"}]})

        refusal = refusal_of(text.replace('"S"', f'"{escape}"'), {})

        assert (refusal.code, refusal.field) == ("invalid-template", "template")
        assert "nothing can store" in refusal.sentence

    def test_an_alias_of_itself_is_refused(self) -> None:
        assert refusal_of("a: &a [*a]", {}).code == "template-too-large"

    def test_too_many_steps_are_refused(self) -> None:
        steps = [{"name": f"S{i}", "script": RUN} for i in range(201)]
        text = json.dumps({"specificationVersion": "jobtemplate-2023-09", "name": "x", "steps": steps})

        assert refusal_of(text, {}).code == "too-many-steps"

    def test_dependencies_in_a_circle_are_refused(self) -> None:
        steps = [
            {"name": "A", "dependencies": [{"dependsOn": "B"}], "script": RUN},
            {"name": "B", "dependencies": [{"dependsOn": "A"}], "script": RUN},
        ]
        text = json.dumps({"specificationVersion": "jobtemplate-2023-09", "name": "x", "steps": steps})

        assert refusal_of(text, {}).code == "invalid-template"

    @settings(max_examples=200)
    @given(st.text("0123456789-:, ab\x00\U0001f404", max_size=20))
    def test_no_text_for_a_range_is_a_bug(self, frames: str) -> None:
        try:
            found: Expansion | None = expand(TEMPLATE, {"Frames": frames})
        except Refusal:
            found = None

        if found is not None:
            assert found.task_count == len(IntRangeExpr.from_str(frames))

"""Reports as the farm takes them."""

from __future__ import annotations

from typing import Any

import pytest

from farm.scenes.reports import MAX_PROBLEMS, MAX_SENTENCE, ReportMalformed, check_report, refusal_of, summary_of
from tests.scenes.reports import a_dependency, a_problem, a_report, a_scene


def deep(levels: int) -> Any:
    nest: Any = []
    for _ in range(levels):
        nest = [nest]
    return nest


class TestCheckReport:
    def test_a_report_passes_and_what_is_new_in_it_does_no_harm(self) -> None:
        check_report(a_report(something_new={"x": 1}, scenes=[a_scene(more=[1])]))

    def test_a_refusal_needs_no_scenes(self) -> None:
        check_report({"report": 1, "refusal": {"code": "unreadable", "sentence": "Save it again."}})

    @pytest.mark.parametrize(
        ("report", "why"),
        [
            (None, "form 1"),
            ({"report": True}, "form 1"),
            ({"report": 2}, "form 1"),
            (a_report(scenes=[]), "no scene"),
            (a_report(scenes=None), "report.scenes is no list"),
            (a_report(scenes=["Scene"]), "report.scenes[0] is no object"),
            (a_report(scenes=[a_scene(name=None)]), "report.scenes[0].name is NoneType"),
            (a_report(scenes=[a_scene(frames={"start": 1})]), "report.scenes[0].frames has no end"),
            (a_report(scenes=[a_scene(frames={"start": True, "end": 2, "step": 1})]), "frames.start is bool"),
            (a_report(scenes=[a_scene(region={"x": [0, "1"], "y": [0, 1], "crop": True})]), "region.x[1] is str"),
            (a_report(problems=[a_problem("x", sentence=None)]), "report.problems[0].sentence is NoneType"),
            (a_report(refusal={"code": "x"}), "refusal has no sentence"),
            (a_report(entry="a\x00b"), "NUL"),
            (a_report(entry="\ud800"), "UnicodeEncodeError"),
            (a_report(entry=float("inf")), "ValueError"),
            (a_report(entry={1, 2}), "TypeError"),
            (a_report(entry=deep(100_000)), "RecursionError"),
        ],
    )
    def test_what_cannot_be_stored_or_used_is_refused_with_the_place(self, report: Any, why: str) -> None:
        with pytest.raises(ReportMalformed) as found:
            check_report(report)
        assert why in str(found.value)


class TestRefusalOf:
    def test_no_refusal_is_no_sentence(self) -> None:
        assert refusal_of(a_report()) == ""

    def test_a_very_long_sentence_is_cut(self) -> None:
        assert len(refusal_of({"refusal": {"code": "x", "sentence": "x" * 10_000}})) == MAX_SENTENCE


class TestSummaryOf:
    def test_it_tells_of_the_scene_that_opens(self) -> None:
        report = a_report(scenes=[a_scene(name="Other", active=False), a_scene(name="Main", engine="EEVEE")])

        found = summary_of(report)

        assert found["scenes"] == ["Other", "Main"]
        assert (found["scene"]["name"], found["scene"]["engine"]) == ("Main", "EEVEE")
        assert found["saved_by"] == "5.0"

    def test_it_counts_needed_files_that_are_not_in_the_upload(self) -> None:
        files = [
            a_dependency("//found.png"),
            a_dependency("//missing.png", state="missing"),
            a_dependency("/outside.png", state="outside"),
            a_dependency("//sound.wav", state="missing", needed=False),
        ]

        found = summary_of(a_report(dependencies=files))

        assert (found["dependencies"], found["lacking"]) == (4, 2)

    def test_of_very_many_problems_the_first_are_named(self) -> None:
        assert len(summary_of(a_report(problems=[a_problem("x")] * 1000))["problems"]) == MAX_PROBLEMS

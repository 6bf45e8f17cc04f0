from __future__ import annotations

import pytest

from workers.causes import Evidence, claimed_failure, failed_action
from workers.protocol import Cause


def evidence(*lines: str) -> Evidence:
    found = Evidence()
    for line in lines:
        found.read(line)
    return found


class TestEvidence:
    def test_the_device_is_read_and_cut(self) -> None:
        assert evidence("farmhand_device: CUDA: NVIDIA L4").device == "CUDA: NVIDIA L4"
        assert len(evidence("farmhand_device: " + "x" * 999).device) == 120

    def test_no_space_is_noticed(self) -> None:
        assert evidence("cp: error writing 'x': No space left on device").saw_no_space


class TestClaimedFailure:
    def test_cause_and_sentence_are_taken(self) -> None:
        failure = claimed_failure(evidence('farmhand_end: {"cause": "no_gpu", "sentence": "There is none."}'))

        assert failure is not None
        assert (failure.cause, failure.sentence) == (Cause.NO_GPU, "There is none.")

    @pytest.mark.parametrize(
        "line",
        ["", "farmhand_end: nonsense", "farmhand_end: []", 'farmhand_end: {"cause": 3}', "farmhand_end:",
         'farmhand_end: {"cause": null}', 'farmhand_end: {"cause": "interrupted"}',
         'farmhand_end: {"cause": "agent_error"}'],
    )  # fmt: skip
    def test_nonsense_and_what_is_not_its_to_say_claims_nothing(self, line: str) -> None:
        assert claimed_failure(evidence(line)) is None

    def test_a_sentence_is_never_endless(self) -> None:
        failure = claimed_failure(evidence('farmhand_end: {"cause": "no_gpu", "sentence": "%s"}' % ("x" * 9999)))

        assert failure is not None
        assert len(failure.sentence) == 500


class TestFailedAction:
    @pytest.mark.parametrize(
        ("exit_code", "message", "cause"),
        [
            (1, "", Cause.SCENE_ERROR),
            (-11, "", Cause.RENDERER_CRASHED),
            (139, "", Cause.RENDERER_CRASHED),
            (250, "", Cause.SCENE_ERROR),
            (None, "", Cause.SCENE_ERROR),
            (-11, "the template says why", Cause.SCENE_ERROR),
        ],
    )
    def test_how_a_program_ended_names_the_cause(self, exit_code: int | None, message: str, cause: Cause) -> None:
        failure = failed_action(exit_code=exit_code, message=message, during="rendering")

        assert failure.cause is cause
        assert failure.sentence

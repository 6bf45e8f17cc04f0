from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.tasks import environment, shell
from tests.workers.test_sandbox import Room
from workers.sandbox import LIB, Enclosure
from workers.session_pipe import COMMAND, GONE, POKE, Said, SessionPipe, parse_answer


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[SessionPipe]:
    room = Room(tmp_path)
    pipe = SessionPipe(room.plan(*COMMAND, environment={"PYTHONPATH": LIB}), Enclosure())
    yield pipe
    pipe.close()


def until_ended(pipe: SessionPipe) -> tuple[list[str], Said]:
    lines = []
    while (said := pipe.hear(20)) is not None and said.kind not in ("ended", "gone"):
        if said.kind == "log":
            lines.append(said.text)
    assert said is not None
    return lines, said


def enter(pipe: SessionPipe, script: dict[str, object], **rest: object) -> Said:
    order = {"name": "Step", "parameters": {}, "rules": [], "environments": [], "extensions": [], "script": script}
    pipe.order("enter", **{**order, **rest})
    return until_ended(pipe)[1]


class TestSession:
    def test_it_enters_runs_tasks_and_leaves(self, pipe: SessionPipe) -> None:
        environments = [environment("E", on_enter="echo openjd_env: COLOUR=red", on_exit="echo bye")]
        assert (
            enter(pipe, shell("echo $COLOUR $1", "{{Task.Param.Frame}}"), environments=environments).state == "success"
        )

        for frame in ("1", "2"):
            pipe.order("run", parameters={"Frame": {"type": "INT", "value": frame}}, folders=["/out/deep"])
            lines, said = until_ended(pipe)
            assert (lines, said.state, said.exit_code) == ([f"red {frame}"], "success", 0)

        pipe.order("leave")
        assert until_ended(pipe)[0] == ["bye"]

    def test_a_chunk_of_frames_is_one_parameter(self, pipe: SessionPipe) -> None:
        enter(pipe, shell("echo $1", "{{Task.Param.Frames}}"), extensions=["TASK_CHUNKING"])

        pipe.order("run", parameters={"Frames": {"type": "CHUNK[INT]", "value": "1-4,9"}}, folders=[])

        assert until_ended(pipe)[0] == ["1-4,9"]

    def test_an_action_that_fails_says_how(self, pipe: SessionPipe) -> None:
        enter(pipe, shell("echo openjd_fail: no camera; exit 4"))

        pipe.order("run", parameters={}, folders=[])

        said = until_ended(pipe)[1]
        assert (said.state, said.exit_code, said.text) == ("failed", 4, "no camera")

    def test_a_script_nobody_can_read_is_an_error_with_its_reason(self, pipe: SessionPipe) -> None:
        said = enter(pipe, {"actions": {}})

        assert said.state == "error"
        assert "onRun" in said.text

    def test_a_driver_that_dies_is_gone(self, pipe: SessionPipe) -> None:
        enter(pipe, shell("true"))

        pipe.close()

        assert until_ended(pipe)[1] is GONE

    def test_poking_wakes_whoever_hears(self, pipe: SessionPipe) -> None:
        pipe.poke()

        assert pipe.hear(1) is POKE


class TestParseAnswer:
    @pytest.mark.parametrize(
        "line",
        [b"", b"x", b"[]", b"{}", b'{"kind": "poke"}', b'{"kind": "log"}', b'{"kind": "log", "text": 3}', b"\xff\n",
         b'{"kind": "ended", "state": "success", "message": "", "exit_code": "x"}', b"[" * 100_000,
         b'{"kind": "progress", "value": null}', b'{"kind": "log", "text": "cut off'],
    )  # fmt: skip
    def test_what_is_no_answer_ends_the_conversation(self, line: bytes) -> None:
        assert parse_answer(line) is GONE

    def test_answers_are_read(self) -> None:
        assert parse_answer(b'{"kind": "log", "text": "x"}') == Said("log", text="x")
        assert parse_answer(b'{"kind": "progress", "value": 0.5}').value == 0.5

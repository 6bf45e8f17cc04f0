"""What is shown where: bars and live lines on a terminal, plain lines in a file."""

from __future__ import annotations

import io

import pytest
from farmhand.cli.terminal import Terminal
from farmhand.connection import Wait
from farmhand.meters import Progress, Stage
from rich.console import Console
from rich.text import Text


@pytest.fixture
def screen() -> tuple[Terminal, io.StringIO]:
    """A terminal of 60 columns, and what it shows."""
    shown = io.StringIO()
    terminal = Terminal()
    terminal.err = Console(file=shown, force_terminal=True, width=60, highlight=False, markup=False, emoji=False)
    return terminal, shown


class TestOnATerminal:
    def test_a_transfer_is_a_bar_for_each_stage(self, screen: tuple[Terminal, io.StringIO]) -> None:
        terminal, shown = screen

        with terminal.transfer() as on_progress:
            on_progress(Progress(Stage.READING, 2, 2, 100, 100))
            on_progress(Progress(Stage.SENDING, 2, 1, 100, 50))

        assert "Reading" in shown.getvalue()
        assert "50 %" in shown.getvalue()

    def test_what_is_waited_for_is_shown_with_the_time(self, screen: tuple[Terminal, io.StringIO]) -> None:
        terminal, shown = screen

        with terminal.waiting() as wait_for:
            wait_for("Waiting for [a] machine")

        assert "Waiting for [a] machine  0.0 s" in shown.getvalue()

    def test_lines_at_the_foot_are_gone_in_the_end(self, screen: tuple[Terminal, io.StringIO]) -> None:
        terminal, shown = screen

        with terminal.live() as show:
            show([Text("foot")])

        assert "foot" in shown.getvalue()
        assert "\x1b[2K" in shown.getvalue()

    def test_sentences_are_broken_between_words(self, screen: tuple[Terminal, io.StringIO]) -> None:
        terminal, shown = screen

        terminal.tell("word " * 30)

        assert all(set(line.split()) <= {"word"} for line in shown.getvalue().splitlines())


class TestInAFile:
    @pytest.fixture
    def terminal(self) -> Terminal:
        return Terminal()

    def test_a_sentence_is_one_line(self, terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
        terminal.say("word " * 100)

        assert len(capsys.readouterr().out.splitlines()) == 1

    def test_a_transfer_says_a_line_now_and_then_and_one_in_the_end(
        self, terminal: Terminal, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = iter(range(0, 1000, 6))
        monkeypatch.setattr("farmhand.cli.terminal.time.monotonic", lambda: float(next(clock)))

        with terminal.transfer() as on_progress:
            for done in range(5):
                on_progress(Progress(Stage.SENDING, 4, done, 400, 100 * done))
            on_progress(Progress(Stage.SENDING, 4, 4, 400, 400))

        lines = capsys.readouterr().err.splitlines()
        assert [line.split(",")[0] for line in lines] == ["Sending: 2 of 4 files", "Sending: 4 of 4 files"]

    def test_a_reason_is_said_once(self, terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
        with terminal.waiting() as wait_for:
            for what in ("one", "one", "two"):
                wait_for(what)

        assert capsys.readouterr().err.splitlines() == ["one", "two"]

    def test_a_wait_of_the_connection_says_why(self, terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
        terminal.on_wait(Wait(2.0, "The database is away."))

        assert capsys.readouterr().err == "The database is away; trying again in 2.0 s\n"

    def test_a_program_gets_json_alone(self, terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
        terminal.as_json = True

        terminal.say("for people")
        terminal.next_steps(("farmhand", "go on"))
        terminal.give({"a": "ü"})

        assert capsys.readouterr().out == '{\n  "a": "ü"\n}\n'

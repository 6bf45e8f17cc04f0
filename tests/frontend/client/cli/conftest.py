"""Running the command line in this process, as a shell would."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from farmhand.cli import main
from farmhand.cli.session import session
from farmhand.cli.terminal import Terminal
from farmhand.connection import Patience

from tests.frontend.client.small_farm import TOKEN


@dataclass
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `farmhand` with arguments against the small farm, logged in by the environment."""
    monkeypatch.setenv("FARMHAND_URL", url)
    monkeypatch.setenv("FARMHAND_TOKEN", TOKEN)
    monkeypatch.setattr("farmhand.connection.Patience", lambda: Patience(attempts=2, first=0.01, longest=0.01))
    monkeypatch.setattr("time.sleep", lambda seconds: None)

    def run(*arguments: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "argv", ["farmhand", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        session.terminal, session.profile_name = Terminal(), ""
        with pytest.raises(SystemExit) as ended:
            main()
        seen = capsys.readouterr()
        return Ran(int(ended.value.code or 0), seen.out, seen.err)

    return run

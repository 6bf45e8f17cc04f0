"""When an environment is made anew."""

import sys
from pathlib import Path

import pytest

from infra.house import environments
from infra.house.environments import STAMP, Environment


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """An environment that was made from a lock and one local part."""
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "VENVS", tmp_path / ".venvs")
    environment = Environment("farm", "farm", local=("workers",))
    for path, text in {"requirements/farm.txt": "six==1", "workers/pyproject.toml": "[project]"}.items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    environment.python.parent.mkdir(parents=True)
    environment.python.touch()
    (environment.folder / STAMP).write_text(environments.made_from(environment))
    return environment


class TestIsCurrent:
    def test_one_that_was_just_made_is(self, made: Environment) -> None:
        assert environments.is_current(made)

    @pytest.mark.parametrize("changed", ["requirements/farm.txt", "workers/pyproject.toml"])
    def test_a_changed_input_ends_that_but_keeps_the_folder(
        self, made: Environment, tmp_path: Path, changed: str
    ) -> None:
        (tmp_path / changed).write_text("other")

        assert not environments.is_current(made)
        assert environments.is_same_python(made)

    def test_another_python_needs_another_folder(self, made: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "version", "3.99.0 (somewhere)")

        assert not environments.is_current(made)
        assert not environments.is_same_python(made)

    def test_a_half_made_or_broken_one_is_made_anew(self, made: Environment) -> None:
        made.python.unlink()

        assert not environments.is_current(made)
        assert not environments.is_same_python(made)


class TestEnvironments:
    def test_the_renderer_fits_the_python_that_makes_it(self) -> None:
        lock = environments.ENVIRONMENTS["renderer"].lock

        assert (environments.ROOT / f"requirements/{lock}.txt").exists()

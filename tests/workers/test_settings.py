from __future__ import annotations

from pathlib import Path

import pytest

from workers.settings import SecretUnreadable, parse_settings


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("s3cret\n", encoding="utf-8")
    return tmp_path / "secret"


class TestParseSettings:
    def test_the_command_line_goes_before_the_environment(self, secret: Path) -> None:
        argv = ["--farm", "http://farm/", "--secret-file", str(secret), "--work", "w", "--slots", "2"]

        settings = parse_settings(argv, {"FARMHAND_SLOTS": "7", "FARMHAND_CACHE_GIB": "3.5"})

        assert (settings.farm, settings.slots, settings.cache_gib) == ("http://farm", 2, 3.5)
        assert settings.secret == "s3cret"
        assert settings.machine_id

    def test_everything_may_come_from_the_environment(self, secret: Path) -> None:
        settings = parse_settings(
            [],
            {
                "FARMHAND_FARM": "http://farm",
                "FARMHAND_SECRET_FILE": str(secret),
                "FARMHAND_WORK": "/w",
                "FARMHAND_MACHINE_ID": "i-1",
                "FARMHAND_TRUST_SCENES": "1",
                "FARMHAND_RENDERER_PYTHON": "/venv/bin/python",
            },
        )

        assert (settings.machine_id, settings.trust_scenes) == ("i-1", True)
        assert settings.renderer_python == Path("/venv/bin/python")

    def test_the_secret_is_never_shown(self, secret: Path) -> None:
        settings = parse_settings(["--farm", "f", "--secret-file", str(secret), "--work", "w"], {})

        assert "s3cret" not in repr(settings)

    def test_a_missing_or_empty_secret_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "empty").touch()
        for name in ("none", "empty"):
            with pytest.raises(SecretUnreadable, match=name):
                parse_settings(["--farm", "f", "--secret-file", str(tmp_path / name), "--work", "w"], {})

    def test_what_must_be_given_is_asked_for(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            parse_settings([], {})
        assert "--farm" in capsys.readouterr().err

"""`login` and `whoami`."""

from __future__ import annotations

import pytest
from farmhand.profiles import keep_profile, read_profile

from tests.frontend.client.cli.conftest import Run
from tests.frontend.client.small_farm import TOKEN


class TestLogin:
    def test_a_token_from_standard_input_is_tried_and_kept(self, run: Run, url: str) -> None:
        ran = run("login", "--url", url, "--token", "-", stdin=f"{TOKEN}\n")

        assert ran.code == 0
        assert f"Logged in to {url} as a@example.com of S." in ran.out
        assert read_profile("default", environment={}).token == TOKEN
        assert TOKEN not in ran.out + ran.err

    def test_a_token_that_the_farm_does_not_know_is_not_kept(self, run: Run, url: str) -> None:
        ran = run("login", "--url", url, "--token", "-", stdin="fh_wrong\n")

        assert ran.code == 1
        assert read_profile(environment={}).token == ""

    def test_a_token_on_the_command_line_is_refused(self, run: Run, url: str) -> None:
        ran = run("login", "--url", url, "--token", TOKEN)

        assert ran.code == 2
        assert read_profile(environment={}).token == ""

    def test_an_empty_token_is_refused(self, run: Run, url: str) -> None:
        assert run("login", "--url", url, "--token", "-", stdin="\n").code == 2

    def test_each_profile_has_its_own(self, run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        run("--profile", "night", "login", "--url", url, "--token", "-", stdin=TOKEN)
        monkeypatch.delenv("FARMHAND_TOKEN")
        monkeypatch.delenv("FARMHAND_URL")

        assert run("--profile", "night", "whoami").code == 0
        assert run("--profile", "day", "whoami").code == 1

    def test_an_address_without_encryption_elsewhere_is_warned_of(self, run: Run) -> None:
        ran = run("login", "--url", "http://farm.invalid", "--token", "-", stdin=TOKEN)

        assert "is not encrypted" in ran.err

    def test_json_says_who_and_where(self, run: Run, url: str) -> None:
        ran = run("login", "--url", url, "--token", "-", "--json", stdin=TOKEN)

        assert (ran.json["url"], ran.json["profile"], ran.json["studio"]) == (url, "default", "S")


class TestWhoami:
    def test_it_says_studio_and_projects(self, run: Run) -> None:
        ran = run("whoami")

        assert "a@example.com of S" in ran.out
        assert "projects  Demo" in ran.out

    def test_settings_that_others_can_read_are_warned_of(self, run: Run, url: str) -> None:
        keep_profile(read_profile(environment={"FARMHAND_URL": url, "FARMHAND_TOKEN": TOKEN})).chmod(0o644)

        assert "can be read by others" in run("whoami").err

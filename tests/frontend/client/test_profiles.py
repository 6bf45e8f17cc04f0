"""What is kept on this machine, and who may read it."""

from __future__ import annotations

import stat

import pytest
from farmhand import profiles
from farmhand.errors import NotLoggedIn
from farmhand.profiles import BadProfile, BadSettings, NoProfile, Profile, keep_profile, read_profile

KEPT = Profile("default", "https://farm.example.org", "fh_kept")


class TestKeepProfile:
    def test_only_its_owner_may_read_the_file(self) -> None:
        path = keep_profile(KEPT)

        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert not profiles.is_readable_by_others()

    def test_a_file_that_others_could_read_is_made_private(self) -> None:
        keep_profile(KEPT).chmod(0o644)
        assert profiles.is_readable_by_others()

        keep_profile(KEPT)

        assert not profiles.is_readable_by_others()

    def test_other_profiles_stay(self) -> None:
        keep_profile(KEPT)
        keep_profile(Profile("night", "https://night.example.org", "fh_night", "Spring"))

        assert read_profile("default", environment={}) == KEPT
        assert read_profile("night", environment={}).project == "Spring"

    def test_a_name_that_is_none_is_refused(self) -> None:
        with pytest.raises(BadProfile):
            keep_profile(Profile("a b", KEPT.url, KEPT.token))


class TestReadProfile:
    def test_the_environment_goes_first(self) -> None:
        keep_profile(KEPT)

        found = read_profile(environment={"FARMHAND_URL": "http://127.0.0.1:1/", "FARMHAND_TOKEN": "fh_env"})

        assert (found.url, found.token) == ("http://127.0.0.1:1", "fh_env")

    def test_a_kept_token_never_goes_to_another_address(self) -> None:
        keep_profile(KEPT)

        found = read_profile(environment={"FARMHAND_URL": "https://elsewhere.example.org"})

        with pytest.raises(NotLoggedIn, match="elsewhere"):
            found.require_token()

    def test_a_kept_token_goes_to_its_own_address_however_that_is_named(self) -> None:
        keep_profile(KEPT)

        assert read_profile(environment={"FARMHAND_URL": KEPT.url + "/"}).token == KEPT.token

    def test_without_anything_it_is_this_machine(self) -> None:
        assert read_profile(environment={}) == Profile("default", profiles.DEFAULT_URL, "")

    def test_a_profile_that_is_not_there_is_refused(self) -> None:
        keep_profile(KEPT)

        with pytest.raises(NoProfile, match="There are: default"):
            read_profile("night", environment={})

    @pytest.mark.parametrize("text", ["this is no toml", "profiles = 3", "[profiles]\ndefault = 1"])
    def test_settings_that_make_no_sense_are_named(self, text: str) -> None:
        keep_profile(KEPT).write_text(text)

        with pytest.raises(BadSettings, match=r"config\.toml"):
            read_profile(environment={})


class TestRemember:
    def test_each_farm_has_its_own_last(self) -> None:
        profiles.remember("https://a", "job", "1")
        profiles.remember("https://b", "job", "2")
        profiles.remember("https://a", "version", "3")

        assert profiles.recall("https://a", "job") == "1"
        assert profiles.recall("https://a", "version") == "3"
        assert profiles.recall("https://c", "job") == ""

    def test_a_damaged_memory_is_none(self) -> None:
        profiles.remember("https://a", "job", "1")
        profiles.state_file().write_text("[]")

        assert profiles.recall("https://a", "job") == ""

"""What is kept on this machine: addresses and tokens, in a file that only its owner may read, and the last ids."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import tomli_w

from farmhand.connection import checked_address
from farmhand.errors import NotLoggedIn, Refused

DEFAULT_URL = "http://127.0.0.1:8780"
APP = "farmhand"
_NAME = re.compile(r"[\w.-]{1,64}")


class BadSettings(Refused):
    """The settings in {path} cannot be read: {why}. Mend the file, or delete it and log in again."""

    code = "bad-settings"


class SettingsNotKept(Refused):
    """The settings cannot be written to {path}: {why}."""

    code = "settings-not-kept"


class BadProfile(Refused):
    """{name!r} is no name of a profile: letters, digits, dots, dashes and underscores only."""

    code = "bad-profile"


class NoProfile(Refused):
    """There is no profile {name!r}. There are: {known}. Make it with `farmhand --profile {name} login`."""

    code = "no-profile"


@dataclass(frozen=True)
class Profile:
    """One farm, and who we are there."""

    name: str
    url: str
    token: str
    project: str = ""

    def require_token(self) -> str:
        """:raises NotLoggedIn: there is none"""
        if not self.token:
            raise NotLoggedIn(url=self.url)
        return self.token


def config_file() -> Path:
    return platformdirs.user_config_path(APP) / "config.toml"


def cache_file() -> Path:
    return platformdirs.user_cache_path(APP) / "hashes.sqlite3"


def state_file() -> Path:
    return platformdirs.user_state_path(APP) / "last.json"


def read_profile(name: str = "", *, environment: Mapping[str, str] | None = None) -> Profile:
    """
    Give the profile asked for, else FARMHAND_PROFILE's, else `default`; FARMHAND_URL and FARMHAND_TOKEN go before it.

    A kept token is only ever sent to the address it was kept with.

    :raises NoProfile: one was asked for that is not there
    :raises BadSettings: the file makes no sense
    """
    env = os.environ if environment is None else environment
    name = name or env.get("FARMHAND_PROFILE", "")
    profiles = _profiles(_read(config_file()))
    if name and name not in profiles and not env.get("FARMHAND_URL"):
        raise NoProfile(name=name, known=", ".join(sorted(profiles)) or "none")
    kept = profiles.get(name or "default", {})
    kept_url = str(kept.get("url", ""))
    url = checked_address(env.get("FARMHAND_URL") or kept_url or DEFAULT_URL)
    token = env.get("FARMHAND_TOKEN") or (str(kept.get("token", "")) if url == kept_url else "")
    return Profile(name or "default", url, token, env.get("FARMHAND_PROJECT") or str(kept.get("project", "")))


def keep_profile(profile: Profile) -> Path:
    """
    Keep a profile, beside the others.

    :raises BadProfile: its name is none
    :raises SettingsNotKept: the file cannot be written
    """
    if not _NAME.fullmatch(profile.name):
        raise BadProfile(name=profile.name)
    path = config_file()
    settings = _read(path)
    kept = {"url": profile.url, "token": profile.token} | ({"project": profile.project} if profile.project else {})
    settings["profiles"] = {**_profiles(settings), profile.name: kept}
    _write_private(path, tomli_w.dumps(settings))
    return path


def is_readable_by_others() -> bool:
    """Say whether the file with the tokens may be read by others than its owner."""
    with contextlib.suppress(OSError):
        return os.name == "posix" and bool(config_file().stat().st_mode & 0o077)
    return False


def remember(url: str, what: str, value: str) -> None:
    """Keep the last id of a kind, for `last`; where that is not possible nothing is lost but the convenience."""
    with contextlib.suppress(SettingsNotKept):
        known = _last()
        known[url] = {**known.get(url, {}), what: value}
        _write_private(state_file(), json.dumps(known))


def recall(url: str, what: str) -> str:
    """Give the last id of a kind that was used with a farm; "" if there is none."""
    return _last().get(url, {}).get(what, "")


def _last() -> dict[str, dict[str, str]]:
    try:
        known = json.loads(state_file().read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadSettings(path=path, why=error) from None


def _profiles(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    profiles = settings.get("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(profile, dict) for profile in profiles.values()):
        raise BadSettings(path=config_file(), why="profiles are tables, as in [profiles.default]")
    return profiles


def _write_private(path: Path, text: str) -> None:
    """Replace a file as a whole by one that only its owner may read, from its first byte on."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError as error:
        raise SettingsNotKept(path=path, why=(error.strerror or str(error)).lower()) from error

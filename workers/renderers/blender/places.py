"""
Where a path that a scene spells lies on this machine: below the uploaded folder, elsewhere by a mapping, or nowhere.

Pure but for looking at folders; standard library only. Scenes spell paths as their artist's machine did: relative to
the .blend ("//textures/a.png"), absolute, with a drive letter, as a network share, in another case.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_SYSTEM = (
    "/usr/",
    "/etc/",
    "/proc/",
    "/dev/",
    "/tmp/",
    "/sys/",
    "/run/",
    "/bin/",
    "/sbin/",
    "/lib/",
    "/lib64/",
    "/farmhand/",
)


@dataclass(frozen=True)
class Rule:
    """A file or folder as the scene's machine spelled it, and where it is here."""

    source: str
    destination: str
    windows: bool


@dataclass(frozen=True)
class Spot:
    """Where a spelled path leads; `path` is None when nothing that was uploaded can be meant."""

    path: str | None

    @property
    def is_outside(self) -> bool:
        return self.path is None

    @property
    def is_there(self) -> bool:
        return self.path is not None and os.path.lexists(self.path)


def is_windows(path: str) -> bool:
    """Tell whether a path has a drive letter or is a network share."""
    return _WINDOWS.match(path) is not None


def is_absolute(path: str) -> bool:
    """Tell whether a path names its place without regard to where the .blend is."""
    return is_windows(path) or (path.startswith("/") and not path.startswith("//"))


def read_rules(text: str) -> list[Rule]:
    """Read OpenJD path mapping rules ("pathmapping-1.0"); none if the session has none."""
    entries = json.loads(text or "{}").get("path_mapping_rules", [])
    return [
        Rule(e["source_path"], e["destination_path"], windows=e["source_path_format"].upper() == "WINDOWS")
        for e in entries
    ]


class Places:
    """The uploaded folder, and the rules for what the scene spells as lying elsewhere."""

    def __init__(self, root: str, rules: Iterable[Rule] = ()) -> None:
        self.root = posixpath.normpath(root)
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}
        for rule in rules:
            self._learn(rule)

    def _learn(self, rule: Rule) -> None:
        """Remember a rule, and what it says of its folders as long as both sides name them alike."""
        source, destination = _key(rule.source, windows=rule.windows), posixpath.normpath(rule.destination)
        self._files.setdefault(source, destination)
        self._folders.setdefault(source, destination)
        while _same_name(source, destination, windows=rule.windows):
            source, destination = posixpath.dirname(source), posixpath.dirname(destination)
            if len(source) <= 1 or not self._holds(destination):
                break
            self._folders.setdefault(source, destination)

    def _holds(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root.rstrip("/") + "/")

    def resolve(self, path: str, *, base: str) -> Spot:
        """Find the place of a spelled path; `base` is the folder of the .blend that spells it."""
        if is_windows(path):
            mapped = self._mapped(path, windows=True)
            return Spot(None if mapped is None else as_on_disk(mapped))
        if not is_absolute(path):
            path = posixpath.join(base, path.removeprefix("//").replace("\\", "/"))
        path = posixpath.normpath(path)
        mapped = self._mapped(path, windows=False) or path
        if mapped != path or self._holds(path) or _was_laid_out(path):
            return Spot(as_on_disk(mapped))
        return Spot(None)

    def _mapped(self, path: str, *, windows: bool) -> str | None:
        key, tail = _key(path, windows=windows), ""
        spelled = path.replace("\\", "/") if windows else path
        if key in self._files:
            return self._files[key]
        while key and key != posixpath.dirname(key):
            name = posixpath.basename(spelled.rstrip("/"))
            tail = posixpath.join(name, tail) if tail else name
            key, spelled = posixpath.dirname(key), posixpath.dirname(spelled.rstrip("/"))
            if key in self._folders:
                return posixpath.join(self._folders[key], tail)
        return None

    def shown(self, path: str) -> str:
        """Give a place as the uploader knows it: relative to the uploaded folder if it lies there."""
        return posixpath.relpath(path, self.root) if self._holds(path) else path


def _key(path: str, *, windows: bool) -> str:
    if not windows:
        return posixpath.normpath(path)
    share = path[:2] in ("\\\\", "//")
    key = posixpath.normpath(path.replace("\\", "/").lower())
    return "/" + key.lstrip("/") if share else key


def _same_name(source: str, destination: str, *, windows: bool) -> bool:
    ours, theirs = posixpath.basename(destination), posixpath.basename(source)
    return bool(theirs) and theirs == (ours.lower() if windows else ours)


def _was_laid_out(path: str) -> bool:
    """Tell whether an absolute path is there because the upload put it there; the system's own files never are."""
    return os.path.lexists(path) and not path.startswith(_SYSTEM)


def as_on_disk(path: str) -> str:
    """Correct upper and lower case where exactly one file is meant: Windows and macOS do not tell them apart."""
    if os.path.lexists(path):
        return path
    folder, name = posixpath.split(path)
    if not name or folder == path:
        return path
    folder = as_on_disk(folder)
    alike = _listing(folder).get(name.lower(), [])
    return posixpath.join(folder, alike[0] if len(alike) == 1 else name)


@cache
def _listing(folder: str) -> dict[str, list[str]]:
    """List a folder by lower-case name. The uploaded folder never changes while a session reads it."""
    names: dict[str, list[str]] = {}
    for name in _names(folder):
        names.setdefault(name.lower(), []).append(name)
    return names


def _names(folder: str) -> Iterator[str]:
    if Path(folder).is_dir():
        yield from sorted(os.listdir(folder))  # noqa: PTH208 - names, not paths


_NUMBER = re.compile(r"(\d+)(?=\D*$)")


@dataclass(frozen=True)
class Numbered:
    """A file name with a frame number in it: the last digits before the extension, as Blender reads it."""

    head: str
    digits: int
    tail: str

    def at(self, frame: int) -> str:
        return f"{self.head}{frame:0{self.digits}d}{self.tail}"


def numbered(path: str) -> Numbered:
    """Take the frame number out of a path; without one Blender puts it before the extension."""
    folder, name = posixpath.split(path)
    stem, extension = posixpath.splitext(name)
    match = _NUMBER.search(stem)
    if match is None:
        return Numbered(posixpath.join(folder, stem), 0, extension)
    return Numbered(posixpath.join(folder, stem[: match.start()]), len(match[1]), stem[match.end() :] + extension)


def tile_path(path: str, tile: int) -> str:
    """Name the file of a UDIM tile."""
    column, row = (tile - 1001) % 10 + 1, (tile - 1001) // 10 + 1
    return path.replace("<UDIM>", str(tile)).replace("<UVTILE>", f"u{column}_v{row}")

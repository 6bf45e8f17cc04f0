"""
Which files of a folder are sent.

- Regular files, hidden ones too, are sent; backups of Blender, version control and what desktops leave behind are not.
- A link is sent as the file or folder it points to, as long as that lies in the folder; one that leads out of it is
  refused unless `follow_links` says otherwise, so that nothing travels that nobody sees in the folder.
- Sockets, pipes, devices, links to nothing and links that lead in a circle are left out, and said to be.
- A folder that cannot be listed is refused: half a scene would render wrongly.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from farmhand.errors import Refused

LEFT_BEHIND = frozenset(
    {".git", ".svn", ".hg", "__pycache__", ".DS_Store", "__MACOSX", "Thumbs.db", "desktop.ini", ".farmhand-parts"}
)
BACKUP = re.compile(r".*\.blend(\d{1,2}|@)")
SHOWN = 5

# Where a renderer's sandbox has files of its own; the farm refuses sources there (a test compares the two lists).
RESERVED = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "tmp", "usr", "var"}
    | {"farmhand", "in", "made", "out", "scene"}
)


class NothingThere(Refused):
    """There is no {path} here. Give the folder of the scene, or its file."""

    code = "nothing-there"


class NotSendable(Refused):
    """{path} is neither a file nor a folder. Give the folder of the scene, or its file."""

    code = "not-sendable"


class FolderUnreadable(Refused):
    """{path} cannot be listed: {why}. Mend it, or leave it out with --exclude."""

    code = "folder-unreadable"


class LinksLeadOut(Refused):
    """
    {count} links lead out of the folder: {names}. Say --follow-links to send what they point to, or leave them out
    with --exclude.
    """

    code = "links-lead-out"


class BadName(Refused):
    """{count} files have names that are not valid Unicode: {names}. Rename them; the scene's own paths must follow."""

    code = "bad-name"


class EntryNeeded(Refused):
    """Which file opens? There are several: {names}. Name one with --entry."""

    code = "entry-needed"


class NoEntry(Refused):
    """There is no .blend in {path}. Name the file that opens with --entry."""

    code = "no-entry"


class EntryMissing(Refused):
    """The entry {entry} is not among the files to send. It is written relative to {path}."""

    code = "entry-missing"


@dataclass(frozen=True)
class Found:
    """A file to send: where it is, and where it is laid out."""

    path: Path
    name: str  # relative to the scene's folder, with /


@dataclass
class Collection:
    """What a folder holds."""

    files: list[Found] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # left out as clutter
    warnings: list[str] = field(default_factory=list)


def collect(
    root: Path, *, exclude: Sequence[str] = (), everything: bool = False, follow_links: bool = False
) -> Collection:
    """
    List the files to send, in order.

    :param exclude: patterns such as `*.psd` or `old/*`, against names and against paths below the folder
    :param everything: also send what is left out as clutter
    :raises NothingThere, NotSendable, FolderUnreadable, LinksLeadOut, BadName: as they say
    """
    try:
        mode = root.stat().st_mode
    except OSError:
        raise NothingThere(path=root) from None
    if stat.S_ISREG(mode):
        return Collection(files=_checked_names([Found(root, root.name)]))
    if not stat.S_ISDIR(mode):
        raise NotSendable(path=root)
    walk = _Walk(root, exclude, everything=everything, follow_links=follow_links)
    walk.run()
    if walk.outward and not follow_links:
        raise LinksLeadOut(count=len(walk.outward), names=shown(walk.outward))
    walk.found.files = _checked_names(walk.found.files)
    return walk.found


def choose_entry(root: Path, files: Sequence[Found], entry: str) -> str:
    """
    Give the name of the file that opens: the one asked for, or the only .blend nearest to the top.

    :raises EntryMissing, EntryNeeded, NoEntry: as they say
    """
    names = [file.name for file in files]
    if entry:
        wanted = _below(root, entry)
        if wanted not in names:
            raise EntryMissing(entry=entry, path=root)
        return wanted
    if root.is_file():
        return names[0]
    scenes = [name for name in names if name.lower().endswith(".blend")]
    if not scenes:
        raise NoEntry(path=root)
    depth = min(name.count("/") for name in scenes)
    nearest = [name for name in scenes if name.count("/") == depth]
    if len(nearest) > 1:
        raise EntryNeeded(names=shown(nearest))
    return nearest[0]


def source_of(path: Path) -> str | None:
    """Give a file's absolute spelling here, for scenes that spell paths so; None where the farm cannot lay it out."""
    text = path.absolute().as_posix()
    first = text.split("/")[1] if text.startswith("/") else ""
    return None if first in RESERVED or "/../" in text else text


def shown(names: Sequence[str]) -> str:
    """Name a few, as text that a terminal can show."""
    few = [name.encode("utf-8", "backslashreplace").decode() for name in names[:SHOWN]]
    return ", ".join(few) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


class _Walk:
    """One walk through a folder."""

    def __init__(self, root: Path, exclude: Sequence[str], *, everything: bool, follow_links: bool) -> None:
        self.root = root.resolve()
        self.exclude = [pattern.rstrip("/") for pattern in exclude]
        self.everything = everything
        self.follow_links = follow_links
        self.found = Collection()
        self.outward: list[str] = []
        # Still to list: where, its name, the real folders above it.
        self._folders: list[tuple[Path, PurePosixPath, tuple[Path, ...]]] = [(root, PurePosixPath(), (self.root,))]

    def run(self) -> None:
        while self._folders:
            folder, name, above = self._folders.pop()
            for entry in _listed(folder):
                self._take(entry, name / entry.name, above)
        self.found.files.sort(key=lambda file: file.name)
        self.found.skipped.sort()

    def _take(self, entry: os.DirEntry[str], name: PurePosixPath, above: tuple[Path, ...]) -> None:
        if self._is_excluded(name):
            return
        if not self.everything and (entry.name in LEFT_BEHIND or BACKUP.fullmatch(entry.name)):
            self.found.skipped.append(str(name))
            return
        try:
            mode = entry.stat().st_mode
        except OSError:
            self._warn(name, "a link to nothing" if entry.is_symlink() else "a file that vanished")
            return
        if entry.is_symlink() and not self.follow_links and not Path(entry.path).resolve().is_relative_to(self.root):
            self.outward.append(str(name))
        elif stat.S_ISDIR(mode):
            self._descend(Path(entry.path), name, above)
        elif stat.S_ISREG(mode):
            self.found.files.append(Found(Path(entry.path), str(name)))
        else:
            self._warn(name, "no file but a socket, pipe or device")

    def _descend(self, folder: Path, name: PurePosixPath, above: tuple[Path, ...]) -> None:
        real = folder.resolve()
        if real in above:
            self._warn(name, "a link that leads in a circle")
            return
        self._folders.append((folder, name, (*above, real)))

    def _is_excluded(self, name: PurePosixPath) -> bool:
        return any(fnmatch.fnmatch(name.name, p) or fnmatch.fnmatch(str(name), p) for p in self.exclude)

    def _warn(self, name: PurePosixPath, what: str) -> None:
        self.found.warnings.append(f"{shown([str(name)])} is {what}; it was left out.")


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            return sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        raise FolderUnreadable(path=folder, why=(error.strerror or str(error)).lower()) from None


def _checked_names(files: list[Found]) -> list[Found]:
    bad = [file.name for file in files if not _is_unicode(file.name)]
    if bad:
        raise BadName(count=len(bad), names=shown(bad))
    return files


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _below(root: Path, entry: str) -> str:
    """Give an entry as it is named below the root, also when a person wrote it as a path from where they are."""
    here = Path(entry)
    top = root if root.is_dir() else root.parent
    if not (top / here).exists() and here.exists() and here.resolve().is_relative_to(top.resolve()):
        return here.resolve().relative_to(top.resolve()).as_posix()
    return PurePosixPath(Path(os.path.normpath(here)).as_posix()).as_posix()

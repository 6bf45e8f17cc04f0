"""
What an attempt left in its output folder: expected files by name, or all of a bundle's; regular files only.

The scene's processes may still run and hold these folders open, so nothing here follows a link: each file is moved,
by way of opened folders, to where no scene can reach its name, and looked at there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from workers.causes import AttemptFailed
from workers.protocol import Cause, ExpectedOutput, OutputRole

BUNDLE_FILES = 10_000
BUNDLE_BYTES = 64 * 1024**3
DEPTH = 32
IMAGE_SUFFIXES = {".png", ".exr", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".hdr", ".bmp", ".tga", ".dpx", ".cin"}
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclasses.dataclass(frozen=True)
class Found:
    """One file an attempt left, moved to `file`, and what it is to be."""

    expected: ExpectedOutput
    file: Path
    size: int

    @property
    def name(self) -> str:
        return self.expected.name

    @property
    def is_image(self) -> bool:
        if self.expected.role is not OutputRole.RENDER:
            return False
        return self.expected.format is not None or self.file.suffix in IMAGE_SUFFIXES


def collect(results: Path, files: Path, expected: Sequence[ExpectedOutput] | None) -> list[Found]:
    """
    Move the files that the attempt was to leave to `files`, numbered.

    :raises AttemptFailed: one is missing, or is no regular file of its own
    """
    files.mkdir(exist_ok=True)
    if expected is not None:
        return [_take(results, files / f"{n}{_suffix(one.name)}", one) for n, one in enumerate(expected)]
    return list(_take_all(results, files))


def _take(results: Path, target: Path, expected: ExpectedOutput) -> Found:
    *folders, name = expected.name.split("/")
    if any(part in ("", ".", "..") for part in (*folders, name)):
        raise AttemptFailed(Cause.AGENT_ERROR, f"The farm expects {expected.name!r}, which is no file name.")
    try:
        with _opened(results, folders) as folder:
            os.rename(name, target, src_dir_fd=folder)
    except FileNotFoundError:
        raise AttemptFailed(
            Cause.MISSING_OUTPUT,
            f"The renderer ended without writing {expected.name}; check the log for what it wrote instead.",
        ) from None
    except NotADirectoryError:  # also what O_NOFOLLOW answers for a linked folder
        raise _irregular(expected.name, "below something that is no folder") from None
    found = target.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise _irregular(expected.name, _kind(found))
    return Found(expected, target, found.st_size)


@contextlib.contextmanager
def _opened(root: Path, folders: Sequence[str]) -> Iterator[int]:
    """Open a folder below `root`, following no link on the way."""
    with contextlib.ExitStack() as opened:
        current = os.open(root, FOLDER)
        opened.callback(os.close, current)
        for name in folders:
            current = os.open(name, FOLDER, dir_fd=current)
            opened.callback(os.close, current)
        yield current


def _take_all(results: Path, files: Path) -> Iterator[Found]:
    """Take all of a bundle's files; one link, pipe or too many files refuses the whole."""
    total = 0
    for number, name in enumerate(sorted(_walk(results, []))):
        expected = ExpectedOutput(name=name, role=OutputRole.RENDER, format=None)
        found = _take(results, files / f"{number}{_suffix(name)}", expected)
        total += found.size
        if number >= BUNDLE_FILES or total > BUNDLE_BYTES:
            raise AttemptFailed(
                Cause.UNEXPECTED_OUTPUT,
                f"The task left more than {BUNDLE_FILES} files or {BUNDLE_BYTES >> 30} GiB; write fewer files.",
            )
        yield found


def _walk(root: Path, folders: list[str]) -> Iterator[str]:
    if len(folders) > DEPTH:
        raise AttemptFailed(Cause.UNEXPECTED_OUTPUT, f"The task nested its output folders deeper than {DEPTH}.")
    with _opened(root, folders) as folder, os.scandir(folder) as scan:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan]
    for name, is_folder in entries:
        _check_name(name)
        if is_folder:
            yield from _walk(root, [*folders, name])
        else:
            yield "/".join([*folders, name])


def _check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = name.encode(errors="replace").decode()
        raise AttemptFailed(
            Cause.UNEXPECTED_OUTPUT, f"The task left a file whose name is not UTF-8: {shown}."
        ) from None


def _suffix(name: str) -> str:
    found = re.search(r"\.[A-Za-z0-9]{1,8}$", name)
    return found.group().lower() if found else ""


def _irregular(name: str, kind: str) -> AttemptFailed:
    return AttemptFailed(
        Cause.UNEXPECTED_OUTPUT,
        f"{name} is no plain file but {kind}; outputs may be no links, pipes, folders or devices.",
    )


def _kind(found: os.stat_result) -> str:
    kinds = [(stat.S_ISLNK, "a symbolic link"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"),
             (stat.S_ISDIR, "a folder"), (stat.S_ISREG, "a hard link")]  # fmt: skip
    return next((kind for is_kind, kind in kinds if is_kind(found.st_mode)), "a device")

"""
What a manifest may say: paths, sources, sizes, digests, entry. Pure.

A path is where a file is laid out, so only plain relative POSIX paths are taken. A source is the path as the scene
spells it, free text of any system; an absolute POSIX one is later bound at that very place in the renderer's sandbox,
so it may not lie where the system's own files are. All that is wrong is said at once.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from farm.core.errors import Refusal, raise_all

MAX_FILES = 100_000
MAX_FILE = 10_000 * 16 * 1024 * 1024  # 10,000 parts of 16 MiB
MAX_TOTAL = 16 * 1024**4
MAX_PATH = 1024
MAX_SEGMENT = 255
MAX_SOURCE = 4096
MAX_REFUSALS = 20
MAX_WARNINGS = 100

# Where the sandbox has the system's files and its own; `workers.sandbox` refuses the same (a test compares them).
RESERVED = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "tmp", "usr", "var"}
    | {"farmhand", "in", "made", "out", "scene"}
)
ARCHIVES = (".zip", ".7z", ".rar", ".tar", ".tgz", ".tbz2", ".txz", ".gz", ".bz2", ".xz", ".zst", ".lz4")

_DIGEST = re.compile(r"[0-9a-f]{64}")
_DRIVE = re.compile(r"[A-Za-z]:/")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class ManifestRefused(Refusal):
    """{where}: {why}"""

    code = "manifest-invalid"
    status = 422

    def __init__(self, field: str, path: str, why: str) -> None:
        super().__init__(field=field, path=path, where=f"{field} ({path})" if path else field, why=why)


class MoreRefusals(Refusal):
    """{count} more things are wrong in this manifest; mend these first."""

    code = "manifest-invalid"
    status = 422


@dataclass(frozen=True, kw_only=True)
class FileLine:
    """One file of a manifest."""

    path: str
    source: str | None
    digest: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A manifest that makes sense."""

    entry: str
    files: list[FileLine]
    warnings: list[str] = field(default_factory=list)

    @property
    def byte_count(self) -> int:
        return sum(file.size for file in self.files)

    def sizes(self) -> dict[str, int]:
        """Give each digest once, with its size, in the manifest's order."""
        return {file.digest: file.size for file in self.files}


def read_manifest(entry: Any, files: Any) -> Manifest:
    """
    Check a manifest as it came, as plain JSON values.

    :raises ManifestRefused: one thing is wrong with it
    :raises Refusals: several things are; up to 20 are named
    """
    if not isinstance(files, Sequence) or isinstance(files, str):
        raise ManifestRefused("files", "", "give a list of files")
    if not 1 <= len(files) <= MAX_FILES:
        raise ManifestRefused("files", "", f"{len(files):,} files; a version has 1 to {MAX_FILES:,}")
    found: list[Refusal] = []
    lines = [line for number, raw in enumerate(files) if (line := _line(number, raw, found))]
    if not found:
        found.extend(_together(lines))
        found.extend(_entry(entry, lines))
    if len(found) > MAX_REFUSALS:
        found = [*found[:MAX_REFUSALS], MoreRefusals(count=len(found) - MAX_REFUSALS)]
    raise_all(found)
    return Manifest(entry=entry, files=lines, warnings=_case_collisions(lines))


# --- one file


def _line(number: int, raw: Any, found: list[Refusal]) -> FileLine | None:
    at = f"files[{number}]"
    if not isinstance(raw, Mapping):
        found.append(ManifestRefused(at, "", "give an object with path, digest, size and, if known, source"))
        return None
    path, checks = raw.get("path"), {name: wrong(raw.get(name)) for name, wrong in _CHECKS.items()}
    if not any(checks.values()) and raw.keys() <= _CHECKS.keys():
        return FileLine(path=str(path), source=raw.get("source"), digest=raw["digest"], size=raw["size"])
    shown = _shown(path)
    found.extend(ManifestRefused(f"{at}.{name}", shown, why) for name, why in checks.items() if why)
    unknown = sorted(raw.keys() - _CHECKS.keys(), key=str)
    found.extend(ManifestRefused(f"{at}.{_shown(name)}", shown, "there is no such field") for name in unknown)
    return None


def wrong_path(path: Any) -> str:
    """Say what is wrong with a path; "" if nothing is."""
    if not isinstance(path, str) or not path:
        return "give a path"
    if why := _wrong_text(path):
        return why
    if "\\" in path:
        return "write folders with /, not \\; a Windows spelling belongs in source"
    if path.startswith("/") or _DRIVE.match(path):
        return "give a path relative to the scene's folder; an absolute spelling belongs in source"
    if (length := len(path.encode())) > MAX_PATH:
        return f"it has {length} bytes; a path has at most {MAX_PATH}"
    return next((why for segment in path.split("/") if (why := _wrong_segment(segment))), "")


def _wrong_segment(segment: str) -> str:
    if segment == "..":
        return "it leads out of the scene's folder with '..'; move the file below it and upload again"
    if segment in ("", "."):
        return "it has an empty or '.' folder; write the path in its shortest form"
    if (length := len(segment.encode())) > MAX_SEGMENT:
        return f"one of its names has {length} bytes; file systems allow {MAX_SEGMENT}"
    return ""


def wrong_source(source: Any) -> str:
    """Say what is wrong with a source; "" if nothing is."""
    if source is None:
        return ""
    if not isinstance(source, str) or not source:
        return "give the path as the scene spells it, or leave it out"
    if why := _wrong_text(source):
        return why
    if (length := len(source.encode())) > MAX_SOURCE:
        return f"it has {length} bytes; a source has at most {MAX_SOURCE}"
    return _wrong_place(source) if is_absolute_posix(source) else ""


def is_absolute_posix(source: str) -> bool:
    """Say whether a source is an absolute POSIX path; with // it is Blender-relative or a network share."""
    return source.startswith("/") and not source.startswith("//")


def _wrong_place(source: str) -> str:
    segments = [segment for segment in source.split("/") if segment not in ("", ".")]
    if ".." in segments:
        return "write an absolute source without '..'"
    if not segments:
        return "the root folder is no file"
    if segments[0] in RESERVED:
        return (
            f"it lies in /{segments[0]}, which is the renderer's own there; leave the source out, and make the path "
            "relative in the scene, or keep the file elsewhere"
        )
    return ""


def _wrong_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    bad = _CONTROL.search(text)
    return f"it has the control character U+{ord(bad[0]):04X}; rename the file" if bad else ""


def _wrong_digest(digest: Any) -> str:
    if isinstance(digest, str) and _DIGEST.fullmatch(digest):
        return ""
    return "a digest is 64 lower-case hexadecimal digits"


def _wrong_size(size: Any) -> str:
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        return "a size is a whole number of bytes, 0 or more"
    return f"{size:,} bytes; a file has at most {MAX_FILE:,} (156.25 GiB)" if size > MAX_FILE else ""


_CHECKS = {"path": wrong_path, "source": wrong_source, "digest": _wrong_digest, "size": _wrong_size}


# --- the files together


def _together(lines: Sequence[FileLine]) -> Iterator[Refusal]:
    yield from _same_paths(lines)
    yield from _files_that_are_folders(lines, "path", [_compared(line.path) for line in lines])
    sources = [_normal(line.source) if line.source and is_absolute_posix(line.source) else None for line in lines]
    yield from _same_sources(lines, sources)
    yield from _files_that_are_folders(lines, "source", sources)
    yield from _sizes_of_one_digest(lines)
    total = sum(line.size for line in lines)
    if total > MAX_TOTAL:
        yield ManifestRefused("files", "", f"{total:,} bytes in all; a version has at most {MAX_TOTAL:,} (16 TiB)")


def _same_paths(lines: Sequence[FileLine]) -> Iterator[Refusal]:
    seen: dict[str, int] = {}
    for number, line in enumerate(lines):
        first = seen.setdefault(_compared(line.path), number)
        if first == number:
            continue
        same = lines[first].path == line.path
        why = (
            f"files[{first}] has the same path"
            if same
            else (f"files[{first}] has the same path with its accents encoded differently; rename one of them")
        )
        yield ManifestRefused(f"files[{number}].path", _shown(line.path), why)


def _same_sources(lines: Sequence[FileLine], sources: Sequence[str | None]) -> Iterator[Refusal]:
    seen: dict[str, int] = {}
    for number, source in enumerate(sources):
        if source is not None and (first := seen.setdefault(source, number)) != number:
            why = f"files[{first}] ({_shown(lines[first].path)}) has the same source; one place holds one file"
            yield ManifestRefused(f"files[{number}].source", _shown(lines[number].path), why)


def _files_that_are_folders(lines: Sequence[FileLine], name: str, places: Sequence[str | None]) -> Iterator[Refusal]:
    folders = {folder for place in places if place for folder in _folders(place)}
    for number, place in enumerate(places):
        if place in folders:
            why = "other files lie below it, so it cannot be a file itself"
            yield ManifestRefused(f"files[{number}].{name}", _shown(lines[number].path), why)


def _folders(place: str) -> Iterator[str]:
    at = place.find("/", 1)
    while at > 0:
        yield place[:at]
        at = place.find("/", at + 1)


def _sizes_of_one_digest(lines: Sequence[FileLine]) -> Iterator[Refusal]:
    sizes: dict[str, int] = {}
    for number, line in enumerate(lines):
        if sizes.setdefault(line.digest, line.size) != line.size:
            why = f"another file has the same digest and {sizes[line.digest]:,} bytes; hash it anew"
            yield ManifestRefused(f"files[{number}].size", _shown(line.path), why)


def _entry(entry: Any, lines: Sequence[FileLine]) -> Iterator[Refusal]:
    if not isinstance(entry, str) or not entry:
        yield ManifestRefused("entry", "", "name the file that the renderer opens, as one of the paths")
    elif entry not in {line.path for line in lines}:
        yield ManifestRefused("entry", _shown(entry), "it is none of the paths of this manifest")
    elif entry.lower().endswith(ARCHIVES):
        yield ManifestRefused("entry", _shown(entry), "it is an archive; unpack it and upload its contents")


def _case_collisions(lines: Sequence[FileLine]) -> list[str]:
    counts = Counter(_compared(line.path).casefold() for line in lines)
    alike = [line.path for line in lines if counts[_compared(line.path).casefold()] > 1]
    return [
        f"{path!r} differs from another path only in upper and lower case, which Windows and macOS do not tell apart"
        for path in alike[:MAX_WARNINGS]
    ]


def _compared(path: str) -> str:
    return unicodedata.normalize("NFC", path)


def _normal(source: str) -> str:
    return "/" + "/".join(segment for segment in source.split("/") if segment not in ("", "."))


def _shown(path: Any) -> str:
    """Give a path as it may stand in a sentence: escaped, and no longer than a line."""
    if not isinstance(path, str):
        return ""
    text = path.encode("unicode_escape").decode() if not path.isprintable() else path
    return text if len(text) <= 120 else f"{text[:117]}…"

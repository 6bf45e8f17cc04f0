"""
Fetching results: what is there and equal is left alone, a cut download goes on, nothing unverified gets its name.

A file is fetched beside its target under a name that holds its digest, checked as a whole, and renamed. Names come from
the farm and are not trusted: whatever they say, a file lands below the folder that was asked for.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from farmhand.answers import Output
from farmhand.connection import PASSING, Connection, problem_of, reason, retry_after
from farmhand.digests import FileUnreadable, HashCache, hash_file
from farmhand.errors import FarmError, Refused, Unreachable
from farmhand.meters import Meter, Stage, Watcher, threads

AT_ONCE = 4
PARTIAL = ".part"
MAX_NAME = 200  # bytes of one name, so that ours beside it fit a file system's 255
OVER = frozenset({401, 403, 404, 410})  # the address expired; the farm gives a new one

# What Windows reads as a device, whatever the ending.
DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
UNSAFE = re.compile(r'[<>:"|?*]')


class FolderUnwritable(Refused):
    """{path} cannot be written: {why}."""

    code = "folder-unwritable"


class DiskFull(Refused):
    """
    The disk is full: {name} with {size:,} bytes has no room in {folder}. Make room and pull again; what is there is
    kept.
    """

    code = "disk-full"


class Damaged(Refused):
    """{name} arrived twice with other content than the farm has. Try again; if it stays so, tell your operator."""

    code = "damaged"


@dataclass(frozen=True)
class Pulled:
    """What a pull came to."""

    folder: Path
    fetched: list[str] = field(default_factory=list)  # names below the folder
    kept: list[str] = field(default_factory=list)  # were there already, and equal
    bytes: int = 0  # of what was fetched


@dataclass(frozen=True)
class Target:
    """A file to fetch, and where it goes."""

    output: Output
    path: Path
    name: str


def pull_outputs(
    connection: Connection,
    outputs: Sequence[Output],
    folder: Path,
    *,
    renew: Callable[[Output], Output],
    cache: HashCache,
    on_progress: Watcher,
) -> Pulled:
    """
    Fetch files into a folder.

    :param renew: asks for an output again, with a fresh address
    :raises FolderUnwritable, DiskFull, Damaged: as they say
    """
    _make(folder)
    targets = place(outputs, folder)
    meter = Meter(Stage.FETCHING, on_progress, files=len(targets), bytes=sum(t.output["size"] for t in targets))
    fetcher = Fetcher(connection, meter, renew, cache)

    def give_up() -> None:
        meter.stop()
        connection.give_up()

    with threads(AT_ONCE, give_up) as pool:
        was_fetched = list(pool.map(fetcher.bring, targets))
    fetched = [target for target, new in zip(targets, was_fetched, strict=True) if new]
    return Pulled(
        folder=folder,
        fetched=[target.name for target in fetched],
        kept=[target.name for target, new in zip(targets, was_fetched, strict=True) if not new],
        bytes=sum(target.output["size"] for target in fetched),
    )


def pull_file(
    connection: Connection,
    output: Output,
    path: Path,
    *,
    renew: Callable[[Output], Output],
    cache: HashCache,
    on_progress: Watcher,
) -> bool:
    """Fetch one file to a place of a person's choice; say whether it was fetched. Refusals as in `pull_outputs`."""
    meter = Meter(Stage.FETCHING, on_progress, files=1, bytes=output["size"])
    _make(path.absolute().parent)
    return Fetcher(connection, meter, renew, cache).bring(Target(output, path.absolute(), path.name))


# --- names


def place(outputs: Iterable[Output], folder: Path) -> list[Target]:
    """Give each output a place below the folder; two of one name (of two steps) get different ones."""
    taken: set[str] = set()
    targets = []
    for output in outputs:
        name = safe_name(output["name"])
        if _compared(name) in taken:
            stem, dot, ending = name.rpartition(".")
            mark = output["task"].replace("-", "")[-12:]
            name = f"{stem}-{mark}.{ending}" if dot and stem else f"{name}-{mark}"
        taken.add(_compared(name))
        targets.append(Target(output, folder.joinpath(*name.split("/")), name))
    return targets


def safe_name(name: str) -> str:
    """Give a name that stays below a folder on any system: no drive, no `..`, no device, no control character."""
    segments = [_safe_segment(segment) for segment in re.split(r"[/\\]", name)]
    return "/".join(segment for segment in segments if segment) or "unnamed"


def _safe_segment(segment: str) -> str:
    plain = "".join("_" if unicodedata.category(letter) in {"Cc", "Cf", "Cs"} else letter for letter in segment)
    plain = UNSAFE.sub("_", plain).rstrip(". ").lstrip(" ")
    if not plain.strip("."):
        return ""
    if DEVICES.fullmatch(plain):
        plain = f"_{plain}"
    return _shortened(plain)


def _shortened(name: str) -> str:
    if len(name.encode()) <= MAX_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    stem, dot, ending = name.rpartition(".")
    tail = f"-{mark}.{ending}" if dot and len(ending) <= 16 else f"-{mark}"
    head = (stem if dot and len(ending) <= 16 else name).encode()[: MAX_NAME - len(tail.encode())]
    return head.decode(errors="ignore") + tail


def _compared(name: str) -> str:
    """Fold what Windows and macOS do not tell apart."""
    return unicodedata.normalize("NFC", name).casefold()


# --- fetching


class Fetcher:
    """Brings files, each by one thread."""

    def __init__(
        self, connection: Connection, meter: Meter, renew: Callable[[Output], Output], cache: HashCache
    ) -> None:
        self.connection = connection
        self.meter = meter
        self.renew = renew
        self.cache = cache

    def bring(self, target: Target) -> bool:
        """Fetch a file unless it is there and equal; say whether it was fetched."""
        output, path = target.output, target.path
        if self._is_there(path, output):
            self.meter.add(files=1, bytes=output["size"])
            return False
        _make(path.parent)
        partial = path.with_name(f".{path.name[:180]}.{output['digest'][:12]}{PARTIAL}")
        try:
            self._fetch(target, partial)
            partial.replace(path)
        except OSError as error:
            raise _refusal(error, target) from error
        self.meter.add(files=1)
        return True

    def _is_there(self, path: Path, output: Output) -> bool:
        try:
            if not path.is_file() or path.stat().st_size != output["size"]:
                return False
            return self.cache.sums(path)[1].digest == output["digest"]
        except (FileUnreadable, OSError):
            return False

    def _fetch(self, target: Target, partial: Path) -> None:
        """Fetch and verify; what was garbled is fetched once more from its beginning."""
        for _ in range(2):
            self._fetch_rest(target.output, partial)
            if hash_file(partial)[1].digest == target.output["digest"]:
                return
            partial.unlink()
            self.meter.add(bytes=-target.output["size"])
        raise Damaged(name=target.name)

    def _fetch_rest(self, output: Output, partial: Path) -> None:
        """Append to the partial file what it lacks, with new attempts as long as the farm's patience lasts."""
        have = _size(partial)
        if have > output["size"]:
            partial.unlink()
            have = 0
        self.meter.add(bytes=have)
        attempt = 0
        while have < output["size"] or not partial.exists():
            before = have
            output = self._try(output, partial, attempt)
            have = _size(partial)
            attempt = 0 if have > before else attempt + 1

    def _try(self, output: Output, partial: Path, attempt: int) -> Output:
        """Fetch as far as the line lasts; give the output with the address to go on with."""
        have = _size(partial)
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        is_last = attempt >= self.connection.patience.attempts - 1
        try:
            with self.connection.stream_signed(output["url"], headers) as answer:
                if answer.status_code in {200, 206}:
                    self._write(answer, partial, have)
                    return output
                answer.read()
        except httpx.TransportError as error:
            if is_last:
                raise Unreachable(url=self.connection.url, why=reason(error)) from error
            if _size(partial) == have:
                self.connection.pause(attempt, reason(error))
            return output
        return self._react(output, partial, answer, attempt, is_last=is_last)

    def _write(self, answer: httpx.Response, partial: Path, have: int) -> None:
        """Write a body; a store that does not do ranges sends the file from its beginning."""
        goes_on = answer.status_code == 206
        if have and not goes_on:
            self.meter.add(bytes=-have)
        with partial.open("ab" if goes_on else "wb") as file:
            for piece in answer.iter_bytes():  # as it arrives: what is held back would be lost with the line
                file.write(piece)
                self.meter.add(bytes=len(piece))

    def _react(self, output: Output, partial: Path, answer: httpx.Response, attempt: int, *, is_last: bool) -> Output:
        """Do what a refusal needs before the next attempt, or give up."""
        problem = problem_of(answer)
        detail = str(problem.get("detail") or f"the store answered with status {answer.status_code}")
        if is_last or answer.status_code not in OVER | PASSING | {416, 500}:
            raise FarmError(str(problem.get("code", "store-refused")), detail, status=answer.status_code)
        if answer.status_code == 416:
            self.meter.add(bytes=-_size(partial))
            partial.unlink(missing_ok=True)
        elif answer.status_code in OVER and not attempt:
            return self.renew(output)
        self.connection.pause(attempt, detail, asked=retry_after(answer, now=time.time()))
        return self.renew(output) if answer.status_code in OVER else output


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderUnwritable(path=folder, why=os.strerror(error.errno or 0).lower()) from error


def _refusal(error: OSError, target: Target) -> Refused:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(name=target.name, size=target.output["size"], folder=target.path.parent)
    return FolderUnwritable(path=target.path, why=(error.strerror or str(error)).lower())

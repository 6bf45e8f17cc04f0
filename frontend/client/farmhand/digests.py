"""Digests of files: the farm's rule, a hasher that reads a file once, and a memory of files hashed before."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from farmhand.errors import Refused

PART_SIZE = 16 * 1024 * 1024
PIECE = 1024 * 1024
SUM = 32  # bytes of a SHA-256
FRESH_NS = 2_000_000_000  # a file changed this recently may change again within one tick of its clock
KEPT_S = 90 * 86400


class FileUnreadable(Refused):
    """{path} cannot be read: {why}. Mend it, or leave the file out with --exclude."""

    code = "file-unreadable"


class FileChanged(Refused):
    """
    {path} changed while it was being sent. Let whatever writes it finish, then push again: what is there already is
    not sent twice.
    """

    code = "file-changed"


@dataclass(frozen=True)
class Look:
    """What a file system says of a file, by which a change is noticed."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int


@dataclass(frozen=True)
class Sums:
    """A content: its size and the SHA-256 of each of its parts."""

    size: int
    parts: tuple[str, ...]

    @property
    def digest(self) -> str:
        return digest_of_parts(self.parts)


def digest_of_parts(parts: Sequence[str]) -> str:
    """Give a content's digest: one part's own sum, or the SHA-256 of the concatenated sums of several."""
    if len(parts) == 1:
        return parts[0]
    return hashlib.sha256(b"".join(bytes.fromhex(part) for part in parts)).hexdigest()


def part_count(size: int) -> int:
    """Give the number of parts; an empty content has one, empty, part."""
    return max(1, -(-size // PART_SIZE))


def look_at(path: Path) -> Look:
    """
    Look at a file.

    :raises FileUnreadable: it is gone, or the system does not let us
    """
    try:
        found = path.stat()
    except OSError as error:
        raise FileUnreadable(path=path, why=_words(error)) from None
    return _look(found)


def hash_file(path: Path, *, on_bytes: Callable[[int], None] = lambda count: None) -> tuple[Look, Sums]:
    """
    Read a file once; give how it looked when it was read, and its sums.

    :raises FileUnreadable: it cannot be read
    :raises FileChanged: it was written to meanwhile
    """
    try:
        # Not blocking: should the name by now belong to a pipe, opening it must not wait for a writer.
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)), "rb") as file:  # noqa: PTH123  (a descriptor)
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise FileUnreadable(path=path, why="it is no regular file any more")
            sums = _read_parts(file.read, before.st_size, on_bytes)
            after = os.fstat(file.fileno())
    except OSError as error:
        raise FileUnreadable(path=path, why=_words(error)) from None
    if _look(before) != _look(after) or sums.size != after.st_size:
        raise FileChanged(path=path)
    return _look(after), sums


def read_part(path: Path, number: int, *, size: int, sha256: str) -> bytes:
    """
    Read one part of a file, as it was when it was hashed.

    :raises FileUnreadable: it cannot be read
    :raises FileChanged: it is not the same any more
    """
    length = min(PART_SIZE, size - number * PART_SIZE)
    try:
        with path.open("rb") as file:
            file.seek(number * PART_SIZE)
            content = file.read(length)
    except OSError as error:
        raise FileUnreadable(path=path, why=_words(error)) from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise FileChanged(path=path)
    return content


def _read_parts(read: Callable[[int], bytes], size: int, on_bytes: Callable[[int], None]) -> Sums:
    """Read so many bytes, or what there is; one that grows as it is read is not chased."""
    parts: list[str] = []
    done, hasher, room = 0, hashlib.sha256(), PART_SIZE
    while piece := read(min(PIECE, room, size - done)):
        hasher.update(piece)
        done, room = done + len(piece), room - len(piece)
        on_bytes(len(piece))
        if not room:
            parts.append(hasher.hexdigest())
            hasher, room = hashlib.sha256(), PART_SIZE
    if room < PART_SIZE or not parts:
        parts.append(hasher.hexdigest())
    return Sums(done, tuple(parts))


def _look(found: os.stat_result) -> Look:
    return Look(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


_TABLE = """
CREATE TABLE IF NOT EXISTS sums (
    path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER, device INTEGER,
    parts BLOB, used REAL
) WITHOUT ROWID
"""
_KEEP = "INSERT OR REPLACE INTO sums VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_FIND = "SELECT size, mtime_ns, ctime_ns, inode, device, parts FROM sums WHERE path = ?"


class HashCache:
    """
    Remembers sums of files that look the same as when they were hashed.

    It is only a hint: a file is hashed again part by part while it is sent, and the farm verifies what arrives. Where
    the memory cannot be kept (a full or read-only disk, another program's lock) files are hashed anew.
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._rows: sqlite3.Connection | None = None
        if path is not None:
            with contextlib.suppress(OSError):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._rows = _open(path)

    def close(self) -> None:
        with self._lock, contextlib.suppress(sqlite3.Error):
            if self._rows:
                self._rows.close()
            self._rows = None

    def sums(self, path: Path, *, on_bytes: Callable[[int], None] = lambda count: None) -> tuple[Look, Sums]:
        """Give a file's sums, from memory if it looks the same; refusals as in `hash_file`."""
        look = look_at(path)
        if known := self._find(path, look):
            on_bytes(look.size)
            return look, known
        look, sums = hash_file(path, on_bytes=on_bytes)
        self.remember(path, look, sums)
        return look, sums

    def remember(self, path: Path, look: Look, sums: Sums) -> None:
        """Keep a file's sums, unless it changed so recently that it could change again and look the same."""
        now = time.time_ns()
        if now - max(look.mtime_ns, look.ctime_ns) < FRESH_NS:
            return
        parts = b"".join(bytes.fromhex(part) for part in sums.parts)
        row = (_key(path), look.size, look.mtime_ns, look.ctime_ns, *_unsigned(look), parts, now / 1e9)
        with self._lock, contextlib.suppress(sqlite3.Error):
            if self._rows:
                self._rows.execute(_KEEP, row)

    def _find(self, path: Path, look: Look) -> Sums | None:
        with self._lock, contextlib.suppress(sqlite3.Error):
            row = self._rows.execute(_FIND, (_key(path),)).fetchone() if self._rows else None
            if row and tuple(row[:5]) == (look.size, look.mtime_ns, look.ctime_ns, *_unsigned(look)):
                parts = tuple(row[5][at : at + SUM].hex() for at in range(0, len(row[5]), SUM))
                if len(parts) == part_count(look.size):
                    return Sums(look.size, parts)
        return None


def _key(path: Path) -> bytes:
    return os.fsencode(path.absolute())


def _unsigned(look: Look) -> tuple[int, int]:
    """Give inode and device as SQLite can hold them: some file systems use all 64 bits."""
    return look.inode & (2**63 - 1), look.device & (2**63 - 1)


def _open(path: Path) -> sqlite3.Connection | None:
    """Open the memory; one that is damaged is begun anew, and none is kept where that is not possible."""
    try:
        return _prepared(path)
    except sqlite3.OperationalError:  # locked, full, read-only
        return None
    except sqlite3.DatabaseError:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
    with contextlib.suppress(sqlite3.Error):
        return _prepared(path)
    return None


def _prepared(path: Path) -> sqlite3.Connection:
    rows = sqlite3.connect(path, timeout=2, isolation_level=None, check_same_thread=False)
    try:
        rows.execute("PRAGMA journal_mode=WAL")
        rows.execute("PRAGMA synchronous=OFF")  # what a power cut loses is hashed again
        rows.execute(_TABLE)
        rows.execute("DELETE FROM sums WHERE used < ?", (time.time() - KEPT_S,))
    except sqlite3.Error:
        rows.close()
        raise
    return rows

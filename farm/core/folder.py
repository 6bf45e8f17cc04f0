"""
A folder as object store; its bytes travel through `farm.core.files`.

An object of one part is one file: its content, then a trailer with its SHA-256, so that content and digest appear in
one rename and a file that lost its tail is no object. An object of several parts is a folder `<key>.parts` of such
files and an index; completing an upload renames its folder, however large it is. Keys have no dots, so the two never
meet. Everything is written under `tmp/` first.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import shutil
import uuid
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol

from farm.core import keys
from farm.core.errors import Refusal
from farm.core.permits import WHOLE, Permit
from farm.core.storage import (
    DOWNLOAD_VALID,
    MAX_PARTS,
    PIECE,
    UPLOAD_VALID,
    ContentDiffers,
    Listed,
    NoSuchObject,
    NoSuchUpload,
    Part,
    Stat,
    StoreFull,
    check_all_there,
    check_download,
    measure,
    told,
)
from workers.protocol import PART_SIZE, SignedRequest

_MAGIC = b"farmhand"
_TRAILER = hashlib.sha256().digest_size + len(_MAGIC)
_PARTS = ".parts"
_INDEX = "index.json"
_UPLOAD = re.compile(r"[0-9a-f]{32}")
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class WrongLength(Refusal):
    """The body has {sent} bytes; the address was signed for {signed}. Send exactly the part that was announced."""

    code = "wrong-length"
    status = 422


class WrongSum(Refusal):
    """
    The body's SHA-256 is {sent}; the address was signed for {signed}. Either the line garbled it or the file changed:
    send it again, and if that does not help hash the file anew.
    """

    code = "wrong-sum"
    status = 422


class Readable(Protocol):
    """A body that is read in pieces."""

    def read(self, size: int, /) -> bytes: ...


class FolderStore:
    """The store of one machine, or of several that share a file system."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # --- what is there

    def stat(self, key: str) -> Stat | None:
        path = self._object(key)
        return _stat_file(path) or _stat_parts(_parts_of(path))

    def stream(self, key: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        found = self.stat(key)
        if found is None:
            raise NoSuchObject
        end = found.size if length is None else min(found.size, start + length)
        return self._pieces(self._object(key), start, end)

    def read(self, key: str, *, limit: int = 64 * PIECE) -> bytes:
        found = self.stat(key)
        if found is None:
            raise NoSuchObject
        if found.size > limit:
            raise ValueError(f"{key} has {found.size} bytes, more than {limit}")
        return b"".join(self.stream(key))

    def listing(self, prefix: str) -> Iterator[Listed]:
        top = self._object(f"{prefix}0").parent
        for folder, below, names in os.walk(top):
            for name in [n for n in below if n.endswith(_PARTS)]:
                below.remove(name)  # its files are parts, not objects
                yield from _listed(self._key(folder, name.removesuffix(_PARTS)), Path(folder, name))
            for name in names:
                yield from _listed(self._key(folder, name), Path(folder, name))

    # --- one object

    def sign_upload(self, key: str, *, length: int, sha256: str, now: datetime) -> SignedRequest:
        return _sign_put(Permit(method="PUT", key=key, expires=_until(now, UPLOAD_VALID), length=length, sha256=sha256))

    def sign_download(
        self,
        key: str,
        *,
        now: datetime,
        valid: timedelta = DOWNLOAD_VALID,
        filename: str = "",
        content_type: str = "application/octet-stream",
    ) -> SignedRequest:
        check_download(valid, content_type)
        permit = Permit(method="GET", key=key, expires=_until(now, valid), filename=filename, content_type=content_type)
        return SignedRequest(method="GET", url=permit.address(), headers={})

    def write(self, key: str, content: bytes) -> Stat:
        digest = hashlib.sha256(content).hexdigest()
        self._keep(io.BytesIO(content), self._object(key), length=len(content), sha256=digest)
        return Stat(size=len(content), digest=digest)

    def delete(self, key: str) -> None:
        path = self._object(key)
        path.unlink(missing_ok=True)
        self._remove(_parts_of(path))

    def delete_all(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.delete(key)

    def receive(self, permit: Permit, body: Readable) -> None:
        """
        Store the body of a signed PUT: the whole of what was signed, or nothing.

        :raises WrongLength: it is shorter or longer than signed
        :raises WrongSum: its content is not what was signed
        :raises NoSuchUpload: its upload was completed or aborted
        :raises StoreFull: there is no room
        """
        if permit.part == WHOLE:
            target = self._object(permit.key)
        else:
            target = self._upload(permit.key, permit.upload) / _part_name(permit.part)
        self._keep(body, target, length=permit.length, sha256=permit.sha256)

    # --- uploads in parts

    def begin(self, key: str) -> str:
        keys.checked(key)
        upload = uuid.uuid4().hex
        with _room():
            folder = self._tmp() / upload
            folder.mkdir()
            _write_durably(folder / "key", key.encode())
            target = self._uploads(upload)
            target.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(target)
        return upload

    def sign_part(
        self, key: str, upload: str, number: int, *, length: int, sha256: str, now: datetime
    ) -> SignedRequest:
        expires = _until(now, UPLOAD_VALID)
        return _sign_put(
            Permit(method="PUT", key=key, expires=expires, upload=upload, part=number, length=length, sha256=sha256)
        )

    def finished_parts(self, key: str, upload: str, *, after: int = -1, limit: int = 1000) -> list[Part]:
        try:
            return _parts(self._upload(key, upload), after, limit)
        except NoSuchUpload:  # a completion is under way, or was cut off
            return _parts(_of_key(self._sealed(upload), key), after, limit)

    def complete(self, key: str, upload: str, *, size: int, digest: str) -> Stat:
        wanted = Stat(size=size, digest=digest)
        try:
            if self.stat(key) != wanted:
                self._compose(key, upload, wanted)
        except (Refusal, OSError):
            if self.stat(key) != wanted:
                raise
        self.abort(key, upload)  # here only if another completion of the same content was quicker
        return wanted

    def _compose(self, key: str, upload: str, wanted: Stat) -> None:
        check_all_there(self.finished_parts(key, upload, limit=MAX_PARTS), wanted)
        # From here on no late PUT can land among the parts: the folder it looks for is gone.
        folder = self._seal(upload)
        found = measure(_parts(folder, -1, MAX_PARTS + 1))
        if found != wanted:
            self._remove(folder)
            raise ContentDiffers(expected=told(wanted), found=told(found))
        with _room():
            _write_index(folder, wanted)
            _publish(folder, _parts_of(self._object(key)))

    def abort(self, key: str, upload: str) -> None:
        for folder in (self._uploads(upload), self._sealed(upload)):
            self._remove(folder)

    def discard_stale(self, before: datetime, *, keep: Collection[str]) -> int:
        discarded = 0
        for area in ("uploads", "sealed"):
            for folder in _older(self.root / area, before):
                if folder.name not in keep:
                    self._remove(folder)
                    discarded += 1
        for leftover in _older(self.root / "tmp", before):
            _remove_now(leftover)
        return discarded

    # --- the folder

    def _object(self, key: str) -> Path:
        return self.root / "objects" / keys.checked(key)

    def _key(self, folder: str, name: str) -> str:
        return Path(folder, name).relative_to(self.root / "objects").as_posix()

    def _uploads(self, upload: str) -> Path:
        return self.root / "uploads" / _checked_upload(upload)

    def _sealed(self, upload: str) -> Path:
        return self.root / "sealed" / _checked_upload(upload)

    def _upload(self, key: str, upload: str) -> Path:
        return _of_key(self._uploads(upload), key)

    def _seal(self, upload: str) -> Path:
        sealed = self._sealed(upload)
        sealed.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            self._uploads(upload).rename(sealed)
        return sealed

    def _tmp(self) -> Path:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)  # other people's scenes: nobody else's to read
        folder = self.root / "tmp"
        folder.mkdir(exist_ok=True)
        return folder

    def _keep(self, body: Readable, target: Path, *, length: int, sha256: str) -> None:
        with _room():
            temporary = self._tmp() / uuid.uuid4().hex
            try:
                with temporary.open("xb") as file:
                    _copy(body, file, length=length, sha256=sha256)
                _publish(temporary, target, make_folder=target.is_relative_to(self.root / "objects"))
            finally:
                temporary.unlink(missing_ok=True)

    def _pieces(self, path: Path, start: int, end: int) -> Iterator[bytes]:
        parts = _parts_of(path)
        if not parts.is_dir():
            yield from _read(path, start, end)
            return
        while start < end:
            number, offset = divmod(start, PART_SIZE)
            stop = min(PART_SIZE, end - number * PART_SIZE)
            yield from _read(parts / _part_name(number), offset, stop)
            start = number * PART_SIZE + stop

    def _remove(self, folder: Path) -> None:
        """Let a folder vanish in one step, then delete what was in it."""
        doomed = self._tmp() / uuid.uuid4().hex
        with contextlib.suppress(FileNotFoundError):
            folder.rename(doomed)
            _remove_now(doomed)


# --- files of one part: content, SHA-256, magic


def _copy(body: Readable, file: BinaryIO, *, length: int, sha256: str) -> None:
    hasher, left = hashlib.sha256(), length
    while left and (piece := body.read(min(PIECE, left))):
        hasher.update(piece)
        file.write(piece)
        left -= len(piece)
    if left or body.read(1):
        raise WrongLength(sent=length - left if left else "more", signed=length)
    if hasher.hexdigest() != sha256:
        raise WrongSum(sent=hasher.hexdigest(), signed=sha256)
    file.write(hasher.digest() + _MAGIC)
    file.flush()
    os.fsync(file.fileno())


def _stat_file(path: Path) -> Stat | None:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size - _TRAILER
            if size < 0:
                return None
            file.seek(size)
            trailer = file.read(_TRAILER)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    if not trailer.endswith(_MAGIC):
        return None
    return Stat(size=size, digest=trailer.removesuffix(_MAGIC).hex())


def _read(path: Path, start: int, end: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while start < end:
            piece = file.read(min(PIECE, end - start))
            if not piece:
                raise OSError(errno.EIO, f"{path} ended {end - start} bytes early")
            yield piece
            start += len(piece)


# --- folders of several parts


def _parts_of(path: Path) -> Path:
    return path.with_name(path.name + _PARTS)


def _part_name(number: int) -> str:
    return f"{number:05d}"


def _parts(folder: Path, after: int, limit: int) -> list[Part]:
    try:
        found = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
    except FileNotFoundError:
        raise NoSuchUpload from None
    return [_part(folder, number) for number in found[bisect_right(found, after) :][:limit]]


def _part(folder: Path, number: int) -> Part:
    found = _stat_file(folder / _part_name(number))
    if found is None:  # it was there a moment ago
        raise NoSuchUpload
    return Part(number=number, length=found.size, sha256=found.digest)


def _stat_parts(folder: Path) -> Stat | None:
    try:
        return Stat(**json.loads((folder / _INDEX).read_bytes()))
    except FileNotFoundError:
        return None


def _write_index(folder: Path, stat: Stat) -> None:
    draft = folder / f"index-{uuid.uuid4().hex}"  # several completions at once never see each other's half-written one
    _write_durably(draft, json.dumps({"size": stat.size, "digest": stat.digest}).encode())
    draft.rename(folder / _INDEX)


def _of_key(folder: Path, key: str) -> Path:
    """Give the folder if it is an upload to this key."""
    with contextlib.suppress(FileNotFoundError):
        if (folder / "key").read_text() == key:
            return folder
    raise NoSuchUpload


def _checked_upload(upload: str) -> str:
    if not _UPLOAD.fullmatch(upload):
        raise NoSuchUpload
    return upload


# --- the file system


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _publish(source: Path, target: Path, *, make_folder: bool = True) -> None:
    """Rename to where readers look, so that it is there whole and outlives a power cut."""
    if make_folder:
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.rename(target)
    except FileNotFoundError:
        raise NoSuchUpload from None
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _room() -> Iterator[None]:
    """Turn a full disk into a refusal."""
    try:
        yield
    except OSError as error:
        _refuse_full(error)


def _refuse_full(error: OSError) -> NoReturn:
    if error.errno in _NO_ROOM:
        raise StoreFull from error
    raise error


def _older(folder: Path, before: datetime) -> list[Path]:
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if _modified(path) < before]


def _modified(path: Path) -> datetime:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except FileNotFoundError:  # somebody else's cleaning: leave it to them
        return datetime.max.replace(tzinfo=UTC)


def _remove_now(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _listed(key: str, path: Path) -> Iterator[Listed]:
    found = _stat_parts(path) if path.is_dir() else _stat_file(path)
    if found is not None:
        yield Listed(key=key, size=found.size, modified=_modified(path))


def _until(now: datetime, valid: timedelta) -> int:
    return int((now + valid).timestamp())


def _sign_put(permit: Permit) -> SignedRequest:
    keys.checked(permit.key)
    # Browsers and urllib would otherwise each choose a type of their own.
    return SignedRequest(method="PUT", url=permit.address(), headers={"Content-Type": "application/octet-stream"})

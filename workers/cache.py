"""The disk cache: blobs by digest with a size limit, and scene versions laid out from them by hard links."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import os
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from workers.protocol import PART_SIZE, ManifestFile, StepDocument, digest_of_parts
from workers.sandbox import RESERVED, SourceNotAllowed

DIGEST = re.compile(r"[0-9a-f]{64}")
NO_SCENE = "step:"
WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")


class CacheTooSmall(Exception):
    """The scene needs {needed} MiB and the disk cache may hold {limit}. Give the agent a larger --cache-gib."""

    def __init__(self, *, needed: int, limit: int) -> None:
        super().__init__((self.__doc__ or "").format(needed=needed >> 20, limit=limit >> 20))


class ManifestRefused(Exception):
    """The scene's file list cannot be laid out: {why}"""

    def __init__(self, why: str) -> None:
        super().__init__((self.__doc__ or "").format(why=why))


@dataclasses.dataclass
class Blob:
    size: int
    used_at: float
    is_verified: bool  # False: left by an earlier agent, not yet compared with its name


@dataclasses.dataclass
class Layout:
    """A scene version on disk: `files` is what is shown as /scene, `sources` what is shown at absolute paths."""

    folder: Path
    digests: frozenset[str]
    used_at: float
    users: int = 0

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def sources(self) -> Path:
        return self.folder / "sources"


class Cache:
    """Blobs and layouts below one folder; safe to use from several threads."""

    def __init__(self, folder: Path, *, limit_bytes: int) -> None:
        self.blobs = folder / "blobs"
        self.partial = folder / "partial"
        self.scenes = folder / "scenes"
        self.limit_bytes = limit_bytes
        self._lock = threading.RLock()
        self._laying_out = threading.Lock()
        self._entries: dict[str, Blob] = {}
        self._layouts: dict[str, Layout] = {}
        self._pins: Counter[str] = Counter()
        self._coming = 0  # bytes that downloads under way will need
        self._open()

    def _open(self) -> None:
        """Take over the blobs of an earlier agent; layouts are cheap and made anew."""
        for folder in (self.scenes, self.partial):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (self.blobs, self.partial, self.scenes):
            folder.mkdir(parents=True, exist_ok=True)
        for file in self.blobs.iterdir():
            if DIGEST.fullmatch(file.name) and file.is_file() and not file.is_symlink():
                stat = file.stat()
                self._entries[file.name] = Blob(size=stat.st_size, used_at=0.0, is_verified=False)
        with self._lock:
            self._make_room(0)

    @property
    def size_bytes(self) -> int:
        with self._lock:
            return sum(blob.size for blob in self._entries.values()) + self._coming

    def versions(self) -> list[str]:
        """Name the scene versions that are on disk, whole."""
        with self._lock:
            return sorted(key for key in self._layouts if not key.startswith(NO_SCENE))

    @contextlib.contextmanager
    def pinned(self, digests: Sequence[str]) -> Iterator[None]:
        """Keep these blobs from being evicted for a while."""
        with self._lock:
            self._pins.update(digests)
        try:
            yield
        finally:
            with self._lock:
                self._pins.subtract(digests)
                self._pins = +self._pins

    def missing(self, sizes: Mapping[str, int]) -> list[str]:
        """Name the digests whose content is not here; a blob of the wrong size or content is thrown away."""
        return [digest for digest, size in sizes.items() if not self._is_good(digest, size)]

    def _is_good(self, digest: str, size: int) -> bool:
        with self._lock:
            blob = self._entries.get(digest)
        if blob is None:
            return False
        file = self.blobs / digest
        try:
            is_good = file.stat().st_size == size and (blob.is_verified or digest_file(file)[0] == digest)
        except OSError:
            is_good = False
        with self._lock:
            if is_good:
                blob.is_verified, blob.used_at = True, time.monotonic()
            else:
                self._drop(digest)
        return is_good

    @contextlib.contextmanager
    def room_for(self, size: int) -> Iterator[None]:
        """
        Make room for a blob that is about to arrive.

        :raises CacheTooSmall: what is in use leaves no room
        """
        with self._lock:
            self._make_room(size)
            self._coming += size
        try:
            yield
        finally:
            with self._lock:
                self._coming -= size

    def add(self, digest: str, file: Path) -> None:
        """Take a verified file in; it is moved."""
        size = file.stat().st_size
        file.chmod(0o444)
        with self._lock:
            file.replace(self.blobs / digest)
            self._entries[digest] = Blob(size=size, used_at=time.monotonic(), is_verified=True)

    def lay_out(self, key: str, manifest: Sequence[ManifestFile]) -> Layout:
        """
        Lay out a scene version whose blobs are all here and pinned; again costs nothing.

        :raises ManifestRefused: paths that leave the folder or collide
        :raises SourceNotAllowed: a source where the sandbox can show nothing
        """
        with self._laying_out:
            with self._lock:
                known = self._layouts.get(key)
            return known or self._lay_out(key, manifest)

    def _lay_out(self, key: str, manifest: Sequence[ManifestFile]) -> Layout:
        folder = self.scenes / hashlib.sha256(key.encode()).hexdigest()[:32]
        shutil.rmtree(folder, ignore_errors=True)
        layout = Layout(folder=folder, digests=frozenset(f.digest for f in manifest), used_at=time.monotonic())
        layout.files.mkdir(parents=True)
        layout.sources.mkdir()
        for file in manifest:
            self._place(file.digest, layout.files, _inside(file.path))
            if (source := absolute_source(file)) is not None:
                self._place(file.digest, layout.sources, source)
        with self._lock:
            self._layouts[key] = layout
        return layout

    def _place(self, digest: str, root: Path, path: PurePosixPath) -> None:
        target = root / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._link(digest, target)
        except FileExistsError as error:
            if not target.is_file() or not target.samefile(self.blobs / digest):
                raise ManifestRefused(f"{path} is there twice") from error
        except NotADirectoryError as error:
            raise ManifestRefused(f"{path} lies below another file") from error
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise ManifestRefused(f"{path} is too long for this machine's disk") from error
            raise

    def _link(self, digest: str, target: Path) -> None:
        try:
            os.link(self.blobs / digest, target)
        except OSError as error:
            if error.errno != errno.EMLINK:  # one content under more names than the file system can count
                raise
            shutil.copyfile(self.blobs / digest, target)

    @contextlib.contextmanager
    def in_use(self, layout: Layout) -> Iterator[Layout]:
        """Keep a layout while a session shows it."""
        with self._lock:
            layout.users += 1
        try:
            yield layout
        finally:
            with self._lock:
                layout.users -= 1
                layout.used_at = time.monotonic()

    def _make_room(self, size: int) -> None:
        while self.size_bytes + size > self.limit_bytes:
            if not (self._evict_blob() or self._evict_layout()):
                raise CacheTooSmall(needed=size + self._bytes_in_use(), limit=self.limit_bytes)

    def _bytes_in_use(self) -> int:
        return sum(blob.size for blob in self._entries.values()) + self._coming

    def _evict_blob(self) -> bool:
        kept = set(self._pins).union(*(layout.digests for layout in self._layouts.values()))
        free = [(blob.used_at, digest) for digest, blob in self._entries.items() if digest not in kept]
        if free:
            self._drop(min(free)[1])
        return bool(free)

    def _evict_layout(self) -> bool:
        free = [(layout.used_at, key) for key, layout in self._layouts.items() if not layout.users]
        if free:
            layout = self._layouts.pop(min(free)[1])
            shutil.rmtree(layout.folder, ignore_errors=True)
        return bool(free)

    def _drop(self, digest: str) -> None:
        self._entries.pop(digest, None)
        (self.blobs / digest).unlink(missing_ok=True)


def scene_key(document: StepDocument) -> str:
    """Name what a step's inputs are laid out under: the scene version, or the step for a job without a scene."""
    return document.scene_version or f"{NO_SCENE}{document.step}"


def absolute_source(file: ManifestFile) -> PurePosixPath | None:
    """
    Give the absolute POSIX path at which the scene expects a file, relative to the root; None if it expects none there.

    :raises SourceNotAllowed: that path is the sandbox's own
    """
    source = file.source
    if source is None or not source.startswith("/") or source.startswith("//"):  # "//" is Blender's "beside the scene"
        return None
    path = PurePosixPath(source)
    if ".." in path.parts or len(path.parts) < 3 or f"/{path.parts[1]}" in RESERVED:
        raise SourceNotAllowed(source)
    return PurePosixPath(*path.parts[1:])


def windows_sources(manifest: Sequence[ManifestFile]) -> list[tuple[str, str]]:
    """Pair each Windows or UNC spelling with the file's path below the scene folder."""
    return [(file.source, file.path) for file in manifest if file.source and WINDOWS.match(file.source)]


def _inside(path: str) -> PurePosixPath:
    parts = path.split("/")
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise ManifestRefused(f"{path!r} is no path below the scene folder")
    return PurePosixPath(*parts)


def digest_file(file: Path) -> tuple[str, list[str], int]:
    """Read a file once and give its digest, the sums of its parts and its size."""
    sums: list[str] = []
    size = 0
    with file.open("rb") as content:
        while True:
            part = content.read(PART_SIZE)
            if part or not sums:
                sums.append(hashlib.sha256(part).hexdigest())
            size += len(part)
            if len(part) < PART_SIZE:
                return digest_of_parts(sums), sums, size

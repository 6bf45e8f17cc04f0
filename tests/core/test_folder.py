"""The folder store: what is there is there whole, whatever is cut off when."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from farm.core import keys
from farm.core.folder import FolderStore, WrongLength, WrongSum
from farm.core.permits import Permit
from farm.core.storage import NoSuchObject, Stat
from workers.protocol import PART_SIZE, digest_of_parts

STUDIO = UUID("01890000-0000-7000-8000-000000000001")
ROOT = Path(__file__).parents[2]


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


CONTENT = b"content"
KEY = keys.blob_key(STUDIO, sha(CONTENT))
BIG_PARTS = [bytes(PART_SIZE), b"tail"]
BIG_SIZE = PART_SIZE + 4
BIG_DIGEST = digest_of_parts(map(sha, BIG_PARTS))
BIG_KEY = keys.blob_key(STUDIO, BIG_DIGEST)


@pytest.fixture
def folder(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def permit(content: bytes, *, key: str = KEY, upload: str = "", part: int = -1) -> Permit:
    return Permit(method="PUT", key=key, expires=0, upload=upload, part=part, length=len(content), sha256=sha(content))


def send_big(folder: FolderStore) -> str:
    upload = folder.begin(BIG_KEY)
    for number, content in enumerate(BIG_PARTS):
        folder.receive(permit(content, key=BIG_KEY, upload=upload, part=number), io.BytesIO(content))
    return upload


def leftovers(folder: FolderStore) -> list[str]:
    return [str(path) for path in folder.root.rglob("*") if path.is_file()]


class Cut:
    """A body whose sender goes away after the first piece."""

    def __init__(self, first: bytes) -> None:
        self.pieces = [first]

    def read(self, size: int, /) -> bytes:
        if self.pieces:
            return self.pieces.pop()
        raise ConnectionResetError("the sender is gone")


class TestReceive:
    def test_nothing_is_left_of_a_body_that_breaks_off(self, folder: FolderStore) -> None:
        with pytest.raises(WrongLength, match="3 bytes"):
            folder.receive(permit(CONTENT), io.BytesIO(CONTENT[:3]))

        assert leftovers(folder) == []

    def test_nothing_is_left_when_the_sender_goes_away(self, folder: FolderStore) -> None:
        with pytest.raises(ConnectionResetError):
            folder.receive(permit(CONTENT), Cut(CONTENT[:3]))

        assert leftovers(folder) == []

    def test_nothing_is_left_of_a_body_that_goes_on(self, folder: FolderStore) -> None:
        with pytest.raises(WrongLength, match="more"):
            folder.receive(permit(CONTENT), io.BytesIO(CONTENT + b"!"))

        assert leftovers(folder) == []

    def test_nothing_is_left_of_another_content(self, folder: FolderStore) -> None:
        with pytest.raises(WrongSum, match=sha(b"CONTENT")):
            folder.receive(permit(CONTENT), io.BytesIO(b"CONTENT"))

        assert leftovers(folder) == []

    def test_two_senders_of_one_object_at_once_do_not_disturb_each_other(self, folder: FolderStore) -> None:
        content = os.urandom(3 * 1024 * 1024)
        key = keys.blob_key(STUDIO, sha(content))
        senders = [
            threading.Thread(target=folder.receive, args=(permit(content, key=key), io.BytesIO(content)))
            for _ in range(6)
        ]

        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()

        assert folder.stat(key) == Stat(size=len(content), digest=sha(content))
        assert len(leftovers(folder)) == 1


class TestStat:
    def test_a_file_that_lost_its_tail_is_no_object(self, folder: FolderStore) -> None:
        """As after a power cut on a file system that promised more than it kept."""
        folder.write(KEY, CONTENT)
        file = folder.root / "objects" / KEY
        os.truncate(file, file.stat().st_size - 1)

        assert folder.stat(KEY) is None
        with pytest.raises(NoSuchObject):
            folder.read(KEY)

    def test_an_empty_file_is_no_object(self, folder: FolderStore) -> None:
        folder.write(KEY, CONTENT)
        os.truncate(folder.root / "objects" / KEY, 0)

        assert folder.stat(KEY) is None


class TestComplete:
    def test_a_completion_that_was_cut_off_after_sealing_goes_on(self, folder: FolderStore) -> None:
        upload = send_big(folder)
        (folder.root / "sealed").mkdir()
        (folder.root / "uploads" / upload).rename(folder.root / "sealed" / upload)

        assert folder.complete(BIG_KEY, upload, size=BIG_SIZE, digest=BIG_DIGEST) == folder.stat(BIG_KEY)

    def test_several_at_once_make_one_object(self, folder: FolderStore) -> None:
        uploads = [send_big(folder) for _ in range(2)]
        found: list[Stat] = []

        def complete(upload: str) -> None:
            found.append(folder.complete(BIG_KEY, upload, size=BIG_SIZE, digest=BIG_DIGEST))

        threads = [threading.Thread(target=complete, args=(upload,)) for upload in uploads * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert found == [Stat(size=BIG_SIZE, digest=BIG_DIGEST)] * 6
        assert b"".join(folder.stream(BIG_KEY)) == b"".join(BIG_PARTS)
        assert [path for area in ("uploads", "sealed", "tmp") for path in (folder.root / area).glob("*")] == []

    def test_no_byte_is_copied(self, folder: FolderStore) -> None:
        upload = send_big(folder)
        part = (folder.root / "uploads" / upload / "00000").stat().st_ino

        folder.complete(BIG_KEY, upload, size=BIG_SIZE, digest=BIG_DIGEST)

        assert (folder.root / "objects" / f"{BIG_KEY}.parts" / "00000").stat().st_ino == part


class TestDiscardStale:
    def test_what_a_crashed_writer_left_behind_is_cleared_up(self, folder: FolderStore) -> None:
        folder.write(KEY, CONTENT)
        left = folder.root / "tmp" / "left"
        left.write_bytes(b"half")

        folder.discard_stale(datetime.now(UTC) + timedelta(minutes=1), keep=())

        assert not left.exists()
        assert folder.read(KEY) == CONTENT

    def test_an_upload_that_still_gets_parts_is_young(self, folder: FolderStore) -> None:
        upload = folder.begin(BIG_KEY)
        os.utime(folder.root / "uploads" / upload, (0, 0))
        folder.receive(permit(b"tail", key=BIG_KEY, upload=upload, part=1), io.BytesIO(b"tail"))

        assert folder.discard_stale(datetime.now(UTC) - timedelta(hours=24), keep=()) == 0


FULL = """
import io, sys
from pathlib import Path
from uuid import UUID
from farm.core import keys
from farm.core.folder import FolderStore
from farm.core.storage import StoreFull
store = FolderStore(Path(sys.argv[1], "store"))
key = keys.log_key(UUID(int=1), UUID(int=2), 0)
store.write(key, b"before")
try:
    store.write(key, bytes(2_000_000))
except StoreFull as refusal:
    print(refusal.status, store.read(key).decode(), sum(p.is_file() for p in Path(sys.argv[1]).rglob("*")))
"""


class TestFullDisk:
    @pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap, for a small file system")
    def test_it_is_refused_and_nothing_is_half_made(self, tmp_path: Path) -> None:
        small = [
            "bwrap",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--size",
            "1000000",
            "--tmpfs",
            str(tmp_path),
        ]
        fill = [sys.executable, "-c", FULL, str(tmp_path)]

        told = subprocess.run([*small, *fill], cwd=ROOT, capture_output=True, text=True, check=False)

        assert (told.stdout, told.stderr) == ("507 before 1\n", "")

    def test_another_fault_of_the_disk_is_no_refusal(
        self, folder: FolderStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(descriptor: int) -> None:
            raise OSError(errno.EIO, "the disk is broken")

        monkeypatch.setattr(os, "fsync", broken)

        with pytest.raises(OSError, match="broken"):
            folder.write(KEY, CONTENT)
        assert leftovers(folder) == []

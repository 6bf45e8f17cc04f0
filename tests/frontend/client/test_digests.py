"""Digests: the same as the farm's, from a file read once, or remembered of one that looks the same."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farmhand import digests
from farmhand.digests import FileChanged, FileUnreadable, HashCache, digest_of_parts, hash_file, part_count, read_part
from hypothesis import given
from hypothesis import strategies as st

from workers import protocol


class TestTheFarmsRule:
    def test_parts_are_as_long(self) -> None:
        assert digests.PART_SIZE == protocol.PART_SIZE

    @given(st.lists(st.binary(max_size=8).map(lambda b: hashlib.sha256(b).hexdigest()), min_size=1, max_size=5))
    def test_digests_are_made_alike(self, parts: list[str]) -> None:
        assert digest_of_parts(parts) == protocol.digest_of_parts(parts)

    @given(st.integers(min_value=0, max_value=2**40))
    def test_parts_are_counted_alike(self, size: int) -> None:
        assert part_count(size) == protocol.part_count(size)


class TestHashFile:
    @pytest.mark.parametrize("size", [0, 1, protocol.PART_SIZE, protocol.PART_SIZE + 1])
    def test_a_file_has_the_digest_the_farm_would_give_it(self, tmp_path: Path, size: int) -> None:
        content = os.urandom(min(size, 1000)).ljust(size, b"x")
        (tmp_path / "a").write_bytes(content)
        step = protocol.PART_SIZE
        sums = [hashlib.sha256(content[at : at + step]).hexdigest() for at in range(0, max(1, size), step)]

        _, found = hash_file(tmp_path / "a")

        assert found.size == size
        assert found.digest == protocol.digest_of_parts(sums)

    def test_a_file_that_is_written_to_meanwhile_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_bytes(b"a" * 3 * digests.PIECE)

        def append(count: int) -> None:
            with path.open("ab") as file:
                file.write(b"more")

        with pytest.raises(FileChanged, match=str(path)):
            hash_file(path, on_bytes=append)

    def test_a_file_that_is_gone_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(FileUnreadable, match="no such file"):
            hash_file(tmp_path / "a")

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a")

        with pytest.raises(FileUnreadable, match="no regular file"):
            hash_file(tmp_path / "a")


class TestReadPart:
    def test_a_part_is_read(self, tmp_path: Path, small_parts: int) -> None:
        content = os.urandom(2 * small_parts + 5)
        (tmp_path / "a").write_bytes(content)

        part = read_part(
            tmp_path / "a", 2, size=len(content), sha256=hashlib.sha256(content[2 * small_parts :]).hexdigest()
        )

        assert part == content[2 * small_parts :]

    def test_another_content_of_the_same_size_is_noticed(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"new")

        with pytest.raises(FileChanged):
            read_part(tmp_path / "a", 0, size=3, sha256=hashlib.sha256(b"old").hexdigest())


@pytest.fixture
def old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that has not changed for long: the clock stands an hour later."""
    path = tmp_path / "old"
    path.write_bytes(b"content")
    later = time.time_ns() + 3_600_000_000_000
    monkeypatch.setattr("farmhand.digests.time.time_ns", lambda: later)
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are read from the disk."""
    read: list[Path] = []
    real = hash_file

    def counted(path: Path, *, on_bytes: Callable[[int], None] = lambda count: None) -> object:
        read.append(path)
        return real(path, on_bytes=on_bytes)

    monkeypatch.setattr("farmhand.digests.hash_file", counted)
    return read


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[HashCache]:
    cache = HashCache(tmp_path / "cache.sqlite3")
    yield cache
    cache.close()


class TestHashCache:
    def test_a_file_that_looks_the_same_is_not_read_again(
        self, tmp_path: Path, cache: HashCache, old_file: Path, reads: list[Path]
    ) -> None:
        first = HashCache(tmp_path / "cache.sqlite3")
        _, sums = first.sums(old_file)
        first.close()
        counted: list[int] = []

        _, again = cache.sums(old_file, on_bytes=counted.append)

        assert again == sums
        assert reads == [old_file]
        assert counted == [7]

    def test_a_file_that_was_touched_is_read_again(self, cache: HashCache, old_file: Path, reads: list[Path]) -> None:
        cache.sums(old_file)
        os.utime(old_file, ns=(1, 1))

        cache.sums(old_file)

        assert len(reads) == 2

    def test_a_file_whose_time_was_set_back_is_read_again(
        self, cache: HashCache, old_file: Path, reads: list[Path]
    ) -> None:
        cache.sums(old_file)
        before = old_file.stat()
        old_file.write_bytes(b"CONTENT")
        os.utime(old_file, ns=(before.st_atime_ns, before.st_mtime_ns))

        _, sums = cache.sums(old_file)

        assert sums.digest == hashlib.sha256(b"CONTENT").hexdigest()

    def test_a_file_that_changed_a_moment_ago_is_not_remembered(
        self, tmp_path: Path, cache: HashCache, reads: list[Path]
    ) -> None:
        (tmp_path / "new").write_bytes(b"content")

        cache.sums(tmp_path / "new")
        cache.sums(tmp_path / "new")

        assert len(reads) == 2

    def test_a_damaged_memory_is_begun_anew(self, tmp_path: Path, old_file: Path, reads: list[Path]) -> None:
        (tmp_path / "cache.sqlite3").write_bytes(b"this is no database" * 1000)
        cache = HashCache(tmp_path / "cache.sqlite3")

        cache.sums(old_file)
        cache.sums(old_file)

        assert len(reads) == 1
        cache.close()

    def test_where_no_memory_can_be_kept_files_are_read(self, old_file: Path, reads: list[Path]) -> None:
        cache = HashCache(Path("/proc/none/cache.sqlite3"))

        cache.sums(old_file)
        cache.sums(old_file)

        assert len(reads) == 2

    def test_what_was_not_used_for_months_is_forgotten(self, tmp_path: Path, old_file: Path) -> None:
        cache = HashCache(tmp_path / "cache.sqlite3")
        cache.sums(old_file)
        cache.close()
        rows = sqlite3.connect(tmp_path / "cache.sqlite3")
        with rows:
            rows.execute("UPDATE sums SET used = ?", (time.time() - 91 * 86400,))

        HashCache(tmp_path / "cache.sqlite3").close()

        assert rows.execute("SELECT count(*) FROM sums").fetchone() == (0,)
        rows.close()

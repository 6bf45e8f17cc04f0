from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.cache import Cache, CacheTooSmall, ManifestRefused, absolute_source, digest_file, windows_sources
from workers.protocol import PART_SIZE, ManifestFile
from workers.sandbox import SourceNotAllowed


def put(cache: Cache, data: bytes) -> str:
    arrived = cache.partial / "arriving"
    arrived.write_bytes(data)
    digest, _, size = digest_file(arrived)
    with cache.room_for(size):
        cache.add(digest, arrived)
    return digest


def file(path: str, digest: str, size: int = 1, source: str | None = None) -> ManifestFile:
    return ManifestFile(path=path, source=source, digest=digest, size=size)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", limit_bytes=100)


class TestLimit:
    def test_the_least_recently_used_goes_first(self, cache: Cache) -> None:
        old, young = put(cache, b"a" * 40), put(cache, b"b" * 40)
        cache.missing({old: 40})

        put(cache, b"c" * 40)

        assert cache.missing({old: 40, young: 40}) == [young]
        assert cache.size_bytes <= 100
        assert sum(f.stat().st_size for f in cache.blobs.iterdir()) <= 100

    def test_what_is_pinned_or_laid_out_and_in_use_stays(self, cache: Cache) -> None:
        kept, pinned = put(cache, b"a" * 40), put(cache, b"b" * 40)
        with cache.in_use(cache.lay_out("v1", [file("x", kept, 40)])), cache.pinned([pinned]):
            with pytest.raises(CacheTooSmall):
                put(cache, b"c" * 40)

        assert cache.missing({kept: 40, pinned: 40}) == []

    def test_a_scene_nobody_uses_makes_room(self, cache: Cache) -> None:
        digest = put(cache, b"a" * 60)
        layout = cache.lay_out("v1", [file("x", digest, 60)])

        put(cache, b"b" * 60)

        assert cache.versions() == []
        assert not layout.folder.exists()

    def test_bytes_on_their_way_count(self, cache: Cache) -> None:
        with cache.room_for(60), pytest.raises(CacheTooSmall):
            with cache.room_for(60):
                pass

    def test_a_smaller_limit_after_a_restart_is_kept_to(self, tmp_path: Path, cache: Cache) -> None:
        for letter in b"abc":
            put(cache, bytes([letter]) * 30)

        assert Cache(tmp_path / "cache", limit_bytes=50).size_bytes <= 50


class TestMissing:
    def test_a_blob_left_by_an_earlier_agent_is_used_if_it_is_right(self, tmp_path: Path, cache: Cache) -> None:
        digest = put(cache, b"abc")

        assert Cache(tmp_path / "cache", limit_bytes=100).missing({digest: 3}) == []

    @pytest.mark.parametrize("damage", [b"abX", b"ab", b"abcd"])
    def test_a_damaged_or_cut_blob_is_missing_and_removed(self, tmp_path: Path, cache: Cache, damage: bytes) -> None:
        digest = put(cache, b"abc")
        (cache.blobs / digest).chmod(0o644)
        (cache.blobs / digest).write_bytes(damage)

        again = Cache(tmp_path / "cache", limit_bytes=100)

        assert again.missing({digest: 3}) == [digest]
        assert not (again.blobs / digest).exists()


class TestLayOut:
    def test_files_lie_where_the_manifest_says_without_using_room(self, cache: Cache) -> None:
        digest = put(cache, b"abc")

        layout = cache.lay_out("v1", [file("a/b.txt", digest, 3), file("c", digest, 3)])

        assert (layout.files / "a" / "b.txt").read_bytes() == b"abc"
        assert (layout.files / "c").stat().st_ino == (cache.blobs / digest).stat().st_ino
        assert cache.versions() == ["v1"]

    def test_absolute_sources_lie_in_a_tree_of_their_own(self, cache: Cache) -> None:
        digest = put(cache, b"abc")

        layout = cache.lay_out("v1", [file("t.png", digest, 3, source="/mnt/studio/t.png")])

        assert (layout.sources / "mnt" / "studio" / "t.png").read_bytes() == b"abc"

    @pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "a//b", ".", "", "a/./b"])
    def test_a_path_that_leaves_the_scene_is_refused(self, cache: Cache, path: str) -> None:
        digest = put(cache, b"abc")

        with pytest.raises(ManifestRefused):
            cache.lay_out("v1", [file(path, digest, 3)])
        assert cache.versions() == []

    def test_files_that_collide_are_refused(self, cache: Cache) -> None:
        one, two = put(cache, b"abc"), put(cache, b"abd")

        with pytest.raises(ManifestRefused):
            cache.lay_out("v1", [file("x", one, 3), file("x", two, 3)])
        with pytest.raises(ManifestRefused):
            cache.lay_out("v2", [file("x", one, 3), file("x/y", two, 3)])

    def test_a_name_too_long_for_the_disk_is_refused_by_name(self, cache: Cache) -> None:
        with pytest.raises(ManifestRefused, match="too long"):
            cache.lay_out("v1", [file("x" * 300, put(cache, b"abc"), 3)])


class TestAbsoluteSource:
    @pytest.mark.parametrize("source", [None, "//textures/a.png", "textures/a.png", "C:\\a.png", "\\\\srv\\a.png"])
    def test_other_spellings_are_not_its_business(self, source: str | None) -> None:
        assert absolute_source(file("a", "d", source=source)) is None

    @pytest.mark.parametrize("source", ["/usr/a/b", "/etc/passwd", "/tmp/x/y", "/proc/1/x", "/out/x", "/scene/x",
                                        "/farmhand/bin/x", "/x", "/home/../etc/x", "/dev/null/x"])  # fmt: skip
    def test_the_sandboxs_own_places_are_refused(self, source: str) -> None:
        with pytest.raises(SourceNotAllowed, match="Pack it into the scene"):
            absolute_source(file("a", "d", source=source))

    def test_windows_and_unc_spellings_are_paired_with_the_path(self) -> None:
        manifest = [file("a", "d", source="C:\\t\\a.png"), file("b", "d", source="\\\\srv\\b.png"), file("c", "d")]

        assert windows_sources(manifest) == [("C:\\t\\a.png", "a"), ("\\\\srv\\b.png", "b")]


class TestDigestFile:
    def test_a_small_file_is_one_part(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"")

        digest, parts, size = digest_file(tmp_path / "x")

        assert (parts, size) == ([digest], 0)

    def test_a_large_file_is_summed_by_parts(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(os.urandom(PART_SIZE + 1))

        digest, parts, size = digest_file(tmp_path / "x")

        assert (len(parts), size) == (2, PART_SIZE + 1)
        assert digest not in parts

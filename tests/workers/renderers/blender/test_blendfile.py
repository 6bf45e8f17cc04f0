"""The first bytes of files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from workers.renderers.blender.blendfile import Header, read_header
from workers.renderers.blender.refusals import NoSuchFile, NotABlend, Unreadable


class TestReadHeader:
    @pytest.mark.parametrize(
        ("start", "version"),
        [(b"BLENDER-v279REND", (2, 79)), (b"BLENDER_V302REND", (3, 2)), (b"BLENDER17-01v0502REND", (5, 2))],
    )
    def test_every_form_that_blender_has_had(self, tmp_path: Path, start: bytes, version: tuple[int, int]) -> None:
        file = tmp_path / "a.blend"
        file.write_bytes(start)

        assert read_header(file) == Header("none", version)

    def test_gzip(self, tmp_path: Path) -> None:
        file = tmp_path / "a.blend"
        file.write_bytes(gzip.compress(b"BLENDER-v279REND"))

        assert read_header(file) == Header("gzip", (2, 79))

    def test_zstd_without_its_library_is_left_to_blender(self, tmp_path: Path) -> None:
        file = tmp_path / "a.blend"
        file.write_bytes(b"\x28\xb5\x2f\xfd rest")

        assert read_header(file) == Header("zstd", None)

    @pytest.mark.parametrize(
        ("start", "what"),
        [
            (b"PK\x03\x04..", "is a zip archive, not a .blend file: upload what is inside it, not the archive"),
            (b"\x89PNG\r\n", "is a PNG image"),
            (b"", "is empty"),
            (b"hello", "is something else, not a .blend file: choose the .blend that opens the scene"),
            (gzip.compress(b"a tarball", mtime=0), "is a gzip archive"),
        ],
    )
    def test_something_else_is_named(self, tmp_path: Path, start: bytes, what: str) -> None:
        file = tmp_path / "a.blend"
        file.write_bytes(start)

        with pytest.raises(NotABlend, match=what):
            read_header(file)

    def test_broken_gzip_data(self, tmp_path: Path) -> None:
        file = tmp_path / "a.blend"
        file.write_bytes(gzip.compress(b"BLENDER-v279REND")[:12])

        with pytest.raises(Unreadable, match="broken gzip data"):
            read_header(file)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(NoSuchFile, match=r"no file a\.blend"):
            read_header(tmp_path / "a.blend")

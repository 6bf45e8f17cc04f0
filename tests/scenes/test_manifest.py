"""What a manifest may say."""

from __future__ import annotations

import random
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.errors import Refusal, Refusals
from farm.core.storage import MAX_SIZE
from farm.scenes import manifest
from farm.scenes.manifest import Manifest, ManifestRefused, read_manifest, wrong_path, wrong_source
from workers import sandbox

DIGEST = "ab" * 32


def row(path: Any = "a.blend", **change: Any) -> dict[str, Any]:
    return {"path": path, "digest": DIGEST, "size": 1, **change}


def read(*rows: Any, entry: Any = "a.blend") -> Manifest:
    return read_manifest(entry, [row(), *rows])


def refused(*rows: Any, entry: Any = "a.blend") -> list[tuple[str | None, str]]:
    """Give field and sentence of all that is wrong."""
    with pytest.raises(Refusal) as found:
        read(*rows, entry=entry)
    several = found.value.refusals if isinstance(found.value, Refusals) else [found.value]
    return [(refusal.field, refusal.sentence) for refusal in several]


def outcome(name: str) -> tuple[str | None, str]:
    """Give the path as it was read, or what was said instead."""
    try:
        return read(row(name)).files[1].path, ""
    except Refusal as refusal:
        return None, refusal.sentence


class TestReadManifest:
    def test_what_is_right_is_read(self) -> None:
        found = read(row("tex/holz ñ 木.png", digest="cd" * 32, size=0, source="C:\\tex\\holz.png"))

        assert found.entry == "a.blend"
        assert [(f.path, f.source, f.size) for f in found.files] == [
            ("a.blend", None, 1),
            ("tex/holz ñ 木.png", "C:\\tex\\holz.png", 0),
        ]
        assert found.byte_count == 1
        assert found.sizes() == {DIGEST: 1, "cd" * 32: 0}
        assert found.warnings == []

    def test_several_faults_are_named_at_once_each_with_its_field_and_path(self) -> None:
        found = refused(
            row("../x"), row("b", digest="zz"), row("c", size=-1), row("d", source="/etc/passwd"), row("e", mode=7)
        )

        assert [field for field, _ in found] == [
            "files[1].path",
            "files[2].digest",
            "files[3].size",
            "files[4].source",
            "files[5].mode",
        ]
        assert "files[1].path (../x): it leads out of the scene's folder" in found[0][1]

    def test_of_very_many_faults_the_first_are_named_and_the_rest_counted(self) -> None:
        found = refused(*(row(f"../{n}") for n in range(1000)))

        assert len(found) == manifest.MAX_REFUSALS + 1
        assert "980 more" in found[-1][1]

    @pytest.mark.parametrize("files", [None, "a.blend", {}, 7, [], True])
    def test_what_is_no_list_of_files_is_refused(self, files: Any) -> None:
        with pytest.raises(ManifestRefused):
            read_manifest("a.blend", files)

    @pytest.mark.parametrize("raw", [None, "a.blend", ["a.blend"], 7])
    def test_what_is_no_file_is_refused(self, raw: Any) -> None:
        assert refused(raw)[0][0] == "files[1]"

    def test_more_files_than_a_version_holds_are_refused_with_the_limit(self) -> None:
        with pytest.raises(ManifestRefused, match="100,001 files; a version has 1 to 100,000"):
            read_manifest("a.blend", [row()] * 100_001)

    def test_as_many_files_as_a_version_holds_are_read(self) -> None:
        rows = [row(f"tex/{n // 1000}/{n}.png", source=f"/show/tex/{n}.png") for n in range(99_999)]

        assert len(read(*rows).files) == 100_000

    def test_more_bytes_than_a_version_holds_are_refused(self) -> None:
        rows = [row(f"f{n}", size=MAX_SIZE, digest=f"{n:064x}") for n in range(110)]

        assert "16 TiB" in refused(*rows)[0][1]


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "b",
            "b c/d",
            "-rf",
            "$(rm)",
            "a;b",
            "x'y\"z",
            "CON",
            "nul.txt",
            "a:b",
            "trailing.",
            "trailing ",
            " leading",
            "..a",
            "a..",
            "...",
            "~/x",
            "%2e%2e/x",
            "b/.hidden",
            "<script>",
            "=cmd()",
            "🎬/木.png",
            "\u202egpj.exe",
            "é",
            "e\u0301",
            "\u2028",
            "b" * 255,
            "/".join(["d" * 100] * 10),
        ],
    )
    def test_odd_but_harmless_ones_are_kept_byte_for_byte(self, path: str) -> None:
        assert read(row(path)).files[1].path == path

    @pytest.mark.parametrize(
        ("path", "why"),
        [
            ("", "give a path"),
            (None, "give a path"),
            (7, "give a path"),
            (["b"], "give a path"),
            ("/b", "relative"),
            ("//server/share/b", "relative"),
            ("C:/b", "relative"),
            ("C:\\b", "not \\"),
            ("\\\\server\\share\\b", "not \\"),
            ("tex\\b", "not \\"),
            ("..", "leads out"),
            ("../b", "leads out"),
            ("b/../../c", "leads out"),
            ("b/..", "leads out"),
            (".", "shortest"),
            ("./b", "shortest"),
            ("b/./c", "shortest"),
            ("b//c", "shortest"),
            ("b/", "shortest"),
            ("b\x00", "U+0000"),
            ("b\n", "U+000A"),
            ("\x1b]0;title\x07", "U+001B"),
            ("b\x7f", "U+007F"),
            ("b\x85", "U+0085"),
            ("\ud800", "Unicode"),
            ("b" * 256, "256 bytes"),
            ("é" * 128, "256 bytes"),
            ("/".join(["d" * 100] * 11), "1110 bytes"),
        ],
    )
    def test_dangerous_ones_are_refused_with_the_reason(self, path: Any, why: str) -> None:
        assert why in wrong_path(path)

    def test_one_of_each_two_equal_paths_is_refused(self) -> None:
        assert refused(row("b"), row("b")) == [("files[2].path", "files[2].path (b): files[1] has the same path")]

    def test_paths_that_differ_only_in_how_accents_are_encoded_are_refused(self) -> None:
        found = refused(row(unicodedata.normalize("NFC", "café")), row(unicodedata.normalize("NFD", "café")))

        assert "accents" in found[0][1]

    def test_a_file_that_is_also_a_folder_is_refused(self) -> None:
        assert refused(row("b"), row("b/c/d"))[0][0] == "files[1].path"

    def test_a_folder_whose_name_begins_like_a_file_is_none(self) -> None:
        assert read(row("b"), row("b.d/c"), row("bb/c")).warnings == []

    def test_paths_that_differ_only_in_case_are_kept_with_a_warning(self) -> None:
        found = read(row("Tex.PNG"), row("tex.png"))

        assert [f.path for f in found.files[1:]] == ["Tex.PNG", "tex.png"]
        assert ["'Tex.PNG'" in found.warnings[0], "'tex.png'" in found.warnings[1]] == [True, True]

    @given(st.text())
    def test_no_text_gets_past_that_could_leave_the_folder(self, path: str) -> None:
        if wrong_path(path) == "":
            segments = path.split("/")
            assert ".." not in segments
            assert "" not in segments
            assert not path.startswith("/")
            assert "\x00" not in path

    def test_five_hundred_hostile_names_end_in_a_manifest_or_a_refusal(self) -> None:
        dice = random.Random(2026)
        pieces = [
            "..",
            ".",
            "",
            "/",
            "\\",
            "\x00",
            "\n",
            "CON",
            "C:",
            "//srv",
            "-rf",
            "$(id)",
            "`id`",
            "é",
            "e\u0301",
            "\u202e",
            "🎬",
            "\ud800",
            "a" * 300,
        ]
        for _ in range(500):
            name = "".join(dice.choice([*pieces, "/"]) for _ in range(dice.randint(1, 8)))
            kept, told = outcome(name)
            assert kept == name or told.isprintable()


class TestSources:
    @pytest.mark.parametrize(
        "source",
        [
            None,
            "//tex/a.png",
            "tex/a.png",
            "../shared/a.png",
            "C:\\tex\\a.png",
            "d:/tex/a.png",
            "\\\\server\\share\\a.png",
            "/home/ana/a.png",
            "/Users/ana/a.png",
            "/mnt/show/a.png",
            "/usr2/a.png",
            "/tmpfiles/a.png",
            "//server/etc/a.png",
        ],
    )
    def test_spellings_of_any_system_are_taken(self, source: str | None) -> None:
        assert wrong_source(source) == ""

    @pytest.mark.parametrize(
        ("source", "why"),
        [
            ("", "leave it out"),
            (7, "leave it out"),
            ("/usr/share/a.png", "/usr"),
            ("/etc/passwd", "/etc"),
            ("/proc/self/environ", "/proc"),
            ("/dev/null", "/dev"),
            ("/tmp/a.png", "/tmp"),
            ("/tmp", "/tmp"),
            ("/./usr/lib/x.so", "/usr"),
            ("/home/../etc/passwd", "'..'"),
            ("/", "root"),
            ("/./", "root"),
            ("/a\nb", "U+000A"),
            ("/a\x00b", "U+0000"),
            ("/" + "a" * 4096, "4096"),
        ],
    )
    def test_places_of_the_system_are_refused(self, source: Any, why: str) -> None:
        assert why in wrong_source(source)

    def test_what_the_sandbox_keeps_for_itself_is_refused_here_already(self) -> None:
        assert {f"/{name}" for name in manifest.RESERVED} == set(sandbox.RESERVED)

    def test_two_files_of_one_absolute_source_are_refused(self) -> None:
        assert refused(row("b", source="/show/a.png"), row("c", source="/show/./a.png"))[0][0] == "files[2].source"

    def test_two_files_of_one_relative_source_are_taken(self) -> None:
        assert read(row("b/t", source="//t.png"), row("c/t", source="//t.png")).warnings == []

    def test_a_source_below_another_is_refused(self) -> None:
        assert refused(row("b", source="/show/a"), row("c", source="/show/a/b"))[0][0] == "files[1].source"


class TestSizesAndDigests:
    @pytest.mark.parametrize("size", [-1, 1.5, "1", None, True, [], 10**30])
    def test_what_is_no_size_is_refused(self, size: Any) -> None:
        assert refused(row("b", size=size))[0][0] == "files[1].size"

    def test_the_largest_file_is_what_the_store_takes(self) -> None:
        assert manifest.MAX_FILE == MAX_SIZE
        assert "156.25 GiB" in refused(row("b", size=MAX_SIZE + 1, digest="cd" * 32))[0][1]
        assert read(row("b", size=MAX_SIZE, digest="cd" * 32)).byte_count == MAX_SIZE + 1

    @pytest.mark.parametrize("digest", ["", None, 7, "ab" * 31, "AB" * 32, "zz" * 32, "ab" * 32 + "\n"])
    def test_what_is_no_digest_is_refused(self, digest: Any) -> None:
        assert refused(row("b", digest=digest))[0][0] == "files[1].digest"

    def test_one_digest_of_two_sizes_is_refused(self) -> None:
        assert refused(row("b", size=2))[0] == (
            "files[1].size",
            "files[1].size (b): another file has the same digest and 1 bytes; hash it anew",
        )

    def test_one_content_at_two_paths_is_taken(self) -> None:
        assert read(row("b")).sizes() == {DIGEST: 1}


class TestEntry:
    @pytest.mark.parametrize("entry", [None, "", 7, "b.blend", "A.blend", "./a.blend"])
    def test_what_is_none_of_the_paths_is_refused(self, entry: Any) -> None:
        assert refused(entry=entry)[0][0] == "entry"

    @pytest.mark.parametrize("name", ["scene.zip", "scene.ZIP", "scene.tar.gz", "scene.7z", "scene.rar"])
    def test_an_archive_is_refused_with_what_to_do(self, name: str) -> None:
        assert "upload its contents" in refused(row(name), entry=name)[0][1]

    def test_an_archive_beside_the_entry_is_just_a_file(self) -> None:
        assert len(read(row("reference.zip")).files) == 2

"""Where spelled paths lie, on real folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workers.renderers.blender.places import Places, Rule, is_absolute, is_windows, numbered, read_rules, tile_path


@pytest.fixture
def upload(tmp_path: Path) -> Path:
    for name in ("shot/scene.blend", "tex/Wood.PNG", "tex/seq_0001.png", "cache/sim/a.bphys"):
        file = tmp_path / "upload" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return tmp_path / "upload"


class TestResolve:
    @pytest.mark.parametrize("spelled", ["//../tex/Wood.PNG", "//..\\tex\\Wood.PNG", "../tex/Wood.PNG"])
    def test_a_relative_path_starts_where_its_blend_is(self, upload: Path, spelled: str) -> None:
        spot = Places(str(upload)).resolve(spelled, base=str(upload / "shot"))

        assert spot.path == str(upload / "tex/Wood.PNG")
        assert spot.is_there

    def test_upper_and_lower_case_are_one_where_only_one_file_is_meant(self, upload: Path) -> None:
        places = Places(str(upload))

        assert places.resolve("//../TEX/wood.png", base=str(upload / "shot")).path == str(upload / "tex/Wood.PNG")
        (upload / "tex/wood.Png").touch()
        assert not Places(str(upload)).resolve("//../other/wood.png", base=str(upload / "shot")).is_there

    def test_what_climbs_out_of_the_upload_is_outside(self, upload: Path) -> None:
        assert Places(str(upload)).resolve("//../../secret.png", base=str(upload / "shot")).is_outside

    @pytest.mark.parametrize(
        "spelled", ["/etc/passwd", "/usr/bin/env", "/nowhere/a.png", "C:\\tex\\a.png", "\\\\srv\\x\\a.png"]
    )
    def test_absolute_paths_are_outside_unless_laid_out_or_mapped(self, upload: Path, spelled: str) -> None:
        assert Places(str(upload)).resolve(spelled, base=str(upload)).is_outside

    def test_an_absolute_path_that_the_upload_put_there_is_not_outside(
        self, upload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("workers.renderers.blender.places._SYSTEM", ("/usr/",))  # tests live in /tmp
        (tmp_path / "laid out.png").touch()

        spot = Places(str(upload)).resolve(str(tmp_path / "laid out.png"), base=str(upload))

        assert spot.path == str(tmp_path / "laid out.png")

    def test_a_missing_file_in_the_upload_is_not_outside(self, upload: Path) -> None:
        spot = Places(str(upload)).resolve("//none.png", base=str(upload))

        assert not spot.is_outside
        assert not spot.is_there


class TestMapping:
    @pytest.mark.parametrize("spelled", ["P:\\Show\\tex\\Wood.PNG", "p:/show/TEX/wood.png"])
    def test_a_windows_file_is_mapped_whatever_its_case_and_slashes(self, upload: Path, spelled: str) -> None:
        rule = Rule("P:\\Show\\tex\\Wood.PNG", str(upload / "tex/Wood.PNG"), windows=True)

        assert Places(str(upload), [rule]).resolve(spelled, base=str(upload)).path == str(upload / "tex/Wood.PNG")

    def test_a_share_is_mapped(self, upload: Path) -> None:
        rule = Rule("\\\\srv\\show\\tex\\Wood.PNG", str(upload / "tex/Wood.PNG"), windows=True)

        spot = Places(str(upload), [rule]).resolve("\\\\SRV\\show\\tex\\Wood.PNG", base=str(upload))

        assert spot.path == str(upload / "tex/Wood.PNG")

    def test_a_file_tells_where_its_folder_is(self, upload: Path) -> None:
        """Frame 1 of a sequence was uploaded by its name; the scene spells frame 7."""
        rule = Rule("P:\\Show\\tex\\seq_0001.png", str(upload / "tex/seq_0001.png"), windows=True)

        spot = Places(str(upload), [rule]).resolve("P:\\Show\\tex\\seq_0007.png", base=str(upload))

        assert spot.path == str(upload / "tex/seq_0007.png")

    def test_a_deep_file_tells_where_the_folders_above_it_are(self, upload: Path) -> None:
        rule = Rule("P:\\show\\cache\\sim\\a.bphys", str(upload / "cache/sim/a.bphys"), windows=True)

        assert Places(str(upload), [rule]).resolve("P:\\Show\\Cache", base=str(upload)).path == str(upload / "cache")

    def test_a_folder_that_is_named_otherwise_here_tells_nothing_of_those_above(self, upload: Path) -> None:
        rule = Rule("P:\\show\\textures\\Wood.PNG", str(upload / "tex/Wood.PNG"), windows=True)
        places = Places(str(upload), [rule])

        assert places.resolve("P:\\show\\textures\\new.png", base=str(upload)).path == str(upload / "tex/new.png")
        assert places.resolve("P:\\show\\cache\\sim\\a.bphys", base=str(upload)).is_outside

    def test_a_posix_source_is_mapped_case_and_all(self, upload: Path) -> None:
        rule = Rule("/show/tex/Wood.PNG", str(upload / "tex/Wood.PNG"), windows=False)
        places = Places(str(upload), [rule])

        assert places.resolve("/show/tex/Wood.PNG", base=str(upload)).path == str(upload / "tex/Wood.PNG")
        assert places.resolve("/SHOW/tex/Wood.PNG", base=str(upload)).is_outside


class TestShown:
    def test_a_place_is_shown_as_the_uploader_knows_it(self, upload: Path) -> None:
        assert Places(str(upload)).shown(str(upload / "tex/Wood.PNG")) == "tex/Wood.PNG"
        assert Places(str(upload)).shown("/else/a.png") == "/else/a.png"


class TestReadRules:
    def test_openjds_file(self) -> None:
        entry = {"source_path_format": "WINDOWS", "source_path": "C:\\a", "destination_path": "/scene/a"}

        assert read_rules(json.dumps({"version": "pathmapping-1.0", "path_mapping_rules": [entry]})) == [
            Rule("C:\\a", "/scene/a", windows=True)
        ]

    @pytest.mark.parametrize("text", ["", "{}"])
    def test_a_session_without_rules(self, text: str) -> None:
        assert read_rules(text) == []


class TestIsWindows:
    @pytest.mark.parametrize(
        ("path", "windows"), [("C:\\a", True), ("d:/a", True), ("\\\\srv\\a", True), ("//a", False), ("/c:/a", False)]
    )
    def test_drive_letters_and_shares(self, path: str, windows: bool) -> None:
        assert is_windows(path) is windows


class TestIsAbsolute:
    @pytest.mark.parametrize(("path", "absolute"), [("/a", True), ("C:\\a", True), ("//a", False), ("a/b", False)])
    def test_two_slashes_are_relative_to_the_blend(self, path: str, absolute: bool) -> None:
        assert is_absolute(path) is absolute


class TestNumbered:
    @pytest.mark.parametrize(
        ("path", "frame", "named"),
        [
            ("//seq/s_0001.png", 12, "//seq/s_0012.png"),
            ("//v2/fire_7.vdb", 123, "//v2/fire_123.vdb"),
            ("//a1b002c.exr", 3, "//a1b003c.exr"),
            ("//plain.png", 4, "//plain4.png"),
        ],
    )
    def test_the_last_digits_before_the_extension_are_the_frame(self, path: str, frame: int, named: str) -> None:
        assert numbered(path).at(frame) == named


class TestTilePath:
    def test_both_ways_of_naming_tiles(self) -> None:
        assert tile_path("//t.<UDIM>.png", 1012) == "//t.1012.png"
        assert tile_path("//t_<UVTILE>.png", 1012) == "//t_u2_v2.png"

"""Which files of a folder are sent, and what is said of the others."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from farmhand import folders
from farmhand.folders import (
    BadName,
    Collection,
    EntryMissing,
    EntryNeeded,
    FolderUnreadable,
    LinksLeadOut,
    NoEntry,
    NothingThere,
    NotSendable,
    choose_entry,
    collect,
    source_of,
)

from farm.scenes import manifest

Write = Callable[[str, bytes], Path]


def names(found: Collection) -> list[str]:
    return [file.name for file in found.files]


class TestCollect:
    def test_files_are_named_relative_to_the_folder_in_order(self, folder: Path, write: Write) -> None:
        for name in ("b.blend", "textures/z.png", "textures/a.png", ".hidden"):
            write(name, b"")

        assert names(collect(folder)) == [".hidden", "b.blend", "textures/a.png", "textures/z.png"]

    def test_one_file_is_sent_alone(self, folder: Path, write: Write) -> None:
        write("other.png", b"")

        assert names(collect(write("a.blend", b""))) == ["a.blend"]

    def test_clutter_is_left_out_and_named(self, folder: Path, write: Write) -> None:
        for name in ("a.blend", "a.blend1", "a.blend@", ".git/config", "sub/Thumbs.db"):
            write(name, b"")

        found = collect(folder)

        assert names(found) == ["a.blend"]
        assert found.skipped == [".git", "a.blend1", "a.blend@", "sub/Thumbs.db"]

    def test_clutter_is_sent_when_everything_is(self, folder: Path, write: Write) -> None:
        write("a.blend1", b"")

        assert names(collect(folder, everything=True)) == ["a.blend1"]

    def test_patterns_leave_out_names_and_paths(self, folder: Path, write: Write) -> None:
        for name in ("a.blend", "a.psd", "sub/b.psd", "old/c.png"):
            write(name, b"")

        assert names(collect(folder, exclude=["*.psd", "old/"])) == ["a.blend"]

    def test_a_link_within_the_folder_is_sent_as_what_it_points_to(self, folder: Path, write: Write) -> None:
        write("a/one.png", b"one")
        (folder / "b").symlink_to(folder / "a")

        assert names(collect(folder)) == ["a/one.png", "b/one.png"]

    def test_a_link_that_leads_out_is_refused_and_named(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "secret").write_bytes(b"")
        (folder / "a.png").symlink_to(tmp_path / "secret")

        with pytest.raises(LinksLeadOut, match=r"a\.png"):
            collect(folder)

    def test_a_link_that_leads_out_is_followed_on_request(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "library").mkdir()
        (tmp_path / "library" / "wood.png").write_bytes(b"")
        (folder / "library").symlink_to(tmp_path / "library")

        assert names(collect(folder, follow_links=True)) == ["library/wood.png"]

    def test_a_folder_beside_of_the_same_beginning_is_outside(self, folder: Path) -> None:
        beside = folder.with_name("scene-2")
        beside.mkdir()
        (folder / "a").symlink_to(beside)

        with pytest.raises(LinksLeadOut):
            collect(folder)

    def test_circles_are_left_out_and_named(self, folder: Path, write: Write) -> None:
        write("sub/a.png", b"")
        (folder / "sub" / "up").symlink_to(folder)

        found = collect(folder)

        assert names(found) == ["sub/a.png"]
        assert found.warnings == ["sub/up is a link that leads in a circle; it was left out."]

    def test_links_to_nothing_and_sockets_are_left_out_and_named(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (folder / "gone").symlink_to(folder / "nowhere")
        monkeypatch.chdir(folder)  # a socket's path may be only so long
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("talk")

            found = collect(folder)

        assert found.files == []
        assert found.warnings == [
            "gone is a link to nothing; it was left out.",
            "talk is no file but a socket, pipe or device; it was left out.",
        ]

    def test_names_that_are_no_text_are_refused(self, folder: Path) -> None:
        with open(os.path.join(os.fsencode(folder), b"bad\xff.png"), "wb"):  # noqa: PTH118, PTH123
            pass

        with pytest.raises(BadName, match=r"bad\\udcff\.png"):
            collect(folder)

    def test_a_folder_that_may_not_be_listed_is_refused(
        self, folder: Path, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write("private/a.png", b"")
        real = os.scandir

        def scandir(path: Path) -> object:  # for root everything may be listed, so the system's answer is played
            if path.name == "private":
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return real(path)

        monkeypatch.setattr("farmhand.folders.os.scandir", scandir)

        with pytest.raises(FolderUnreadable, match="private cannot be listed: permission denied"):
            collect(folder)

    def test_deep_folders_are_walked(self, folder: Path) -> None:
        deep = folder
        for _ in range(400):
            deep = deep / "d"
        deep.mkdir(parents=True)
        (deep / "a").write_bytes(b"")

        assert names(collect(folder)) == ["d/" * 400 + "a"]

    def test_what_is_not_there_is_refused(self, folder: Path) -> None:
        with pytest.raises(NothingThere):
            collect(folder / "none")

    def test_a_pipe_is_refused(self, folder: Path) -> None:
        os.mkfifo(folder / "pipe")

        with pytest.raises(NotSendable):
            collect(folder / "pipe")


class TestChooseEntry:
    def choose(self, folder: Path, entry: str = "") -> str:
        return choose_entry(folder, collect(folder).files, entry)

    def test_the_only_scene_opens(self, folder: Path, write: Write) -> None:
        write("a.blend", b"")
        write("lib/b.blend", b"")

        assert self.choose(folder) == "a.blend"

    def test_of_several_one_has_to_be_named(self, folder: Path, write: Write) -> None:
        write("a.blend", b"")
        write("b.blend", b"")

        with pytest.raises(EntryNeeded, match=r"a\.blend, b\.blend"):
            self.choose(folder)

    def test_without_a_scene_one_has_to_be_named(self, folder: Path, write: Write) -> None:
        write("a.png", b"")

        with pytest.raises(NoEntry):
            self.choose(folder)

    def test_any_file_may_be_named(self, folder: Path, write: Write) -> None:
        write("sub/a.usd", b"")

        assert self.choose(folder, "./sub/a.usd") == "sub/a.usd"

    def test_a_path_from_where_one_is_works_too(
        self, folder: Path, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write("a.blend", b"")
        monkeypatch.chdir(folder.parent)

        assert choose_entry(Path("scene"), collect(Path("scene")).files, "scene/a.blend") == "a.blend"

    def test_one_that_is_not_sent_is_refused(self, folder: Path, write: Write) -> None:
        write("a.blend", b"")

        with pytest.raises(EntryMissing):
            self.choose(folder, "b.blend")

    def test_a_file_alone_opens(self, write: Write) -> None:
        path = write("a.usd", b"")

        assert choose_entry(path, collect(path).files, "") == "a.usd"


class TestSourceOf:
    def test_the_farm_reserves_the_same_places(self) -> None:
        assert folders.RESERVED == manifest.RESERVED

    @pytest.mark.parametrize("path", ["/srv/show/a.png", "/home/anna/a.png"])
    def test_the_farm_takes_what_is_given(self, path: str) -> None:
        assert source_of(Path(path)) == path
        assert manifest.wrong_source(path) == ""

    def test_what_lies_where_the_renderer_has_its_own_has_none(self) -> None:
        assert source_of(Path("/tmp/a.png")) is None

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from workers.causes import AttemptFailed
from workers.collect import collect
from workers.protocol import Cause, ExpectedOutput, OutputRole


def expect(*names: str) -> list[ExpectedOutput]:
    return [ExpectedOutput(name=name, role=OutputRole.RENDER, format="png") for name in names]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def refusal(results: Path, expected: list[ExpectedOutput] | None) -> Cause:
    with pytest.raises(AttemptFailed) as failure:
        collect(results, results.parent / "files", expected)
    return failure.value.cause


class TestExpected:
    def test_files_are_moved_to_where_no_scene_reaches_them(self, results: Path) -> None:
        (results / "a.png").write_bytes(b"12345")
        (results / "sub").mkdir()
        (results / "sub" / "b.PNG").write_bytes(b"1")

        one, two = collect(results, results.parent / "files", expect("a.png", "sub/b.PNG"))

        assert (one.file.name, one.size, one.name) == ("0.png", 5, "a.png")
        assert (two.file.name, two.size, two.name) == ("1.png", 1, "sub/b.PNG")
        assert one.file.read_bytes() == b"12345"

    def test_what_nobody_ordered_is_left(self, results: Path) -> None:
        (results / "a.png").touch()
        os.mkfifo(results / "surprise")

        assert len(collect(results, results.parent / "files", expect("a.png"))) == 1

    def test_a_missing_file_is_missing_output(self, results: Path) -> None:
        assert refusal(results, expect("a.png")) is Cause.MISSING_OUTPUT
        assert refusal(results, expect("sub/a.png")) is Cause.MISSING_OUTPUT

    def test_links_pipes_sockets_and_folders_are_refused(self, results: Path) -> None:
        (results / "link").symlink_to("/etc/passwd")
        os.mkfifo(results / "pipe")
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(results / "socket"))
        (results / "folder").mkdir()
        (results / "file").touch()
        (results / "hard").hardlink_to(results / "file")

        for name in ("link", "pipe", "socket", "folder", "hard"):
            assert refusal(results, expect(name)) is Cause.UNEXPECTED_OUTPUT, name

    def test_a_linked_folder_is_not_followed(self, results: Path, tmp_path: Path) -> None:
        secret = tmp_path / "elsewhere"
        secret.mkdir()
        (secret / "a.png").write_bytes(b"secret")
        (results / "sub").symlink_to(secret)

        assert refusal(results, expect("sub/a.png")) is Cause.UNEXPECTED_OUTPUT
        assert (secret / "a.png").exists()

    @pytest.mark.parametrize("name", ["../a.png", "/etc/passwd", "a//b", "./a", "", "a/"])
    def test_a_name_that_leaves_the_folder_is_no_name(self, results: Path, name: str) -> None:
        assert refusal(results, expect(name)) is Cause.AGENT_ERROR


class TestBundle:
    def test_all_regular_files_are_taken_by_their_paths(self, results: Path) -> None:
        (results / "deep" / "er").mkdir(parents=True)
        (results / "deep" / "er" / "x.exr").touch()
        (results / "y").touch()

        found = collect(results, results.parent / "files", None)

        assert [(one.name, one.is_image) for one in found] == [("deep/er/x.exr", True), ("y", False)]

    def test_one_link_refuses_the_whole(self, results: Path) -> None:
        (results / "good").touch()
        (results / "bad").symlink_to("good")

        assert refusal(results, None) is Cause.UNEXPECTED_OUTPUT

    def test_a_name_that_is_no_text_is_refused(self, results: Path) -> None:
        (Path(os.fsdecode(os.fsencode(results) + b"/\xff"))).touch()

        assert refusal(results, None) is Cause.UNEXPECTED_OUTPUT

    def test_folders_nested_without_end_are_refused(self, results: Path) -> None:
        (results / "/".join("d" * 40)).mkdir(parents=True)

        assert refusal(results, None) is Cause.UNEXPECTED_OUTPUT

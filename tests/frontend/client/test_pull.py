"""Fetching results: whole or not at all, from where it was cut, below the folder that was asked for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from farmhand.errors import FarmError, Unreachable
from farmhand.farm import Farm
from farmhand.meters import Progress
from farmhand.pull import Damaged, FolderUnwritable, place, safe_name
from hypothesis import given
from hypothesis import strategies as st

from tests.frontend.client.conftest import SMALL_PART
from tests.frontend.client.small_farm import SmallFarm
from workers.protocol import digest_of_parts

OUTPUTS = "/api/v1/jobs/job/outputs"
Offer = Callable[[str, bytes], dict[str, Any]]


def digest(content: bytes) -> str:
    step = SMALL_PART
    parts = [content[at : at + step] for at in range(0, max(1, len(content)), step)]
    return digest_of_parts([hashlib.sha256(part).hexdigest() for part in parts])


@pytest.fixture
def offer(small: SmallFarm) -> Offer:
    """Have the job give a file."""
    rows: list[dict[str, Any]] = []
    small.answers[OUTPUTS] = {"results": rows, "next": None}

    def offer(name: str, content: bytes) -> dict[str, Any]:
        number = len(rows)
        small.files[f"{number}"] = content
        row = {"id": f"output-{number}", "task": f"0000-{number:012}", "name": name, "frame": number}
        row |= {"size": len(content), "digest": digest(content), "url": f"/files/{number}?v=1"}
        rows.append(row)
        return row

    return offer


class TestPullJob:
    def test_files_land_in_the_folder(self, farm: Farm, offer: Offer, tmp_path: Path) -> None:
        offer("a.png", b"one")
        offer("sub/b.png", b"")

        pulled = farm.pull_job("job", tmp_path / "out")

        assert pulled.fetched == ["a.png", "sub/b.png"]
        assert (tmp_path / "out" / "a.png").read_bytes() == b"one"
        assert (tmp_path / "out" / "sub" / "b.png").read_bytes() == b""

    def test_what_is_there_and_equal_is_left_alone(
        self, farm: Farm, small: SmallFarm, offer: Offer, tmp_path: Path
    ) -> None:
        offer("a.png", b"one")
        farm.pull_job("job", tmp_path)
        fetched = small.count("GET", "/files/")

        pulled = farm.pull_job("job", tmp_path)

        assert pulled.kept == ["a.png"]
        assert small.count("GET", "/files/") == fetched

    def test_what_is_there_and_different_is_replaced(self, farm: Farm, offer: Offer, tmp_path: Path) -> None:
        offer("a.png", b"new")
        (tmp_path / "a.png").write_bytes(b"old")

        pulled = farm.pull_job("job", tmp_path)

        assert pulled.fetched == ["a.png"]
        assert (tmp_path / "a.png").read_bytes() == b"new"

    def test_a_cut_download_goes_on_where_it_was(
        self, farm: Farm, small: SmallFarm, offer: Offer, tmp_path: Path
    ) -> None:
        content = os.urandom(400_000)
        offer("a.exr", content)
        small.fail("GET", "/files/", after_bytes=300_000)
        steps: list[Progress] = []

        farm.pull_job("job", tmp_path, on_progress=steps.append)

        assert (tmp_path / "a.exr").read_bytes() == content
        assert steps[-1].bytes_done == len(content)
        assert small.count("GET", "/files/") == 2

    def test_a_later_run_goes_on_where_an_earlier_one_was_cut(
        self, farm: Farm, small: SmallFarm, offer: Offer, tmp_path: Path
    ) -> None:
        content = os.urandom(300_000)
        row = offer("a.exr", content)
        (tmp_path / f".a.exr.{row['digest'][:12]}.part").write_bytes(content[:262_144])

        farm.pull_job("job", tmp_path)

        assert (tmp_path / "a.exr").read_bytes() == content
        assert list(tmp_path.glob(".a.exr*")) == []

    def test_lines_may_break_as_often_as_they_like_while_something_arrives(
        self, farm: Farm, small: SmallFarm, offer: Offer, tmp_path: Path
    ) -> None:
        offer("a.exr", os.urandom(300_000))
        small.fail("GET", "/files/", times=9, after_bytes=30_000)

        farm.pull_job("job", tmp_path)

        assert (tmp_path / "a.exr").stat().st_size == 300_000

    def test_a_line_that_brings_nothing_is_given_up_on(
        self, farm: Farm, small: SmallFarm, offer: Offer, tmp_path: Path
    ) -> None:
        offer("a.png", b"one")
        small.fail("GET", "/files/", times=99)

        with pytest.raises(Unreachable):
            farm.pull_job("job", tmp_path)

        assert not (tmp_path / "a.png").exists()

    def test_a_garbled_file_is_fetched_again(self, farm: Farm, small: SmallFarm, offer: Offer, tmp_path: Path) -> None:
        row = offer("a.png", b"one")
        (tmp_path / f".a.png.{row['digest'][:12]}.part").write_bytes(b"onx")

        farm.pull_job("job", tmp_path)

        assert (tmp_path / "a.png").read_bytes() == b"one"

    def test_a_file_that_stays_garbled_never_gets_its_name(
        self, farm: Farm, small: SmallFarm, offer: Offer, tmp_path: Path
    ) -> None:
        offer("a.png", b"one")
        small.files["0"] = b"two"

        with pytest.raises(Damaged):
            farm.pull_job("job", tmp_path)

        assert list(tmp_path.glob("*.png")) == []

    def test_an_expired_address_is_asked_for_anew(
        self, farm: Farm, small: SmallFarm, offer: Offer, tmp_path: Path
    ) -> None:
        row = offer("a.png", b"one")
        small.expired.add(row["url"])
        small.answers[f"{OUTPUTS}?task={row['task']}"] = {"results": [{**row, "url": "/files/0?v=2"}], "next": None}

        pulled = farm.pull_job("job", tmp_path)

        assert pulled.fetched == ["a.png"]

    def test_only_chosen_frames_are_fetched(self, farm: Farm, offer: Offer, tmp_path: Path) -> None:
        for name in ("a", "b", "c"):
            offer(name, name.encode())

        assert farm.pull_job("job", tmp_path, frames=[0, 2]).fetched == ["a", "c"]

    def test_a_folder_that_cannot_be_made_is_said(self, farm: Farm, offer: Offer, tmp_path: Path) -> None:
        offer("a.png", b"one")
        (tmp_path / "file").write_bytes(b"")

        with pytest.raises(FolderUnwritable):
            farm.pull_job("job", tmp_path / "file" / "out")

    def test_a_refusal_of_the_store_is_passed_on(
        self, farm: Farm, small: SmallFarm, offer: Offer, tmp_path: Path
    ) -> None:
        offer("a.png", b"one")
        small.fail("GET", "/files/", times=9, status=451, code="not-here")

        with pytest.raises(FarmError, match="not-here"):
            farm.pull_job("job", tmp_path)


class TestPlace:
    def row(self, name: str, task: str) -> Any:
        return {"name": name, "task": task}

    def test_two_of_one_name_get_different_ones(self) -> None:
        rows = [self.row("a.png", "t-000000000001"), self.row("A.PNG", "t-000000000002")]

        assert [target.name for target in place(rows, Path("out"))] == ["a.png", "A-000000000002.PNG"]


class TestSafeName:
    @pytest.mark.parametrize(
        ("name", "safe"),
        [
            ("frame_0001.png", "frame_0001.png"),
            ("../../etc/passwd", "etc/passwd"),
            ("/etc/passwd", "etc/passwd"),
            ("C:\\Windows\\a.png", "C_/Windows/a.png"),
            ("a/./b//c", "a/b/c"),
            ("..", "unnamed"),
            ("", "unnamed"),
            ("a\x1b[31m.png", "a_[31m.png"),
            ("con.txt", "_con.txt"),
            ("trailing. ", "trailing"),
            ("Übung 日本.exr", "Übung 日本.exr"),
            (".hidden", ".hidden"),
        ],
    )
    def test_names_stay_below_the_folder(self, name: str, safe: str) -> None:
        assert safe_name(name) == safe

    def test_a_long_name_is_shortened_and_stays_different(self) -> None:
        long = [safe_name("x" * 300 + end + ".png") for end in "ab"]

        assert all(len(name.encode()) <= 200 and name.endswith(".png") for name in long)
        assert long[0] != long[1]

    @given(st.text(max_size=80))
    def test_no_name_leads_out(self, name: str) -> None:
        target = Path("/out").joinpath(*safe_name(name).split("/"))

        assert Path(os.path.normpath(target)).is_relative_to("/out")
        assert target != Path("/out")

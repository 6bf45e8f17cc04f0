"""Sending scenes: what travels, what goes on after a cut, and what is said when a file changes under way."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from farmhand.connection import Patience
from farmhand.digests import FileChanged, FileUnreadable
from farmhand.errors import FarmError, Unreachable
from farmhand.farm import Farm
from farmhand.meters import Progress, Stage
from farmhand.push import AT_ONCE, FILES_UNDER_WAY, NotTaken

from tests.frontend.client.conftest import SMALL_PART
from tests.frontend.client.small_farm import TOKEN, SmallFarm

Write = Callable[[str, bytes], Path]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def big(write: Write) -> tuple[Path, str, list[bytes]]:
    """A file of four parts, its digest and its parts."""
    content = os.urandom(3 * SMALL_PART + 100)
    parts = [content[at : at + SMALL_PART] for at in range(0, len(content), SMALL_PART)]
    name = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
    return write("big.blend", content), name, parts


class TestPushScene:
    def test_the_manifest_names_every_file_and_the_entry(
        self, farm: Farm, small: SmallFarm, folder: Path, write: Write
    ) -> None:
        write("a.blend", b"scene")
        write("textures/wood.png", b"wood")

        pushed = farm.push_scene(folder)

        assert pushed.version["status"] == "whole"
        assert small.manifests["version-0"] == {
            "entry": "a.blend",
            "files": [
                {"path": "a.blend", "digest": digest(b"scene"), "size": 5},
                {"path": "textures/wood.png", "digest": digest(b"wood"), "size": 4},
            ],
        }

    def test_what_the_farm_has_does_not_travel(self, farm: Farm, small: SmallFarm, folder: Path, write: Write) -> None:
        write("a.blend", b"scene")
        write("b.png", b"wood")
        farm.push_scene(folder)
        write("b.png", b"oak")

        pushed = farm.push_scene(folder)

        assert pushed.sent_files == 1
        assert pushed.sent_bytes == 3
        assert small.sent[(digest(b"scene"), 0)] == 1

    def test_one_content_in_two_files_travels_once(
        self, farm: Farm, small: SmallFarm, folder: Path, write: Write
    ) -> None:
        write("a.blend", b"same")
        write("b.png", b"same")

        farm.push_scene(folder)

        assert small.sent == {(digest(b"same"), 0): 1}

    def test_an_empty_file_travels(self, farm: Farm, small: SmallFarm, folder: Path, write: Write) -> None:
        write("a.blend", b"")

        assert farm.push_scene(folder).version["status"] == "whole"

    def test_a_file_of_many_parts_arrives_whole(
        self, farm: Farm, small: SmallFarm, folder: Path, big: tuple[Path, str, list[bytes]]
    ) -> None:
        _, name, parts = big

        farm.push_scene(folder)

        assert [small.blobs[name].parts[number] for number in range(4)] == parts

    def test_addresses_are_asked_for_in_batches(self, farm: Farm, small: SmallFarm, folder: Path, write: Write) -> None:
        for number in range(AT_ONCE + 20):
            write(f"{number}.png", str(number).encode())
        write("a.blend", b"scene")

        pushed = farm.push_scene(folder)

        assert pushed.version["status"] == "whole"
        assert sorted(small.signed_at_once) == [21, AT_ONCE]

    def test_many_small_files_travel_side_by_side(
        self, farm: Farm, small: SmallFarm, folder: Path, write: Write
    ) -> None:
        together = threading.Barrier(FILES_UNDER_WAY)

        def meet() -> None:
            together.wait(10)

        small.on_part = meet
        for number in range(FILES_UNDER_WAY):
            write(f"{number}.png", str(number).encode())

        farm.push_scene(folder, entry="0.png")

        assert sum(small.sent.values()) == FILES_UNDER_WAY

    def test_progress_ends_with_every_file_and_byte(
        self, farm: Farm, folder: Path, big: tuple[Path, str, list[bytes]], small: SmallFarm
    ) -> None:
        steps: list[Progress] = []
        small.fail("PUT", "/files/", times=2)

        farm.push_scene(folder, on_progress=steps.append)

        last = {step.stage: step for step in steps}
        size = 3 * SMALL_PART + 100
        assert last[Stage.READING] == Progress(Stage.READING, 1, 1, size, size)
        assert last[Stage.SENDING] == Progress(Stage.SENDING, 1, 1, size, size)

    def test_a_scene_is_named_after_its_entry_and_made_once(
        self, farm: Farm, small: SmallFarm, folder: Path, write: Write
    ) -> None:
        write("Shot 010.blend", b"scene")

        farm.push_scene(folder)
        farm.push_scene(folder)

        assert [scene["name"] for scene in small.scenes] == ["Shot 010"]

    def test_absolute_spellings_are_kept_on_request(
        self, farm: Farm, small: SmallFarm, folder: Path, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write("a.blend", b"scene")
        monkeypatch.setattr("farmhand.folders.RESERVED", frozenset())

        farm.push_scene(folder, keep_paths=True)

        assert small.manifests["version-0"]["files"][0]["source"] == path.as_posix()


class TestResume:
    def test_a_cut_upload_sends_only_the_parts_that_are_not_there(
        self, farm: Farm, url: str, small: SmallFarm, folder: Path, big: tuple[Path, str, list[bytes]], tmp_path: Path
    ) -> None:
        _, name, parts = big
        small.fail("PUT", f"/files/{name}/2", times=99)
        with Farm(url, TOKEN, patience=Patience(attempts=1), cache=tmp_path / "h") as cut, pytest.raises(Unreachable):
            cut.push_scene(folder)
        arrived = set(small.blobs[name].parts)
        small.faults.clear()

        pushed = farm.push_scene(folder)

        assert pushed.version["status"] == "whole"
        assert 2 not in arrived
        assert pushed.sent_bytes == sum(len(parts[number]) for number in range(4) if number not in arrived)
        assert all(count == 1 for count in small.sent.values())

    def test_an_expired_address_is_asked_for_anew(
        self, farm: Farm, small: SmallFarm, folder: Path, big: tuple[Path, str, list[bytes]]
    ) -> None:
        small.expire_first = 3

        pushed = farm.push_scene(folder)

        assert pushed.version["status"] == "whole"
        assert sum(small.signed_at_once) == 4 + 3

    def test_an_old_address_is_not_even_tried(
        self, farm: Farm, small: SmallFarm, folder: Path, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write("a.blend", b"scene")
        monkeypatch.setattr("farmhand.push.GRANT_VALID_S", -1)

        farm.push_scene(folder)

        assert small.signed_at_once == [1, 1]
        assert small.count("PUT", "/files/") == 1

    def test_a_part_is_sent_again_after_a_broken_line(
        self, farm: Farm, small: SmallFarm, folder: Path, big: tuple[Path, str, list[bytes]]
    ) -> None:
        small.fail("PUT", "/files/", times=3)

        assert farm.push_scene(folder).version["status"] == "whole"

    def test_a_garbled_part_is_sent_again(self, farm: Farm, small: SmallFarm, folder: Path, write: Write) -> None:
        write("a.blend", b"scene")
        small.fail("PUT", "/files/", status=422, code="wrong-sum")

        assert farm.push_scene(folder).version["status"] == "whole"

    def test_a_part_that_the_store_lost_is_sent_again(
        self, farm: Farm, small: SmallFarm, folder: Path, big: tuple[Path, str, list[bytes]]
    ) -> None:
        small.lose = {big[1]}

        pushed = farm.push_scene(folder)

        assert pushed.version["status"] == "whole"
        assert small.sent[(big[1], 0)] == 2
        assert small.sent[(big[1], 1)] == 1

    def test_a_confirmation_whose_answer_is_lost_is_repeated(
        self, farm: Farm, small: SmallFarm, folder: Path, write: Write
    ) -> None:
        write("a.blend", b"scene")
        small.fail("POST", "/api/v1/scene-versions/version-0/blobs", is_done=True)

        assert farm.push_scene(folder).version["status"] == "whole"

    def test_a_content_that_never_stays_is_given_up_on(
        self, farm: Farm, small: SmallFarm, folder: Path, write: Write
    ) -> None:
        write("a.blend", b"scene")
        small.garble = {digest(b"scene")}

        with pytest.raises(NotTaken, match=r"a\.blend"):
            farm.push_scene(folder)

        assert small.sent[(digest(b"scene"), 0)] == 3

    def test_a_full_store_is_said_at_once(self, farm: Farm, small: SmallFarm, folder: Path, write: Write) -> None:
        write("a.blend", b"scene")
        small.fail("PUT", "/files/", times=99, status=507, code="store-full")

        with pytest.raises(FarmError) as caught:
            farm.push_scene(folder)

        assert caught.value.code == "store-full"
        assert small.count("PUT", "/files/") == 1


class TestFilesThatChange:
    def test_one_that_changes_before_it_is_sent_is_named(
        self, farm: Farm, small: SmallFarm, folder: Path, write: Write
    ) -> None:
        path = write("a.blend", b"scene")
        plan = farm.plan_push(folder)
        path.write_bytes(b"other")

        with pytest.raises(FileChanged, match=r"a\.blend"):
            farm.send(plan, "scene-0")

        assert small.sent == {}

    def test_one_that_vanishes_is_named(self, farm: Farm, small: SmallFarm, folder: Path, write: Write) -> None:
        path = write("a.blend", b"scene")
        plan = farm.plan_push(folder)
        path.unlink()

        with pytest.raises(FileUnreadable, match=r"a\.blend"):
            farm.send(plan, "scene-0")

    def test_one_that_changes_after_it_was_sent_is_warned_of(
        self, farm: Farm, small: SmallFarm, folder: Path, write: Write
    ) -> None:
        write("a.blend", b"scene")
        path = write("b.png", b"wood")
        farm.push_scene(folder)
        plan = farm.plan_push(folder)
        path.write_bytes(b"oak")

        pushed = farm.send(plan, "scene-0")

        assert pushed.version["status"] == "whole"
        assert [warning[:40] for warning in pushed.warnings] == ["b.png changed after it was read. The ver"]

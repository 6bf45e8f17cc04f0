from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.tasks import shell
from tests.workers.test_session_pipe import until_ended
from workers.cache import Cache, Layout, digest_file
from workers.gpu import Gpu
from workers.protocol import ManifestFile
from workers.renderer import Renderer
from workers.rooms import Room, Rooms, remove_tree
from workers.sandbox import Enclosure, agent_mounts


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[Rooms]:
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin" / "python3"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    mounts = tuple(agent_mounts(tmp_path / "bin"))
    renderer = Renderer(mounts=mounts, agent_mounts=mounts, software={})
    rooms = Rooms("s", tmp_path / "rooms", gpu=Gpu(), renderer=renderer, enclosure=Enclosure(), memory_mib=2000)
    yield rooms
    rooms.close()


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", limit_bytes=1 << 20)


def layout(cache: Cache, *, source: str | None = None) -> Layout:
    (cache.partial / "x").write_bytes(b"the scene\n")
    digest = digest_file(cache.partial / "x")[0]
    cache.add(digest, cache.partial / "x")
    return cache.lay_out("v1", [ManifestFile(path="a/b.txt", source=source, digest=digest, size=10)])


def read_scene(room: Room) -> list[str]:
    order = {"name": "S", "parameters": {}, "rules": [], "environments": [], "extensions": []}
    room.pipe.order("enter", **order, script=shell("cat /scene/a/b.txt; touch /scene/x || echo held"))
    until_ended(room.pipe)
    room.pipe.order("run", parameters={}, folders=[])
    return [line for line in until_ended(room.pipe)[0] if "cannot touch" not in line]


class TestOpen:
    def test_the_room_kept_ready_is_let_with_the_scene_in_it(self, rooms: Rooms, cache: Cache) -> None:
        rooms.get_ready()
        spare = rooms._spare

        room = rooms.open(layout(cache), memory_mib=0)

        assert room is spare
        assert read_scene(room) == ["the scene", "held"]
        room.close()
        assert not room.folder.exists()

    @pytest.mark.parametrize("needs", ["source", "memory"])
    def test_a_scene_that_needs_more_gets_a_room_of_its_own(self, rooms: Rooms, cache: Cache, needs: str) -> None:
        rooms.get_ready()
        spare = rooms._spare
        assert spare is not None

        scene = layout(cache, source="/mnt/x.txt" if needs == "source" else None)
        room = rooms.open(scene, memory_mib=500 if needs == "memory" else 0)

        assert room is not spare
        assert not spare.pipe.tree.is_running
        assert read_scene(room) == ["the scene", "held"]
        room.close()

    def test_a_room_kept_ready_that_died_is_not_let(self, rooms: Rooms, cache: Cache) -> None:
        rooms.get_ready()
        assert rooms._spare is not None
        rooms._spare.pipe.tree.kill()

        room = rooms.open(layout(cache), memory_mib=0)

        assert read_scene(room) == ["the scene", "held"]
        room.close()


class TestLimit:
    def test_the_smaller_of_the_slots_and_the_jobs_counts(self, rooms: Rooms) -> None:
        assert [rooms.limit(m) for m in (0, 500, 5000)] == [2000, 500, 2000]


class TestRemoveTree:
    def test_however_deep_a_scene_nested_its_folders_they_go(self, tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        here = os.open(tmp_path / "deep", os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("d", dir_fd=here)
            there = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = there
        os.close(here)

        remove_tree(tmp_path / "deep")

        assert not (tmp_path / "deep").exists()

"""A small farm to try the client against, and a home of its own for what the client keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farmhand.connection import Patience
from farmhand.farm import Farm

from tests.frontend.client import small_farm
from tests.frontend.client.small_farm import TOKEN, SmallFarm

SMALL_PART = 64 * 1024
QUICK = Patience(attempts=4, first=0.01, longest=0.02, longest_asked=0.05)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without settings; nothing of the person who runs the tests is read or written."""
    for name in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in ("URL", "TOKEN", "PROFILE", "PROJECT"):
        monkeypatch.delenv(f"FARMHAND_{name}", raising=False)
    return tmp_path


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> int:
    """Parts of 64 KiB, so that a file of many parts is quickly made."""
    monkeypatch.setattr("farmhand.digests.PART_SIZE", SMALL_PART)
    monkeypatch.setattr("farmhand.push.PART_SIZE", SMALL_PART)
    return SMALL_PART


@pytest.fixture
def served(small_parts: int) -> Iterator[tuple[SmallFarm, str]]:
    farm, server, url = small_farm.start(small_parts)
    yield farm, url
    server.shutdown()
    server.server_close()


@pytest.fixture
def small(served: tuple[SmallFarm, str]) -> SmallFarm:
    return served[0]


@pytest.fixture
def url(served: tuple[SmallFarm, str]) -> str:
    return served[1]


@pytest.fixture
def farm(url: str, tmp_path: Path) -> Iterator[Farm]:
    with Farm(url, TOKEN, patience=QUICK, cache=tmp_path / "hashes.sqlite3") as farm:
        yield farm


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for a scene."""
    made = tmp_path / "scene"
    made.mkdir()
    return made


@pytest.fixture
def write(folder: Path) -> Callable[[str, bytes], Path]:
    """Write a file of the scene."""

    def write(name: str, content: bytes) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    return write

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.fake_farm import FakeFarm
from tests.workers.tasks import shell
from workers import transfer
from workers.cache import Cache
from workers.farm_client import FarmClient
from workers.protocol import PART_SIZE, UploadKind
from workers.transfer import Abandoned, Parcel, TransferFailed, Transfers


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    def short() -> Iterator[float]:
        while True:
            yield 0.01

    monkeypatch.setattr(transfer, "pauses", short)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", limit_bytes=200 << 20)


@pytest.fixture
def ended() -> threading.Event:
    return threading.Event()


@pytest.fixture
def transfers(farm: FakeFarm, cache: Cache, ended: threading.Event) -> Iterator[Transfers]:
    client = FarmClient(farm.url)
    client._http.headers["Authorization"] = f"Bearer {farm.token}"
    moves = Transfers(client, cache, ended=ended)
    yield moves
    ended.set()
    moves.close()
    client.close()


def big() -> bytes:
    return os.urandom(PART_SIZE + 1000)


class TestInputs:
    def test_a_scene_is_fetched_checked_and_laid_out(self, farm: FakeFarm, transfers: Transfers) -> None:
        data = big()
        step = farm.add_step(shell("true"), files={"a.blend": data, "tex/t.png": b"texture", "empty": b""})

        layout = transfers.inputs(step).result(30).layout

        assert (layout.files / "a.blend").read_bytes() == data
        assert (layout.files / "tex" / "t.png").read_bytes() == b"texture"
        assert (layout.files / "empty").read_bytes() == b""

    def test_what_is_here_already_is_not_fetched_again(self, farm: FakeFarm, transfers: Transfers) -> None:
        one = farm.add_step(shell("true"), files={"a": b"same", "b": b"first"})
        two = farm.add_step(shell("true"), files={"x": b"same", "b": b"second"})

        for step in (one, one, two):
            transfers.inputs(step).result(30)

        assert len(farm.fetched) == 3

    def test_a_broken_off_download_goes_on_where_it_stopped(
        self, farm: FakeFarm, transfers: Transfers, cache: Cache
    ) -> None:
        data = big()
        step = farm.add_step(shell("true"), files={"a": data})
        digest = farm.store_blob(data)
        (cache.partial / digest).write_bytes(data[:PART_SIZE])

        transfers.inputs(step).result(30)

        assert farm.fetched == [(digest, f"bytes={PART_SIZE}-")]

    def test_a_wrong_beginning_is_thrown_away_and_all_fetched_anew(
        self, farm: FakeFarm, transfers: Transfers, cache: Cache
    ) -> None:
        step = farm.add_step(shell("true"), files={"a": b"right content"})
        digest = farm.store_blob(b"right content")
        (cache.partial / digest).write_bytes(b"wrong")

        layout = transfers.inputs(step).result(30).layout

        assert (layout.files / "a").read_bytes() == b"right content"
        assert [range_ for _, range_ in farm.fetched] == ["bytes=5-", None]

    @pytest.mark.parametrize("served", [b"wrong content", b"short", b"longer than the manifest says"])
    def test_content_that_is_not_what_its_name_says_never_enters_the_cache(
        self, farm: FakeFarm, transfers: Transfers, cache: Cache, served: bytes
    ) -> None:
        step = farm.add_step(shell("true"), files={"a": b"right content"})
        (farm.folder / "store" / farm.store_blob(b"right content")).write_bytes(served)

        with pytest.raises(TransferFailed):
            transfers.inputs(step).result(30)
        assert list(cache.blobs.iterdir()) == []

    def test_a_file_the_farm_does_not_grant_fails_at_once(self, farm: FakeFarm, transfers: Transfers) -> None:
        step = farm.add_step(shell("true"), files={"a": b"gone"})
        (farm.folder / "store" / farm.store_blob(b"gone")).unlink()

        with pytest.raises(TransferFailed, match="does not grant"):
            transfers.inputs(step).result(30)

    def test_an_expired_address_is_asked_for_again(self, farm: FakeFarm, transfers: Transfers) -> None:
        step = farm.add_step(shell("true"), files={"a": b"x"})
        replies = iter([(403, b"")])
        farm.before = lambda path: next(replies, None) if path.startswith("/store/") else None

        transfers.inputs(step).result(30)

        assert len(farm.grants_asked) == 2

    def test_a_store_in_trouble_is_tried_again(self, farm: FakeFarm, transfers: Transfers) -> None:
        step = farm.add_step(shell("true"), files={"a": b"x"})
        replies = iter([(500, b""), (503, b"")])
        farm.before = lambda path: next(replies, None) if path.startswith("/store/") else None

        assert transfers.inputs(step).result(30)

    def test_after_a_failure_the_next_attempt_tries_anew(self, farm: FakeFarm, transfers: Transfers) -> None:
        step = farm.add_step(shell("true"), files={"a": b"x"})
        farm.before = lambda path: (500, b"") if path.startswith("/store/") else None
        with pytest.raises(TransferFailed):
            transfers.inputs(step).result(30)

        farm.before = lambda path: None

        assert transfers.inputs(step).result(30)

    def test_two_slots_that_want_a_scene_at_once_fetch_it_once(self, farm: FakeFarm, transfers: Transfers) -> None:
        one, two = (farm.add_step(shell("true"), files={"a": b"same"}) for _ in range(2))

        for fetch in [transfers.inputs(one), transfers.inputs(two), transfers.inputs(one)]:
            fetch.result(30)

        assert len(farm.fetched) == 1


class TestSend:
    def test_a_large_file_goes_in_parts(self, farm: FakeFarm, transfers: Transfers, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(data := big())

        transfers.send("a1", [Parcel.of_file(UploadKind.OUTPUT, "x.exr", tmp_path / "x")])

        assert farm.outputs("a1") == {"x.exr": data}
        assert farm.stored == ["a1/output/x.exr"] * 2

    def test_what_the_store_has_is_not_sent_again(self, farm: FakeFarm, transfers: Transfers) -> None:
        parcels = [Parcel.of_bytes(UploadKind.LOG, "0", b"lines"), Parcel.of_bytes(UploadKind.LOG, "1", b"")]

        for _ in range(2):
            transfers.send("a1", parcels)

        assert sorted(farm.stored) == ["a1/log/0", "a1/log/1"]

    def test_an_address_that_expired_is_asked_for_again(self, farm: FakeFarm, transfers: Transfers) -> None:
        lives_s = iter([-1.0, -1.0, 60.0])

        def grant(path: str) -> None:
            if path.endswith("/grants"):
                farm.url_life_s = next(lives_s)

        farm.before = grant

        transfers.send("a1", [Parcel.of_bytes(UploadKind.LOG, "0", b"x")])

        assert farm.stored == ["a1/log/0"]

    def test_addresses_that_are_always_expired_are_given_up(self, farm: FakeFarm, transfers: Transfers) -> None:
        farm.url_life_s = -1

        with pytest.raises(TransferFailed, match="expire"):
            transfers.send("a1", [Parcel.of_bytes(UploadKind.LOG, "0", b"x")])
        assert farm.stored == []

    def test_a_farm_that_is_away_is_waited_for(self, farm: FakeFarm, transfers: Transfers) -> None:
        back = time.monotonic() + 0.5
        farm.before = lambda path: (503, {}) if time.monotonic() < back else None

        transfers.send("a1", [Parcel.of_bytes(UploadKind.LOG, "0", b"x")])

        assert farm.stored == ["a1/log/0"]

    def test_a_refusal_is_not_repeated(self, farm: FakeFarm, transfers: Transfers) -> None:
        replies = iter([(412, b"")])
        farm.before = lambda path: next(replies, None) if path.startswith("/store/") else None

        with pytest.raises(TransferFailed, match="412"):
            transfers.send("a1", [Parcel.of_bytes(UploadKind.LOG, "0", b"x")])
        assert farm.stored == []

    def test_the_agents_end_breaks_the_wait(self, farm: FakeFarm, transfers: Transfers, ended: threading.Event) -> None:
        farm.before = lambda path: (503, {})
        threading.Timer(0.2, ended.set).start()

        with pytest.raises(Abandoned):
            transfers.send("a1", [Parcel.of_bytes(UploadKind.LOG, "0", b"x")])

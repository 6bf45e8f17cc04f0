from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.workers.fake_farm import FakeFarm
from workers.farm_client import FarmClient, FarmRefuses, FarmUnreachable, TokenRefused, pauses
from workers.protocol import SyncRequest, WorkerState


@pytest.fixture
def client(farm: FakeFarm) -> Iterator[FarmClient]:
    client = FarmClient(farm.url)
    client._http.headers["Authorization"] = f"Bearer {farm.token}"
    yield client
    client.close()


SYNC = SyncRequest(state=WorkerState.READY, reason="", free_disk_mib=1, scene_versions=[], slots=[], attempts=[])


class TestAsk:
    def test_a_well_formed_200_is_the_only_success(self, farm: FakeFarm, client: FarmClient) -> None:
        assert client.sync(SYNC).state is WorkerState.READY

    @pytest.mark.parametrize("reply", [(200, {}), (200, []), (200, {"state": "ready", "error": "x"}), (204, None),
                                       (302, {}), (500, {}), (502, {}), (503, {}), (429, {}), (408, {})])  # fmt: skip
    def test_anything_else_that_may_pass_is_asked_again(
        self, farm: FakeFarm, client: FarmClient, reply: tuple[int, object]
    ) -> None:
        farm.before = lambda path: reply

        with pytest.raises(FarmUnreachable):
            client.sync(SYNC)

    def test_a_farm_that_is_not_there_is_unreachable(self) -> None:
        client = FarmClient("http://127.0.0.1:9")

        with pytest.raises(FarmUnreachable):
            client.sync(SYNC)
        client.close()

    def test_401_means_the_token_is_no_longer_good(self, farm: FakeFarm, client: FarmClient) -> None:
        farm.token = "another"

        with pytest.raises(TokenRefused, match="no longer good"):
            client.sync(SYNC)

    @pytest.mark.parametrize(("status", "is_final"), [(409, True), (426, True), (410, True), (400, False)])
    def test_a_refusal_carries_the_farms_sentence(
        self, farm: FakeFarm, client: FarmClient, status: int, is_final: bool
    ) -> None:
        farm.before = lambda path: (status, {"code": "worker-drained", "detail": "Go home."})

        with pytest.raises(FarmRefuses, match=r"worker-drained.*Go home\.") as refusal:
            client.sync(SYNC)
        assert refusal.value.is_final is is_final


class TestPauses:
    def test_they_grow_to_a_limit_with_jitter(self) -> None:
        waits = list(itertools.islice(pauses(first=1, limit=8), 20))

        assert all(0.5 <= wait <= 8 for wait in waits)
        assert max(waits[6:]) > 3.9
        assert len(set(waits)) == 20

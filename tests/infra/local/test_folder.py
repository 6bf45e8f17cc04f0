"""What a data folder remembers."""

import socket
from pathlib import Path

import pytest

from infra.local.folder import AlreadyRuns, Folder, is_free
from tests.infra.local.conftest import hold


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.make()
    return folder


@pytest.fixture
def port() -> int:
    """A free one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class TestSecret:
    def test_it_stays_the_same_and_differs_from_others(self, folder: Folder) -> None:
        first = folder.secret("farm")

        assert folder.secret("farm") == first
        assert folder.secret("farm_owner") != first
        assert Folder(folder.path).secret("farm") == first

    def test_only_the_owner_may_read_it(self, folder: Folder) -> None:
        folder.secret("farm")

        assert (folder.path / "secrets.json").stat().st_mode & 0o777 == 0o600


class TestChoosePort:
    def test_the_wanted_one_is_taken_when_it_is_free(self, folder: Folder, port: int) -> None:
        assert folder.choose_port("web", first=port) == port

    def test_a_taken_one_is_left_to_its_owner_and_the_next_free_one_remembered(self, folder: Folder, port: int) -> None:
        with hold(port):
            chosen = folder.choose_port("web", first=port)

            assert chosen > port
            assert is_free(chosen)
        assert folder.known_port("web") == chosen

    def test_a_remembered_one_is_chosen_again(self, folder: Folder) -> None:
        first = folder.choose_port("postgres")

        assert folder.choose_port("postgres") == first

    def test_a_remembered_one_that_somebody_took_is_replaced(self, folder: Folder) -> None:
        first = folder.choose_port("postgres")

        with hold(first):
            assert folder.choose_port("postgres") != first


class TestInCharge:
    def test_a_second_one_is_refused_until_the_first_is_gone(self, folder: Folder) -> None:
        with folder.in_charge():
            assert folder.is_supervised()
            with pytest.raises(AlreadyRuns), Folder(folder.path).in_charge():
                pass

        assert not folder.is_supervised()
        with folder.in_charge():
            pass

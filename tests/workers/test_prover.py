from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.workers.test_sandbox import Room
from workers import prover as prover_module
from workers.causes import AttemptFailed
from workers.protocol import Cause
from workers.prove import NICENESS
from workers.prover import Prover, ProverDied, Provers
from workers.sandbox import Enclosure, agent_mounts

ORDER = {"role": "render", "format": "png", "width": None, "height": None, "bit_depth": None, "is_image": True}


@pytest.fixture
def provers(tmp_path: Path) -> Iterator[Provers]:
    room = Room(tmp_path)
    provers = Provers(tmp_path / "provers", agent_mounts(room.folder / "bin"), Enclosure(), limit=2)
    yield provers
    provers.close()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """An attempt's files: one good picture, one that is none, one that is a link to a secret."""
    from PIL import Image

    folder = tmp_path / "files"
    folder.mkdir()
    Image.new("RGB", (640, 360), (10, 20, 30)).save(folder / "0.png")
    (folder / "1.png").write_bytes(b"no picture")
    (tmp_path / "secret.png").write_bytes((folder / "0.png").read_bytes())
    (folder / "2.png").symlink_to(tmp_path / "secret.png")
    return folder


def _stop(prover: Prover) -> None:
    """Hold every process of the prover still, so that its answer cannot win a race against the clock."""
    for process in _processes(prover):
        process.suspend()


def _resume(prover: Prover) -> None:
    for process in _processes(prover):
        process.resume()


def _processes(prover: Prover) -> list[psutil.Process]:
    return psutil.Process(prover._tree._process.pid).children(recursive=True)


class TestProve:
    def test_a_good_file_is_measured_and_its_previews_can_be_taken(
        self, provers: Provers, files: Path, tmp_path: Path
    ) -> None:
        with provers.lend("s") as prover, prover.showing(files):
            proof = prover.prove("0.png", ORDER, name="frame.png")
            prover.take_made("0.png.proxy.jpg", tmp_path / "proxy.jpg")

        assert proof.facts["width"] == 640
        assert [made["role"] for made in proof.made] == ["proxy", "thumbnail"]
        assert (tmp_path / "proxy.jpg").read_bytes().startswith(b"\xff\xd8")
        assert sorted(p.name for p in files.iterdir()) == ["0.png", "1.png", "2.png"]

    def test_a_bad_file_is_named_as_people_know_it_and_the_prover_lives(self, provers: Provers, files: Path) -> None:
        with provers.lend("s") as prover, prover.showing(files):
            with pytest.raises(AttemptFailed, match=r"frame\.png is not a good file") as failure:
                prover.prove("1.png", ORDER, name="frame.png")
            assert prover.prove("0.png", ORDER, name="frame.png")

        assert failure.value.cause is Cause.BAD_OUTPUT

    def test_a_link_out_of_the_sandbox_leads_nowhere(self, provers: Provers, files: Path) -> None:
        with provers.lend("s") as prover, prover.showing(files), pytest.raises(AttemptFailed):
            prover.prove("2.png", ORDER, name="frame.png")

    def test_a_file_that_takes_too_long_kills_the_prover(
        self, provers: Provers, files: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with provers.lend("s") as prover, prover.showing(files):
            prover.prove("0.png", ORDER, name="frame.png")
            _stop(prover)
        monkeypatch.setattr(prover_module, "HEADER_S", 0.2)
        monkeypatch.setattr(prover_module, "PATIENCE", 3)

        with pytest.raises(ProverDied, match="too long"), provers.lend("s") as prover, prover.showing(files):
            prover.prove("0.png", ORDER, name="frame.png")

        monkeypatch.undo()
        with provers.lend("s") as prover, prover.showing(files):
            assert prover.prove("0.png", ORDER, name="frame.png")
        assert len(list(files.iterdir())) == 3

    def test_a_prover_that_gets_no_processor_for_a_while_is_waited_for(
        self, provers: Provers, files: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with provers.lend("s") as prover, prover.showing(files):
            prover.prove("0.png", ORDER, name="frame.png")
            _stop(prover)
            monkeypatch.setattr(prover_module, "HEADER_S", 0.1)
            monkeypatch.setattr(prover_module, "PATIENCE", 200)
            threading.Timer(0.5, _resume, [prover]).start()

            assert prover.prove("0.png", ORDER, name="frame.png")

    def test_a_prover_steps_back_behind_the_renderer(self, provers: Provers, files: Path) -> None:
        with provers.lend("s") as prover, prover.showing(files):
            prover.prove("0.png", ORDER, name="frame.png")

            (python,) = [p for p in _processes(prover) if "python" in p.cmdline()[0]]
            assert python.nice() >= NICENESS

    def test_a_prover_that_dies_says_so(self, provers: Provers, files: Path) -> None:
        with provers.lend("s") as prover, prover.showing(files):
            prover._tree.kill()
            with pytest.raises(ProverDied, match="crashed"):
                prover.prove("0.png", ORDER, name="frame.png")


class TestLend:
    def test_a_studio_keeps_its_prover_and_shares_it_with_nobody(self, provers: Provers) -> None:
        with provers.lend("one") as first:
            pass
        with provers.lend("two") as other:
            pass
        with provers.lend("one") as again:
            pass

        assert again is first
        assert other is not first

    def test_no_more_are_kept_than_the_limit(self, provers: Provers) -> None:
        for studio in "abcd":
            with provers.lend(studio):
                pass

        assert len(provers._idle) == 2

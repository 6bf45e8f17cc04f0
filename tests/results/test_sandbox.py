"""The encoder's sandbox, and what is believed of what comes out of it."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from farm.results import sandbox
from farm.results.sandbox import EncoderFailed, Run, SandboxUnusable, UnreadablePictures, run_encoder
from tests.results.film import jpeg, picture

HEAD = """
import json, os, sys, time
folder, out, told = sys.argv[1:]
def tell(**what):
    with open(told, "a") as file:
        file.write(json.dumps(what) + "\\n")
"""


class Place:
    """A folder for runs, whose encoder may be another program."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        (folder / "in").mkdir(parents=True)

    def program(self, text: str) -> None:
        file = self.folder / "program.py"
        file.write_text(HEAD + text)
        self._monkeypatch.setattr(sandbox, "ENCODER", file)

    def run(self, order: dict[str, Any] | None = None, *, seconds: float = 30, most_bytes: int = 2**24) -> int:
        return run_encoder(Run(self.folder, seconds, most_bytes), order or {})

    def told(self) -> list[Any]:
        return [json.loads(line) for line in (self.folder / "told").read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path / "run", monkeypatch)


class TestTheWalls:
    def test_nothing_of_this_machine_is_to_be_seen_but_programs(self, place: Place, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("secret")
        farm = Path(sandbox.__file__)
        seen = [str(secret), str(farm), "/etc/passwd", "/etc/shadow", str(Path.home()), "/var", "/run", "/sys", "/tmp"]
        place.program(f"""
tell(seen=[p for p in {seen!r} if os.path.isfile(p) or (os.path.isdir(p) and os.listdir(p))])
tell(frames=1)
""")

        place.run()

        leads = [p for p in (str(Path.home()), "/tmp") if any(q.startswith(p + "/") for q in sandbox._python_places())]
        assert place.told()[0] == {"seen": leads}  # only the way to its Python leads through a home, or a checkout

    def test_its_inputs_cannot_be_written_nor_anything_but_its_two_files(self, place: Place) -> None:
        place.program("""
wrote = []
settings = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/fs/file-max"]
for path in [folder + "/x", "/x", "/usr/x", "/tmp/x", sys.prefix + "/x", "/encoder.py", *settings]:
    try:
        open(path, "a").close()
        wrote.append(path)
    except OSError:
        pass
open(out, "w").write("mine")
tell(wrote=wrote)
tell(frames=1)
""")

        place.run()

        assert place.told()[0] == {"wrote": []}
        assert (place.folder / "out.mp4").read_text() == "mine"

    def test_there_is_no_network_and_no_environment(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FARM_PASSWORD", "secret")
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            place.program(f"""
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), 2)
    reached = True
except OSError:
    reached = False
processes = [name for name in os.listdir("/proc") if name.isdigit()]
tell(reached=reached, environment=sorted(set(os.environ) - {{"LC_CTYPE"}}), processes=processes)
tell(frames=1)
""")
            place.run()

        found = place.told()[0]
        assert found["reached"] is False
        assert found["environment"] == ["LANG", "PWD"]
        assert len(found["processes"]) <= 2

    def test_memory_and_size_are_limited(self, place: Place) -> None:
        place.program("""
try:
    bytearray(8 * 1024**3)
    tell(memory=True)
except MemoryError:
    tell(memory=False)
try:
    with open(out, "wb") as file:
        for _ in range(64):
            file.write(bytes(1024**2))
    tell(size=True)
except OSError:
    tell(size=False)
tell(frames=1)
""")

        place.run(most_bytes=2**20)

        assert place.told()[:2] == [{"memory": False}, {"size": False}]
        assert (place.folder / "out.mp4").stat().st_size == 2**20

    def test_nothing_is_left_of_a_run_that_took_too_long(self, place: Place) -> None:
        place.program("""
if os.fork() == 0:
    os.setsid()
while True:
    tell(still="here")
    time.sleep(0.05)
""")

        with pytest.raises(EncoderFailed, match="too long"):
            place.run(seconds=2)

        time.sleep(1)  # the kernel kills the rest of it a moment after its first process
        size = (place.folder / "told").stat().st_size
        time.sleep(0.5)
        assert (place.folder / "told").stat().st_size == size > 0

    def test_without_bubblewrap_nothing_runs(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("farm.results.sandbox.shutil.which", lambda name: None)

        with pytest.raises(SandboxUnusable, match="install the package `bubblewrap`"):
            place.run()

    def test_where_scenes_are_trusted_it_runs_without(
        self, place: Place, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.FARM_TRUST_SCENES = True
        monkeypatch.setattr("farm.results.sandbox.shutil.which", lambda name: None)
        place.program("tell(pid=os.getpid()); tell(frames=3)")

        assert place.run() == 3
        assert place.told()[0]["pid"] > 2


class TestWhatIsBelieved:
    def test_a_count(self, place: Place) -> None:
        place.program("tell(frames=5)")

        assert place.run() == 5

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("pass", "it ended with 0"),
            ("tell(frames=1); sys.exit(3)", "it ended with 3"),
            ("tell(frames=True)", "it ended with 0"),
            ("tell(frames='many')", "it ended with 0"),
            ("tell(error='the disk is full')", "the disk is full"),
            ("open(told, 'w').write('no JSON')", "it ended with 0"),
            ("open(told, 'w').write('[' * 100000)", "it ended with 0"),
            ("open(told, 'w').write(json.dumps({'frames': 1, 'x': 'x' * 2**21}))", "it ended with 0"),
            ("tell(unreadable={}); sys.exit('broken')", "broken"),
        ],
    )
    def test_nothing_else_that_is_not_a_whole_answer(self, text: str, words: str, place: Place) -> None:
        place.program(text)

        with pytest.raises(EncoderFailed, match=words):
            place.run()

    def test_the_pictures_that_it_names(self, place: Place) -> None:
        place.program("tell(unreadable={'a': 'it is torn'})")

        with pytest.raises(UnreadablePictures) as found:
            place.run()

        assert found.value.why == {"a": "it is torn"}

    def test_that_the_picture_it_opened_last_was_what_killed_it(self, place: Place) -> None:
        place.program("tell(opening='a'); tell(opening=None); tell(opening='b'); os.kill(os.getpid(), 11)")

        with pytest.raises(UnreadablePictures) as found:
            place.run()

        assert found.value.why == {"b": "the decoder does not survive it"}

    @pytest.mark.parametrize(
        "text",
        [
            "tell(opening='a'); tell(opening=None); os.kill(os.getpid(), 11)",
            "tell(opening='a'); os.kill(os.getpid(), 9)",
        ],
    )
    def test_no_blame_for_a_picture_that_was_open_or_a_kill_from_outside(self, text: str, place: Place) -> None:
        place.program(text)

        with pytest.raises(EncoderFailed, match="it ended with"):
            place.run()

    @pytest.mark.parametrize(("stalled", "is_blamed"), [(1, True), (100, False)])
    def test_a_picture_is_to_blame_only_if_it_alone_took_long(
        self, stalled: int, is_blamed: bool, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sandbox, "STALLED_S", stalled)
        place.program("tell(opening='a'); time.sleep(60)")

        with pytest.raises(UnreadablePictures if is_blamed else EncoderFailed):
            place.run(seconds=3)


class TestTheEncoder:
    def order(self, place: Place, frames: int) -> dict[str, Any]:
        for frame in range(1, frames + 1):
            (place.folder / "in" / str(frame)).write_bytes(jpeg(picture(frame)))
        stills = [{"frame": f, "mark": "", "file": str(f), "shown": f} for f in range(1, frames + 1)]
        return {
            "act": "segment", "rate": [24, 1], "width": 96, "height": 64, "segment_frames": 48, "stills": stills,
        }  # fmt: skip

    def test_runs_in_it(self, place: Place) -> None:
        assert place.run(self.order(place, 3)) == 3
        assert os.path.getsize(place.folder / "out.mp4") > 0  # noqa: PTH202

    def test_names_every_picture_that_it_cannot_open(self, place: Place) -> None:
        order = self.order(place, 4)
        (place.folder / "in" / "2").write_bytes(b"torn")
        (place.folder / "in" / "4").write_bytes(jpeg(picture(4))[:300])

        with pytest.raises(UnreadablePictures) as found:
            place.run(order)

        assert set(found.value.why) == {"2", "4"}

    def test_refuses_a_picture_larger_than_any_proxy(self, place: Place) -> None:
        order = self.order(place, 1)
        (place.folder / "in" / "1").write_bytes(jpeg(picture(1, (5000, 10))))

        with pytest.raises(UnreadablePictures) as found:
            place.run(order)

        assert found.value.why == {"1": "it is 5000 × 10, larger than any proxy"}

    def test_refuses_to_join_what_has_another_number_of_frames_than_it_should(self, place: Place) -> None:
        place.run(self.order(place, 3))
        (place.folder / "out.mp4").rename(place.folder / "in" / "a")

        with pytest.raises(EncoderFailed, match="a has 3 frames, not 4"):
            place.run({"act": "join", "rate": [24, 1], "parts": [{"file": "a", "frames": 4}]})

    def test_refuses_to_join_what_was_encoded_differently(self, place: Place) -> None:
        order = self.order(place, 1)
        place.run(order)
        (place.folder / "out.mp4").rename(place.folder / "in" / "a")
        place.run({**order, "width": 98})
        (place.folder / "out.mp4").rename(place.folder / "in" / "b")
        (place.folder / "told").unlink()

        with pytest.raises(EncoderFailed, match="other settings"):
            place.run({"act": "join", "rate": [24, 1], "parts": [{"file": n, "frames": 1} for n in "ab"]})

    def test_refuses_to_join_what_is_no_movie(self, place: Place) -> None:
        (place.folder / "in" / "a").write_bytes(b"no movie")

        with pytest.raises(EncoderFailed):
            place.run({"act": "join", "rate": [24, 1], "parts": [{"file": "a", "frames": 1}]})

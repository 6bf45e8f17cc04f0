"""What is to be seen in what the encoder makes: colours as they were, marks where they must be."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest
from PIL import Image

from farm.results.encoder import Encoder
from tests.results.film import decode, is_marked, jpeg, near, picture, pixel, shows


class Bench:
    """A folder of pictures, and the encoder run on it without a sandbox."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def encode(self, pictures: list[Image.Image], *, size: tuple[int, int], rate: Fraction = Fraction(24)) -> Path:
        """Encode pictures as frames 1, 2, …"""
        for frame, image in enumerate(pictures, 1):
            (self.folder / str(frame)).write_bytes(jpeg(image))
        return self.run([still(frame) for frame in range(1, len(pictures) + 1)], size=size, rate=rate)

    def run(self, stills: list[dict[str, Any]], *, size: tuple[int, int], rate: Fraction = Fraction(24)) -> Path:
        order = {
            "act": "segment",
            "rate": [rate.numerator, rate.denominator],
            "width": size[0],
            "height": size[1],
            "segment_frames": 48,
            "stills": stills,
        }
        (self.folder / "order.json").write_text(json.dumps(order))
        out = self.folder / "out.mp4"
        with (self.folder / "told").open("w") as told:
            Encoder(self.folder, out, told).run()
        (last,) = (self.folder / "told").read_text().splitlines()[-1:]
        assert json.loads(last) == {"frames": len(stills)}
        return out


def still(frame: int, *, mark: str = "", shown: int | None = None) -> dict[str, Any]:
    shown = frame if not mark else shown
    return {"frame": frame, "mark": mark, "file": None if shown is None else str(shown), "shown": shown}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class TestColours:
    def test_a_grey_ramp_comes_back_within_two_of_255(self, bench: Bench) -> None:
        ramp = Image.new("RGB", (1024, 64))
        ramp.putdata([(x // 4,) * 3 for _ in range(64) for x in range(1024)])

        (shown,) = decode(bench.encode([ramp], size=ramp.size))

        wrong = [max(abs(value - x // 4) for value in pixel(shown, (x / 1024, 0.5))) for x in range(1024)]
        assert max(wrong) <= 2
        assert pixel(shown, (0, 0.5))[0] <= 1
        assert pixel(shown, (1023 / 1024, 0.5))[0] >= 254

    @pytest.mark.parametrize(
        ("colour", "yuv"),
        [
            ((255, 0, 0), (63, 102, 240)),
            ((0, 255, 0), (173, 42, 26)),
            ((0, 0, 255), (32, 240, 118)),
            ((255, 255, 255), (235, 128, 128)),
            ((0, 0, 0), (16, 128, 128)),
        ],
    )
    def test_are_those_of_bt709_in_limited_range(
        self, colour: tuple[int, int, int], yuv: tuple[int, int, int], bench: Bench
    ) -> None:
        movie = bench.encode([Image.new("RGB", (64, 64), colour)], size=(64, 64))

        with av.open(str(movie)) as opened:
            frame = next(opened.decode(video=0))
        found = tuple(bytes(plane)[plane.line_size * 10 + 10] for plane in frame.planes)
        assert near(found, yuv, 2)
        assert frame.format.name == "yuv420p"
        assert (frame.colorspace, frame.color_range, frame.color_primaries, frame.color_trc) == (1, 1, 1, 1)
        assert near(pixel(decode(movie)[0]), colour, 3)


class TestEntryPoints:
    def test_come_every_twelve_frames_and_no_frame_waits_for_a_later_one(self, bench: Bench) -> None:
        movie = bench.encode([picture(n) for n in range(1, 31)], size=(96, 64))

        with av.open(str(movie)) as opened:
            packets = [p for p in opened.demux(video=0) if p.size]
        assert [n for n, packet in enumerate(packets) if packet.is_keyframe] == [0, 12, 24]
        assert all(packet.pts == packet.dts for packet in packets)

    @pytest.mark.parametrize(
        "rate", [Fraction(24000, 1001), Fraction(25), Fraction(240, 17), Fraction(1), Fraction(1000)]
    )
    def test_times_are_exact_at_any_rate(self, rate: Fraction, bench: Bench) -> None:
        movie = bench.encode([picture(n) for n in range(1, 4)], size=(96, 64), rate=rate)

        with av.open(str(movie)) as opened:
            stream = opened.streams.video[0]
            times = [p.pts * p.time_base for p in opened.demux(stream) if p.size and p.pts is not None]
            assert stream.average_rate == rate
        assert times == [n / rate for n in range(3)]


class TestMarks:
    def test_a_missing_frame_shows_the_one_before_it_in_an_amber_frame_with_words(self, bench: Bench) -> None:
        (bench.folder / "1").write_bytes(jpeg(picture(1, (320, 180))))

        plain, marked = decode(bench.run([still(1), still(2, mark="missing", shown=1)], size=(320, 180)))

        assert not is_marked(plain)
        assert is_marked(marked)
        assert shows(marked, 1)
        assert has_words(marked.crop((10, 10, 180, 24)))
        assert not has_words(plain.crop((10, 10, 180, 24)))

    def test_before_the_first_picture_there_is_a_slate(self, bench: Bench) -> None:
        (slate,) = decode(bench.run([still(1, mark="missing")], size=(320, 180)))

        assert near(pixel(slate), (64, 64, 64))
        assert is_marked(slate)
        assert has_words(slate.crop((10, 10, 100, 24)))

    def test_each_frame_that_is_held_has_its_own_words(self, bench: Bench) -> None:
        (bench.folder / "1").write_bytes(jpeg(picture(1, (320, 180))))
        stills = [still(1), still(2, mark="missing", shown=1), still(38, mark="unreadable", shown=1)]

        _, one, other = decode(bench.run(stills, size=(320, 180)))

        assert one.crop((8, 8, 300, 40)).tobytes() != other.crop((8, 8, 300, 40)).tobytes()


class TestSizes:
    def test_an_odd_picture_keeps_its_pixels_and_repeats_its_last_ones(self, bench: Bench) -> None:
        image = Image.new("RGB", (65, 49), (60, 60, 60))
        image.paste((180, 180, 180), (33, 0, 65, 49))

        (shown,) = decode(bench.encode([image], size=(65, 49)))

        assert shown.size == (66, 50)
        columns = [pixel(shown, (x / 66, 0.5))[0] for x in range(66)]
        assert [value > 120 for value in columns] == [x >= 33 for x in range(66)]
        assert near(pixel(shown, (65 / 66, 49 / 50)), (180, 180, 180))

    def test_a_picture_of_another_size_keeps_its_proportions_between_bars(self, bench: Bench) -> None:
        (bench.folder / "1").write_bytes(jpeg(picture(1, (320, 180))))
        (bench.folder / "2").write_bytes(jpeg(picture(2, (100, 100))))

        _, odd = decode(bench.run([still(1), still(2)], size=(320, 180)))

        row = [near(pixel(odd, (x / 320, 0.4)), (24, 24, 24), 4) for x in range(320)]
        assert sum(row) == pytest.approx(180, abs=4)
        assert near(pixel(odd, (0.05, 0.4)), (0, 0, 0), 4)
        assert has_words(odd.crop((0, 150, 320, 176)))


def has_words(image: Image.Image) -> bool:
    """Say whether there are bright strokes on black; halved colour resolution pales their amber."""
    reds = image.tobytes()[0::3]
    return sum(red > 120 for red in reds) > 60 and sum(red < 40 for red in reds) > len(reds) / 3

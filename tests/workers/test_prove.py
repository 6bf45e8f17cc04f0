from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO as oiio  # noqa: N813  everybody's name for it
import pytest
from PIL import Image

from workers.prove import BadOutput, prove, to_display


def write(
    file: Path,
    pixels: np.ndarray[Any, Any],
    kind: str = "uint8",
    *,
    names: tuple[str, ...] | None = None,
    window: tuple[int, int, int, int] | None = None,
    tile: int = 0,
) -> None:
    """Write an image; `window` is the display window (x, y, width, height)."""
    height, width, channels = pixels.shape
    spec = oiio.ImageSpec(width, height, channels, kind)
    if names:
        spec.channelnames = names
    if window:
        spec.full_x, spec.full_y, spec.full_width, spec.full_height = window
    if tile:
        spec.tile_width = spec.tile_height = tile
    output: Any = oiio.ImageOutput.create(str(file))
    assert output.open(str(file), spec), output.geterror()
    assert output.write_image(pixels.astype(np.float32)), output.geterror()
    output.close()


def ramp(width: int = 64, height: int = 36, channels: int = 3) -> np.ndarray[Any, Any]:
    pixels = np.zeros((height, width, channels), dtype=np.float32)
    pixels[:, :, 0] = np.linspace(0, 1, width)[None, :]
    pixels[:, :, 1] = np.linspace(0, 1, height)[:, None]
    pixels[:, :, 2:3] = 0.25
    if channels == 4:
        pixels[:, :, 3] = 1
    return pixels


class Bench:
    def __init__(self, folder: Path) -> None:
        self.shown, self.made = folder / "in", folder / "made"
        self.shown.mkdir()
        self.made.mkdir()

    def prove(self, name: str, **order: Any) -> dict[str, Any]:
        blank = {"role": "render", "format": None, "width": None, "height": None, "bit_depth": None, "is_image": True}
        return prove({"name": name, "preview": name, **blank, **order}, self.shown, self.made)

    def preview(self, name: str, kind: str = "proxy") -> np.ndarray[Any, Any]:
        return np.asarray(Image.open(self.made / f"{name}.{kind}.jpg"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class TestFacts:
    @pytest.mark.parametrize(
        ("name", "kind", "format_", "depth"),
        [
            ("a.png", "uint8", "png", 8),
            ("a.png", "uint16", "png", 16),
            ("a.exr", "half", "openexr", 16),
            ("a.exr", "float", "openexr", 32),
            ("a.jpg", "uint8", "jpeg", 8),
            ("a.tif", "uint16", "tiff", 16),
            ("a.tif", "float", "tiff", 32),
            ("a.webp", "uint8", "webp", 8),
        ],
    )
    def test_every_ordered_format_is_known(self, bench: Bench, name: str, kind: str, format_: str, depth: int) -> None:
        write(bench.shown / name, ramp(), kind)

        facts = bench.prove(name, format=format_, width=64, height=36, bit_depth=depth)

        assert (facts["format"], facts["bit_depth"], facts["channels"]) == (format_, depth, 3)
        assert facts["statistics"]["max"][0] == pytest.approx(1, abs=0.03)

    @pytest.mark.parametrize(
        "order", [{"width": 65}, {"height": 1}, {"format": "openexr"}, {"bit_depth": 16}], ids=lambda o: next(iter(o))
    )
    def test_what_is_not_as_ordered_is_bad(self, bench: Bench, order: dict[str, Any]) -> None:
        write(bench.shown / "a.png", ramp())

        with pytest.raises(BadOutput, match="ordered was"):
            bench.prove("a.png", **order)

    def test_the_content_counts_not_the_name(self, bench: Bench) -> None:
        write(bench.shown / "a.jpg", ramp())
        (bench.shown / "a.jpg").rename(bench.shown / "a.png")

        with pytest.raises(BadOutput, match="its format is jpeg"):
            bench.prove("a.png", format="png")

    def test_a_file_no_image_is_needed_of_is_not_looked_at(self, bench: Bench) -> None:
        (bench.shown / "a.bin").write_bytes(b"anything")

        assert bench.prove("a.bin", is_image=False) == {}


class TestDamage:
    @pytest.mark.parametrize("name", ["a.png", "a.exr", "a.jpg", "a.tif", "a.webp"])
    @pytest.mark.parametrize("left", [0.0, 0.02, 0.5, 0.9, -1, -8])
    def test_a_truncated_file_is_bad(self, bench: Bench, name: str, left: float) -> None:
        write(bench.shown / name, ramp(640, 360))
        data = (bench.shown / name).read_bytes()
        cut = len(data) + int(left) if left < 0 else int(len(data) * left)
        if name == "a.webp" and left == -1:
            pytest.skip("a WebP chunk may end with a byte of padding")
        (bench.shown / name).write_bytes(data[:cut])

        with pytest.raises(BadOutput):
            bench.prove(name)

    def test_a_damaged_png_is_bad(self, bench: Bench) -> None:
        write(bench.shown / "a.png", ramp(640, 360))
        data = bytearray((bench.shown / "a.png").read_bytes())
        data[len(data) // 2] ^= 0xFF
        (bench.shown / "a.png").write_bytes(data)

        with pytest.raises(BadOutput):
            bench.prove("a.png")

    def test_noise_is_refused_and_survived(self, bench: Bench) -> None:
        noise = random.Random(7)
        for number in range(200):
            head = noise.choice([b"", b"\x89PNG\r\n\x1a\n", b"\x76\x2f\x31\x01\x02\0\0\0", b"II*\0", b"\xff\xd8\xff"])
            (bench.shown / f"{number}.png").write_bytes(head + noise.randbytes(noise.randrange(300)))
            with pytest.raises(BadOutput):
                bench.prove(f"{number}.png")

    def test_a_header_that_promises_too_much_is_refused_at_once(self, bench: Bench) -> None:
        write(bench.shown / "a.png", ramp())
        data = bytearray((bench.shown / "a.png").read_bytes())
        data[16:24] = struct.pack(">II", 100_000, 100_000)
        data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
        (bench.shown / "a.png").write_bytes(data)

        with pytest.raises(BadOutput):
            bench.prove("a.png")


class TestStatistics:
    def test_mean_least_and_most_per_channel(self, bench: Bench) -> None:
        write(bench.shown / "a.png", ramp())

        found = bench.prove("a.png")["statistics"]

        assert found["channels"] == ["R", "G", "B"]
        assert found["mean"] == pytest.approx([0.5, 0.5, 0.25], abs=0.01)
        assert (found["min"][0], found["max"][0]) == (0, 1)
        assert not found["uniform"]

    def test_not_a_number_and_infinite_are_counted_and_left_out(self, bench: Bench) -> None:
        pixels = ramp()
        pixels[0, 0, 0], pixels[0, 1, 0], pixels[0, 2, 1] = np.nan, np.inf, -np.inf
        write(bench.shown / "a.exr", pixels, "float")

        found = bench.prove("a.exr")["statistics"]

        assert (found["nan"], found["inf"]) == (1, 2)
        assert found["max"][0] == pytest.approx(1)

    def test_an_image_of_nothing_but_nan_has_no_mean(self, bench: Bench) -> None:
        write(bench.shown / "a.exr", np.full((4, 4, 3), np.nan), "float")

        assert bench.prove("a.exr")["statistics"]["mean"] == [None, None, None]

    def test_a_black_frame_is_uniform(self, bench: Bench) -> None:
        write(bench.shown / "a.png", np.zeros((9, 16, 3)))

        assert bench.prove("a.png")["statistics"]["uniform"]

    def test_alpha_says_how_much_is_covered(self, bench: Bench) -> None:
        pixels = ramp(channels=4)
        pixels[:18, :, :] = 0
        write(bench.shown / "a.png", pixels)

        assert bench.prove("a.png")["statistics"]["alpha"] == {"mean": 0.5, "covered": 0.5}


class TestPreviews:
    def test_a_large_frame_is_fitted_a_small_one_kept(self, bench: Bench) -> None:
        write(bench.shown / "big.png", ramp(4000, 500))
        write(bench.shown / "small.png", ramp())

        big, small = bench.prove("big.png"), bench.prove("small.png")

        assert [(m["role"], m["width"], m["height"]) for m in big["made"]] == [
            ("proxy", 1920, 240),
            ("thumbnail", 320, 40),
        ]
        assert [(m["width"], m["height"]) for m in small["made"]] == [(64, 36), (64, 36)]
        assert bench.preview("big.png").shape == (240, 1920, 3)

    def test_a_reduced_frame_keeps_its_colours_everywhere(self, bench: Bench) -> None:
        pixels = ramp(4001, 2003)
        write(bench.shown / "a.png", pixels)
        bench.prove("a.png")

        shown = bench.preview("a.png")

        assert shown[500, 2, 0] < 5
        assert shown[500, -3, 0] > 250
        assert shown[3, 900, 1] < 5
        assert shown[-3, 900, 1] > 250
        assert abs(int(shown[400, 960, 0]) - 128) < 4

    @pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 6500), (6500, 1), (3, 1921)])
    def test_odd_sizes_have_previews_too(self, bench: Bench, width: int, height: int) -> None:
        write(bench.shown / "a.png", ramp(width, height))

        for made in bench.prove("a.png")["made"]:
            assert min(made["width"], made["height"]) >= 1

    def test_sixteen_bits_are_scaled_not_clipped(self, bench: Bench) -> None:
        write(bench.shown / "a.png", ramp(256, 32), "uint16")
        bench.prove("a.png")

        shown = bench.preview("a.png")[16, :, 0]

        assert abs(int(shown[128]) - 128) < 6
        assert len(np.unique(shown)) > 100

    def test_grey_is_shown_grey(self, bench: Bench) -> None:
        write(bench.shown / "a.png", np.full((8, 8, 1), 0.5), "uint16")

        assert bench.prove("a.png")["statistics"]["channels"] == ["Y"]
        assert abs(int(bench.preview("a.png")[4, 4, 0]) - 128) < 4

    def test_hidden_colour_stays_hidden(self, bench: Bench) -> None:
        image = Image.new("RGBA", (32, 32), (255, 0, 0, 0))
        image.save(bench.shown / "a.png")
        bench.prove("a.png")

        assert np.abs(bench.preview("a.png").astype(int) - 128).max() < 6

    def test_linear_light_is_shown_in_display_colours(self, bench: Bench) -> None:
        write(bench.shown / "a.exr", np.full((8, 8, 3), 0.18), "half")
        bench.prove("a.exr")

        assert abs(int(bench.preview("a.exr")[4, 4, 0]) - 118) < 4

    def test_a_crop_is_shown_where_it_lies(self, bench: Bench) -> None:
        write(bench.shown / "a.exr", np.full((10, 10, 3), 1.0), "half", window=(0, 0, 40, 20))

        facts = bench.prove("a.exr", width=40, height=20)

        shown = bench.preview("a.exr")
        assert shown.shape == (20, 40, 3)
        assert shown[5, 5, 0] > 200
        assert shown[15, 35, 0] < 10
        assert facts["width"] == 40

    def test_tiles_are_read_as_well(self, bench: Bench) -> None:
        write(bench.shown / "a.exr", ramp(200, 100), "half", tile=64)

        assert bench.prove("a.exr")["made"]


class TestLayers:
    def test_the_combined_layer_is_shown(self, bench: Bench) -> None:
        names = (
            "L.Combined.R",
            "L.Combined.G",
            "L.Combined.B",
            "L.Combined.A",
            "L.Depth.Z",
            "L.AO.R",
            "L.AO.G",
            "L.AO.B",
        )
        pixels = np.zeros((8, 8, 8), dtype=np.float32)
        pixels[:, :, :4] = 1
        write(bench.shown / "a.exr", pixels, "half", names=names)

        facts = bench.prove("a.exr")

        assert facts["channels"] == 8
        assert facts["statistics"]["mean"] == [1, 1, 1]
        assert bench.preview("a.exr")[4, 4, 0] > 200

    def test_a_frame_without_colours_is_valid_and_has_no_preview(self, bench: Bench) -> None:
        write(bench.shown / "a.exr", np.ones((8, 8, 1)), "float", names=("Z",))

        facts = bench.prove("a.exr", format="openexr")

        assert facts["made"] == []
        assert facts["statistics"] is None

    def test_a_part_without_colours_is_decoded_all_the_same(self, bench: Bench) -> None:
        write(bench.shown / "a.exr", np.ones((200, 200, 1)) * np.arange(200)[:, None, None], "float", names=("Z",))
        data = (bench.shown / "a.exr").read_bytes()
        (bench.shown / "a.exr").write_bytes(data[: len(data) // 2])

        with pytest.raises(BadOutput):
            bench.prove("a.exr")


class TestReport:
    def test_json_is_a_report_and_nothing_else_is(self, bench: Bench) -> None:
        (bench.shown / "report.json").write_text('{"frames": [1, 2]}', encoding="utf-8")
        (bench.shown / "bad.json").write_text("{", encoding="utf-8")

        assert bench.prove("report.json", role="report") == {"format": "json"}
        with pytest.raises(BadOutput, match="not JSON"):
            bench.prove("bad.json", role="report")


class TestToDisplay:
    def test_it_is_the_srgb_curve_below_the_knee_and_rolls_off_above(self) -> None:
        shown = to_display(np.array([0, 0.18, 0.5, 1.0, 4.0, 1000.0], dtype=np.float32))

        assert shown[1] == pytest.approx(0.461, abs=0.002)
        assert shown[2] == pytest.approx(0.735, abs=0.002)
        assert np.all(np.diff(shown) > 0)
        assert shown[-1] <= 1

    def test_negative_light_is_black(self) -> None:
        assert to_display(np.array([-3.0], dtype=np.float32))[0] == 0

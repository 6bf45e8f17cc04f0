"""
The prover: decodes rendered files in a sandbox that never ran the scene, measures them and makes their previews.

`prove.py IN MADE` runs inside the sandbox and speaks JSON lines. Asked `{"name", "role", "format", "width", "height",
"bit_depth", "is_image", "preview"}` it looks at IN/<name>, first says `{"megapixels": …}` once the header is read, then
either `{"proof": {…}}` or `{"cause": …, "sentence": …}`. Previews are written to MADE.

View transform of previews: integer files are taken as display colours (16 bits are scaled to 8). Float files are
linear: colours up to 0.7 are kept, brighter ones roll off smoothly to white, then the sRGB curve. Alpha is laid over
neutral grey.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import OpenImageIO as oiio  # noqa: N813  everybody's name for it
from PIL import Image

from workers.protocol import Cause

FORMATS = {"png", "openexr", "jpeg", "tiff", "webp", "hdr", "bmp", "targa", "dpx", "cineon", "jpeg2000", "sgi"}
MEGAPIXEL_LIMIT = 1200
BAND_BYTES = 32 * 1024**2
REPORT_LIMIT = 64 * 1024**2
PROXY_SIDE = 1920
THUMBNAIL_SIDE = 320
PILLOW_MODES = (1, 3, 4)  # numbers of channels that Pillow takes as they are
NICENESS = 10
KNEE = 0.7
GREY_DISPLAY = 0.5
GREY_LINEAR = 0.214

Floats = npt.NDArray[np.float32]
Pixels = npt.NDArray[Any]


class BadOutput(Exception):
    """The file is not what was ordered; the text says how."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One image inside a file: which subimage, and which of its channels are red, green, blue and perhaps alpha."""

    subimage: int
    spec: Any
    colours: tuple[int, ...]  # (r, g, b) or (y,); () if there is nothing to look at
    alpha: int | None

    @property
    def chosen(self) -> tuple[int, ...]:
        return self.colours + (() if self.alpha is None else (self.alpha,))

    @property
    def is_float(self) -> bool:
        return self.depth_type in ("half", "float", "double")

    @property
    def depth_type(self) -> str:
        formats = list(self.spec.channelformats)
        kinds = [str(formats[c]) for c in self.colours] if formats and self.colours else [str(self.spec.format)]
        return kinds[0]

    @property
    def bit_depth(self) -> int:
        return {"uint8": 8, "int8": 8, "uint16": 16, "int16": 16, "half": 16, "float": 32, "uint32": 32}.get(
            self.depth_type, 64
        )


def prove(order: dict[str, Any], shown: Path, made: Path) -> dict[str, Any]:
    """
    Look at one file below `shown`; its previews are written to `made`.

    :raises BadOutput: it does not decode, or is not as ordered
    """
    file = shown / order["name"]
    if order["role"] == "report":
        return _prove_report(file)
    if not order["is_image"]:
        return {}
    return _prove_image(file, order, made)


def _prove_report(file: Path) -> dict[str, Any]:
    if file.stat().st_size > REPORT_LIMIT:
        raise BadOutput("the report is larger than 64 MiB")
    try:
        json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BadOutput(f"the report is not JSON: {error}") from error
    return {"format": "json"}


def _prove_image(file: Path, order: dict[str, Any], made: Path) -> dict[str, Any]:
    source = oiio.ImageInput.open(str(file))
    if source is None:
        raise BadOutput(f"it is no image that can be read ({oiio.geterror() or 'no known format'})")
    try:
        parts = _parts(source)
        main = next((part for part in parts if part.colours), parts[0])
        facts = _facts(source, main)
        _compare(facts, order)
        _check_end(file, facts["format"])
        measure = Measure(main)
        canvas = Canvas(main) if main.colours and order["preview"] else None
        for part in parts:
            for band, y in _bands(source, part):
                if part is main and part.colours:
                    measure.add(band)
                    if canvas is not None:
                        canvas.add(band, y)
        previews = canvas.write(made, order["preview"]) if canvas is not None else []
    finally:
        source.close()
    return {**facts, "statistics": measure.result(), "made": previews}


def _parts(source: Any) -> list[Part]:
    parts, number = [], 0
    while source.seek_subimage(number, 0):
        parts.append(_choose(number, source.spec()))
        number += 1
    total = sum(p.spec.width * p.spec.height for p in parts) / 1e6
    _say({"megapixels": total})
    if total > MEGAPIXEL_LIMIT:
        raise BadOutput(f"it has {total:.0f} megapixels; {MEGAPIXEL_LIMIT} is the limit")
    return parts


def _choose(number: int, spec: Any) -> Part:
    """Pick the channels to look at: plain RGB, else the combined layer's, else the first layer's that has all three."""
    names = list(spec.channelnames)
    layers = {name.rpartition(".")[0] for name in names}
    for layer in sorted(layers, key=lambda layer: (layer != "", not layer.endswith("Combined"), layer)):
        found = {name.rpartition(".")[2].upper(): i for i, name in enumerate(names) if name.rpartition(".")[0] == layer}
        if {"R", "G", "B"} <= found.keys():
            return Part(number, spec, (found["R"], found["G"], found["B"]), found.get("A"))
        if "Y" in found:
            return Part(number, spec, (found["Y"],), found.get("A"))
    return Part(number, spec, (), None)


def _facts(source: Any, part: Part) -> dict[str, Any]:
    return {
        "format": source.format_name(),
        "width": part.spec.full_width or part.spec.width,
        "height": part.spec.full_height or part.spec.height,
        "channels": part.spec.nchannels,
        "bit_depth": part.bit_depth,
    }


def _compare(facts: dict[str, Any], order: dict[str, Any]) -> None:
    if facts["format"] not in FORMATS:
        raise BadOutput(f"it is a {facts['format']} file, which the farm does not take")
    for name in ("format", "width", "height", "bit_depth"):
        if order[name] is not None and order[name] != facts[name]:
            raise BadOutput(f"its {name.replace('_', ' ')} is {facts[name]}, ordered was {order[name]}")


def _check_end(file: Path, kind: str) -> None:
    """Refuse files that lack their end, which decoders forgive."""
    if kind == "png" and b"IEND\xaeB`\x82" not in _tail(file, 64):
        raise BadOutput("it is truncated: a PNG file ends with IEND")
    if kind == "jpeg":
        try:
            with Image.open(file, formats=["JPEG", "MPO"]) as image:
                image.load()
        except (OSError, SyntaxError) as error:
            raise BadOutput(f"it does not decode: {error}") from error


def _tail(file: Path, length: int) -> bytes:
    with file.open("rb") as content:
        content.seek(max(0, file.stat().st_size - length))
        return content.read()


def _bands(source: Any, part: Part) -> Iterator[tuple[Pixels, int]]:
    """Decode an image in bands of rows, each with the chosen channels only (all, if none is chosen)."""
    spec = part.spec
    if spec.deep:
        if not _has_data(source.read_native_deep_image(part.subimage, 0)):
            raise BadOutput(f"it does not decode: {source.geterror()}")
        return
    first = min(part.chosen, default=0)
    last = max(part.chosen, default=spec.nchannels - 1) + 1
    kind = "float" if part.is_float else str(spec.format)
    rows = max(1, BAND_BYTES // max(1, spec.width * (last - first) * 4))
    step = spec.tile_height * max(1, rows // spec.tile_height) if spec.tile_width else rows
    for y in range(spec.y, spec.y + spec.height, step):
        end = min(y + step, spec.y + spec.height)
        pixels = _read_rows(source, part, y, end, first, last, kind)
        if pixels is None:
            raise BadOutput(f"it does not decode: {source.geterror() or 'no pixels'}")
        wanted = [c - first for c in part.chosen] or list(range(last - first))
        band = pixels.reshape(end - y, spec.width, last - first)
        yield (band if wanted == list(range(last - first)) else band[:, :, wanted]), y


def _read_rows(source: Any, part: Part, y: int, end: int, first: int, last: int, kind: str) -> Pixels | None:
    spec = part.spec
    if spec.tile_width:
        x = (spec.x, spec.x + spec.width)
        pixels = source.read_tiles(part.subimage, 0, x[0], x[1], y, end, spec.z, spec.z + 1, first, last, kind)
    else:
        pixels = source.read_scanlines(part.subimage, 0, y, end, spec.z, first, last, kind)
    return None if pixels is None else np.asarray(pixels)


def _has_data(deep: Any) -> bool:
    return deep is not None and deep.initialized


class Measure:
    """Statistics of a picture, band by band; values are 0..1 for integer files, as they stand for float files."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._scale = 1.0 if part.is_float else 1.0 / (2.0**part.bit_depth - 1)
        count = len(part.chosen)
        self._sum = np.zeros(count)
        self._counted = np.zeros(count)
        self._min = np.full(count, np.inf)
        self._max = np.full(count, -np.inf)
        self._nan = self._inf = self._covered = self._pixels = 0

    def add(self, band: Pixels) -> None:
        flat = band.reshape(-1, band.shape[2])
        self._pixels += len(flat)
        if band.dtype == np.uint8 and band.shape[2] in PILLOW_MODES:
            self._add_counts(np.array(_pillow(band).histogram()).reshape(-1, 256))
            return
        for c in range(flat.shape[1]):
            self._add_channel(c, np.ascontiguousarray(flat[:, c]))

    def _add_counts(self, counts: npt.NDArray[Any]) -> None:
        """Add channels of 8 bits by how often each value occurs, which is counted in a third of the time."""
        values = np.arange(256)
        for c, count in enumerate(counts):
            found = np.flatnonzero(count)
            self._sum[c] += int(count @ values)
            self._counted[c] += int(count.sum())
            self._min[c] = min(self._min[c], float(found[0]))
            self._max[c] = max(self._max[c], float(found[-1]))
        if self._part.alpha is not None:
            self._covered += int(counts[-1][1:].sum())

    def _add_channel(self, c: int, values: Pixels) -> None:
        if self._part.is_float:
            finite = np.isfinite(values)
            if not finite.all():
                nan = int(np.isnan(values).sum())
                self._nan += nan
                self._inf += int(len(values) - finite.sum()) - nan
                values = values[finite]
        if len(values):
            self._sum[c] += values.sum(dtype=np.float64)
            self._counted[c] += len(values)
            self._min[c] = min(self._min[c], float(values.min()))
            self._max[c] = max(self._max[c], float(values.max()))
        if self._part.alpha is not None and c == len(self._part.colours):
            self._covered += int(np.count_nonzero(values))

    def result(self) -> dict[str, Any] | None:
        if not self._part.colours or not self._pixels:
            return None
        colours = len(self._part.colours)
        mean = [_number(s / n * self._scale) if n else None for s, n in zip(self._sum, self._counted, strict=True)]
        low = [_number(v * self._scale) if np.isfinite(v) else None for v in self._min]
        high = [_number(v * self._scale) if np.isfinite(v) else None for v in self._max]
        names = ["R", "G", "B"] if colours == 3 else ["Y"]
        alpha = None
        if self._part.alpha is not None:
            alpha = {"mean": mean[-1], "covered": _number(self._covered / self._pixels)}
        return {
            "channels": names,
            "mean": mean[:colours],
            "min": low[:colours],
            "max": high[:colours],
            "nan": self._nan,
            "inf": self._inf,
            "alpha": alpha,
            "uniform": low[:colours] == high[:colours],
        }


def _number(value: float) -> float:
    return round(float(value), 6)


class Canvas:
    """A picture in display colours, gathered band by band at about twice the proxy's size, then written as JPEG."""

    def __init__(self, part: Part) -> None:
        spec = part.spec
        self._part = part
        self._width = spec.full_width or spec.width
        self._height = spec.full_height or spec.height
        self._factor = max(1, max(self._width, self._height) // PROXY_SIDE)
        size = (-(-self._height // self._factor), -(-self._width // self._factor), len(part.chosen))
        # Eight bits neither scaled down nor laid over grey are shown as they are: most frames, at half the cost.
        self._is_plain = self._factor == 1 and part.depth_type == "uint8" and len(part.chosen) in PILLOW_MODES
        self._sum: Pixels = np.zeros(size, dtype=np.uint8 if self._is_plain else np.float32)
        self._count = np.zeros(size[:2], dtype=np.float32) if self._factor > 1 else None

    def add(self, band: Pixels, y: int) -> None:
        """Add rows; what lies outside the display window is cut off, what is missing in it stays empty."""
        spec = self._part.spec
        top, left = y - spec.full_y, spec.x - spec.full_x
        rows = slice(max(0, -top), min(band.shape[0], self._height - top))
        columns = slice(max(0, -left), min(band.shape[1], self._width - left))
        if rows.start >= rows.stop or columns.start >= columns.stop:
            return
        piece = band[rows, columns] if self._is_plain else self._as_floats(band[rows, columns])
        self._paste(piece, top + rows.start, left + columns.start)

    def _as_floats(self, piece: Pixels) -> Floats:
        floats = piece.astype(np.float32)
        if not self._part.is_float:
            floats /= 2.0**self._part.bit_depth - 1
        else:
            np.nan_to_num(floats, copy=False, nan=0.0, posinf=1e4, neginf=0.0)
        return floats

    def _paste(self, piece: Pixels, top: int, left: int) -> None:
        height, width = piece.shape[:2]
        if self._count is None:
            self._sum[top : top + height, left : left + width] = piece
            return
        factor = self._factor
        across = _starts(left, width, factor)
        down = _starts(top, height, factor)
        summed = np.add.reduceat(np.add.reduceat(piece, down, axis=0), across, axis=1)
        y, x = top // factor, left // factor
        place = (slice(y, y + len(down)), slice(x, x + len(across)))
        self._sum[place] += summed
        self._count[place] += np.outer(np.diff([*down, height]), np.diff([*across, width]))

    def write(self, folder: Path, name: str) -> list[dict[str, Any]]:
        """Write proxy and thumbnail, named after the picture they show."""
        picture = _pillow(self._sum).convert("RGB") if self._is_shown_as_it_is() else Image.fromarray(self._display())
        proxy = _fitted(picture, self._width, self._height, PROXY_SIDE)
        thumbnail = _fitted(proxy, self._width, self._height, THUMBNAIL_SIDE)
        return [
            _save(proxy, folder, f"{name}.proxy.jpg", role="proxy", quality=90),
            _save(thumbnail, folder, f"{name}.thumbnail.jpg", role="thumbnail", quality=82),
        ]

    def _is_shown_as_it_is(self) -> bool:
        return self._is_plain and (self._part.alpha is None or int(self._sum[:, :, -1].min()) == 255)

    def _display(self) -> npt.NDArray[np.uint8]:
        summed = self._as_floats(self._sum) if self._is_plain else self._sum
        pixels = summed if self._count is None else summed / np.maximum(self._count, 1)[:, :, None]
        colours = pixels[:, :, : len(self._part.colours)]
        if self._part.alpha is not None:
            grey = GREY_LINEAR if self._part.is_float else GREY_DISPLAY
            colours = colours + (1 - np.clip(pixels[:, :, -1:], 0, 1)) * grey
        if self._part.is_float:
            colours = to_display(np.asarray(colours, dtype=np.float32))
        shown = (np.clip(colours, 0, 1) * 255 + 0.5).astype(np.uint8)
        return np.repeat(shown, 3, axis=2) if shown.shape[2] == 1 else np.ascontiguousarray(shown)


def to_display(linear: Floats) -> Floats:
    """Show linear light on a screen: exact up to KNEE, smoothly to white above it, then the sRGB curve."""
    light = np.maximum(linear, 0)
    above = np.maximum(light - KNEE, 0)
    rolled = np.where(light > KNEE, KNEE + (1 - KNEE) * (1 - np.exp(-above / (1 - KNEE))), light)
    curved = np.where(rolled <= 0.0031308, rolled * 12.92, 1.055 * np.power(np.maximum(rolled, 1e-9), 1 / 2.4) - 0.055)
    shown: Floats = curved.astype(np.float32)
    return shown


def _pillow(pixels: Pixels) -> Image.Image:
    """Take 8-bit pixels of 1, 3 or 4 channels over."""
    flat = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
    return Image.fromarray(np.ascontiguousarray(flat))


def _starts(offset: int, length: int, factor: int) -> list[int]:
    """Give where in a run of pixels that begins at `offset` each cell of `factor` pixels begins."""
    return [0, *range(factor - offset % factor, length, factor)]


def _fitted(picture: Image.Image, width: int, height: int, side: int) -> Image.Image:
    scale = min(1.0, side / max(width, height))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return picture if picture.size == size else picture.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def _save(picture: Image.Image, folder: Path, name: str, *, role: str, quality: int) -> dict[str, Any]:
    picture.save(folder / name, "JPEG", quality=quality, subsampling=0)
    return {"name": name, "role": role, "format": "jpeg", "width": picture.width, "height": picture.height}


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _step_back() -> None:
    """
    Let whatever renders on this machine go first: proving fits into the times in which a renderer leaves a core idle,
    while it prepares a frame or writes one.
    """
    with contextlib.suppress(OSError):
        os.nice(max(0, NICENESS - os.nice(0)))
        # Where the kernel shares the processors out between sessions first, a process's niceness counts only within
        # its own; this one is the sandbox's.
        Path("/proc/self/autogroup").write_text(str(NICENESS))


def main() -> None:
    _step_back()
    shown, made = Path(sys.argv[1]), Path(sys.argv[2])
    oiio.attribute("threads", 2)
    Image.MAX_IMAGE_PIXELS = MEGAPIXEL_LIMIT * 1_000_000
    for line in sys.stdin:
        try:
            _say({"proof": prove(json.loads(line), shown, made)})
        except BadOutput as error:
            _say({"cause": Cause.BAD_OUTPUT, "sentence": str(error)})
        except OSError as error:
            _say({"cause": Cause.DISK_FULL if error.errno == 28 else Cause.AGENT_ERROR, "sentence": str(error)})
        except Exception as error:
            _say({"cause": Cause.BAD_OUTPUT, "sentence": f"it cannot be examined ({type(error).__name__}: {error})"})


if __name__ == "__main__":
    main()

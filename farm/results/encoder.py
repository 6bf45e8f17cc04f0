"""
The encoder: makes and joins the segments of a movie. Runs by itself in a sandbox, and imports nothing of the farm.

    encoder.py IN OUT TOLD

IN is a folder with `order.json` and the files it names, OUT the file to write. To the file TOLD goes one JSON object a
line: `{"opening": file}` before each picture is opened, so that whoever watches knows which one was fatal, and last
what came of it: `{"frames": n}` as counted in what was written, `{"unreadable": {file: why}}` (OUT is of no use
then), or `{"error": why}`.

Colours: pictures are display RGB; the movie is 8-bit YUV 4:2:0 in BT.709, limited range, and says so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO

import av
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc, Interpolation
from PIL import Image, ImageDraw, ImageFont

KEY_EVERY = 12  # frames from one entry point to the next: a player finds any frame by decoding at most this many
QUALITY = 20  # x264's constant rate factor
MOST_BYTES = 11 * 1024**2  # of a whole segment, about; what a very noisy scene is held to
SPARE_BYTES = 3 * 1024**2
THREADS = 2
LARGEST_SIDE = 4096
AMBER = (255, 176, 0)
SLATE = (64, 64, 64)
# Whoever changes what is to be seen raises `timeline.ENCODING`.
EXACT = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT

Size = tuple[int, int]


class Unreadable(Exception):
    """A picture cannot be opened; the text says why."""


class Wrong(Exception):
    """What was written, or was to be joined, is not as it must be; the text says how."""


class Encoder:
    """One run: an order, the folder of its inputs, the file to write, and where to tell what happens."""

    def __init__(self, folder: Path, out: Path, told: TextIO) -> None:
        self._folder = folder
        self._out = out
        self._told = told
        self._order: dict[str, Any] = json.loads((folder / "order.json").read_text())
        self._rate = Fraction(*self._order["rate"])

    def run(self) -> None:
        try:
            self._tell(self._join() if self._order["act"] == "join" else self._encode())
        except Wrong as error:
            self._tell({"error": str(error)})
        except (OSError, av.FFmpegError) as error:
            self._tell({"error": f"{type(error).__name__}: {error}"})

    def _tell(self, what: dict[str, Any]) -> None:
        self._told.write(json.dumps(what) + "\n")
        self._told.flush()

    # --- a segment

    def _encode(self) -> dict[str, Any]:
        stills, size = self._order["stills"], (self._order["width"], self._order["height"])
        try:
            with av.open(str(self._out), "w", format="mp4", options={"movflags": "+faststart"}) as target:
                options = _options(self._rate, self._order["segment_frames"])
                stream = target.add_stream("libx264", rate=self._rate, options=options)
                _describe(stream, _even(size), self._rate)
                for number, picture in enumerate(self._pictures(stills, size)):
                    target.mux(stream.encode(_frame(picture, number, self._rate)))
                target.mux(stream.encode())
        except Unreadable:
            return {"unreadable": self._unreadable(stills)}
        return {"frames": self._count(len(stills), decode=True)}

    def _unreadable(self, stills: list[dict[str, Any]]) -> dict[str, str]:
        """Open every picture, to name all at once that cannot be."""
        found = {}
        for file in dict.fromkeys(still["file"] for still in stills if still["file"]):
            try:
                self._open(file)
            except Unreadable as error:
                found[file] = str(error)
        return found

    def _open(self, file: str) -> Image.Image:
        self._tell({"opening": file})
        try:
            with Image.open(self._folder / file, formats=["JPEG"]) as picture:
                if max(picture.size) > LARGEST_SIDE:
                    raise Unreadable(f"it is {picture.width} × {picture.height}, larger than any proxy")
                opened = picture.convert("RGB")
        except Unreadable:
            raise
        except MemoryError:
            raise Unreadable("it needs too much memory") from None
        except Exception as error:  # decoders of strangers' files raise whatever they like
            raise Unreadable(f"it does not decode ({type(error).__name__}: {error})"[:300]) from None
        self._tell({"opening": None})
        return opened

    def _pictures(self, stills: list[dict[str, Any]], size: Size) -> Iterator[Image.Image]:
        file, shown = None, Image.new("RGB", size, SLATE)
        for still in stills:
            if still["file"] and still["file"] != file:
                file = still["file"]
                shown = _fitted(self._open(file), size, still["shown"])
            yield _padded(_marked(shown, still) if still["mark"] else shown)

    # --- a movie

    def _join(self) -> dict[str, Any]:
        parts = self._order["parts"]
        with av.open(str(self._out), "w", format="mp4", options={"movflags": "+faststart"}) as target:
            stream: Any = None
            head, number = None, 0
            for part in parts:
                with av.open(str(self._folder / part["file"])) as source:
                    video = source.streams.video[0]
                    if stream is None:
                        stream = target.add_stream_from_template(video)
                        stream.time_base = 1 / self._rate
                        head = video.codec_context.extradata
                    if video.codec_context.extradata != head:
                        raise Wrong(f"{part['file']} was encoded with other settings than the first part")
                    number = _copy(source, target, stream, part, number, self._rate)
        return {"frames": self._count(number, decode=False)}

    # --- what came of it

    def _count(self, expected: int, *, decode: bool) -> int:
        """Count the frames of what was written, each at its exact time; whoever wrote it may err."""
        with av.open(str(self._out)) as written:
            video = written.streams.video[0]
            found: Any = written.decode(video) if decode else (p for p in written.demux(video) if p.size)
            count = 0
            for count, item in enumerate(found, 1):
                at = None if item.pts is None else item.pts * item.time_base * self._rate
                if at != count - 1:
                    raise Wrong(f"frame {count} of the file is at place {at}")
        if count != expected:
            raise Wrong(f"the file has {count} frames, not {expected}")
        return count


def _options(rate: Fraction, segment_frames: int) -> dict[str, str]:
    """Set the encoder so that every segment of a movie has one form, begins with an entry point and needs no other."""
    seconds = segment_frames / rate  # of a full one, also for the last, shorter one
    x264 = {
        "keyint": KEY_EVERY,
        "min-keyint": KEY_EVERY,
        "scenecut": 0,
        "open-gop": 0,
        "bframes": 0,
        "vbv-maxrate": max(1, int(MOST_BYTES * 8 / 1000 / seconds)),
        "vbv-bufsize": SPARE_BYTES * 8 // 1000,
    }
    text = ":".join(f"{name}={value}" for name, value in x264.items())
    return {"preset": "veryfast", "crf": str(QUALITY), "profile": "high", "x264-params": text}


def _describe(stream: Any, size: Size, rate: Fraction) -> None:
    stream.width, stream.height = size
    stream.pix_fmt = "yuv420p"
    context = stream.codec_context
    context.time_base = 1 / rate
    context.thread_count = THREADS
    context.color_primaries = ColorPrimaries.BT709
    context.color_trc = ColorTrc.BT709
    context.colorspace = Colorspace.ITU709
    context.color_range = ColorRange.MPEG


def _frame(picture: Image.Image, number: int, rate: Fraction) -> Any:
    taken: Any = av.VideoFrame
    frame = taken.from_image(picture).reformat(
        format="yuv420p",
        src_color_range=ColorRange.JPEG,
        dst_color_range=ColorRange.MPEG,
        dst_colorspace=Colorspace.ITU709,
        interpolation=EXACT,
    )
    frame.color_primaries, frame.color_trc = ColorPrimaries.BT709, ColorTrc.BT709
    frame.pts, frame.time_base = number, 1 / rate
    return frame


def _copy(source: Any, target: Any, stream: Any, part: dict[str, Any], number: int, rate: Fraction) -> int:
    """Copy a part's packets, each to its place; give the next place."""
    count = 0
    for count, packet in enumerate((p for p in source.demux(video=0) if p.size), 1):
        if count == 1 and not packet.is_keyframe:
            raise Wrong(f"{part['file']} does not begin with an entry point")
        packet.stream = stream
        packet.pts = packet.dts = number
        packet.duration = 1
        packet.time_base = 1 / rate
        target.mux(packet)
        number += 1
    if count != part["frames"]:
        raise Wrong(f"{part['file']} has {count} frames, not {part['frames']}")
    return number


# --- drawing


def _even(size: Size) -> Size:
    return size[0] + size[0] % 2, size[1] + size[1] % 2


def _padded(picture: Image.Image) -> Image.Image:
    """Make both sides even by repeating the last column and row; nothing is scaled."""
    wide, high = _even(picture.size)
    if (wide, high) == picture.size:
        return picture
    canvas = Image.new("RGB", (wide, high))
    canvas.paste(picture, (wide - picture.width, high - picture.height))
    canvas.paste(picture, (0, high - picture.height))
    canvas.paste(picture, (wide - picture.width, 0))
    canvas.paste(picture, (0, 0))
    return canvas


def _fitted(picture: Image.Image, size: Size, frame: int) -> Image.Image:
    """Give a picture the movie's size; one of another size is fitted between bars and says so."""
    if picture.size == size:
        return picture
    scale = min(size[0] / picture.width, size[1] / picture.height)
    inner = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    canvas = Image.new("RGB", size)
    place = ((size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2)
    canvas.paste(picture.resize(inner, Image.Resampling.LANCZOS), place)
    text = f"FRAME {frame} IS {picture.width} x {picture.height}, NOT {size[0]} x {size[1]}"
    _label(canvas, text, top=False)
    return canvas


def _marked(picture: Image.Image, still: dict[str, Any]) -> Image.Image:
    """Mark a picture that is not the frame's own."""
    canvas = picture.copy()
    text = f"FRAME {still['frame']} {still['mark'].upper()}"
    if still["shown"] is not None:
        text += f", HOLDING {still['shown']}"
    wide, high = canvas.size
    thick = max(2, min(wide, high) // 90)
    ImageDraw.Draw(canvas).rectangle((0, 0, wide - 1, high - 1), outline=AMBER, width=thick)
    _label(canvas, text, top=True)
    return canvas


def _label(canvas: Image.Image, text: str, *, top: bool) -> None:
    """Write a line in a black box at the top or bottom left, as large as fits."""
    draw = ImageDraw.Draw(canvas)
    wide, high = canvas.size
    size = max(12, high // 18)
    font = ImageFont.load_default(size)
    while size > 8 and draw.textlength(text, font) > wide * 0.9:
        size -= 1
        font = ImageFont.load_default(size)
    gap = size // 2
    y = gap * 2 if top else high - size - gap * 3
    box = draw.textbbox((gap * 2, y), text, font)
    draw.rectangle((box[0] - gap, box[1] - gap, box[2] + gap, box[3] + gap), fill=(0, 0, 0))
    draw.text((gap * 2, y), text, AMBER, font)


def main() -> None:
    folder, out, told = (Path(argument) for argument in sys.argv[1:])
    with told.open("a") as lines:
        Encoder(folder, out, lines).run()


if __name__ == "__main__":
    main()

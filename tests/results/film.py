"""A job whose frames tests render as they like, through the worker's protocol, and its movie taken apart."""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.video.reformatter import ColorRange, Colorspace, Interpolation
from PIL import Image

from farm.core import keys
from farm.core.storage import store
from farm.dispatch.models import Attempt
from farm.jobs.models import Job, Task
from farm.jobs.services import Selection, retry_tasks
from farm.results import services
from farm.results.models import Movie, MovieSegment
from farm.results.selectors import Wanted
from farm.scenes.models import Scene, SceneVersion
from tests.farm import TEMPLATE, FakeWorker, dispatch, open_customer, start_worker, submit, success
from workers.protocol import OutputReport, OutputRole

SIZE = (96, 64)
AMBER = (255, 176, 0)
SLATE = 64


def grey_of(frame: int) -> int:
    """The grey by which tests know a frame again."""
    return 20 + 2 * (frame % 110)


def picture(frame: int, size: tuple[int, int] = SIZE) -> Image.Image:
    return Image.new("RGB", size, (grey_of(frame),) * 3)


def jpeg(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=95, subsampling=0)
    return out.getvalue()


class Film:
    """A job, and a worker that holds all its tasks and ends those it is told to."""

    def __init__(self, frames: str, *, now: datetime, template: str = TEMPLATE, slots: int = 110) -> None:
        self.now = now
        self.customer = open_customer()
        self.job: Job = submit(self.customer, frames=frames, now=now, template=template)
        self.worker: FakeWorker = start_worker(now=now, slots=slots)

    @property
    def movie(self) -> Movie:
        return Movie.objects.get(job=self.job)

    @property
    def segments(self) -> list[MovieSegment]:
        return list(MovieSegment.objects.filter(movie__job=self.job).order_by("index"))

    @property
    def encodings(self) -> dict[int, tuple[str, datetime]]:
        """What each segment is, and when it was encoded."""
        return {s.index: (s.digest, s.made_at) for s in self.segments}

    def encoded_since(self, before: dict[int, tuple[str, datetime]]) -> list[int]:
        return [index for index, made in self.encodings.items() if made != before[index]]

    def report(self, report: dict[str, Any]) -> None:
        """Give the job a scene version with this report."""
        scene = Scene.objects.create(studio=self.job.studio, project=self.job.project, name="shot")
        version = SceneVersion.objects.create(
            studio=self.job.studio, scene=scene, number=1, entry="a.blend", file_count=1, byte_count=1, report=report
        )
        Job.objects.filter(pk=self.job.pk).update(scene_version=version)

    def render(self, *frames: int, size: tuple[int, int] = SIZE) -> None:
        self.deliver({frame: jpeg(picture(frame, size)) for frame in frames}, size=size)

    def deliver(self, proxies: Mapping[int, bytes], *, size: tuple[int, int] = SIZE) -> None:
        """Let these frames' tasks succeed with these proxies; the first task of a frame, should several share it."""
        dispatch(now=self.now)
        self.worker.sync(now=self.now)
        held = (
            Attempt.objects.filter(job=self.job, pk__in=self.worker.held)
            .select_related("task")
            .order_by("-task__index")
        )
        by_frame = {attempt.task.frame: attempt for attempt in held}
        for frame, proxy in proxies.items():
            attempt = by_frame[frame]
            reports = [
                output(attempt, b"render %d" % frame, name=f"{frame}.png", role=OutputRole.RENDER, size=size),
                output(attempt, proxy, name=f"{frame}.png.proxy.jpg", role=OutputRole.PROXY, size=size),
            ]
            self.worker.end(attempt.id, success(attempt.id, outputs=reports))
        self.worker.sync(now=self.now)

    def render_again(self, frame: int, proxy: bytes) -> None:
        self.retry(frame)
        self.deliver({frame: proxy})

    def retry(self, frame: int) -> None:
        task = Task.objects.get(job=self.job, frame=frame)
        retry_tasks(self.job, Selection("list", [task.id]), now=self.now)

    def grow(self, *, now: datetime | None = None) -> Movie:
        """Grow the movie until nothing more can be done at once."""
        now = now or self.now
        (movie,) = services.ask_for([Wanted(self.job.id, self.job.studio_id, None)], now=now)
        while services.grow_movie(movie, watch=services.Watch(), now=now):
            pass
        return self.movie

    def shown(self) -> list[Image.Image]:
        """Decode the movie as it is in the store."""
        return decode(b"".join(store().stream(self.movie.key)))


def output(attempt: Attempt, content: bytes, *, name: str, role: OutputRole, size: tuple[int, int]) -> OutputReport:
    digest = hashlib.sha256(content).hexdigest()
    store().write(keys.output_key(attempt.studio_id, attempt.id, digest), content)
    return OutputReport(
        name=name, role=role, size=len(content), digest=digest, format="jpeg", width=size[0], height=size[1]
    )


def change(report: OutputReport, **fields: Any) -> OutputReport:
    return dataclasses.replace(report, **fields)


def decode(movie: bytes | Path) -> list[Image.Image]:
    """Decode every frame of a movie as a player would that honours its tags."""
    source: Any = io.BytesIO(movie) if isinstance(movie, bytes) else str(movie)
    with av.open(source) as opened:
        return [_as_rgb(frame) for frame in opened.decode(video=0)]


def _as_rgb(frame: Any) -> Image.Image:
    image: Image.Image = frame.reformat(
        format="rgb24",
        src_colorspace=Colorspace.ITU709 if frame.colorspace == 1 else Colorspace.ITU601,
        src_color_range=ColorRange.MPEG if frame.color_range == 1 else ColorRange.JPEG,
        dst_color_range=ColorRange.JPEG,
        interpolation=Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT,
    ).to_image()
    return image


def times(movie: bytes) -> list[Fraction]:
    """Give when each frame of a movie is shown, in seconds."""
    with av.open(io.BytesIO(movie), "r") as opened:
        stream = opened.streams.video[0]
        return [p.pts * p.time_base for p in opened.demux(stream) if p.size and p.pts is not None]


def pixel(image: Image.Image, place: tuple[float, float] = (0.75, 0.75)) -> tuple[int, int, int]:
    found = image.getpixel((int(image.width * place[0]), int(image.height * place[1])))
    assert isinstance(found, tuple)
    return found[0], found[1], found[2]


def near(one: tuple[int, ...], other: tuple[int, ...], tolerance: int = 3) -> bool:
    return all(abs(a - b) <= tolerance for a, b in zip(one, other, strict=True))


def shows(image: Image.Image, frame: int) -> bool:
    """Say whether a picture's middle is that of a frame."""
    return near(pixel(image), (grey_of(frame),) * 3)


def is_marked(image: Image.Image) -> bool:
    """Say whether a picture has the frame of a picture that is not the frame's own."""
    edge = pixel(image, (0.5, 0))
    return near(edge, AMBER, tolerance=40)

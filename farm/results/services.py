"""Make movies: encode the segments that changed, join them, publish the file, delete what it replaced."""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from django.conf import settings
from django.db import connection, transaction

from farm.core.errors import Refusal
from farm.core.events import emit
from farm.core.keys import delivery_key
from farm.core.moves import move_to
from farm.core.storage import NoSuchObject, store
from farm.core.wakeups import tell_changed
from farm.results.models import Movie, MovieSegment
from farm.results.moves import MOVIE_MOVES, MovieStatus
from farm.results.sandbox import EncoderFailed, Run, UnreadablePictures, run_encoder
from farm.results.selectors import (
    Look,
    Wanted,
    first_step_with_frames,
    frames_of,
    look,
    rate_of,
    segments_of,
    stills_of,
)
from farm.results.sending import Kept, keep_file
from farm.results.timeline import SEGMENT_FRAMES, Encoded, Segment, encode_at, join_at

logger = logging.getLogger(__name__)

LOCK = 7_365_219  # the first half of the lock's number; the second is the movie's
MOST_FRAMES = 10_000
MESSAGE_S = 55  # of the 60 s a message may take
LEAST_S = 25  # nothing is begun with less time left
RESERVE_S = 10  # for storing what the encoder made
TRY_AGAIN = timedelta(seconds=60)
KEEP_REPLACED = timedelta(hours=1)  # as long as an address of one may be valid
MOST_SEGMENT_BYTES = 128 * 1024**2
MOST_MOVIE_BYTES = 8 * 1024**3
MOST_PROXY_BYTES = 64 * 1024**2


class Watch:
    """How much is left of the time a message may take."""

    def __init__(self, seconds: float = MESSAGE_S) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._end - time.monotonic()

    @property
    def is_too_late(self) -> bool:
        return self.left < LEAST_S


@dataclass(frozen=True)
class Outlook:
    """What remains: something at once, something at a later time, or nothing."""

    at: datetime | None
    is_now: bool = False


def ask_for(wanted: Sequence[Wanted], *, now: datetime) -> list[UUID]:
    """Note that these jobs' movies are about to be grown; give the movies."""
    new = [Movie(studio_id=w.studio, job_id=w.job) for w in wanted if w.movie is None]
    Movie.objects.bulk_create(new, ignore_conflicts=True)
    movies = Movie.objects.filter(job__in=[w.job for w in wanted])
    movies.update(asked_at=now)
    return list(movies.order_by("pk").values_list("pk", flat=True))


def grow_movie(movie_id: UUID, *, watch: Watch, now: datetime) -> bool:
    """
    Bring a movie up to date with its job, as far as the time allows; give whether there is more to do at once.

    Asked again, or twice at the same moment, it does nothing that is done already.
    """
    with _alone(movie_id) as is_mine:
        movie = Movie.objects.select_related("job__scene_version").filter(pk=movie_id).first() if is_mine else None
        if movie is None:
            return False
        _settle_frames(movie)
        found = look(movie)
        try:
            outlook = _grow(movie, found, watch, now)
            movie.trouble = ""
        except (EncoderFailed, Refusal, httpx.HTTPError) as error:
            logger.warning("the movie of job %s could not be made: %s", movie.job_id, error)
            movie.trouble, outlook = str(error)[:1000], Outlook(now + TRY_AGAIN)
        _sweep(movie, now=now)
        _remember(movie, found, outlook, now=now)
        return outlook.is_now


@contextmanager
def _alone(movie: UUID) -> Iterator[bool]:
    """Hold a movie's lock for a run of several transactions; False when another run holds it."""
    key = [LOCK, movie.int % 2**31]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", key)
        is_mine = bool(cursor.fetchone()[0])
    try:
        yield is_mine
    finally:
        if is_mine:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", key)


def _settle_frames(movie: Movie) -> None:
    """Note, once, which frames a movie shows and how fast, or why there is none; a job's frames never change."""
    if movie.step_id is not None or movie.refusal:
        return
    step = first_step_with_frames(movie.job_id)
    frames = frames_of(step.id) if step else []
    if step is None:
        movie.refusal = "No step of this job has a task parameter Frame, so there is no order to show its pictures in."
    elif len(frames) > MOST_FRAMES:
        movie.refusal = f"This job has {len(frames):,} frames; movies are made of up to {MOST_FRAMES:,}."
    else:
        rate = rate_of(movie.job)
        movie.step, movie.frames = step, frames
        movie.rate_numerator, movie.rate_denominator = rate.numerator, rate.denominator
    movie.save(update_fields=["step", "frames", "rate_numerator", "rate_denominator", "refusal"])


def _grow(movie: Movie, found: Look, watch: Watch, now: datetime) -> Outlook:
    """Encode and join what is due. Pictures that turn out to be unreadable are passed over from then on."""
    while True:
        segments = segments_of(movie, stills_of(movie, found))
        if not segments:
            return Outlook(None)
        try:
            return _encode_and_join(movie, found, segments, watch, now)
        except UnreadablePictures as error:
            logger.warning("movie of job %s: unreadable proxies: %s", movie.job_id, error.why)
            movie.unreadable |= error.why
            movie.save(update_fields=["unreadable"])


def _encode_and_join(movie: Movie, found: Look, segments: Sequence[Segment], watch: Watch, now: datetime) -> Outlook:
    rows = {row.index: row for row in MovieSegment.objects.filter(movie=movie)}
    later = []
    for segment in segments:
        encoded = _encoded(rows.get(segment.index))
        at = encode_at(segment, encoded, segments=len(segments), is_quiet=found.is_quiet, now=now)
        if at is not None and at > now:
            later.append(at)
        elif at is not None:
            if watch.is_too_late:
                return Outlook(now, is_now=True)
            rows[segment.index] = _encode(movie, segment, watch, now)
    is_final = not later and (found.is_quiet or all(s.is_whole for s in segments))
    return _join_if_due(movie, [rows[s.index] for s in segments], later, is_final, watch, now)


def _encoded(row: MovieSegment | None) -> Encoded | None:
    return Encoded(row.format, row.inputs, row.own, row.made_at) if row else None


# --- segments


def _encode(movie: Movie, segment: Segment, watch: Watch, now: datetime) -> MovieSegment:
    """
    Encode one segment and store it.

    :raises UnreadablePictures: some of its proxies cannot be opened
    :raises EncoderFailed: it could not be encoded, or has not just its frames
    """
    with _scratch() as folder:
        run = Run(folder, seconds=watch.left - RESERVE_S, most_bytes=MOST_SEGMENT_BYTES)
        digests = _fetch_proxies(segment, run.inputs)
        try:
            frames = run_encoder(run, _segment_order(movie, segment))
        except UnreadablePictures as error:
            raise _only(error, digests) from None
        if frames != len(segment.stills):
            raise EncoderFailed(f"a segment has {frames} frames, not {len(segment.stills)}")
        kept = keep_file(run.output, studio=movie.studio_id, delivery=movie.id, now=now)
    movie.sweep_at = movie.sweep_at or now + KEEP_REPLACED
    row, _ = MovieSegment.objects.update_or_create(
        movie=movie,
        index=segment.index,
        defaults={
            "studio_id": movie.studio_id,
            "first": segment.first,
            "last": segment.first + frames - 1,
            "width": segment.size[0],
            "height": segment.size[1],
            "format": segment.format,
            "inputs": segment.inputs,
            "own": segment.own,
            "frames": frames,
            "made_at": now,
            **_columns(kept),
        },
    )
    return row


def _columns(kept: Kept) -> dict[str, Any]:
    return {"key": kept.key, "size": kept.size, "digest": kept.digest}


def _fetch_proxies(segment: Segment, folder: Path) -> set[str]:
    """Put the pictures that a segment shows into a folder, each named by its digest; give the names."""
    keys = {still.proxy.digest: still.proxy.key for still in segment.stills if still.proxy}
    for digest, key in keys.items():
        try:
            (folder / digest).write_bytes(store().read(key, limit=MOST_PROXY_BYTES))
        except NoSuchObject:
            raise UnreadablePictures({digest: "it is not in the store"}) from None
        except ValueError:
            raise UnreadablePictures({digest: "it is larger than any proxy"}) from None
    return set(keys)


def _segment_order(movie: Movie, segment: Segment) -> dict[str, Any]:
    stills = [
        {
            "frame": still.frame,
            "mark": str(still.mark),
            "file": still.proxy.digest if still.proxy else None,
            "shown": still.shown,
        }
        for still in segment.stills
    ]
    return {
        "act": "segment",
        "rate": [movie.rate_numerator, movie.rate_denominator],
        "width": segment.size[0],
        "height": segment.size[1],
        "segment_frames": SEGMENT_FRAMES,
        "stills": stills,
    }


def _only(error: UnreadablePictures, digests: set[str]) -> Exception:
    """Believe the encoder about files it was given, and about nothing else."""
    known = {file: why for file, why in error.why.items() if file in digests}
    return UnreadablePictures(known) if known else EncoderFailed("it named files that it was not given")


# --- the movie


def _join_if_due(
    movie: Movie, rows: Sequence[MovieSegment], later: list[datetime], is_final: bool, watch: Watch, now: datetime
) -> Outlook:
    joined = hashlib.sha256("".join(row.digest for row in rows).encode()).hexdigest()
    if joined != movie.joined:
        at = join_at(segments=len(rows), last=movie.made_at, final=is_final, now=now)
        if at > now:
            later.append(at)
        elif watch.is_too_late:
            return Outlook(now, is_now=True)
        else:
            _publish(movie, rows, _join(movie, rows, watch, now), joined=joined, now=now)
    return Outlook(min(later, default=None))


def _join(movie: Movie, rows: Sequence[MovieSegment], watch: Watch, now: datetime) -> Kept:
    """
    Join a movie's segments without encoding them again, and store it.

    :raises EncoderFailed: they do not fit together, or the movie has not just their frames
    """
    with _scratch() as folder:
        run = Run(folder, seconds=watch.left - RESERVE_S, most_bytes=MOST_MOVIE_BYTES)
        for row in rows:
            _fetch_segment(row, run.inputs / str(row.index))
        parts = [{"file": str(row.index), "frames": row.frames} for row in rows]
        order = {"act": "join", "rate": [movie.rate_numerator, movie.rate_denominator], "parts": parts}
        frames = run_encoder(run, order)
        if frames != len(movie.frames):
            raise EncoderFailed(f"the movie has {frames} frames, not {len(movie.frames)}")
        return keep_file(run.output, studio=movie.studio_id, delivery=movie.id, now=now)


def _fetch_segment(row: MovieSegment, path: Path) -> None:
    try:
        with path.open("wb") as file:
            file.writelines(store().stream(row.key))
    except NoSuchObject:
        row.delete()  # it is encoded again
        raise EncoderFailed("the file of a segment is gone") from None


@transaction.atomic
def _publish(movie: Movie, rows: Sequence[MovieSegment], kept: Kept, *, joined: str, now: datetime) -> None:
    """Make a new file the movie; the old one stays a while for those who are just watching it."""
    shown = sum(row.own for row in rows)
    fields = {
        "version": movie.version + 1,
        "width": rows[0].width,
        "height": rows[0].height,
        "frame_count": sum(row.frames for row in rows),
        "shown": shown,
        "joined": joined,
        "made_at": now,
        **_columns(kept),
    }
    Movie.objects.filter(pk=movie.pk).update(**fields)
    for name, value in fields.items():
        setattr(movie, name, value)
    tell_changed("movie", movie.job_id, movie.studio_id, movie.version)
    status = MovieStatus.COMPLETE if shown == len(movie.frames) else MovieStatus.GROWING
    if move_to(movie, status, moves=MOVIE_MOVES) and status is MovieStatus.COMPLETE:
        emit("movie.complete", studio=movie.studio_id, subject=movie.job_id, frames=shown, version=movie.version)


# --- afterwards


def _sweep(movie: Movie, *, now: datetime) -> None:
    """Delete the files that newer ones replaced a while ago, and those that crashed runs left."""
    if movie.sweep_at is None or movie.sweep_at > now:
        return
    used = {movie.key, *MovieSegment.objects.filter(movie=movie).values_list("key", flat=True)}
    here = delivery_key(movie.studio_id, movie.id, "0" * 64).removesuffix("0" * 64)
    unused = [found for found in store().listing(here) if found.key not in used]
    store().delete_all(found.key for found in unused if found.modified <= now - KEEP_REPLACED)
    is_left = any(found.modified > now - KEEP_REPLACED for found in unused)
    movie.sweep_at = now + KEEP_REPLACED if is_left else None


def _remember(movie: Movie, found: Look, outlook: Outlook, *, now: datetime) -> None:
    current = {proxy.digest for proxy in found.proxies.values()}
    movie.unreadable = {digest: why for digest, why in movie.unreadable.items() if digest in current}
    movie.seen, movie.seen_status = found.seen, found.status
    movie.check_at = outlook.at
    movie.asked_at = now if outlook.is_now else None  # the next message is sent at once
    movie.save(update_fields=["unreadable", "trouble", "seen", "seen_status", "check_at", "asked_at", "sweep_at"])


@contextmanager
def _scratch() -> Iterator[Path]:
    """Make a folder for one run; those of runs that were killed go with the next."""
    home = Path(settings.DATA_DIR) / "movies"
    home.mkdir(parents=True, exist_ok=True)
    for old in home.iterdir():
        with suppress(FileNotFoundError):
            if old.stat().st_mtime < time.time() - 3600:
                shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=home))
    try:
        (folder / "in").mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

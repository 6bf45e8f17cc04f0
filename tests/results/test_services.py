"""Movies as they are made: real pictures, the real encoder in its sandbox, and the real store."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from farm.core.keys import delivery_key
from farm.core.models import Event
from farm.core.storage import store
from farm.dispatch.models import Output
from farm.results import services, timeline
from farm.results.moves import MovieStatus
from farm.results.selectors import Wanted
from tests.results.film import Film, decode, is_marked, jpeg, near, picture, pixel, shows, times

pytestmark = pytest.mark.django_db


@pytest.fixture
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of four frames, so that few frames make several."""
    monkeypatch.setattr(timeline, "SEGMENT_FRAMES", 4)
    monkeypatch.setattr(services, "SEGMENT_FRAMES", 4)


def film(frames: str, now: datetime) -> Film:
    return Film(frames, now=now)


def content(film: Film) -> bytes:
    return b"".join(store().stream(film.movie.key))


class TestAMovie:
    @pytest.mark.parametrize("count", [1, 2, 47, 48, 49, 100])
    def test_has_exactly_the_frames_of_the_job_in_their_order(self, count: int, now: datetime) -> None:
        made = film(f"1-{count}", now)
        made.render(*range(1, count + 1))

        movie = made.grow()

        assert movie.frame_count == movie.shown == count
        assert movie.status == MovieStatus.COMPLETE
        assert [s.frames for s in made.segments] == [48] * (count // 48) + [count % 48] * (count % 48 > 0)
        shown = made.shown()
        assert len(shown) == count
        assert all(shows(image, frame) for frame, image in enumerate(shown, 1))
        assert not any(is_marked(image) for image in shown)
        assert times(content(made)) == [Fraction(n, 24) for n in range(count)]

    def test_follows_the_range_of_a_job_that_steps(self, now: datetime) -> None:
        made = film("1001-1009:2", now)
        made.render(1009, 1007, 1005, 1003, 1001)

        movie = made.grow()

        assert movie.frames == [1001, 1003, 1005, 1007, 1009]
        assert [shows(image, frame) for image, frame in zip(made.shown(), movie.frames, strict=True)] == [True] * 5

    def test_of_several_cameras_shows_the_first(self, now: datetime) -> None:
        template = """
specificationVersion: jobtemplate-2023-09
name: Cameras
steps:
- name: Prepare
  script: {actions: {onRun: {command: echo}}}
- name: Render
  parameterSpace:
    taskParameterDefinitions:
    - {name: Camera, type: STRING, range: [front, back]}
    - {name: Frame, type: INT, range: "1-3"}
  script: {actions: {onRun: {command: echo}}}
"""
        made = Film("", now=now, template=template)
        made.render(1, 2, 3)  # the first task of each frame

        made.grow()

        assert len(made.shown()) == 3
        assert made.movie.step is not None
        assert made.movie.step.name == "Render"

    def test_is_tagged_and_plays_elsewhere(self, now: datetime, tmp_path: Path) -> None:
        if shutil.which("ffprobe") is None:
            pytest.skip("ffprobe is not installed")
        made = film("1-50", now)
        made.render(*range(1, 51))
        made.grow()
        (tmp_path / "movie.mp4").write_bytes(content(made))
        movie = str(tmp_path / "movie.mp4")
        told = "nb_read_frames,pix_fmt,color_range,color_space,color_primaries,color_transfer,avg_frame_rate,codec_name"

        said = subprocess.run(
            [
                "ffprobe",
                "-v",
                "error",
                "-count_frames",
                "-show_entries",
                f"stream={told}",
                "-of",
                "default=nw=1",
                movie,
            ],
            capture_output=True,
            text=True,
            check=True,
        )

        assert said.stderr == ""
        assert dict(line.split("=") for line in said.stdout.split()) == {
            "codec_name": "h264",
            "pix_fmt": "yuv420p",
            "color_range": "tv",
            "color_space": "bt709",
            "color_primaries": "bt709",
            "color_transfer": "bt709",
            "avg_frame_rate": "24/1",
            "nb_read_frames": "50",
        }

    def test_begins_to_play_before_it_is_there_whole(self, now: datetime) -> None:
        made = film("1-2", now)
        made.render(1, 2)
        made.grow()

        whole = content(made)

        assert whole.index(b"moov") < whole.index(b"mdat")

    def test_is_made_once_and_stored_under_its_own_digest(self, now: datetime) -> None:
        made = film("1-3", now)
        made.render(1, 2, 3)
        first = made.grow()

        again = made.grow(now=now + timedelta(hours=3))

        assert (
            (again.version, again.key, again.made_at)
            == (first.version, first.key, first.made_at)
            == (1, again.key, now)
        )
        assert first.key == delivery_key(first.studio_id, first.id, hashlib.sha256(content(made)).hexdigest())
        assert again.size == len(content(made))

    def test_that_shows_every_frame_is_told_of_once(self, now: datetime) -> None:
        made = film("1-2", now)
        made.render(1)
        made.grow()
        made.render(2)
        made.grow()

        (event,) = Event.objects.filter(kind="movie.complete")

        assert event.subject == made.job.id
        assert event.params == {"frames": 2, "version": 2}


class TestAMissingFrame:
    @pytest.mark.parametrize("missing", [1, 3, 5])
    def test_holds_the_one_before_it_and_is_marked(self, missing: int, now: datetime) -> None:
        made = film("1-5", now)
        made.render(*(frame for frame in range(1, 6) if frame != missing))

        movie = made.grow()

        shown = made.shown()
        assert (movie.frame_count, movie.shown, movie.status) == (5, 4, MovieStatus.GROWING)
        assert [is_marked(image) for image in shown] == [frame == missing for frame in range(1, 6)]
        if missing == 1:
            assert near(pixel(shown[0]), (64, 64, 64))
        else:
            assert shows(shown[missing - 1], missing - 1)
        assert all(shows(image, frame) for frame, image in enumerate(shown, 1) if frame != missing)

    @pytest.mark.usefixtures("short_segments")
    def test_at_the_beginning_of_a_segment_holds_across_the_cut(self, now: datetime) -> None:
        made = film("1-8", now)
        made.render(1, 2, 3, 4, 6, 7, 8)

        made.grow()

        shown = made.shown()
        assert [is_marked(image) for image in shown] == [frame == 5 for frame in range(1, 9)]
        assert shows(shown[4], 4)

    @pytest.mark.usefixtures("short_segments")
    def test_that_arrives_takes_its_place_and_touches_no_other_segment(self, now: datetime) -> None:
        made = film("1-12", now)
        made.render(1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12)
        made.grow()
        before = made.encodings
        made.render(6)

        movie = made.grow(now=now + timedelta(seconds=10))

        assert made.encoded_since(before) == [1]
        assert movie.status == MovieStatus.COMPLETE
        assert all(shows(image, frame) for frame, image in enumerate(made.shown(), 1))

    @pytest.mark.usefixtures("short_segments")
    def test_of_a_job_just_begun_does_not_have_all_encoded_again_with_every_arrival(self, now: datetime) -> None:
        made = film("1-9", now)
        made.render(1, 2)
        made.grow()
        made.render(3)

        soon = made.grow(now=now + timedelta(seconds=10))
        later = made.grow(now=now + timedelta(seconds=61))

        assert (soon.shown, soon.version, soon.check_at) == (2, 1, now + timedelta(seconds=60))
        assert (later.shown, later.version) == (3, 2)


class TestAChangedFrame:
    @pytest.mark.usefixtures("short_segments")
    def test_is_encoded_again_with_its_segment_alone(self, now: datetime) -> None:
        made = film("1-12", now)
        made.render(*range(1, 13))
        made.grow()
        before = made.encodings
        made.render_again(6, jpeg(picture(70)))

        movie = made.grow(now=now + timedelta(seconds=10))

        assert made.encoded_since(before) == [1]
        assert (movie.frame_count, movie.version) == (12, 2)
        assert shows(made.shown()[5], 70)

    def test_stays_in_the_movie_until_the_new_one_is_verified(self, now: datetime) -> None:
        made = film("1-3", now)
        made.render(1, 2, 3)
        made.grow()
        made.retry(2)

        movie = made.grow(now=now + timedelta(hours=1))

        assert (movie.version, movie.shown) == (1, 3)


class TestSizes:
    def test_odd_ones_are_padded_by_one_pixel_and_not_scaled(self, now: datetime) -> None:
        image = picture(5, (65, 49))
        image.putpixel((64, 48), (255, 255, 255))
        made = film("1-1", now)
        made.deliver({1: jpeg(image)}, size=(65, 49))

        movie = made.grow()

        (shown,) = made.shown()
        assert shown.size == (66, 50)
        assert (movie.width, movie.height) == (65, 49)
        assert shows(shown, 5)

    @pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1)])
    def test_of_hardly_any_pixels_are_shown_too(self, size: tuple[int, int], now: datetime) -> None:
        made = film("1-2", now)
        made.render(1, size=size)

        movie = made.grow()

        assert movie.trouble == ""
        assert [image.size for image in made.shown()] == [(size[0] + size[0] % 2, size[1] + size[1] % 2)] * 2

    def test_that_differ_are_shown_between_bars_and_say_so(self, now: datetime) -> None:
        made = Film("1-3", now=now)
        made.render(1, 3, size=(320, 180))
        made.render(2, size=(160, 160))

        movie = made.grow()

        shown = made.shown()
        assert {image.size for image in shown} == {(320, 180)}
        assert near(pixel(shown[1], (0.02, 0.5)), (0, 0, 0), 8)
        assert near(pixel(shown[1], (0.5, 0.4)), (24, 24, 24))
        assert movie.shown == 3
        words = [shown[1].getpixel((x, y)) for x in range(320) for y in range(150, 180)]
        assert any(near(p, (255, 176, 0), 60) for p in words if isinstance(p, tuple))


class TestARate:
    def test_is_the_scenes_and_stays_an_exact_fraction(self, now: datetime) -> None:
        made = film("1-50", now)
        made.report({"scenes": [{"name": "Scene", "active": True, "fps": [24000, 1001]}]})
        made.render(*range(1, 51))

        movie = made.grow()

        assert movie.rate == Fraction(24000, 1001)
        assert times(content(made)) == [n * Fraction(1001, 24000) for n in range(50)]


class TestABadProxy:
    @pytest.mark.parametrize(
        "bad",
        [b"", b"no picture at all", jpeg(picture(3))[:-200], b"\x89PNG\r\n\x1a\n" + b"0" * 50],
        ids=["empty", "text", "truncated", "not a JPEG"],
    )
    def test_is_named_and_passed_over(self, bad: bytes, now: datetime) -> None:
        made = film("1-4", now)
        made.render(1, 2, 4)
        made.deliver({3: bad})

        movie = made.grow()

        shown = made.shown()
        assert [is_marked(image) for image in shown] == [False, False, True, False]
        assert shows(shown[2], 2)
        assert list(movie.unreadable) == [hashlib.sha256(bad).hexdigest()]
        assert (movie.shown, movie.status, movie.trouble) == (3, MovieStatus.GROWING, "")

    def test_that_is_gone_from_the_store_is_named(self, now: datetime) -> None:
        made = film("1-2", now)
        made.render(1, 2)
        gone = Output.objects.get(job=made.job, role="proxy", frame=2)
        store().delete(gone.key)

        movie = made.grow()

        assert movie.unreadable == {gone.digest: "it is not in the store"}
        assert len(made.shown()) == 2

    def test_that_was_rendered_again_is_forgotten(self, now: datetime) -> None:
        made = film("1-2", now)
        made.render(1)
        made.deliver({2: b"bad"})
        made.grow()
        made.render_again(2, jpeg(picture(2)))

        movie = made.grow(now=now + timedelta(seconds=10))

        assert (movie.unreadable, movie.status) == ({}, MovieStatus.COMPLETE)


class TestTrouble:
    def test_of_the_sandbox_is_kept_in_words_and_tried_again(
        self, now: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = film("1-2", now)
        made.render(1, 2)
        with monkeypatch.context() as patched:
            patched.setattr("farm.results.sandbox.shutil.which", lambda name: None)
            failed = made.grow()

        healed = made.grow(now=now + timedelta(seconds=61))

        assert "bubblewrap" in failed.trouble
        assert (failed.version, failed.check_at) == (0, now + timedelta(seconds=60))
        assert (healed.version, healed.trouble) == (1, "")

    @pytest.mark.usefixtures("short_segments")
    def test_a_segment_that_vanished_is_encoded_again(self, now: datetime) -> None:
        made = film("1-8", now)
        made.render(*range(1, 9))
        made.grow()
        store().delete(made.segments[1].key)
        made.render_again(3, jpeg(picture(70)))

        failed = made.grow(now=now + timedelta(seconds=10))
        healed = made.grow(now=now + timedelta(seconds=80))

        assert "gone" in failed.trouble
        assert (healed.trouble, healed.frame_count, healed.version) == ("", 8, 2)
        assert shows(made.shown()[2], 70)

    def test_a_job_without_frames_has_no_movie_and_says_why(self, now: datetime) -> None:
        template = """
specificationVersion: jobtemplate-2023-09
name: Lumps
steps:
- name: Render
  parameterSpace:
    taskParameterDefinitions:
    - {name: Lump, type: INT, range: "1-3"}
  script: {actions: {onRun: {command: echo}}}
"""
        made = Film("", now=now, template=template)

        movie = made.grow()

        assert "Frame" in movie.refusal
        assert movie.version == 0

    def test_a_job_with_too_many_frames_has_no_movie_and_says_so(
        self, now: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(services, "MOST_FRAMES", 2)
        made = film("1-3", now)
        made.render(1)

        movie = made.grow()

        assert movie.refusal == "This job has 3 frames; movies are made of up to 2."


class TestGrowMovie:
    @pytest.mark.usefixtures("short_segments")
    def test_stops_in_time_and_goes_on_where_it_was(self, now: datetime) -> None:
        made = film("1-8", now)
        made.render(*range(1, 9))
        made.grow()
        made.segments[1].delete()

        more = services.grow_movie(made.movie.id, watch=services.Watch(seconds=1), now=now)
        movie = made.movie

        assert more is True
        assert (movie.check_at, movie.asked_at, len(made.segments)) == (now, now, 1)
        assert len(made.grow().segments.all()) == 2

    def test_leaves_a_movie_alone_that_another_run_has(self, now: datetime) -> None:
        made = film("1-1", now)
        made.render(1)
        (movie,) = services.ask_for([Wanted(made.job.id, made.job.studio_id, None)], now=now)
        with psycopg.connect(settings.FARM_DATABASE_OWNER_URL, dbname=connection.settings_dict["NAME"]) as other:
            other.execute("SELECT pg_advisory_lock(%s, %s)", [services.LOCK, movie.int % 2**31])

            grown = services.grow_movie(movie, watch=services.Watch(), now=now)

        assert grown is False
        assert made.movie.version == 0
        assert made.grow().version == 1


class TestSweep:
    def test_deletes_what_was_replaced_an_hour_ago_and_nothing_else(self, now: datetime) -> None:
        made = film("1-3", now)
        made.render(1, 2)
        old = made.grow()
        made.render(3)
        made.grow(now=now + timedelta(seconds=10))
        here = old.key.rpartition("/")[0] + "/"
        before = {found.key for found in store().listing(here)}

        swept = made.grow(now=datetime.now(now.tzinfo) + timedelta(hours=2))

        after = {found.key for found in store().listing(here)}
        assert len(before) == 4
        assert after == {made.movie.key, made.segments[0].key}
        assert swept.sweep_at is None
        assert len(decode(content(made))) == 3

    def test_keeps_for_an_hour_what_somebody_may_be_watching(self, now: datetime) -> None:
        made = film("1-2", now)
        made.render(1)
        old = made.grow()
        made.render(2)

        made.grow(now=now + timedelta(minutes=30))

        assert store().stat(old.key) is not None

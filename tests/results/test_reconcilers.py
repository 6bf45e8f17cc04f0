"""Movies grow by themselves."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.utils import timezone

from farm.results import services
from farm.results.models import Movie
from farm.results.moves import MovieStatus
from farm.results.reconcilers import grow_movie, grow_movies
from tests.results.film import Film, shows

pytestmark = pytest.mark.usefixtures("committed", "messages_arrive")


@pytest.fixture
def now() -> datetime:
    return timezone.now()


class TestGrowMovies:
    def test_makes_a_movie_of_the_first_frame_and_completes_it_with_the_last(self, now: datetime) -> None:
        film = Film("1-2", now=now, slots=2)
        grow_movies()
        assert not Movie.objects.exists()

        film.render(1)
        grow_movies()
        first = film.movie
        film.render(2)
        grow_movies()

        assert (first.status, first.shown, first.frame_count) == (MovieStatus.GROWING, 1, 2)
        assert (film.movie.status, film.movie.shown, film.movie.frame_count) == (MovieStatus.COMPLETE, 2, 2)
        assert [shows(image, frame) for frame, image in enumerate(film.shown(), 1)] == [True, True]

    def test_called_twice_does_nothing_the_second_time(self, now: datetime) -> None:
        film = Film("1-2", now=now, slots=2)
        film.render(1, 2)
        grow_movies()
        before = film.movie

        grow_movies()
        grow_movie(str(before.id))

        assert (film.movie.version, film.movie.made_at) == (1, before.made_at)

    def test_one_bad_job_does_not_stop_the_rest(self, now: datetime) -> None:
        bad = Film("1", now=now, slots=1)
        bad.deliver({1: b"\x00" * 100})
        good = Film("1", now=now, slots=1)
        good.render(1)

        grow_movies()

        assert (bad.movie.version, len(bad.movie.unreadable)) == (0, 1)
        assert good.movie.status == MovieStatus.COMPLETE


class TestGrowMovie:
    def test_asks_for_itself_again_while_there_is_more(self, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
        film = Film("1", now=now, slots=1)
        film.render(1)
        hurried = iter([1.0])  # the first message has no time at all
        monkeypatch.setattr(services, "MESSAGE_S", 55)
        watch = services.Watch
        monkeypatch.setattr(services, "Watch", lambda: watch(next(hurried, 55)))

        grow_movies()

        assert film.movie.version == 1
        assert next(hurried, None) is None

    def test_of_a_movie_that_is_gone_does_nothing(self) -> None:
        grow_movie("01890000-0000-7000-8000-000000000001")

        assert not Movie.objects.exists()

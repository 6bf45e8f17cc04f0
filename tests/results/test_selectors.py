"""What is known of movies without making any."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from farm.jobs.models import Job, Task
from farm.jobs.services import cancel_job, suspend_job
from farm.jobs.status import REVISION
from farm.results import services
from farm.results.selectors import Wanted, movies_to_grow, rate_of
from tests.farm import open_customer, submit
from tests.results.film import Film, jpeg, picture


def wanted(now: datetime) -> list[Wanted]:
    return movies_to_grow(now=now)


def settle(film: Film, now: datetime) -> None:
    """Grow a movie until nothing is wanted: at once, unless older transactions run in this cluster."""
    for _ in range(300):
        film.grow(now=now)
        if not wanted(now):
            return
        time.sleep(0.1)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid, datname, state, xact_start, left(query, 200) FROM pg_stat_activity "
            "WHERE backend_xid IS NOT NULL OR backend_xmin IS NOT NULL ORDER BY xact_start"
        )
        raise AssertionError(f"an old transaction does not end, or the movie is wanted for ever: {cursor.fetchall()}")


@pytest.mark.usefixtures("committed")
class TestMoviesToGrow:
    @pytest.fixture
    def now(self) -> datetime:
        return timezone.now()

    def film(self, now: datetime, frames: str = "1-3") -> Film:
        return Film(frames, now=now, slots=5)

    def test_names_a_job_with_its_first_proxy(self, now: datetime) -> None:
        film = self.film(now)
        assert wanted(now) == []

        film.render(1)

        assert wanted(now) == [Wanted(film.job.id, film.job.studio_id, None)]

    def test_is_one_query_and_names_nothing_when_nothing_is_new(
        self, now: datetime, django_assert_num_queries: Any
    ) -> None:
        film = self.film(now)
        film.render(1)
        settle(film, now)

        with django_assert_num_queries(1):
            found = wanted(now + timedelta(seconds=10))

        assert found == []

    def test_names_it_again_when_a_frame_arrives_or_changes(self, now: datetime) -> None:
        film = self.film(now)
        film.render(1)
        settle(film, now)

        film.render(2)
        arrived = wanted(now)
        settle(film, now)
        film.render_again(1, jpeg(picture(9)))
        changed = wanted(now)

        assert [w.movie for w in arrived] == [w.movie for w in changed] == [film.movie.id]

    def test_misses_no_frame_whose_transaction_began_before_a_look_and_ended_after_it(self, now: datetime) -> None:
        film = self.film(now)
        film.render(1)
        late = Task.objects.get(job=film.job, frame=2)
        at = {name: connection.get_connection_params()[name] for name in ("host", "port", "user", "password", "dbname")}
        with psycopg.connect(**at) as other:
            other.execute(f"UPDATE jobs_task SET status = 'succeeded', revision = {REVISION} WHERE id = %s", [late.id])
            film.grow()

        assert [w.job for w in wanted(now)] == [film.job.id]

    def test_names_it_when_the_job_ends_or_is_suspended(self, now: datetime) -> None:
        film = self.film(now)
        film.render(1)
        settle(film, now)

        suspend_job(film.job)
        suspended = wanted(now)
        settle(film, now)
        cancel_job(Job.objects.get(pk=film.job.pk), now=now)
        cancelled = wanted(now)
        settle(film, now)

        assert len(suspended) == len(cancelled) == 1

    def test_names_it_when_something_was_put_off_until_now(self, now: datetime) -> None:
        film = self.film(now, "1-5")
        film.render(1, 2)
        film.grow()
        film.render(3)
        settle(film, now + timedelta(seconds=10))

        assert wanted(now + timedelta(seconds=59)) == []
        assert len(wanted(now + timedelta(seconds=61))) == 1

    def test_does_not_name_it_while_a_message_is_on_its_way_unless_that_was_lost(self, now: datetime) -> None:
        film = self.film(now)
        film.render(1)
        services.ask_for(wanted(now), now=now)

        assert wanted(now + timedelta(seconds=80)) == []
        assert len(wanted(now + timedelta(seconds=91))) == 1

    def test_forgets_a_job_that_ended_long_ago_without_a_movie(self, now: datetime) -> None:
        film = self.film(now, "1")
        film.render(1)
        Job.objects.filter(pk=film.job.pk).update(ended_at=now - timedelta(days=2))

        assert wanted(now) == []


@pytest.mark.django_db
class TestRateOf:
    @pytest.mark.parametrize(
        ("report", "rate"),
        [
            ({"scenes": [{"name": "A", "active": True, "fps": [24000, 1001]}]}, Fraction(24000, 1001)),
            (
                {
                    "scenes": [
                        {"name": "A", "active": False, "fps": [50, 1]},
                        {"name": "B", "active": True, "fps": [25, 1]},
                    ]
                },
                25,
            ),
            ({"scenes": [{"name": "A", "active": True, "fps": [25, 0]}]}, 24),
            ({"scenes": [{"name": "A", "active": True, "fps": [-25, 1]}]}, 24),
            ({"scenes": [{"name": "A", "active": True, "fps": [10**9, 1]}]}, 24),
            ({"scenes": [{"name": "A", "active": True, "fps": "fast"}]}, 24),
            ({"scenes": [{"name": "A", "active": True}]}, 24),
            ({"scenes": "none"}, 24),
            ({"scenes": [7]}, 24),
            ({"refusal": {}}, 24),
            (None, 24),
        ],
    )
    def test_is_what_the_report_says_if_that_makes_sense(
        self, report: Any, rate: Fraction | int, now: datetime
    ) -> None:
        film = Film("1", now=now, slots=1)
        film.report(report)

        assert rate_of(Job.objects.get(pk=film.job.pk)) == rate

    def test_is_that_of_the_scene_which_the_job_renders(self, now: datetime) -> None:
        film = Film("1", now=now, slots=1)
        film.report({"scenes": [{"name": "A", "active": True, "fps": [25, 1]}, {"name": "B", "fps": [60, 1]}]})
        Job.objects.filter(pk=film.job.pk).update(parameters={"Scene": {"type": "STRING", "value": "B"}})

        assert rate_of(Job.objects.get(pk=film.job.pk)) == 60

    def test_is_24_without_a_scene(self, now: datetime) -> None:
        assert rate_of(submit(open_customer(), frames="1", now=now)) == 24

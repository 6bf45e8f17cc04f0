"""Streams: what is heard, how soon, by whom, and until when."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection, transaction

from farm.core.events import emit
from farm.core.wakeups import tell_changed
from farm.dispatch.claims import run_pass
from farm.jobs.models import Job, Task
from farm.jobs.services import cancel_job, change_priority, suspend_job
from farm.notifications import server, streams
from farm.studios.models import ApiToken, Membership
from farm.studios.roles import Scope
from tests.api import token_of
from tests.farm import Customer, open_customer, start_worker, submit, success
from tests.notifications.listening import Events

pytestmark = pytest.mark.django_db(transaction=True)


def session_of(customer: Customer) -> SessionStore:
    """Sign somebody in."""
    session = SessionStore()
    session[SESSION_KEY] = str(customer.user.pk)
    session[BACKEND_SESSION_KEY] = "allauth.account.auth_backends.AuthenticationBackend"
    session[HASH_SESSION_KEY] = customer.user.get_session_auth_hash()
    session.save()
    return session


class TestWhatIsHeard:
    def test_a_finished_frame_within_a_tenth_of_a_second(
        self, events: Events, customer: Customer, token: str, now: datetime
    ) -> None:
        job = submit(customer, frames="1-4", now=now)
        worker = start_worker(now=now, slots=4)
        run_pass(now=now)
        worker.sync(now=now)
        stream = events.listen(token, f"job={job.id}")
        stream.all(within=0.3)
        took = []
        for attempt in list(worker.held)[:3]:
            worker.end(attempt, success(attempt))
            worker.sync(now=now)
            begun = time.monotonic()
            heard = stream.next("job")
            took.append(time.monotonic() - begun)
            assert heard.data["job"] == str(job.id)
            assert heard.data["revision"] == max(Task.objects.filter(job=job).values_list("revision", flat=True))
            time.sleep(0.15)

        assert min(took) < 0.1

    def test_what_a_job_s_page_and_list_need_and_nothing_of_others(
        self, events: Events, customer: Customer, token: str, now: datetime
    ) -> None:
        shown, other = submit(customer, now=now), submit(customer, now=now)
        stream = events.listen(token, f"job={shown.id}")
        stream.all(within=0.2)
        foreign = submit(open_customer(), now=now)
        suspend_job(shown)
        change_priority(other, 80)
        cancel_job(Job.objects.get(pk=foreign.pk), now=now)

        heard = stream.all(within=2.5)

        assert {m.data["job"] for m in heard if m.event == "job"} == {str(shown.id)}
        assert {job for m in heard if m.event == "jobs" for job in m.data["jobs"]} == {str(shown.id), str(other.id)}
        assert str(foreign.id) not in str(heard)

    def test_scenes_movies_and_fleets(self, events: Events, customer: Customer, token: str, now: datetime) -> None:
        job = submit(customer, now=now)
        stream = events.listen(token, f"job={job.id}")
        version = uuid4()
        emit("scene.whole", studio=customer.studio.id, subject=version)
        tell_changed("movie", job.id, customer.studio.id, 3)
        tell_changed("fleets", "f1")

        heard = {(m.event, str(m.data)) for m in stream.all(within=1.5)}

        assert ("scenes", str({"versions": [str(version)]})) in heard
        assert ("movie", str({"job": str(job.id), "version": 3})) in heard
        assert ("fleets", str({"fleets": ["f1"]})) in heard

    def test_what_a_lost_notification_told_comes_with_the_beat(
        self, events: Events, customer: Customer, token: str, now: datetime
    ) -> None:
        job = submit(customer, now=now)
        stream = events.listen(token, f"job={job.id}")
        stream.all(within=0.3)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE jobs_task SET revision = pg_current_xact_id()::text::bigint WHERE job_id = %s", [job.id]
            )

        assert stream.next("job", within=4).data["job"] == str(job.id)

    def test_much_at_once_is_one_message(self, events: Events, customer: Customer, token: str, now: datetime) -> None:
        job = submit(customer, now=now)
        stream = events.listen(token, f"job={job.id}")
        stream.all(within=1.2)
        begun = time.monotonic()
        for priority in range(40):
            change_priority(job, priority)
        took = time.monotonic() - begun

        heard = [m.event for m in stream.all(within=1.5)]

        assert heard.count("job") <= 2 + took / streams.FAST_S
        assert heard.count("jobs") <= 2 + took / streams.SLOW_S

    def test_it_says_that_it_lives(self, events: Events, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(streams, "PING_S", 0.1)
        stream = events.listen(token)
        time.sleep(0.4)

        assert b": ping\n\n" in stream.body


class TestGoingOn:
    """After a cut, with the id of the last message."""

    def test_what_was_missed_comes(self, events: Events, customer: Customer, token: str, now: datetime) -> None:
        job, quiet = submit(customer, now=now), submit(customer, now=now)
        stream = events.listen(token, f"job={job.id},{quiet.id}")
        change_priority(job, 1)
        last = stream.next("job")
        stream.leave()
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE jobs_task SET revision = pg_current_xact_id()::text::bigint WHERE job_id = %s", [job.id]
            )
        emit("scene.whole", studio=customer.studio.id, subject=quiet.id)

        again = events.listen(token, f"job={job.id},{quiet.id}", last_event_id=str(last.id))

        heard = again.all(within=1.0)
        assert next(m.data["job"] for m in heard if m.event == "job") == str(job.id)
        assert {str(m.data["versions"]) for m in heard if m.event == "scenes"} == {str([str(quiet.id)])}

    def test_what_committed_late_comes_too(self, events: Events, customer: Customer, token: str, now: datetime) -> None:
        """An event whose transaction began before the last message, and that nobody else could see then."""
        job = submit(customer, now=now)
        stream = events.listen(token, f"job={job.id}")
        late = uuid4()
        other = connection.copy()
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute(
                "INSERT INTO core_event (studio_id, kind, subject, params) VALUES (%s, 'scene.whole', %s, '{}')",
                [customer.studio.id, late],
            )
        change_priority(job, 1)
        last = stream.next("job")
        stream.leave()
        other.commit()
        other.close()

        again = events.listen(token, f"job={job.id}", last_event_id=str(last.id))

        assert again.next("scenes").data == {"versions": [str(late)]}

    @pytest.mark.parametrize("last", ["9" * 18, "1"])
    def test_too_much_is_not_named(
        self, events: Events, customer: Customer, token: str, now: datetime, last: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("farm.notifications.selectors.MOST_MISSED", 1)
        submit(customer, now=now)

        stream = events.listen(token, last_event_id=last)

        assert stream.next("jobs").data == {"jobs": None}

    def test_an_id_that_is_none_is_a_first_time(self, events: Events, token: str) -> None:
        assert [m.event for m in events.listen(token, last_event_id="x").all(within=0.2)] == []


class TestWhoMayListen:
    def test_nobody_without_a_credential(self, events: Events) -> None:
        answer = events.ask()

        assert (answer.status, answer.problem) == (401, "not-authenticated")

    def test_nobody_with_an_unknown_token(self, events: Events) -> None:
        answer = events.ask(authorization="Bearer fh_nothing")

        assert (answer.status, answer.problem) == (401, "authentication-failed")

    def test_nobody_without_the_right_to_see_jobs(self, events: Events, customer: Customer) -> None:
        answer = events.ask(authorization=f"Bearer {token_of(customer, scopes=[Scope.STUDIO_READ])}")

        assert (answer.status, answer.problem) == (403, "scope-missing")

    def test_who_lacks_a_scope_hears_less(self, events: Events, customer: Customer) -> None:
        stream = events.listen(token_of(customer, scopes=[Scope.JOBS_READ]))
        emit("scene.whole", studio=customer.studio.id, subject=uuid4())
        tell_changed("fleets", "f1")

        assert stream.all(within=1.2) == []

    def test_a_job_of_another_studio_is_not_there(self, events: Events, token: str, now: datetime) -> None:
        foreign = submit(open_customer(), now=now)

        answer = events.ask(f"job={foreign.id}", authorization=f"Bearer {token}")

        assert (answer.status, answer.problem) == (404, "not-found")

    @pytest.mark.parametrize("query", ["job=x", "jobs=1", "job=" + ",".join(str(uuid4()) for _ in range(21))])
    def test_a_question_that_is_none_is_refused(self, events: Events, token: str, query: str) -> None:
        assert events.ask(query, authorization=f"Bearer {token}").status == 422

    def test_somebody_signed_in_chooses_the_studio(self, events: Events, customer: Customer, now: datetime) -> None:
        other = open_customer()
        Membership.objects.create(studio=other.studio, user=customer.user, role="viewer")
        job = submit(other, now=now)
        cookie = f"sessionid={session_of(customer).session_key}"

        assert events.ask(f"studio={other.studio.id}&job={job.id}", cookie=cookie).status == 200
        assert events.ask(f"studio={customer.studio.id}&job={job.id}", cookie=cookie).problem == "not-found"
        assert events.ask(f"studio={uuid4()}", cookie=cookie).problem == "no-such-studio"

    def test_a_token_is_of_its_own_studio(self, events: Events, customer: Customer, token: str) -> None:
        bearer = f"Bearer {token}"

        assert events.ask(f"studio={customer.studio.id}", authorization=bearer).status == 200
        assert events.ask(f"studio={open_customer().studio.id}", authorization=bearer).problem == "no-such-studio"

    def test_pages_of_the_farm_only(self, events: Events, token: str, settings: Any) -> None:
        settings.FARM_URL = "http://127.0.0.1:8780"
        bearer = f"Bearer {token}"
        own = events.ask(authorization=bearer, origin="http://127.0.0.1:8780")
        by_name = events.ask(authorization=bearer, origin="http://localhost:8780", host="localhost:8781")

        assert own.headers["access-control-allow-origin"] == "http://127.0.0.1:8780"
        assert own.headers["access-control-allow-credentials"] == "true"
        assert by_name.headers["access-control-allow-origin"] == "http://localhost:8780"
        for foreign in ("http://127.0.0.1:3000", "http://localhost:8780", "https://127.0.0.1:8780", "null", "http://["):
            answer = events.ask(authorization=bearer, origin=foreign)
            assert (answer.status, "access-control-allow-origin" in answer.headers) == (403, False), foreign

    def test_no_host_but_the_farm_s(self, events: Events, token: str) -> None:
        assert events.ask(authorization=f"Bearer {token}", host="evil.example").status == 400

    def test_no_more_than_so_many(
        self, events: Events, customer: Customer, token: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(streams, "MOST_OF_A_PERSON", 2)
        monkeypatch.setattr(streams, "MOST_OF_A_PROCESS", 3)
        first, _ = (events.listen(token) for _ in range(2))

        assert events.ask(authorization=f"Bearer {token}").problem == "too-many-streams"
        first.leave()
        events.listen(token)
        events.listen(token_of(open_customer()))
        answer = events.ask(authorization=f"Bearer {token_of(open_customer())}")
        assert (answer.status, answer.problem) == (429, "too-many-streams")

    @pytest.mark.parametrize("path", ["/", "/events/", "/api/v1/jobs"])
    def test_nothing_else_is_here(self, events: Events, path: str) -> None:
        assert events.ask(path=path).status == 404

    def test_whoever_watches_over_it_hears_how_it_does(self, events: Events, token: str) -> None:
        events.listen(token)

        assert events.ask(path="/healthz").body == b'{"healthy": true, "listening": true, "streams": 1}'


class TestUntilWhen:
    @pytest.fixture(autouse=True)
    def often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "ADMISSION_S", 0.2)

    def test_until_the_token_is_revoked(self, customer: Customer, token: str, events: Events, now: datetime) -> None:
        stream, stays = events.listen(token), events.listen(token_of(customer))
        ApiToken.objects.filter(prefix=token[:9]).update(revoked_at=now - timedelta(seconds=1))

        stream.wait_for_end(3)

        assert stream.is_over is False  # ended by the farm, not by who listened
        stays.leave()

    def test_until_the_session_ends(self, customer: Customer, events: Events) -> None:
        session = session_of(customer)
        stream = events.ask(cookie=f"sessionid={session.session_key}")
        session.delete()

        stream.wait_for_end(3)

    def test_until_the_role_changes(self, customer: Customer, token: str, events: Events) -> None:
        stream = events.listen(token)
        Membership.objects.filter(user=customer.user).update(role="viewer")

        stream.wait_for_end(3)

    def test_a_listener_who_left_is_forgotten(self, events: Events, token: str) -> None:
        events.listen(token).leave()

        assert events.server.health()["streams"] == 0


class TestTheDatabase:
    def test_all_streams_share_one_connection(self, events: Events, token: str) -> None:
        for _ in range(8):
            events.listen(token)

        with connection.cursor() as cursor:
            cursor.execute(
                """
                SELECT count(*) FILTER (WHERE application_name = 'farm-events'),
                       count(*) FILTER (WHERE state ~ 'transaction')
                  FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                """
            )
            assert cursor.fetchone() == (1, 0)
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            assert cursor.fetchone()[0] == 3  # this test's, the ear's, and the one that authorises

    def test_an_ear_that_was_cut_off_listens_again_and_misses_nothing(
        self, events: Events, customer: Customer, token: str, now: datetime
    ) -> None:
        job = submit(customer, now=now)
        stream = events.listen(token, f"job={job.id}")
        stream.all(within=0.3)
        with connection.cursor() as cursor, transaction.atomic():
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'farm-events'"
            )
        change_priority(job, 3)

        assert stream.next("job", within=5).data["job"] == str(job.id)

"""Words of notifications and messages."""

from __future__ import annotations

from uuid import UUID

import pytest

from farm.notifications.changes import MOST_IDS, Changes, Heard, ids, message

JOB, STUDIO = UUID(int=1), UUID(int=2)  # the same in every process that collects


class TestChanges:
    def test_the_latest_revision_of_a_job_stays(self) -> None:
        found = Changes(0)
        for revision in (5, 9, 7):
            found.note_job(JOB, STUDIO, revision)

        assert found.jobs == {JOB: (STUDIO, 9)}

    @pytest.mark.parametrize(
        ("kind", "jobs", "versions"),
        [
            ("job.failed", [JOB], []),
            ("movie.complete", [JOB], []),
            ("scene.whole", [], [JOB]),
            ("budget.threshold", [], []),
            ("jobless", [], []),
        ],
    )
    def test_an_event_is_about_a_job_a_scene_or_neither(
        self, kind: str, jobs: list[UUID], versions: list[UUID]
    ) -> None:
        found = Changes(0)
        found.note_event(kind, JOB, STUDIO, 3)

        assert (list(found.jobs), list(found.versions)) == (jobs, versions)


class TestHeard:
    def test_what_the_farm_says_is_understood(self) -> None:
        heard = Heard()
        for payload in (f"jobs {JOB} {STUDIO}", f"movie {JOB} {STUDIO} 4", "fleets f1 f2", "events"):
            heard.note(payload)

        assert heard.jobs == {JOB, STUDIO}
        assert heard.movies == {JOB: (STUDIO, 4)}
        assert heard.fleets == {"f1", "f2"}
        assert heard.has_events

    @pytest.mark.parametrize("payload", ["weather sunny", "jobs x", "movie 1", f"movie {JOB} {STUDIO} many"])
    def test_what_it_does_not_know_it_passes_over(self, payload: str) -> None:
        heard = Heard()
        heard.note(payload)

        assert not heard


class TestMessage:
    def test_it_is_a_server_sent_event(self) -> None:
        assert message("job", {"job": JOB}, horizon=7) == f'event: job\nid: 7\ndata: {{"job": "{JOB}"}}\n\n'.encode()


class TestIds:
    def test_they_are_named_up_to_a_limit(self) -> None:
        assert ids("jobs", ["b", "a"]) == {"jobs": ["a", "b"]}
        assert ids("jobs", range(MOST_IDS + 1)) == {"jobs": None}
        assert ids("jobs", None) == {"jobs": None}

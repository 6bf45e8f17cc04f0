"""The way to the events part."""

from __future__ import annotations

from typing import Any

from django.test import Client


class TestElsewhere:
    def test_a_page_is_shown_to_the_port_of_the_host_it_came_by(self, settings: Any) -> None:
        settings.EVENTS_ORIGINS = ["http://127.0.0.1:9001", "http://localhost:9001"]

        for host in ("127.0.0.1", "localhost"):
            answer = Client().get("/events?studio=s&job=a,b", headers={"Host": f"{host}:8780"})

            assert answer.status_code == 307
            assert answer.headers["Location"] == f"http://{host}:9001/events?studio=s&job=a,b"
            assert answer.headers["Cache-Control"] == "no-store"

    def test_where_a_load_balancer_should_have_it_says_so(self, settings: Any) -> None:
        settings.EVENTS_ORIGINS = []

        answer = Client().get("/events")

        assert (answer.status_code, answer.json()["code"]) == (404, "events-elsewhere")

    def test_a_host_that_is_none_leads_nowhere(self, settings: Any) -> None:
        settings.EVENTS_ORIGINS = ["http://127.0.0.1:9001"]

        assert Client().get("/events", headers={"Host": "evil.example"}).status_code == 400

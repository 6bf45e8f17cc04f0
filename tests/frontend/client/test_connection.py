"""Asking a farm: what is repeated and what never, problems, pages."""

from __future__ import annotations

import email.utils
from collections.abc import Iterator

import httpx
import pytest
from farmhand.connection import BadAddress, Connection, Patience, Wait, checked_address, retry_after
from farmhand.errors import AnswerLost, FarmError, NoFarm, Unreachable

from tests.frontend.client.conftest import QUICK
from tests.frontend.client.small_farm import TOKEN, SmallFarm


@pytest.fixture
def waits() -> list[Wait]:
    return []


@pytest.fixture
def connection(url: str, waits: list[Wait]) -> Iterator[Connection]:
    with Connection(url, TOKEN, patience=QUICK, on_wait=waits.append) as connection:
        yield connection


class TestJson:
    def test_an_answer_is_given_as_it_is(self, connection: Connection) -> None:
        assert connection.get("/me")["studio"] == "S"

    def test_a_get_is_repeated_until_it_is_answered(
        self, connection: Connection, small: SmallFarm, waits: list[Wait]
    ) -> None:
        small.fail("GET", "/api/v1/me", times=2, status=503, code="unavailable")

        connection.get("/me")

        assert small.count("GET", "/api/v1/me") == 3
        assert [wait.why for wait in waits] == ["The farm says unavailable."] * 2

    def test_a_get_over_a_line_that_breaks_is_repeated(self, connection: Connection, small: SmallFarm) -> None:
        small.fail("GET", "/api/v1/me", times=1)

        connection.get("/me")

        assert small.count("GET", "/api/v1/me") == 2

    def test_it_gives_up_in_the_end(self, connection: Connection, small: SmallFarm) -> None:
        small.fail("GET", "/api/v1/me", times=99)

        with pytest.raises(Unreachable):
            connection.get("/me")

        assert small.count("GET", "/api/v1/me") == QUICK.attempts

    def test_a_farm_that_stays_away_is_unreachable_with_its_own_words(
        self, connection: Connection, small: SmallFarm
    ) -> None:
        small.fail("GET", "/api/v1/me", times=99, status=503, code="unavailable")

        with pytest.raises(Unreachable, match="The farm says unavailable"):
            connection.get("/me")

    def test_a_post_whose_answer_is_lost_is_not_repeated(self, connection: Connection, small: SmallFarm) -> None:
        small.fail("POST", "/api/v1/scenes", is_done=True)

        with pytest.raises(AnswerLost):
            connection.post("/scenes", {"name": "A"})

        assert len(small.scenes) == 1

    def test_a_post_is_not_repeated_after_a_503_either(self, connection: Connection, small: SmallFarm) -> None:
        small.fail("POST", "/api/v1/scenes", status=503, code="unavailable")

        with pytest.raises(Unreachable):
            connection.post("/scenes", {"name": "A"})

        assert small.count("POST", "/api/v1/scenes") == 1

    def test_a_post_with_a_key_is_repeated_with_the_same_key(self, connection: Connection, small: SmallFarm) -> None:
        small.fail("POST", "/api/v1/scenes", is_done=True)

        connection.post("/scenes", {"name": "A"}, key="once")

        assert small.keys == ["once", "once"]

    def test_a_post_that_the_caller_calls_repeatable_is_repeated(
        self, connection: Connection, small: SmallFarm
    ) -> None:
        small.fail("POST", "/api/v1/scenes", status=502, code="")

        connection.post("/scenes", {"name": "A"}, repeatable=True)

        assert small.count("POST", "/api/v1/scenes") == 2

    def test_a_post_that_was_refused_for_haste_is_repeated(self, connection: Connection, small: SmallFarm) -> None:
        small.fail("POST", "/api/v1/scenes", status=429, code="throttled", headers={"Retry-After": "0"})

        connection.post("/scenes", {"name": "A"})

        assert len(small.scenes) == 1

    def test_a_key_that_is_at_work_is_waited_for(self, connection: Connection, small: SmallFarm) -> None:
        small.fail("POST", "/api/v1/scenes", status=409, code="idempotency-key-busy")

        connection.post("/scenes", {"name": "A"}, key="once")

        assert len(small.scenes) == 1

    def test_a_post_to_nobody_is_repeated_since_it_never_arrived(self, waits: list[Wait]) -> None:
        with (
            Connection("http://127.0.0.1:1", TOKEN, patience=QUICK, on_wait=waits.append) as nobody,
            pytest.raises(Unreachable, match="no connection"),
        ):
            nobody.post("/scenes", {})

        assert len(waits) == QUICK.attempts - 1

    def test_the_farm_says_how_long_to_wait_and_is_heard_up_to_a_limit(
        self, connection: Connection, small: SmallFarm, waits: list[Wait]
    ) -> None:
        small.fail("GET", "/api/v1/me", status=503, code="unavailable", headers={"Retry-After": "3600"})

        connection.get("/me")

        assert QUICK.longest_asked <= waits[0].seconds <= QUICK.longest_asked + QUICK.first

    def test_a_refusal_says_code_and_field(self, connection: Connection) -> None:
        with pytest.raises(FarmError) as caught:
            connection.get("/nothing")

        assert caught.value.code == "not-found"
        assert caught.value.status == 404

    def test_a_bug_of_the_farm_is_not_asked_for_again(self, connection: Connection, small: SmallFarm) -> None:
        small.fail("GET", "/api/v1/me", status=500, code="internal-error")

        with pytest.raises(FarmError):
            connection.get("/me")

        assert small.count("GET", "/api/v1/me") == 1

    def test_another_website_is_no_farm(self, connection: Connection, small: SmallFarm) -> None:
        small.fail("GET", "/api/v1/me", status=404)

        with pytest.raises(NoFarm):
            connection.get("/me")

    def test_a_redirect_is_not_followed_with_the_token(self, connection: Connection, small: SmallFarm) -> None:
        small.fail("GET", "/api/v1/me", status=301, headers={"Location": "https://elsewhere.example.org/"})

        with pytest.raises(NoFarm, match=r"elsewhere\.example\.org"):
            connection.get("/me")

    def test_a_token_of_foreign_letters_is_refused_before_it_is_sent(self, url: str) -> None:
        with pytest.raises(FarmError, match="letters no token has"):
            Connection(url, "fh_ключ")


class TestGiveUp:
    def test_nothing_is_waited_for_any_more(self, connection: Connection, small: SmallFarm) -> None:
        small.fail("GET", "/api/v1/me", times=99)
        connection.give_up()

        with pytest.raises(Unreachable):
            connection.get("/me")

        assert small.count("GET", "/api/v1/me") == 1


class TestPages:
    def test_pages_are_asked_for_one_after_another(self, connection: Connection, small: SmallFarm) -> None:
        small.answers["/api/v1/jobs"] = {"results": [{"id": "b"}], "next": "b"}
        rows = connection.pages("/jobs")
        first = next(rows)
        small.answers["/api/v1/jobs"] = {"results": [{"id": "a"}], "next": None}

        rest = list(rows)

        assert [first, *rest] == [{"id": "b"}, {"id": "a"}]
        assert small.asked[-1] == ("GET", "/api/v1/jobs?limit=200&cursor=b")


class TestSendSigned:
    def test_the_token_does_not_go_to_the_store(self, connection: Connection, small: SmallFarm) -> None:
        small.files["a"] = b"content"

        connection.send_signed("GET", "/files/a", {}, b"")

        assert small.authorizations == {"": 1}


class TestPause:
    def test_waits_grow_and_are_spread(self) -> None:
        patience = Patience(first=1, longest=10)

        waits = [patience.pause(attempt, None, jitter=jitter) for attempt in (0, 1, 9) for jitter in (0, 1)]

        assert waits == [0.5, 1, 1, 2, 5, 10]


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("said", "seconds"),
        [("7", 7), (email.utils.formatdate(1_000_030, usegmt=True), 30), ("soon", None), ("", None), ("-3", None)],
    )
    def test_seconds_and_moments_are_read(self, said: str, seconds: float | None) -> None:
        answer = httpx.Response(503, headers={"Retry-After": said} if said else {})

        assert retry_after(answer, now=1_000_000) == seconds

    def test_a_moment_that_is_over_is_now(self) -> None:
        answer = httpx.Response(503, headers={"Retry-After": email.utils.formatdate(1, usegmt=True)})

        assert retry_after(answer, now=1_000_000) == 0


class TestCheckedAddress:
    def test_a_slash_at_the_end_is_dropped(self) -> None:
        assert checked_address(" https://farm.example.org/sub/ ") == "https://farm.example.org/sub"

    @pytest.mark.parametrize(
        "url",
        ["farm.example.org", "ftp://farm.example.org", "http://", "http://a:x@b", "http://a?b", "http://a:99999", ""],
    )
    def test_what_is_no_address_is_refused(self, url: str) -> None:
        with pytest.raises(BadAddress):
            checked_address(url)

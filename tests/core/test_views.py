"""What every view shares: bodies are read strictly, and a request can be repeated."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from unittest.mock import patch

import pytest
from django.db import connection, transaction

from farm.core.errors import Refusal
from farm.core.models import IdempotencyKey
from farm.studios import services
from farm.studios.models import Project
from tests.api import Answer, Api
from tests.farm import Customer, open_customer


@pytest.fixture
def customer(db: None) -> Customer:
    return open_customer()


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


def make(api: Api, name: str = "Film", *, key: str = "k1") -> Answer:
    return api.post("projects", {"name": name}, **{"Idempotency-Key": key})


class TestOnce:
    def test_asked_again_the_first_answer_is_given_again_and_nothing_is_made(self, api: Api) -> None:
        first, second = make(api), make(api)

        assert (first.status, second.status) == (201, 201)
        assert first.body == second.body
        assert "Idempotent-Replay" not in first.headers
        assert second.headers["Idempotent-Replay"] == "true"
        assert Project.objects.filter(name="Film").count() == 1

    def test_fields_in_another_order_are_the_same_request(self, api: Api) -> None:
        headers = {"Idempotency-Key": "k"}
        first = api.post("projects", '{"name": "Film", "region": "local"}', **headers)

        assert api.post("projects", '{"region": "local", "name": "Film"}', **headers).body == first.body

    def test_another_body_under_the_same_key_is_refused(self, api: Api) -> None:
        make(api)

        answer = make(api, "Another film")

        assert (answer.status, answer.code) == (422, "idempotency-key-reused")
        assert not Project.objects.filter(name="Another film").exists()

    def test_another_key_is_another_request(self, api: Api) -> None:
        make(api)

        assert make(api, key="k2").code == "name-taken"

    def test_another_studio_s_key_is_its_own(self, api: Api) -> None:
        make(api)

        answer = make(Api(open_customer()))

        assert answer.status == 201
        assert "Idempotent-Replay" not in answer.headers

    def test_a_key_belongs_to_its_address(self, api: Api, customer: Customer) -> None:
        make(api)

        answer = api.post("scenes", {"name": "Film", "project": str(customer.project.id)}, **{"Idempotency-Key": "k1"})

        assert answer.status == 201

    def test_a_refusal_is_not_kept(self, api: Api) -> None:
        with patch.object(services, "audit", side_effect=Refusal):
            assert make(api).status == 409

        assert make(api).status == 201

    def test_a_key_that_is_too_long_is_refused(self, api: Api) -> None:
        answer = make(api, key="k" * 201)

        assert (answer.status, answer.fields) == (422, [("Idempotency-Key", "invalid")])

    def test_without_a_key_nothing_is_kept(self, api: Api) -> None:
        api.post("projects", {"name": "Film"})

        assert not IdempotencyKey.objects.exists()


@pytest.mark.django_db(transaction=True)
class TestOnceWithTwins:
    def test_twins_that_come_at_once_are_one_request(self) -> None:
        customer = open_customer()
        api, start = Api(customer), Barrier(4)

        def ask(_: int) -> Answer:
            start.wait()
            try:
                return make(api)
            finally:
                connection.close()

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(ask, range(4)))

        assert [a.status for a in answers] == [201] * 4
        assert len({a.body["id"] for a in answers}) == 1
        assert sorted(a.headers.get("Idempotent-Replay", "") for a in answers) == ["", "true", "true", "true"]

    def test_a_twin_whose_first_does_not_end_is_told_to_ask_again(self) -> None:
        customer = open_customer()
        api = Api(customer)

        def ask() -> Answer:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '100ms'")
            try:
                return make(api)
            finally:
                connection.close()

        with transaction.atomic(), connection.cursor() as cursor:
            name = f"{customer.studio.id} POST /api/v1/projects k1"
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])
            with ThreadPoolExecutor(1) as pool:
                answer = pool.submit(ask).result()

        assert (answer.status, answer.code) == (409, "idempotency-key-busy")


class TestHealth:
    @pytest.mark.django_db
    def test_a_process_that_reaches_its_database_is_healthy(self) -> None:
        answer = Api().get("/healthz")

        assert (answer.status, answer.body) == (200, {"healthy": True})

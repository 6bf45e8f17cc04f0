"""Pages: every row once, whatever comes between; nothing that is asked for is ignored."""

from __future__ import annotations

from datetime import datetime

import pytest

from farm.core.errors import Invalid
from farm.core.pages import parse_number
from farm.studios.models import Project
from tests.api import Api
from tests.farm import Customer, open_customer, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def customer() -> Customer:
    return open_customer()


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


def walk(api: Api, path: str, limit: int) -> list[str]:
    """Follow the cursors to the end."""
    names, cursor = [], ""
    while True:
        answer = api.get(f"{path}?limit={limit}{cursor}")
        assert answer.status == 200, answer.body
        names += [row["name"] for row in answer.body["results"]]
        if answer.body["next"] is None:
            return names
        cursor = f"&cursor={answer.body['next']}"


class TestPage:
    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 200])
    def test_rows_of_one_moment_come_each_once_newest_first(self, api: Api, customer: Customer, limit: int) -> None:
        at = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
        Project.objects.bulk_create(Project(studio=customer.studio, name=f"P{i}", created_at=at) for i in range(6))

        assert walk(api, "projects", limit) == ["P5", "P4", "P3", "P2", "P1", "P0", "Show"]

    def test_a_row_that_comes_between_two_pages_shifts_none(self, api: Api, customer: Customer) -> None:
        for i in range(3):
            Project.objects.create(studio=customer.studio, name=f"P{i}")
        first = api.get("projects?limit=2").body
        Project.objects.create(studio=customer.studio, name="Late")

        second = api.get(f"projects?limit=2&cursor={first['next']}").body

        assert [row["name"] for row in first["results"] + second["results"]] == ["P2", "P1", "P0", "Show"]

    def test_a_full_last_page_has_no_next(self, api: Api) -> None:
        assert api.get("projects?limit=1").body["next"] is None

    def test_tasks_come_in_the_order_of_their_space(self, api: Api, customer: Customer, now: datetime) -> None:
        job = submit(customer, frames="10,7,8-9,1-3", now=now)

        first = api.get(f"jobs/{job.id}/tasks?limit=4").body
        second = api.get(f"jobs/{job.id}/tasks?limit=4&cursor={first['next']}").body

        assert [row["index"] for row in first["results"] + second["results"]] == list(range(7))

    @pytest.mark.parametrize("wish", ["limit=0", "limit=-1", "limit=201", "limit=1e2", "limit=", "limit=9999999999999"])
    def test_a_limit_outside_1_to_200_is_refused(self, api: Api, wish: str) -> None:
        answer = api.get(f"projects?{wish}")

        assert (answer.status, answer.fields) == (422, [("limit", "invalid")])

    @pytest.mark.parametrize("name", ["page_size", "page", "offset", "format", "LIMIT", "order_by", "studio"])
    def test_what_is_no_filter_is_refused_with_those_there_are(self, api: Api, name: str) -> None:
        answer = api.get(f"projects?{name}=1")

        assert (answer.status, answer.code, answer.fields) == (422, "unknown-filter", [(name, "unknown-filter")])
        assert "cursor, limit, name" in answer.body["detail"]

    @pytest.mark.parametrize("query", ["cursor=1", "cursor=%00", "name=a%00b", "name=a&name=b"])
    def test_a_value_that_means_nothing_is_refused(self, api: Api, query: str) -> None:
        answer = api.get(f"projects?{query}")

        assert (answer.status, answer.code) == (422, "invalid")

    def test_filters_narrow_each_other(self, api: Api, customer: Customer, now: datetime) -> None:
        job = submit(customer, name="Beach", now=now)
        submit(customer, name="Beach", now=now, suspended=True)
        submit(customer, name="Forest", now=now)

        found = api.get(f"jobs?name=bea&status=active,failed&project={customer.project.id}").body["results"]

        assert [row["id"] for row in found] == [str(job.id)]

    @pytest.mark.parametrize(
        ("query", "field"),
        [("status=open", "status"), ("status=", "status"), ("project=Show", "project"), ("status=active,", "status")],
    )
    def test_a_filter_s_unknown_value_is_refused(self, api: Api, query: str, field: str) -> None:
        answer = api.get(f"jobs?{query}")

        assert (answer.status, answer.fields) == (422, [(field, "invalid")])

    @pytest.mark.parametrize("frame", ["x", "1.0", "１２", "99999999999", "0x10", "1_0", "²"])
    def test_a_frame_that_is_no_number_of_this_size_is_refused(
        self, api: Api, customer: Customer, now: datetime, frame: str
    ) -> None:
        job = submit(customer, now=now)

        assert api.get(f"jobs/{job.id}/tasks?frame={frame}").fields == [("frame", "invalid")]


class TestParseNumber:
    @pytest.mark.parametrize(("text", "number"), [("0", 0), ("-3", -3), ("007", 7), ("2147483647", 2147483647)])
    def test_digits_are_read(self, text: str, number: int) -> None:
        assert parse_number(text, "n") == number

    @pytest.mark.parametrize("text", ["", "-", "--1", "+1", " 1", "1 ", "9" * 10_000, "٣"])
    def test_all_else_is_refused(self, text: str) -> None:
        with pytest.raises(Invalid):
            parse_number(text, "n")

"""The billing pages' addresses, as a member's program sees them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from farm.billing.models import Budget, CostObject
from farm.billing.pricing import BudgetScope, Policy
from farm.billing.services import forgive_scouts, set_rate
from farm.studios.models import Project
from farm.studios.roles import Scope
from tests.billing.shop import GPU, MINUTE, NOW, Api, Shop, make_shop

HOUR = timedelta(hours=1)
NOBODYS = UUID(int=7)  # the same in every process that collects the tests


@pytest.fixture
def foreign(db: None) -> Shop:
    """Another studio, with a job that rendered."""
    shop = make_shop()
    shop.render(shop.open())
    return shop


class TestBudgets:
    def test_they_are_listed_with_what_is_held_spent_and_left(self, shop: Shop, api: Api, foreign: Shop) -> None:
        job = shop.open(budget=1_000_000)
        shop.render(job)
        shop.start(job)

        status, body = api("GET", "budgets?scope=job")

        assert status == 200
        (budget,) = body["results"]
        assert budget["subject"] == str(job.id)
        assert budget["cap"] == {"micro": 1_000_000, "currency": "USD", "amount": "1.000000"}
        assert (budget["held"]["micro"], budget["spent"]["micro"]) == (MINUTE, MINUTE)
        assert budget["left"]["amount"] == "0.973166"

    def test_without_a_cap_nothing_is_said_to_be_left(self, shop: Shop, api: Api, job: CostObject) -> None:
        _, body = api("GET", f"budgets?subject={job.id}")

        assert (body["results"][0]["cap"], body["results"][0]["left"]) == (None, None)

    def test_a_month_is_found(self, shop: Shop, api: Api, job: CostObject) -> None:
        counts = [len(api("GET", f"budgets?month={month}")[1]["results"]) for month in ("2026-11-01", "2026-12-01")]

        assert counts == [1, 0]

    @pytest.mark.parametrize("query", ["scope=farm", "subject=me", "month=soon", "month=2026-13-01", "color=red"])
    def test_an_unknown_filter_is_refused(self, api: Api, query: str) -> None:
        status, body = api("GET", f"budgets?{query}")

        assert (status, body["errors"][0]["field"]) == (422, query.split("=")[0])

    def test_a_cap_is_set_once_and_the_answer_given_again(self, shop: Shop, api: Api) -> None:
        wish = {"scope": "project", "subject": str(shop.project.id), "cap_micro": 5_000_000}

        first = api("POST", "budgets", wish, **{"idempotency-key": "one"})
        again = api("POST", "budgets", wish, **{"idempotency-key": "one"})
        other = api("POST", "budgets", wish, **{"idempotency-key": "two"})

        assert first[0] == 201
        assert first == again
        assert (other[0], other[1]["code"]) == (409, "budget-exists")
        assert shop.budget(BudgetScope.PROJECT).cap_micro == 5_000_000

    def test_a_studios_cap_is_of_the_month_that_is_said(self, shop: Shop, api: Api) -> None:
        status, body = api("POST", "budgets", {"scope": "studio", "month": "2126-12-01", "cap_micro": 1})

        assert (status, body["month"]) == (201, "2126-12-01")

    @pytest.mark.parametrize(
        ("wish", "field"),
        [
            ({"scope": "project", "cap_micro": 1}, "subject"),
            ({"scope": "studio", "cap_micro": -1}, "cap_micro"),
            ({"scope": "studio", "cap_micro": 10**16}, "cap_micro"),
            ({"scope": "studio", "cap_micro": 0.5}, "cap_micro"),
            ({"scope": "farm", "cap_micro": 1}, "scope"),
            ({"scope": "studio", "cap_micro": 1, "month": "2020-01-01"}, "month"),
            ({"scope": "studio", "cap_micro": 1, "currency": "EUR"}, "currency"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, api: Api, wish: dict[str, Any], field: str) -> None:
        status, body = api("POST", "budgets", wish)

        assert (status, body["errors"][0]["field"]) == (422, field)

    def test_a_foreign_project_is_not_there(self, api: Api, foreign: Shop) -> None:
        status, _ = api("POST", "budgets", {"scope": "project", "subject": str(foreign.project.id), "cap_micro": 1})

        assert status == 404
        assert foreign.budget(BudgetScope.PROJECT).cap_micro is None


class TestBudget:
    def test_its_cap_is_changed_and_lifted(self, shop: Shop, api: Api, job: CostObject) -> None:
        budget = shop.budget(BudgetScope.JOB, job.id)

        answers = [api("PATCH", f"budgets/{budget.id}", {"cap_micro": cap}) for cap in (0, None)]

        assert [(status, body["cap"] and body["cap"]["micro"]) for status, body in answers] == [(200, 0), (200, None)]
        assert api("GET", f"budgets/{budget.id}") == (200, answers[-1][1])

    @pytest.mark.parametrize("method", ["GET", "PATCH"])
    def test_a_foreign_one_is_not_there(self, api: Api, foreign: Shop, method: str) -> None:
        budget = foreign.budget(BudgetScope.PROJECT)

        status, body = api(method, f"budgets/{budget.id}", {"cap_micro": 1} if method == "PATCH" else None)

        assert (status, body["code"]) == (404, "not-found")
        assert Budget.objects.get(pk=budget.pk).cap_micro is None

    def test_it_has_no_other_field(self, shop: Shop, api: Api, job: CostObject) -> None:
        budget = shop.budget(BudgetScope.JOB, job.id)

        status, body = api("PATCH", f"budgets/{budget.id}", {"cap_micro": 1, "spent_micro": 0})

        assert (status, body["errors"][0]["field"]) == (422, "spent_micro")


class TestRates:
    def test_they_are_those_of_the_studio_in_its_currency(self, api: Api, shop: Shop) -> None:
        set_rate(worker_class=GPU, currency="USD", micro_per_gpu_hour=5, valid_from=NOW, studio=shop.studio, now=NOW)

        _, body = api("GET", "rates?limit=200")

        by_class = {rate["worker_class"]: rate for rate in body["results"]}
        assert by_class[GPU]["per_gpu_hour"] == {"micro": 5, "currency": "USD", "amount": "0.000005"}
        assert (by_class[GPU]["is_own"], by_class["cpu"]["is_own"]) == (True, False)
        assert by_class["cpu"]["per_gpu_hour"]["amount"] == "0.400000"
        assert {rate["per_gpu_hour"]["currency"] for rate in body["results"]} == {"USD"}

    def test_one_class_is_found(self, api: Api) -> None:
        _, body = api("GET", "rates?worker_class=cpu")

        assert [rate["worker_class"] for rate in body["results"]] == ["cpu"]

    def test_what_was_agreed_with_another_studio_is_not_shown(self, api: Api, foreign: Shop) -> None:
        rate: dict[str, Any] = {"worker_class": "cpu", "currency": "USD", "micro_per_gpu_hour": 5}
        set_rate(**rate, valid_from=NOW, studio=foreign.studio, now=NOW)

        _, body = api("GET", "rates?worker_class=cpu")

        assert [rate["per_gpu_hour"]["micro"] for rate in body["results"]] == [400_000]


class TestPolicy:
    def test_it_is_readable(self, api: Api) -> None:
        assert api("GET", "policy") == (
            200,
            {
                "scene_error_cap_seconds": None,
                "free_setup_seconds": 300,
                "cancel_grace_seconds": 15,
                "free_scout_gpu_seconds": 600,
                "when_refused": "stop",
            },
        )


class TestStatement:
    def test_a_line_says_what_was_used_and_what_it_costs(self, shop: Shop, api: Api, job: CostObject) -> None:
        fact = shop.render(job, setup_ms=2_000, label="frame 12")

        status, body = api("GET", f"statement?cost_object={job.id}")

        assert status == 200
        (line,) = body["results"]
        assert line["attempt"] == str(fact.pk)
        assert (line["label"], line["worker_class"], line["gpus"]) == ("frame 12", GPU, 1)
        assert (line["render_ms"], line["setup_ms"], line["billable_ms"]) == (60_000, 2_000, 60_000)
        assert line["rate"]["amount"] == "0.805000"
        assert (line["gross"]["micro"], line["credit"]["micro"], line["charged"]["micro"]) == (MINUTE, 0, MINUTE)
        assert (line["outcome"], line["reason"]) == ("succeeded", "verified")
        assert datetime.fromisoformat(line["ended_at"]) == NOW + HOUR

    def test_an_interruption_is_a_line_and_its_credit(self, shop: Shop, api: Api, job: CostObject) -> None:
        shop.render(job, outcome="interrupted", cause="interrupted")

        _, body = api("GET", "statement")

        line = body["results"][0]
        assert (line["gross"]["micro"], line["credit"]["micro"], line["charged"]["micro"]) == (MINUTE, MINUTE, 0)

    def test_what_was_forgiven_later_is_shown_and_not_charged(self, shop: Shop, api: Api, job: CostObject) -> None:
        shop.render(job, scout=True)
        shop.render(job)
        forgive_scouts(job.id, now=NOW + HOUR)

        _, body = api("GET", f"statement?cost_object={job.id}")

        lines = sorted(body["results"], key=lambda line: not line["is_scout"])
        assert [line["charged"]["micro"] for line in lines] == [0, MINUTE]
        assert [line["forgiven"]["micro"] for line in lines] == [MINUTE, 0]
        assert body["totals"]["charged"]["micro"] == MINUTE == shop.budget(BudgetScope.JOB, job.id).spent_micro

    def test_the_totals_are_the_sum_of_all_pages(self, shop: Shop, api: Api, job: CostObject, foreign: Shop) -> None:
        for n in range(7):
            shop.render(job, outcome=["succeeded", "lost"][n % 2], render_ms=1_234 * n)
        lines, cursor, totals = [], "", []

        while cursor is not None:
            _, body = api("GET", f"statement?cost_object={job.id}&limit=3" + (f"&cursor={cursor}" if cursor else ""))
            lines += body["results"]
            totals.append(body["totals"])
            cursor = body["next"]

        assert len({line["attempt"] for line in lines}) == 7
        assert totals == [totals[0]] * 3
        assert totals[0]["count"] == 7
        for name in ("gross", "credit", "charged"):
            assert totals[0][name]["micro"] == sum(line[name]["micro"] for line in lines)
        assert totals[0]["render_ms"] == sum(line["render_ms"] for line in lines)

    def test_it_is_cut_to_a_project(self, shop: Shop, api: Api, job: CostObject) -> None:
        other = Project.objects.create(studio=shop.studio, name="Other")
        shop.render(job)
        shop.render(shop.open(project=other), outcome="lost")

        _, body = api("GET", f"statement?project={other.id}")

        assert (len(body["results"]), body["totals"]["count"], body["totals"]["charged"]["micro"]) == (1, 1, 0)

    @pytest.mark.parametrize(
        ("query", "count"),
        [
            ("from=2026-11-20T13:00:00Z", 1),
            ("from=2026-11-20T13:00:01Z", 0),
            ("to=2026-11-20T13:00:00Z", 0),
            ("to=2026-11-20T14:00:00%2B01:00", 0),
            ("from=2026-11-20&to=2026-11-21", 1),
            ("from=2026-11-21", 0),
            ("to=2026-11-20", 0),
        ],
    )
    def test_a_period_is_half_open(self, shop: Shop, api: Api, job: CostObject, query: str, count: int) -> None:
        shop.render(job)

        _, body = api("GET", f"statement?{query}")

        assert (len(body["results"]), body["totals"]["count"]) == (count, count)

    def test_a_day_is_the_studios(self, db: None) -> None:
        shop = make_shop(zone="Pacific/Auckland")
        shop.render(shop.open())  # 13:00 UTC is 02:00 of the 21st there
        api = Api(shop, [Scope.BILLING_READ])

        counts = [api("GET", f"statement?from={day}")[1]["totals"]["count"] for day in ("2026-11-21", "2026-11-22")]

        assert counts == [1, 0]

    @pytest.mark.parametrize(
        "query",
        ["from=yesterday", "from=2026-13-40T00:00:00Z", "to=2026-11-20T13:00:00", "cost_object=1", "shot=sh010"],
    )
    def test_what_makes_no_sense_is_refused(self, api: Api, query: str) -> None:
        status, body = api("GET", f"statement?{query}")

        assert (status, body["errors"][0]["field"]) == (422, query.split("=")[0])

    def test_foreign_ids_are_not_there(self, api: Api, foreign: Shop) -> None:
        foreign_job = CostObject.objects.get(studio=foreign.studio)

        answers = [
            api("GET", f"statement?{q}")[0] for q in (f"cost_object={foreign_job.id}", f"project={foreign.project.id}")
        ]

        assert answers == [404, 404]
        assert api("GET", "statement")[1]["totals"]["count"] == 0


class TestCostObject:
    def test_it_shows_the_terms_it_keeps(self, shop: Shop, api: Api) -> None:
        job = shop.open(sequence="sq1", tags={"client": "ACME"}, policy=Policy(scene_error_cap_seconds=9))

        status, body = api("GET", f"cost-objects/{job.id}")

        assert status == 200
        assert (body["name"], body["artist_name"], body["sequence"]) == ("shot_010", "Ada", "sq1")
        assert body["tags"] == {"client": "ACME"}
        assert body["policy"]["scene_error_cap_seconds"] == 9
        assert body["rates"]["cpu"] == {"micro": 400_000, "currency": "USD", "amount": "0.400000"}

    def test_it_is_tagged_anew(self, api: Api, job: CostObject) -> None:
        status, body = api("PATCH", f"cost-objects/{job.id}", {"shot": "sh020", "tags": {"client": "Other"}})

        assert (status, body["shot"], body["tags"]) == (200, "sh020", {"client": "Other"})

    @pytest.mark.parametrize(
        ("wish", "field"),
        [
            ({"name": "new"}, "name"),
            ({"shot": "x" * 201}, "shot"),
            ({"tags": {"a": "x" * 201}}, "tags.a"),
            ({"tags": {"a" * 101: "x"}}, "tags[0]"),
            ({"tags": {str(n): "x" for n in range(51)}}, "tags[0]"),
        ],
    )
    def test_what_cannot_be_changed_is_refused(
        self, api: Api, job: CostObject, wish: dict[str, Any], field: str
    ) -> None:
        status, body = api("PATCH", f"cost-objects/{job.id}", wish)

        assert status == 422
        assert body["errors"][0]["field"].startswith(field.split("[")[0])

    @pytest.mark.parametrize("method", ["GET", "PATCH"])
    def test_a_foreign_one_is_not_there(self, api: Api, foreign: Shop, method: str) -> None:
        job = CostObject.objects.get(studio=foreign.studio)

        status, _ = api(method, f"cost-objects/{job.id}", {"shot": "mine"} if method == "PATCH" else None)

        assert status == 404
        assert CostObject.objects.get(pk=job.pk).shot == ""


ROUTES = [
    ("GET", "budgets", None),
    ("POST", "budgets", {"scope": "studio", "cap_micro": 1}),
    ("GET", f"budgets/{NOBODYS}", None),
    ("PATCH", f"budgets/{NOBODYS}", {"cap_micro": 1}),
    ("GET", "rates", None),
    ("GET", "policy", None),
    ("GET", "statement", None),
    ("GET", f"cost-objects/{NOBODYS}", None),
    ("PATCH", f"cost-objects/{NOBODYS}", {"shot": "x"}),
]


class TestScopes:
    @pytest.mark.parametrize(("method", "path", "body"), ROUTES)
    def test_money_is_shown_and_changed_only_to_those_who_may(
        self, shop: Shop, method: str, path: str, body: dict[str, Any] | None
    ) -> None:
        needed = Scope.BILLING_READ if method == "GET" else Scope.BILLING_WRITE
        others = [str(scope) for scope in Scope if scope is not needed]

        with_all_but_it = Api(shop, others)(method, path, body)[0]
        with_it = Api(shop, [str(needed)])(method, path, body)[0]

        assert with_all_but_it == 403
        assert with_it in {200, 201, 404}


class TestCosts:
    def test_jobs_are_told_with_what_is_charged_held_and_allowed(self, shop: Shop, api: Api) -> None:
        free, capped = shop.open(), shop.open(budget=1_000_000)
        shop.render(capped)
        shop.start(capped)

        status, body = api("GET", f"costs?cost_objects={capped.id},{free.id},{capped.id}")

        assert status == 200
        first, second = body["results"]
        assert first["cost_object"] == str(capped.id)
        assert (first["charged"]["micro"], first["held"]["micro"], first["cap"]["micro"]) == (MINUTE, MINUTE, 1_000_000)
        assert (second["charged"]["amount"], second["cap"]) == ("0.000000", None)

    def test_what_was_given_back_is_left_out(self, shop: Shop, api: Api) -> None:
        job = shop.open()
        shop.render(job, scout=True)
        forgive_scouts(job.id, now=NOW + HOUR)

        _, body = api("GET", f"costs?cost_objects={job.id}")

        assert body["results"][0]["charged"]["micro"] == 0

    def test_another_studio_s_job_is_as_if_it_were_not_there(self, api: Api, foreign: Shop) -> None:
        (theirs,) = CostObject.objects.filter(studio=foreign.studio).values_list("pk", flat=True)

        assert api("GET", f"costs?cost_objects={theirs},{uuid4()}")[1] == {"results": []}

    @pytest.mark.parametrize("query", ["", "?cost_objects=", "?cost_objects=x", "?jobs=x"])
    def test_it_must_be_said_of_which(self, api: Api, query: str) -> None:
        assert api("GET", f"costs{query}")[0] == 422

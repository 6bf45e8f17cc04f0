"""Orders over the API: what comes back, what is refused, and in which words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from farm.billing.models import CostObject
from farm.core.fields import new_ids
from farm.core.pages import page
from farm.jobs import selectors
from farm.jobs.api import _SORTS
from farm.jobs.models import Job, Task
from farm.jobs.serializers import JobSerializer
from farm.jobs.services import inspect_version
from farm.scenes.models import SceneVersion
from farm.studios.models import AuditRow, User
from farm.studios.tenancy import become_tenant
from tests.api import Answer, Api, leave_tenant
from tests.farm import TEMPLATE, TWO_STEPS, Customer, dispatch, start_worker, submit
from tests.jobs.conftest import MakeVersion
from tests.jobs.plans import analyze, rows_looked_at
from tests.scenes.reports import a_problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("farm")]

CPU_OFFER = [{"fleet": "local", "worker_class": "cpu"}]


@pytest.fixture
def now() -> datetime:
    """Deadlines are compared with the clock."""
    return datetime.now(UTC)


@pytest.fixture
def api(customer: Customer) -> Api:
    return Api(customer)


def order(customer: Customer, **wish: Any) -> dict[str, Any]:
    return {"project": str(customer.project.id), "template": TEMPLATE, **wish}


class TestSubmit:
    def test_the_answer_is_the_job(self, api: Api, customer: Customer) -> None:
        wish = order(customer, parameters={"Frames": "1-4"}, name="Beach", priority=60, shot="sh1", tags={"a": "b"})

        answer = api.post("jobs", wish)

        assert answer.status == 201, answer.body
        job = answer.body
        assert (job["name"], job["priority"], job["status"]) == ("Beach", 60, "active")
        assert job["tasks"] == {"pending": 0, "ready": 4, "leased": 0, "succeeded": 0, "failed": 0, "cancelled": 0}
        assert job["parameters"] == {"Frames": "1-4"}
        assert job["project_name"] == "Show"
        assert api.get(f"jobs/{job['id']}").body == job
        assert api.get("jobs").body["results"] == [job]
        assert AuditRow.objects.get(act="job.submitted").params == {"name": "Beach"}

    def test_numbers_may_be_written_as_numbers(self, api: Api, customer: Customer, make_version: MakeVersion) -> None:
        wish = {"project": str(customer.project.id), "renderer": "blender", "scene_version": str(make_version().id)}

        answer = api.post("jobs", wish | {"parameters": {"Frames": "1", "Samples": 16}})

        assert answer.body["parameters"]["Samples"] == "16"

    def test_a_key_orders_once(self, api: Api, customer: Customer) -> None:
        answers = [api.post("jobs", order(customer), **{"Idempotency-Key": "k"}) for _ in range(2)]

        assert answers[0].body == answers[1].body
        assert Job.objects.count() == 1

    def test_a_job_s_document_is_no_part_of_lists(self, api: Api, customer: Customer) -> None:
        api.post("jobs", order(customer))

        assert "template" not in api.get("jobs").body["results"][0]

    @pytest.mark.parametrize(
        ("change", "field", "code"),
        [
            ({"project": None}, "project", "null"),
            ({"project": "Show"}, "project", "invalid"),
            ({"priority": 101}, "priority", "max-value"),
            ({"priority": "high"}, "priority", "invalid"),
            ({"deadline": "tomorrow"}, "deadline", "invalid"),
            ({"deadline": "2020-01-01T00:00:00Z"}, "deadline", "deadline-passed"),
            ({"budget_micro": -1}, "budget_micro", "min-value"),
            ({"name": "a\x1b[2Jb"}, "name", "not-printable"),
            ({"tags": {"k": 1.5, "x" * 101: "v"}}, "tags", "invalid"),
            ({"tags": {f"k{i}": "v" for i in range(51)}}, "tags", "invalid"),
            ({"parameters": {"Frames": ["1"]}}, "parameters.Frames", "invalid"),
            ({"parameters": {"Frames": True}}, "parameters.Frames", "invalid"),
            ({"parameters": ["Frames"]}, "parameters", "not-a-dict"),
            ({"parameters": {"Frames": "10-"}}, "parameters.Frames", "invalid-range"),
            ({"parameters": {"Frames": "1-10000000"}}, "parameters.Frames", "too-many-tasks"),
            ({"parameters": {"Frame": "1"}}, "parameters.Frame", "unknown-parameter"),
            ({"renderer": "blender"}, "renderer", "template-needed"),
            ({"template": ""}, "renderer", "template-needed"),
            ({"template": "x" * 1_000_001}, "template", "max-length"),
            ({"template": "- no"}, "template", "invalid-template"),
            ({"fleet": "mars"}, "fleet", "unknown-fleet"),
            ({"scouts": "99"}, "scouts", "unknown-frame"),
            ({"after": ["x"]}, "after.0", "invalid"),
            ({"after": ["01890000-0000-7000-8000-000000000000"]}, "after", "not-found"),
            ({"renderer_version": "new"}, "renderer_version", "invalid"),
            ({"timeout_s": 1}, "timeout_s", "min-value"),
            ({"colour": "red"}, "colour", "invalid"),
        ],
    )
    def test_what_cannot_be_is_refused_by_field_with_a_code_and_nothing_is_made(
        self, api: Api, customer: Customer, change: dict[str, Any], field: str, code: str
    ) -> None:
        answer = api.post("jobs", order(customer) | change)

        assert answer.status in {404, 422}, answer.body
        assert (field, code) in answer.fields, answer.body
        assert not Job.objects.exists()

    def test_several_faults_are_told_together(self, api: Api, customer: Customer, make_version: MakeVersion) -> None:
        version = make_version(problems=[a_problem("no_layers", severity="error")])
        wish = {"project": str(customer.project.id), "renderer": "blender", "scene_version": str(version.id)}

        answer = api.post("jobs", wish | {"parameters": {"Camera": "Nope"}})

        assert (answer.status, answer.code) == (422, "several")
        assert answer.fields == [("parameters.Camera", "unknown-choice"), ("parameters.ViewLayers", "scene-problem")]
        assert answer.body["errors"][1]["params"]["problem"] == "no_layers"


class TestCheck:
    def test_it_tells_what_the_order_comes_to_and_makes_nothing(self, api: Api, customer: Customer) -> None:
        answer = api.post("jobs/check", order(customer, template=TWO_STEPS))

        assert answer.status == 200
        assert answer.body["tasks"] == 3
        assert answer.body["steps"] == [
            {"name": "First", "tasks": 2, "fleets": ["local"], "offers": CPU_OFFER},
            {"name": "Second", "tasks": 1, "fleets": ["local"], "offers": CPU_OFFER},
        ]
        assert not Job.objects.exists()

    def test_it_passes_warnings_on(self, api: Api, customer: Customer, make_version: MakeVersion) -> None:
        version = make_version(problems=[a_problem("scripts_skipped")])
        wish = {"project": str(customer.project.id), "renderer": "blender", "scene_version": str(version.id)}

        assert api.post("jobs/check", wish).body["warnings"] == ["About scripts_skipped."]

    def test_what_it_refuses_submission_refuses_alike(self, api: Api, customer: Customer) -> None:
        wish = order(customer, parameters={"Frames": "a-b"})

        checked, submitted = api.post("jobs/check", wish), api.post("jobs", wish)

        assert checked.status == 422
        assert checked.body == submitted.body


class TestSteering:
    @pytest.fixture
    def job(self, api: Api, customer: Customer) -> str:
        return str(api.post("jobs", order(customer)).body["id"])

    def act(self, api: Api, job: str, verb: str, body: Any = None) -> Answer:
        return api.post(f"jobs/{job}/{verb}", body)

    def test_suspend_resume_and_cancel_answer_with_the_job(self, api: Api, job: str) -> None:
        told = [self.act(api, job, verb).body["status"] for verb in ("suspend", "resume", "cancel")]

        assert told == ["suspended", "active", "cancelled"]
        acts = AuditRow.objects.filter(subject=job).order_by("id").values_list("act", flat=True)
        assert list(acts) == ["job.submitted", "job.suspended", "job.resumed", "job.cancelled"]

    @pytest.mark.parametrize(
        ("before", "verb", "code"),
        [
            ([], "resume", "not-suspended"),
            (["cancel"], "cancel", "job-ended"),
            (["cancel"], "suspend", "job-ended"),
            ([], "retry", "nothing-to-retry"),
        ],
    )
    def test_what_is_not_possible_now_is_a_conflict(
        self, api: Api, job: str, before: list[str], verb: str, code: str
    ) -> None:
        for other in before:
            self.act(api, job, other)

        answer = self.act(api, job, verb, {} if verb == "retry" else None)

        assert (answer.status, answer.code) == (409, code)

    def test_a_retry_under_one_key_is_one_retry(self, api: Api, job: str) -> None:
        self.act(api, job, "cancel")
        wish = {"which": "missing"}
        answers = [api.post(f"jobs/{job}/retry", wish, **{"Idempotency-Key": "k"}) for _ in range(2)]

        assert [a.body for a in answers] == [{"tasks": 3}] * 2
        assert {t.generation for t in Task.objects.all()} == {1}

    def test_a_priority_is_changed(self, api: Api, job: str) -> None:
        assert api("PATCH", f"jobs/{job}", {"priority": 0}).body["priority"] == 0
        assert api("PATCH", f"jobs/{job}", {"priority": 101}).fields == [("priority", "max-value")]
        assert api("PATCH", f"jobs/{job}", {}).fields == [("priority", "required")]

    def test_tasks_are_cancelled_by_their_ids(self, api: Api, job: str) -> None:
        ids = [row["id"] for row in api.get(f"jobs/{job}/tasks").body["results"]]

        assert self.act(api, job, "cancel-tasks", {"tasks": ids[:2]}).body == {"tasks": 2}
        assert [r["id"] for r in api.get(f"jobs/{job}/tasks?status=cancelled").body["results"]] == ids[:2]
        assert self.act(api, job, "cancel-tasks", {"tasks": []}).fields == [("tasks", "min-length")]

    def test_tasks_are_chosen_by_frames_or_by_places_in_a_step(self, api: Api, customer: Customer) -> None:
        job = api.post("jobs", order(customer, parameters={"Frames": "11-20"})).body["id"]
        (step,) = api.get(f"jobs/{job}/steps").body["results"]

        assert self.act(api, job, "cancel-tasks", {"frames": "11,14-15"}).body == {"tasks": 3}
        assert self.act(api, job, "cancel-tasks", {"step": step["id"], "indexes": "8-9"}).body == {"tasks": 2}
        wish = {"which": "list", "step": step["id"], "indexes": "0,3"}
        assert self.act(api, job, "retry", wish).body == {"tasks": 2}

        found = api.get(f"jobs/{job}/tasks?status=cancelled").body["results"]
        assert [task["frame"] for task in found] == [15, 19, 20]

    @pytest.mark.parametrize(
        ("wish", "field"),
        [
            ({"frames": "a-b"}, "frames"),
            ({"frames": "1-1000000"}, "frames"),
            ({"indexes": "1"}, "step"),
            ({"frames": "1", "indexes": "1"}, None),
        ],
    )
    def test_a_choice_that_is_none_is_refused(self, api: Api, job: str, wish: dict[str, str], field: str) -> None:
        for verb, body in {"cancel-tasks": wish, "retry": {"which": "list", **wish}}.items():
            answer = self.act(api, job, verb, body)

            assert answer.status == 422
            assert [name for name, _ in answer.fields] == [field]

    def test_a_task_is_found_by_its_place(self, api: Api, job: str) -> None:
        (step,) = api.get(f"jobs/{job}/steps").body["results"]

        (task,) = api.get(f"jobs/{job}/tasks?step={step['id']}&index=1").body["results"]

        assert task["frame"] == 2

    def test_steps_and_tasks_are_listed(self, api: Api, job: str) -> None:
        (step,) = api.get(f"jobs/{job}/steps").body["results"]
        tasks = api.get(f"jobs/{job}/tasks?step={step['id']}").body["results"]

        assert (step["name"], step["status"], step["ready"]) == ("Count", "active", 3)
        assert [(t["frame"], t["parameters"]) for t in tasks] == [(i, {"Frame": str(i)}) for i in (1, 2, 3)]
        assert [t["frame"] for t in api.get(f"jobs/{job}/tasks?frame=2").body["results"]] == [2]


class TestTasks:
    def test_of_several_steps_all_come_in_order_and_none_of_other_jobs(self, api: Api, customer: Customer) -> None:
        jobs = [api.post("jobs", order(customer, template=TWO_STEPS)).body["id"] for _ in range(3)]

        for job in jobs:
            first = api.get(f"jobs/{job}/tasks?limit=2").body
            rest = api.get(f"jobs/{job}/tasks?limit=2&cursor={first['next']}").body
            found = [row["id"] for row in first["results"] + rest["results"]]
            wanted = Task.objects.filter(job=job).order_by("step__index", "index").values_list("id", flat=True)
            assert found == [str(key) for key in wanted]
            assert rest["next"] is None


class TestList:
    def names(self, api: Api, query: str) -> list[str]:
        answer = api.get(f"jobs?{query}")
        assert answer.status == 200, answer.body
        return [row["name"] for row in answer.body["results"]]

    def test_a_row_says_who_ordered_it_and_for_what(self, api: Api, customer: Customer) -> None:
        api.post("jobs", order(customer, sequence="sq1", shot="sh1", tags={"dept": "fx"}))

        (row,) = api.get("jobs").body["results"]

        assert (row["artist"], row["artist_name"]) == (str(customer.user.id), customer.user.email)
        assert (row["sequence"], row["shot"], row["tags"]) == ("sq1", "sh1", {"dept": "fx"})

    def test_a_state_is_what_people_see(self, api: Api, customer: Customer, now: datetime) -> None:
        for name, suspended in {"still": False, "at work": False, "held": True}.items():
            submit(customer, name=name, suspended=suspended, priority=90 if name == "at work" else 50, now=now)
        start_worker(now=now)
        dispatch(now=now)

        states = {row["name"]: row["state"] for row in api.get("jobs").body["results"]}

        assert states == {"still": "waiting", "at work": "rendering", "held": "suspended"}
        for name, state in states.items():
            assert self.names(api, f"state={state}") == [name]
        assert self.names(api, "state=suspended,rendering") == ["held", "at work"]
        assert api.get("jobs?state=running").fields == [("state", "invalid")]

    def test_it_is_narrowed_by_what_a_job_is_for(self, api: Api, customer: Customer, now: datetime) -> None:
        submit(customer, name="a", sequence="sq1", shot="sh1", now=now)
        submit(customer, name="b", sequence="sq1", shot="sh2", now=now)
        other = User.objects.create_user("other@example.com")
        Job.objects.filter(name="b").update(created_by=other)

        assert self.names(api, "sequence=sq1") == ["b", "a"]
        assert self.names(api, "shot=sh1") == ["a"]
        assert self.names(api, "artist=me") == ["a"]
        assert self.names(api, f"artist={other.id}") == ["b"]
        assert self.names(api, "renderer=blender") == []

    def test_inspections_come_when_asked_for(
        self, api: Api, customer: Customer, make_version: MakeVersion, now: datetime
    ) -> None:
        version = make_version(is_inspected=False)
        SceneVersion.objects.filter(pk=version.pk).update(created_by=customer.user.id)
        inspect_version(SceneVersion.objects.get(pk=version.pk), renderer="blender", now=now)
        submit(customer, name="frames", now=now)

        assert self.names(api, "") == ["frames"]
        assert self.names(api, "purpose=inspection") == ["Inspection of shots/a.blend"]
        assert len(self.names(api, "purpose=inspection,render")) == 2
        assert self.names(api, f"purpose=inspection&scene_version={version.id}") == ["Inspection of shots/a.blend"]
        assert self.names(api, "purpose=inspection&scene_version=01890000-0000-7000-8000-000000000000") == []
        assert api.get("jobs?purpose=fun").fields == [("purpose", "invalid")]

    @pytest.mark.parametrize(
        ("sort", "names"),
        [
            ("-created", "fedcba"),
            ("created", "abcdef"),
            ("-priority", "dbfeca"),
            ("deadline", "cafbde"),
        ],
    )
    @pytest.mark.parametrize("limit", [1, 2, 4, 6])
    def test_each_order_pages_through_every_job_once(
        self, api: Api, customer: Customer, now: datetime, sort: str, names: str, limit: int
    ) -> None:
        soon, later = now + timedelta(hours=1), now + timedelta(hours=2)
        wishes = {"a": (1, later), "b": (70, None), "c": (50, soon), "d": (70, None), "e": (50, None), "f": (50, later)}
        for name, (priority, deadline) in wishes.items():
            submit(customer, name=name, priority=priority, deadline=deadline, now=now)

        found, cursor = "", ""
        while cursor is not None:
            page = api.get(f"jobs?sort={sort}&limit={limit}" + (f"&cursor={cursor}" if cursor else "")).body
            found, cursor = found + "".join(row["name"] for row in page["results"]), page["next"]

        assert found == names

    @pytest.mark.parametrize("query", ["sort=name", "sort=-deadline", "sort=", "sort=deadline&cursor=x"])
    def test_an_order_or_place_that_is_none_is_refused(self, api: Api, query: str) -> None:
        answer = api.get(f"jobs?{query}")

        assert (answer.status, answer.code) == (422, "invalid")

    @pytest.mark.parametrize("sort", ["-created", "-priority", "deadline"])
    def test_a_page_looks_at_no_more_jobs_than_it_shows(self, customer: Customer, now: datetime, sort: str) -> None:
        job = submit(customer, name="a", frames="1", now=now)
        many_like(job, 2000)
        analyze("jobs_job", "jobs_step", "billing_costobject", "studios_project")
        become_tenant(customer.studio.id)
        first = shown(sort, "")
        assert rows_looked_at("jobs_job", lambda: shown(sort, "")) <= 51

        assert rows_looked_at("jobs_job", lambda: shown(sort, first["next"])) <= 52
        leave_tenant()


def shown(sort: str, cursor: str) -> dict[str, Any]:
    """Give a page of a person's jobs, as the view makes it."""
    query = {"sort": sort, **({"cursor": cursor} if cursor else {})}
    request = Request(RequestFactory().get("/", query))
    rows = selectors.jobs().filter(purpose="render")
    answer = page(request, rows, JobSerializer, sorts=_SORTS, dress=selectors.count)
    return cast(dict[str, Any], answer.data)


def many_like(job: Job, count: int) -> None:
    """Copy a job with what it is charged to."""
    costs = [CostObject(**plain(job.cost_object), id=key) for key in new_ids(count)]
    CostObject.objects.bulk_create(costs)
    Job.objects.bulk_create(Job(**{**plain(job), "cost_object_id": cost.pk}) for cost in costs)


def plain(row: Any) -> dict[str, Any]:
    return {f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields if f.attname != "id"}


class TestTemplates:
    def test_each_renderer_comes_with_its_parameters(self, api: Api) -> None:
        (blender,) = api.get("templates").body

        assert blender["name"] == "blender"
        names = [p["name"] for p in blender["parameters"]]
        assert {"SceneFile", "Frames", "Camera", "Engine", "FileFormat"} <= set(names)

"""Orders over the API: what comes back, what is refused, and in which words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from farm.jobs.models import Job, Task
from farm.studios.models import AuditRow
from tests.api import Answer, Api
from tests.farm import TEMPLATE, TWO_STEPS, Customer
from tests.jobs.conftest import MakeVersion
from tests.scenes.reports import a_problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("farm")]


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
            {"name": "First", "tasks": 2, "fleets": ["local"]},
            {"name": "Second", "tasks": 1, "fleets": ["local"]},
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


class TestTemplates:
    def test_each_renderer_comes_with_its_parameters(self, api: Api) -> None:
        (blender,) = api.get("templates").body

        assert blender["name"] == "blender"
        names = [p["name"] for p in blender["parameters"]]
        assert {"SceneFile", "Frames", "Camera", "Engine", "FileFormat"} <= set(names)

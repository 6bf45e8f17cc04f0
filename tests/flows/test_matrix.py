"""
The matrix: every address and verb of the farm, tried as its studio, as a stranger, without a token and without a scope.

A new route fails these tests until it has an entry here that says how it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction
from django.urls import URLPattern, URLResolver, get_resolver

from farm.billing.models import Budget
from farm.core import keys
from farm.core.storage import store
from farm.core.views import ApiView
from farm.dispatch.models import Attempt
from farm.jobs.models import Task
from farm.results.models import Movie
from farm.scenes.manifest import read_manifest
from farm.scenes.services import create_scene, create_version, record_report
from farm.studios.authentication import Caller
from farm.studios.invitations import invite
from farm.studios.models import ApiToken, Membership
from farm.studios.roles import Role, Scope
from tests.api import Answer, Api, token_of
from tests.farm import Customer, dispatch, open_customer, start_worker, submit
from tests.scenes.reports import a_report

pytestmark = pytest.mark.django_db

# Not for people with tokens: each has a credential of its own, or shows nothing of a studio.
OTHER_DOORS = {
    "healthz",
    "worker/v1/register",
    "worker/v1/sync",
    "worker/v1/grants",
    "worker/v1/steps/<uuid:step_id>",
    "files/<path:key>",
    "archives/<str:signed>",
    "events",
    "api/openapi.json",
    "api/docs",
}

# Of the public API, but for whoever holds the token in the address; tests/studios/test_invitations.py knocks at them.
OPEN_DOORS = {("GET", "invitations/<str:token>"), ("POST", "invitations/<str:token>/accept")}


@dataclass(frozen=True)
class House:
    """A studio with one of everything, and the ids of it all."""

    customer: Customer
    ids: dict[str, str]

    def fill(self, value: Any) -> Any:
        """Put this studio's ids into an address or a body."""
        if isinstance(value, str):
            return value.format(**self.ids)
        if isinstance(value, dict):
            return {name: self.fill(item) for name, item in value.items()}
        return [self.fill(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Entry:
    """How a route is asked, and what its own studio hears."""

    status: int = 200
    body: Any = None
    query: str = ""
    nothing: Callable[[Any], bool] | None = None  # a stranger's own answer shows nothing of it, where no id is asked
    foreign: tuple[Any, ...] = field(default=())  # bodies, or queries, with a stranger's id in one place: 404


def no_rows(body: Any) -> bool:
    return bool(body["results"] == [])


def no_operator(body: Any) -> bool:
    return bool(body["code"] == "operators-only")


ORDER = {"project": "{project_id}", "template": "{template}"}
SIGNED = {"digest": "{digest}", "number": 0, "sha256": "{digest}"}

MATRIX: dict[tuple[str, str], Entry] = {
    ("GET", "me"): Entry(nothing=lambda body: body["studio"] != "House"),
    ("PATCH", "me"): Entry(body={"name": "Ada"}, nothing=lambda body: body["name"] == "Ada"),
    ("GET", "studios"): Entry(403, nothing=no_operator),
    ("POST", "looks"): Entry(403, {"studio": "{studio_id}", "reason": "r"}, nothing=no_operator),
    ("GET", "studio"): Entry(nothing=lambda body: "name" in body),
    ("PATCH", "studio"): Entry(body={"zone": "UTC"}, nothing=lambda body: body["zone"] == "UTC"),
    ("GET", "members"): Entry(nothing=lambda body: len(body["results"]) == 1),
    ("PATCH", "members/<uuid:member_id>"): Entry(body={"role": "owner"}),
    ("DELETE", "members/<uuid:member_id>"): Entry(409),  # the last owner
    ("GET", "members/invitations"): Entry(nothing=no_rows),
    ("POST", "members/invitations"): Entry(
        201, {"email": "new@example.com", "role": "artist"}, nothing=lambda body: body["role"] == "artist"
    ),
    ("DELETE", "members/invitations/<uuid:invitation_id>"): Entry(204),
    ("POST", "members/invitations/<uuid:invitation_id>/resend"): Entry(),
    ("GET", "projects"): Entry(nothing=lambda body: len(body["results"]) == 1),
    ("POST", "projects"): Entry(201, {"name": "New"}, nothing=lambda body: body["name"] == "New"),
    ("GET", "tokens"): Entry(nothing=lambda body: len(body["results"]) == 1),
    ("POST", "tokens"): Entry(201, {"name": "n", "scopes": ["jobs:read"]}, nothing=lambda body: "token" in body),
    ("DELETE", "tokens/<uuid:token_id>"): Entry(204),
    ("GET", "budgets"): Entry(nothing=no_rows),
    ("POST", "budgets"): Entry(
        201,
        {"scope": "project", "subject": "{project_id}", "cap_micro": 5},
        foreign=({"scope": "job", "subject": "{cost_object_id}", "cap_micro": 5},),
    ),
    ("GET", "budgets/<uuid:budget_id>"): Entry(),
    ("PATCH", "budgets/<uuid:budget_id>"): Entry(body={"cap_micro": 7}),
    ("GET", "rates"): Entry(nothing=lambda body: not any(row["is_own"] for row in body["results"])),
    ("GET", "policy"): Entry(nothing=lambda body: "free_setup_seconds" in body),
    ("GET", "statement"): Entry(nothing=no_rows, foreign=("?cost_object={cost_object_id}", "?project={project_id}")),
    ("GET", "costs"): Entry(query="?cost_objects={cost_object_id}", nothing=no_rows),
    ("GET", "cost-objects/<uuid:cost_object_id>"): Entry(),
    ("PATCH", "cost-objects/<uuid:cost_object_id>"): Entry(body={"shot": "s"}),
    # Fleets are the farm's: every studio sees them, with strangers' machines as "others"; operators change them.
    ("GET", "fleets"): Entry(nothing=lambda body: not any(row["machines"]["own"] for row in body["results"])),
    ("POST", "fleets"): Entry(403, {"name": "New", "provider": "local", "purposes": ["render"]}, nothing=no_operator),
    ("GET", "fleets/<uuid:fleet_id>"): Entry(nothing=lambda body: not body["machines"]["own"]),
    ("PATCH", "fleets/<uuid:fleet_id>"): Entry(403, {"max_machines": 5}, nothing=no_operator),
    ("POST", "fleets/<uuid:fleet_id>/pause"): Entry(403, nothing=no_operator),
    ("POST", "fleets/<uuid:fleet_id>/resume"): Entry(403, nothing=no_operator),
    ("GET", "decisions"): Entry(nothing=lambda body: "studio" not in str(body)),
    ("GET", "workers"): Entry(nothing=lambda body: not any(row["whose"] == "own" for row in body["results"])),
    ("GET", "workers/<uuid:worker_id>"): Entry(nothing=lambda body: body["whose"] != "own"),
    ("POST", "workers/<uuid:worker_id>/drain"): Entry(403, nothing=no_operator),
    ("GET", "pools"): Entry(nothing=lambda body: "results" in body),
    ("GET", "farm"): Entry(nothing=lambda body: body["limits"] is None),
    ("PATCH", "farm"): Entry(403, {"max_machines": 5}, nothing=no_operator),
    ("POST", "farm/pause"): Entry(403, nothing=no_operator),
    ("POST", "farm/resume"): Entry(403, nothing=no_operator),
    ("GET", "catalogue"): Entry(nothing=lambda body: "gpus" in body),
    ("GET", "scenes"): Entry(nothing=no_rows),
    ("POST", "scenes"): Entry(201, {"name": "New", "project": "{project_id}"}),
    ("GET", "scenes/<uuid:scene_id>"): Entry(),
    ("GET", "scenes/<uuid:scene_id>/versions"): Entry(),
    ("POST", "scenes/<uuid:scene_id>/versions"): Entry(
        201, {"entry": "a.blend", "files": [{"path": "a.blend", "digest": "{digest}", "size": 3}]}
    ),
    ("GET", "scene-versions/<uuid:version_id>"): Entry(),
    ("GET", "scene-versions/<uuid:version_id>/files"): Entry(),
    ("GET", "scene-versions/<uuid:version_id>/missing"): Entry(),
    ("GET", "scene-versions/<uuid:version_id>/parts"): Entry(query="?digest={digest}"),
    ("POST", "scene-versions/<uuid:version_id>/parts"): Entry(body={"parts": [SIGNED]}),
    ("POST", "scene-versions/<uuid:version_id>/blobs"): Entry(body={"digests": ["{digest}"]}),
    ("GET", "scene-versions/<uuid:version_id>/report"): Entry(),
    ("GET", "templates"): Entry(nothing=lambda body: [t["name"] for t in body] == ["blender"]),
    ("GET", "jobs"): Entry(nothing=no_rows),
    ("POST", "jobs"): Entry(
        201,
        ORDER,
        foreign=(
            ORDER | {"after": ["{job_id}"], "project": "{own_project_id}"},
            ORDER | {"scene_version": "{version_id}", "project": "{own_project_id}"},
        ),
    ),
    ("POST", "jobs/check"): Entry(
        200, ORDER, foreign=(ORDER | {"scene_version": "{version_id}", "project": "{own_project_id}"},)
    ),
    ("POST", "jobs/bulk"): Entry(
        body={"jobs": ["{job_id}"], "act": "suspend"},
        nothing=lambda body: body["results"][0]["problem"]["code"] == "not-found",
    ),
    ("GET", "jobs/<uuid:job_id>"): Entry(),
    ("PATCH", "jobs/<uuid:job_id>"): Entry(body={"priority": 90}),
    ("POST", "jobs/<uuid:job_id>/suspend"): Entry(),
    ("POST", "jobs/<uuid:job_id>/resume"): Entry(409),
    ("POST", "jobs/<uuid:job_id>/cancel"): Entry(),
    ("POST", "jobs/<uuid:job_id>/retry"): Entry(body={"which": "list", "tasks": ["{task_id}"]}),
    ("POST", "jobs/<uuid:job_id>/cancel-tasks"): Entry(body={"tasks": ["{task_id}"]}),
    ("GET", "jobs/<uuid:job_id>/steps"): Entry(),
    ("GET", "jobs/<uuid:job_id>/tasks"): Entry(),
    ("GET", "jobs/<uuid:job_id>/grid"): Entry(),
    ("GET", "jobs/<uuid:job_id>/changes"): Entry(query="?since=0"),
    ("GET", "jobs/<uuid:job_id>/why"): Entry(),
    ("GET", "forecasts"): Entry(query="?jobs={job_id}", nothing=no_rows),
    ("POST", "estimates"): Entry(
        200, ORDER, foreign=(ORDER | {"scene_version": "{version_id}", "project": "{own_project_id}"},)
    ),
    ("GET", "jobs/<uuid:job_id>/quotes"): Entry(),
    ("POST", "jobs/<uuid:job_id>/quotes"): Entry(),
    ("GET", "jobs/<uuid:job_id>/attempts"): Entry(),
    ("GET", "jobs/<uuid:job_id>/outputs"): Entry(),
    ("GET", "attempts/<uuid:attempt_id>/log"): Entry(),
    ("GET", "jobs/<uuid:job_id>/frames"): Entry(),
    ("POST", "jobs/<uuid:job_id>/archive"): Entry(),
    ("GET", "jobs/<uuid:job_id>/movie"): Entry(),
    ("GET", "jobs/<uuid:job_id>/quality"): Entry(),
}


@dataclass(frozen=True)
class Route:
    path: str
    verb: str
    scope: str | None

    @property
    def address(self) -> str:
        return self.path.replace("<uuid:", "{").replace(">", "}")

    @property
    def entry(self) -> Entry:
        return MATRIX[self.verb, self.path]


def patterns(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in resolver.url_patterns:
        here = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield here, pattern.callback
        else:
            yield from patterns(pattern, here)


def api_routes(*, is_open: bool = False) -> list[Route]:
    found = []
    for path, callback in patterns(get_resolver()):
        if path.startswith("api/v1/"):
            view = callback.view_class
            assert issubclass(view, ApiView), path
            if view.is_open != is_open:
                continue
            verbs = [v for v in view.http_method_names if v != "head" and hasattr(view, v)]
            found += [Route(path.removeprefix("api/v1/"), v.upper(), view().scope_for(v.upper())) for v in verbs]
    return found


def open_house(name: str, now: datetime) -> House:
    customer = open_customer(name)
    caller = Caller(customer.user, customer.studio, frozenset(Scope), None, None)
    content = b"scn"
    digest = "d3" * 32
    scene = create_scene(caller, project=customer.project, name="Scene")
    manifest = read_manifest("a.blend", [{"path": "a.blend", "digest": digest, "size": len(content)}])
    version, _ = create_version(caller, scene, manifest, now=now)
    version.status = "whole"
    version.save()
    record_report(version.pk, a_report(), now=now)
    job = submit(customer, frames="1-2", now=now)
    worker = start_worker(now=now)
    assert dispatch(now=now) >= 1
    worker.sync(now=now)
    worker.finish_all(now=now)
    attempt = Attempt.objects.get(job=job, status="succeeded")
    store().write(keys.log_key(customer.studio.id, attempt.id, 0), b"said")
    Attempt.objects.filter(pk=attempt.pk).update(log_chunks=1)
    Movie.objects.create(studio=customer.studio, job=job)
    token_of(customer)
    invitation = invite(caller, email="asked@example.com", role=Role.ARTIST, now=now)
    ids = {
        "studio_id": customer.studio.id,
        "invitation_id": invitation.id,
        "project_id": customer.project.id,
        "own_project_id": customer.project.id,
        "token_id": ApiToken.objects.filter(studio=customer.studio).latest("created_at").id,
        "member_id": Membership.objects.get(studio=customer.studio).id,
        "scene_id": scene.id,
        "version_id": version.id,
        "digest": digest,
        "job_id": job.id,
        "task_id": Task.objects.filter(job=job, status="succeeded")[0].id,
        "attempt_id": attempt.id,
        "worker_id": attempt.worker_id,
        "fleet_id": attempt.worker.fleet_id,
        "cost_object_id": job.cost_object_id,
        "budget_id": Budget.objects.get(subject=job.cost_object_id).id,
        "template": job.template,
    }
    return House(customer, {name: str(value) for name, value in ids.items()})


@pytest.fixture
def now() -> datetime:
    """Tokens and signed addresses are compared with the clock."""
    return datetime.now(UTC)


@pytest.fixture
def house(now: datetime) -> House:
    return open_house("House", now)


@pytest.fixture
def stranger(now: datetime) -> Customer:
    return open_customer("Stranger")


def ask(api: Api, route: Route, house: House, *, undo: bool = True) -> Answer:
    """Ask a route with a studio's ids; what it did is undone, so that each finds the house as it was."""
    entry = route.entry
    with transaction.atomic():
        answer = api(route.verb, house.fill(route.address + entry.query), house.fill(entry.body))
        transaction.set_rollback(undo)
    return answer


def shown(house: House) -> dict[str, Any]:
    """Everything that its own studio sees."""
    api = Api(house.customer)
    return {r.path: _lasting(ask(api, r, house).body) for r in api_routes() if r.verb == "GET" and r.path != "tokens"}


def _lasting(body: Any) -> Any:
    """Without what is made anew each time: signed addresses, moments, and how far the transactions have come."""
    if isinstance(body, dict):
        return {
            name: _lasting(value)
            for name, value in body.items()
            if name not in {"url", "at", "revision", "valid_until"}
        }
    return [_lasting(item) for item in body] if isinstance(body, list) else body


class TestEveryRoute:
    def test_has_an_entry_and_every_entry_a_route(self) -> None:
        assert {(route.verb, route.path) for route in api_routes()} == MATRIX.keys()

    def test_that_is_not_for_tokens_is_known(self) -> None:
        others = {path for path, _ in patterns(get_resolver()) if not path.startswith("api/v1/")}
        # Signing in is django-allauth's; the rest is the portal's one page.
        assert {path for path in others if not path.startswith(("_allauth/", "^(?!"))} == OTHER_DOORS

    def test_that_is_open_is_known(self) -> None:
        assert {(route.verb, route.path) for route in api_routes(is_open=True)} == OPEN_DOORS

    def test_needs_a_scope_that_there_is(self) -> None:
        assert {route.path: route.scope for route in api_routes() if route.scope not in set(Scope)} == {}

    def test_that_changes_something_needs_a_scope_to_write(self) -> None:
        changing = [route for route in api_routes() if route.verb != "GET" and not str(route.scope).endswith(":write")]

        # It makes an address from which what may be read anyway is read in one piece.
        assert [(route.verb, route.path) for route in changing] == [("POST", "jobs/<uuid:job_id>/archive")]

    def test_answers_its_own_studio(self, house: House) -> None:
        api = Api(house.customer)
        answers = {route: ask(api, route, house) for route in api_routes()}

        wrong = {r: (a.status, a.body) for r, a in answers.items() if a.status != r.entry.status}
        assert wrong == {}

    def test_without_a_token_is_401(self, house: House) -> None:
        answers = {route: ask(Api(), route, house) for route in api_routes()}

        assert {r: a.code for r, a in answers.items() if (a.status, a.code) != (401, "not-authenticated")} == {}

    def test_without_its_scope_is_403(self, house: House) -> None:
        lacking = {s: Api(house.customer, scopes=[t for t in Scope if t != s]) for s in Scope}
        answers = {route: ask(lacking[Scope(str(route.scope))], route, house) for route in api_routes()}

        assert {r: a.code for r, a in answers.items() if (a.status, a.code) != (403, "scope-missing")} == {}

    def test_a_stranger_who_knows_the_ids_is_told_that_they_are_not_there(
        self, house: House, stranger: Customer
    ) -> None:
        api, before = Api(stranger), shown(house)
        routes = [route for route in api_routes() if route.entry.nothing is None]
        answers = {route: ask(api, route, house, undo=False) for route in routes}

        assert len(answers) > 30
        assert {r: (a.status, a.body) for r, a in answers.items() if (a.status, a.code) != (404, "not-found")} == {}
        assert shown(house) == before

    def test_a_stranger_sees_nothing_of_it_where_no_id_is_asked(self, house: House, stranger: Customer) -> None:
        api = Api(stranger)
        for route in api_routes():
            if route.entry.nothing is not None:
                # What it names in lists of ids is the house's.
                mixed = House(stranger, house.ids | {"project_id": str(stranger.project.id)})
                answer = ask(api, route, mixed)
                assert answer.status == route.entry.status, (route, answer.body)
                assert route.entry.nothing(answer.body), (route, answer.body)

    def test_an_id_of_another_studio_within_a_request_is_not_there(self, house: House, stranger: Customer) -> None:
        api = Api(stranger)
        mixed = House(stranger, house.ids | {"own_project_id": str(stranger.project.id)})
        for route in api_routes():
            for wish in route.entry.foreign:
                query, body = (wish, None) if isinstance(wish, str) else ("", wish)
                answer = api(route.verb, mixed.fill(route.address + query), mixed.fill(body))
                assert (answer.status, answer.code) == (404, "not-found"), (route, wish, answer.body)


class TestTasksOfAnotherStudio:
    """Lists of tasks belong to a job; others in them are as if they were not there."""

    def test_are_not_cancelled(self, house: House, stranger: Customer, now: datetime) -> None:
        own = submit(stranger, now=now)

        answer = Api(stranger).post(f"jobs/{own.id}/cancel-tasks", {"tasks": [house.ids["task_id"]]})

        assert (answer.status, answer.body) == (200, {"tasks": 0})

    def test_are_not_rendered_again(self, house: House, stranger: Customer, now: datetime) -> None:
        own = submit(stranger, now=now)

        answer = Api(stranger).post(f"jobs/{own.id}/retry", {"which": "list", "tasks": [house.ids["task_id"]]})

        assert (answer.status, answer.code) == (409, "nothing-to-retry")
        assert Task.objects.get(pk=house.ids["task_id"]).status == "succeeded"


class TestFieldsThatAreNotForPeople:
    """Mass assignment: nothing is set that its route does not offer."""

    @pytest.mark.parametrize(
        ("verb", "path", "body"),
        [
            ("POST", "projects", {"name": "P", "share": 1000}),
            ("POST", "projects", {"name": "P", "studio": "{project_id}"}),
            ("POST", "projects", {"name": "P", "is_paused": False}),
            ("POST", "tokens", {"name": "n", "scopes": ["jobs:read"], "user": "{project_id}"}),
            ("POST", "tokens", {"name": "n", "scopes": ["jobs:read"], "digest": "{digest}"}),
            ("POST", "scenes", {"name": "S", "project": "{project_id}", "studio": "{project_id}"}),
            ("POST", "jobs", ORDER | {"purpose": "inspection"}),
            ("POST", "jobs", ORDER | {"status": "succeeded"}),
            ("POST", "jobs", ORDER | {"created_by": "{project_id}"}),
            ("POST", "jobs", ORDER | {"cost_object": "{cost_object_id}"}),
            ("PATCH", "jobs/{job_id}", {"priority": 60, "status": "succeeded"}),
            ("PATCH", "cost-objects/{cost_object_id}", {"shot": "s", "currency": "EUR"}),
            ("PATCH", "budgets/{budget_id}", {"cap_micro": 1, "spent_micro": 0}),
            ("POST", "budgets", {"scope": "studio", "cap_micro": 1, "held_micro": 0}),
            ("POST", "jobs/{job_id}/retry", {"which": "failed", "generation": 0}),
        ],
    )
    def test_are_refused_by_name(self, house: House, verb: str, path: str, body: dict[str, Any]) -> None:
        answer = Api(house.customer)(verb, house.fill(path), house.fill(body))

        assert (answer.status, answer.code) == (422, "invalid")
        assert answer.fields == [(list(body)[-1], "invalid")]

"""The OpenAPI document: complete, readable, and the one that is committed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from openapi_spec_validator import validate

from farm.studios.roles import Scope
from tests.api import Api
from tests.farm import open_customer, submit

COMMITTED = Path(settings.BASE_DIR) / "frontend/openapi.json"
AGAIN = "python manage.py spectacular --fail-on-warn --format openapi-json --file frontend/openapi.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    GENERATOR_STATS.reset()
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    assert not GENERATOR_STATS, "there are warnings: see manage.py spectacular --fail-on-warn"
    return made


@pytest.fixture(scope="module")
def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, verb, told) for path, verbs in document["paths"].items() for verb, told in verbs.items()]


Operations = list[tuple[str, str, dict[str, Any]]]


class TestDocument:
    def test_it_is_valid_openapi_3_1(self, document: dict[str, Any]) -> None:
        assert document["openapi"].startswith("3.1.")
        validate(json.loads(json.dumps(document)))

    def test_it_is_the_committed_one(self, document: dict[str, Any]) -> None:
        committed = json.loads(COMMITTED.read_text())

        assert committed == json.loads(json.dumps(document)), f"frontend/openapi.json is old. Write it anew: {AGAIN}"

    def test_operation_ids_are_unique_and_begin_with_their_resource(self, operations: Operations) -> None:
        ids = [told["operationId"] for _, _, told in operations]

        assert len(set(ids)) == len(ids)
        for path, _, told in operations:
            resource = path.split("/")[3].replace("-", "_")
            assert told["operationId"].startswith(resource), (path, told["operationId"])

    def test_every_operation_says_what_it_does_and_names_its_scope(self, operations: Operations) -> None:
        for path, verb, told in operations:
            text, _, scope = told["description"].partition("\n\nScope: `")
            assert text.strip(), (path, verb)
            if told.get("security") is None:
                assert text.endswith("the address is itself a credential."), (path, verb)
                continue
            assert scope.rstrip("`") in set(Scope), (path, verb)

    def test_every_operation_tells_its_errors_as_problems(self, operations: Operations) -> None:
        for path, verb, told in operations:
            errors = {status: answer for status, answer in told["responses"].items() if status >= "400"}
            assert {"401", "403", "503"} <= errors.keys(), (path, verb)
            assert ("404" in errors) or "{" not in path, (path, verb)
            for answer in errors.values():
                (kind,) = answer["content"]
                assert kind == "application/problem+json"
                assert answer["content"][kind]["schema"] == {"$ref": "#/components/schemas/Problem"}

    def test_what_creates_takes_a_key(self, operations: Operations) -> None:
        keyed = {
            told["operationId"] for _, _, told in operations for p in told.get("parameters", []) if p["in"] == "header"
        }
        creating = {
            told["operationId"] for _, verb, told in operations if verb == "post" and "201" in told["responses"]
        }

        assert creating - keyed == {"tokens_create"}  # its answer is shown once: it cannot be kept to be given again
        steering = {"suspend", "resume", "cancel", "cancel_tasks", "change", "bulk", "retry"}
        assert keyed - creating >= {f"jobs_{act}" for act in steering}  # asked twice, it is done once

    def test_an_answer_s_fields_always_come(self, document: dict[str, Any]) -> None:
        job = document["components"]["schemas"]["Job"]

        assert set(job["required"]) == set(job["properties"])

    @pytest.mark.django_db
    def test_every_list_documents_the_filters_it_has(self, operations: Operations, now: Any) -> None:
        customer = open_customer()
        api, job = Api(customer), submit(customer, now=now)
        scene = api.post("scenes", {"project": str(customer.project.id), "name": "S"}).body["id"]
        version = api.post(
            f"scenes/{scene}/versions", {"entry": "a", "files": [{"path": "a", "digest": "0" * 64, "size": 1}]}
        ).body["version"]["id"]
        ids = {"job_id": job.id, "scene_id": scene, "version_id": version}
        lists = [
            (path, {p["name"] for p in told["parameters"] if p["in"] == "query"})
            for path, verb, told in operations
            if verb == "get" and {"limit", "cursor"} <= {p["name"] for p in told.get("parameters", [])}
        ]
        assert len(lists) >= 12
        for path, documented in lists:
            if path.endswith("/parts"):
                continue  # pages of another kind: by number
            if path.endswith("/studios"):
                continue  # for operators in a browser: tests/studios/test_operators.py
            answer = api.get(path.format(**ids) + "?no-such-filter=1")
            known = answer.body["params"]["why"].removeprefix("Known here: ").rstrip(".").split(", ")
            assert documented == set(known), path


@pytest.mark.django_db
class TestDocs:
    def test_the_document_is_served_without_a_token(self, document: dict[str, Any]) -> None:
        assert Client().get("/api/openapi.json").json() == json.loads(json.dumps(document))

    def test_the_page_and_all_it_loads_come_from_the_farm(self) -> None:
        page = Client().get("/api/docs").content.decode()

        assert "://" not in page.replace("http://testserver", "")
        loaded = [part.split('"')[0] for part in page.split('"/static/')[1:]]
        assert any(name.endswith("swagger-ui-bundle.js") for name in loaded)
        for name in loaded:
            answer = Client().get(f"/static/{name}")
            answer.close()
            assert answer.status_code == 200, name

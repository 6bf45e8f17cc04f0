"""The workers' door: what it lets in, and what it answers to what it does not."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from farm.dispatch.models import Attempt
from farm.fleet.models import Worker
from tests.farm import FakeWorker, dispatch, local_fleet, open_customer, start_worker, submit
from workers import protocol
from workers.protocol import UploadKind, digest_of_parts

pytestmark = pytest.mark.django_db

SECRET = "once"
NOTHING_HELD = protocol.encode(
    protocol.SyncRequest(
        state=protocol.WorkerState.READY, reason="", free_disk_mib=1, scene_versions=[], slots=[], attempts=[]
    )
)


@pytest.fixture
def moment() -> datetime:
    """The door reads the clock itself."""
    return datetime.now(UTC)


def registration(**changes: Any) -> dict[str, Any]:
    request = protocol.RegisterRequest(
        secret=SECRET,
        protocol=protocol.PROTOCOL,
        boot_id="b",
        machine_id="m",
        agent_version="0",
        slots=[protocol.SlotSpec(index=0, gpu_model="", vram_mib=0)],
        cores=2,
        memory_mib=1_000,
        disk_mib=1_000,
        software={},
        sandboxed=True,
    )
    return {**protocol.encode(request), **changes}


def post(path: str, body: Any, token: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    text = body if isinstance(body, str) else json.dumps(body)
    return Client().post(f"/worker/v1/{path}", text, content_type="application/json", headers=headers)


def expect_machine(moment: datetime) -> None:
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    Worker.objects.create(fleet=local_fleet(), secret_digest=digest, requested_at=moment)


def holding_worker(moment: datetime) -> tuple[FakeWorker, str, Attempt]:
    """A registered worker, its token, and the attempt it holds."""
    submit(open_customer(), frames="1", now=moment)
    expect_machine(moment)
    token = post("register", registration()).json()["token"]
    dispatch(now=moment)
    worker = Worker.objects.get()
    return FakeWorker(worker, 1), token, Attempt.objects.get()


def log_wish(attempt: Attempt, content: bytes = b"line\n", **changes: Any) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    wish = {"attempt": str(attempt.id), "kind": "log", "name": "0", "size": len(content), "digest": digest}
    return {**wish, "parts": [digest], **changes}


class TestRegister:
    def test_a_secret_opens_once(self, moment: datetime) -> None:
        expect_machine(moment)

        first, second = post("register", registration()), post("register", registration(boot_id="another"))

        assert first.status_code == 200
        assert first.json()["queue"] == f"worker.{first.json()['worker']}"
        assert (second.status_code, second.json()["code"]) == (401, "unknown-secret")

    def test_a_boot_that_did_not_hear_the_answer_may_ask_again_until_it_has_spoken(self, moment: datetime) -> None:
        expect_machine(moment)
        first, second = post("register", registration()).json(), post("register", registration()).json()

        assert first["worker"] == second["worker"]
        assert post("sync", NOTHING_HELD, token=first["token"]).status_code == 401
        assert post("sync", NOTHING_HELD, token=second["token"]).status_code == 200
        assert post("register", registration()).status_code == 401

    @pytest.mark.parametrize(
        ("changes", "status", "code"),
        [
            ({"protocol": 99}, 426, "protocol-too-old"),
            ({"slots": []}, 422, "no-slots"),
            ({"slots": [{"index": 3, "gpu_model": "", "vram_mib": 0}]}, 422, "no-slots"),
            ({"memory_mib": 2**70}, 422, "malformed-message"),
            ({"cores": "two"}, 422, "malformed-message"),
            ({"unknown": 1}, 422, "malformed-message"),
            ({"secret": "x\x00"}, 422, "malformed-message"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, moment: datetime, changes: Any, status: int, code: str) -> None:
        expect_machine(moment)

        answer = post("register", registration(**changes))

        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["Content-Type"] == "application/problem+json"

    @pytest.mark.parametrize("body", ["", "{", "[" * 100_000, "null", '"x"'])
    def test_what_is_no_message_is_refused(self, body: str) -> None:
        assert post("register", body).json()["code"] == "malformed-message"


class TestSync:
    def test_without_a_living_workers_token_ends_it(self) -> None:
        answer = post("sync", {}, token="nobody")

        assert (answer.status_code, answer.json()["code"]) == (401, "not-a-worker")

    def test_says_all_that_it_shall_hold(self, moment: datetime) -> None:
        _, token, attempt = holding_worker(moment)

        answer = post("sync", NOTHING_HELD, token=token)

        assert [a["attempt"] for a in answer.json()["attempts"]] == [str(attempt.id)]


class TestGrants:
    def test_sign_what_is_the_attempts_own(self, moment: datetime) -> None:
        _, token, attempt = holding_worker(moment)

        answer = post("grants", {"downloads": [], "uploads": [log_wish(attempt)]}, token=token)

        (grant,) = answer.json()["uploads"]
        assert grant["kind"] == UploadKind.LOG
        assert grant["parts"][0]["method"] == "PUT"

    def test_leave_out_what_is_another_workers(self, moment: datetime) -> None:
        _, token, attempt = holding_worker(moment)
        assert post("sync", NOTHING_HELD, token=token).status_code == 200
        expect_machine(moment)
        stranger = post("register", registration()).json()["token"]

        answer = post("grants", {"downloads": [], "uploads": [log_wish(attempt)]}, token=stranger)

        assert answer.json() == {"downloads": {}, "uploads": []}

    def test_refuse_a_step_the_worker_never_had(self, moment: datetime) -> None:
        _, _, attempt = holding_worker(moment)
        stranger = start_worker(now=moment)
        Worker.objects.filter(pk=stranger.worker.pk).update(token_digest=hashlib.sha256(b"other").hexdigest())

        answer = Client().get(f"/worker/v1/steps/{attempt.step_id}", headers={"Authorization": "Bearer other"})

        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")

    @pytest.mark.parametrize(
        "changes",
        [
            {"size": -1},
            {"size": 2**60},
            {"name": "../../etc"},
            {"name": "99999999"},
            {"parts": []},
            {"digest": "0" * 64},
            {"digest": "../x", "parts": ["../x"]},
        ],
    )
    def test_refuse_uploads_that_do_not_fit_together(self, moment: datetime, changes: Any) -> None:
        _, token, attempt = holding_worker(moment)

        answer = post("grants", {"downloads": [], "uploads": [log_wish(attempt, **changes)]}, token=token)

        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")

    def test_take_no_output_of_an_attempt_that_has_ended(self, moment: datetime) -> None:
        worker, token, attempt = holding_worker(moment)
        worker.sync(now=moment)
        worker.finish_all(now=moment)

        answer = post("grants", {"downloads": [], "uploads": [log_wish(attempt, kind="output")]}, token=token)

        assert answer.status_code == 422

    def test_an_output_of_several_parts_gets_a_request_for_each(self, moment: datetime) -> None:
        _, token, attempt = holding_worker(moment)
        parts = ["a" * 64, "b" * 64]
        size = protocol.PART_SIZE + 5
        wish = log_wish(attempt, kind="output", name="big.exr", size=size, parts=parts, digest=digest_of_parts(parts))

        first, again = (post("grants", {"downloads": [], "uploads": [wish]}, token=token).json() for _ in range(2))

        assert len(first["uploads"][0]["parts"]) == len(again["uploads"][0]["parts"]) == 2

    def test_more_than_five_hundred_at_once_are_refused(self, moment: datetime) -> None:
        _, token, attempt = holding_worker(moment)

        answer = post("grants", {"downloads": [], "uploads": [log_wish(attempt)] * 501}, token=token)

        assert answer.json()["code"] == "too-many-grants"

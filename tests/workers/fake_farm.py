"""A small farm for the agent's tests: the four calls over real HTTP, a folder as store, messages over a real broker."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from celery import Celery

from workers.cache import digest_file
from workers.protocol import (
    PART_SIZE,
    Answer,
    Assignment,
    AttemptReport,
    End,
    EndAnswer,
    ExpectedOutput,
    GrantsAnswer,
    GrantsRequest,
    ManifestFile,
    Order,
    OutputRole,
    RegisterAnswer,
    RegisterRequest,
    SignedRequest,
    StepDocument,
    SyncAnswer,
    SyncRequest,
    TaskParameter,
    UploadGrant,
    UploadKind,
    UploadWish,
    WorkerState,
    decode,
    digest_of_parts,
    encode,
)

Reply = tuple[int, Any]
PATIENCE_S = 15.0


class FakeFarm:
    """
    Holds what a farm would: steps, assignments, ends, a store.

    Knobs: `state` is the worker state wanted; `before` may answer a call in the farm's stead (path → reply or None);
    `lose_answers` drops that many answers to ends, after they did their work; `refuse_ends` answers "refused".
    """

    def __init__(self, folder: Path, broker_url: str, *, interval_s: float = 5.0) -> None:
        self.folder = folder
        self.broker_url = broker_url
        self.interval_s = interval_s
        self.secret = secrets.token_hex(8)
        self.token = secrets.token_hex(16)
        self.worker = secrets.token_hex(4)
        self.state = WorkerState.READY
        self.before: Callable[[str], Reply | None] = lambda path: None
        self.lose_answers = 0
        self.refuse_ends = 0
        self.registered: list[RegisterRequest] = []
        self.syncs: list[SyncRequest] = []
        self.grants_asked: list[GrantsRequest] = []
        self.ends: dict[str, End] = {}
        self.end_reports: list[str] = []
        self.log_chunks: dict[str, int] = {}
        self.fetched: list[tuple[str, str | None]] = []  # store path, Range
        self.stored: list[str] = []
        self.url_life_s = 60.0
        self._steps: dict[str, StepDocument] = {}
        self._listed: dict[str, Assignment] = {}
        self._number = 0
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self._celery = Celery(broker=broker_url, set_as_current=False)
        (folder / "store").mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._celery.close()

    # --- what a test says ---

    def add_step(
        self,
        script: dict[str, Any],
        *,
        files: Mapping[str, bytes] | None = None,
        sources: Mapping[str, str] | None = None,
        environments: list[dict[str, Any]] | None = None,
        **fields: Any,
    ) -> str:
        """Offer a step whose scene holds `files`; `sources` gives some of them another spelling."""
        self._number += 1
        step = f"step-{self._number}"
        manifest = [
            ManifestFile(path=path, source=(sources or {}).get(path), digest=self.store_blob(data), size=len(data))
            for path, data in (files or {}).items()
        ]
        document = StepDocument(
            step=step,
            job="job",
            studio="studio",
            name="Step",
            scene_version=f"version-{step}" if files else None,
            entry=next(iter(files)) if files else None,
            manifest=manifest,
            parameters={},
            input_paths=[],
            output_paths=[],
            environments=environments or [],
            script=script,
            extensions=[],
            software={},
            needs_gpu=False,
        )
        self._steps[step] = dataclasses.replace(document, **fields)
        return step

    def store_blob(self, data: bytes) -> str:
        parts = [hashlib.sha256(data[at : at + PART_SIZE]).hexdigest() for at in range(0, len(data) or 1, PART_SIZE)]
        digest = digest_of_parts(parts)
        (self.folder / "store" / digest).write_bytes(data)
        return digest

    def assign(
        self,
        step: str,
        *,
        expected: list[str] | list[ExpectedOutput] | None = None,
        parameters: Mapping[str, tuple[str, str]] | None = None,
        say: bool = True,
        **fields: Any,
    ) -> str:
        """Assign one attempt and send the message that says so."""
        self._number += 1
        attempt = f"attempt-{self._number}"
        assignment = Assignment(
            attempt=attempt,
            generation=1,
            order=Order.RUN,
            reason="",
            slot=0,
            step=step,
            parameters={name: TaskParameter(type=t, value=v) for name, (t, v) in (parameters or {}).items()},
            expected=None if expected is None else [_expected(one) for one in expected],
            timeout_s=600,
            no_progress_s=600,
            memory_mib=0,
        )
        with self._changed:
            self._listed[attempt] = dataclasses.replace(assignment, **fields)
        if say:
            self.say()
        return attempt

    def say(self) -> bool:
        """Send what the dispatcher sends, a message that names attempts; False, to stand in what is waited for."""
        self._celery.send_task(
            "worker.attempts", args=[list(self._listed)], queue=f"worker.{self.worker}", serializer="json", retry=False
        )
        return False

    def order_stop(self, attempt: str, reason: str = "cancelled") -> None:
        with self._changed:
            self._listed[attempt] = dataclasses.replace(self._listed[attempt], order=Order.STOP, reason=reason)
        self.say()

    def unlist(self, attempt: str) -> None:
        with self._changed:
            del self._listed[attempt]
        self.say()

    # --- what a test asks ---

    def wait(self, what: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
        """Wait until `what` gives something true."""
        with self._changed:
            deadline = time.monotonic() + seconds
            while not (found := what()):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"waited {seconds} s for nothing; last sync: {self.syncs[-1:]}")
                self._changed.wait(min(left, 0.05))
            return found

    def wait_end(self, attempt: str, seconds: float = PATIENCE_S) -> End:
        end: End = self.wait(lambda: self.ends.get(attempt), seconds)
        return end

    def report_of(self, attempt: str) -> AttemptReport | None:
        reports = self.syncs[-1].attempts if self.syncs else []
        return next((report for report in reports if report.attempt == attempt), None)

    def outputs(self, attempt: str) -> dict[str, bytes]:
        """Give what the store holds of an attempt's outputs."""
        root = self.folder / "store" / attempt / "output"
        return {
            str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file() and f.suffix != ".part"
        }

    def log(self, attempt: str) -> str:
        count = self.log_chunks.get(attempt, 0)
        root = self.folder / "store" / attempt / "log"
        return "".join((root / str(n)).read_text(encoding="utf-8") for n in range(count))

    # --- the four calls ---

    def answer(self, method: str, path: str, body: Any, token: str | None) -> Reply:
        if (reply := self.before(path)) is not None:
            return reply
        if path == "/register":
            return self._register(decode(RegisterRequest, body))
        if token != f"Bearer {self.token}":
            return 401, {"code": "token-refused", "detail": "The token is no longer good."}
        if path == "/sync":
            return self._sync(decode(SyncRequest, body))
        if path == "/grants":
            return 200, encode(self._grants(decode(GrantsRequest, body)))
        return 200, encode(self._steps[path.removeprefix("/steps/")])

    def _register(self, request: RegisterRequest) -> Reply:
        if request.secret != self.secret:
            return 401, {"code": "secret-refused", "detail": "The secret is not good."}
        self.registered.append(request)
        answer = RegisterAnswer(
            worker=self.worker,
            token=self.token,
            queue=f"worker.{self.worker}",
            broker_url=self.broker_url,
            interval_s=self.interval_s,
        )
        return 200, encode(answer)

    def _sync(self, request: SyncRequest) -> Reply:
        with self._changed:
            self.syncs.append(request)
            answers = [self._end(report) for report in request.attempts if report.end is not None]
            for report in request.attempts:
                self.log_chunks[report.attempt] = report.log_chunks
            answer = SyncAnswer(
                state=self.state,
                attempts=list(self._listed.values()),
                answers=answers,
                interval_s=self.interval_s,
            )
            self._changed.notify_all()
            if answers and self.lose_answers:
                self.lose_answers -= 1
                return 0, None
            return 200, encode(answer)

    def _end(self, report: AttemptReport) -> EndAnswer:
        assert report.end is not None
        self.end_reports.append(report.attempt)
        if report.attempt in self.ends:
            return EndAnswer(attempt=report.attempt, answer=Answer.ACCEPTED)
        if report.attempt not in self._listed:
            return EndAnswer(attempt=report.attempt, answer=Answer.SUPERSEDED)
        if self.refuse_ends:
            self.refuse_ends -= 1
            return EndAnswer(attempt=report.attempt, answer=Answer.REFUSED, reason="the store has it not")
        for output in report.end.outputs:
            digest, _, size = digest_file(self._place(report.attempt, UploadKind.OUTPUT, output.name))
            assert (digest, size) == (output.digest, output.size), f"{output.name} is not in the store as reported"
        self.ends[report.attempt] = report.end
        del self._listed[report.attempt]
        return EndAnswer(attempt=report.attempt, answer=Answer.ACCEPTED)

    def _grants(self, request: GrantsRequest) -> GrantsAnswer:
        self.grants_asked.append(request)
        downloads = {
            digest: self._signed("GET", digest)
            for wish in request.downloads
            for digest in wish.digests
            if (self.folder / "store" / digest).exists()
        }
        return GrantsAnswer(downloads=downloads, uploads=[self._grant(wish) for wish in request.uploads])

    def _grant(self, wish: UploadWish) -> UploadGrant:
        place = self._place(wish.attempt, wish.kind, wish.name)
        is_there = place.exists() and digest_file(place)[0] == wish.digest
        key = f"{wish.attempt}/{wish.kind}/{wish.name}"
        requests = [
            self._signed("PUT", f"{key}?part={n}&of={len(wish.parts)}", {"x-checksum-sha256": sum_})
            for n, sum_ in enumerate(wish.parts)
        ]
        return UploadGrant(
            attempt=wish.attempt,
            kind=wish.kind,
            name=wish.name,
            already_there=is_there,
            parts=[] if is_there else requests,
        )

    def _place(self, attempt: str, kind: UploadKind, name: str) -> Path:
        return self.folder / "store" / attempt / kind / name

    def _signed(self, method: str, key: str, headers: dict[str, str] | None = None) -> SignedRequest:
        until = f"{time.time() + self.url_life_s:.3f}"
        mark = "&" if "?" in key else "?"
        return SignedRequest(method=method, url=f"/store/{key}{mark}until={until}", headers=headers or {})

    # --- the store ---

    def get(self, path: str, query: dict[str, str], range_: str | None) -> tuple[int, bytes]:
        self.fetched.append((path, range_))
        if (reply := self.before(f"/store/{path}")) is not None:
            return reply
        if float(query["until"]) < time.time():
            return 403, b""
        data = (self.folder / "store" / path).read_bytes()
        return (206, data[int(range_.removeprefix("bytes=").rstrip("-")) :]) if range_ else (200, data)

    def put(self, path: str, query: dict[str, str], checksum: str, data: bytes) -> int:
        if (reply := self.before(f"/store/{path}")) is not None:
            return reply[0]
        if float(query["until"]) < time.time():
            return 403
        if hashlib.sha256(data).hexdigest() != checksum:
            return 400
        with self._changed:
            self.stored.append(path)
        target = self.folder / "store" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        number, count = int(query["part"]), int(query["of"])
        if count == 1:
            target.write_bytes(data)
            return 200
        target.with_name(f"{target.name}.{number}.part").write_bytes(data)
        parts = [target.with_name(f"{target.name}.{n}.part") for n in range(count)]
        if all(part.exists() for part in parts):
            target.write_bytes(b"".join(part.read_bytes() for part in parts))
        return 200


def _expected(one: str | ExpectedOutput) -> ExpectedOutput:
    if isinstance(one, ExpectedOutput):
        return one
    is_report = one.endswith(".json")
    kind = {"png": "png", "exr": "openexr", "jpg": "jpeg"}.get(one.rpartition(".")[2])
    return ExpectedOutput(name=one, role=OutputRole.REPORT if is_report else OutputRole.RENDER, format=kind)


def _handler(farm: FakeFarm) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self._call(json.loads(self._body()))

        def do_GET(self) -> None:
            path, query = self._split()
            if path.startswith("/store/"):
                self._send(*farm.get(path.removeprefix("/store/"), query, self.headers.get("Range")))
            else:
                self._call(None)

        def do_PUT(self) -> None:
            path, query = self._split()
            assert "Authorization" not in self.headers, "the token must not reach the store"
            data = self._body()
            self._send(farm.put(path.removeprefix("/store/"), query, self.headers["x-checksum-sha256"], data), b"")

        def _call(self, body: Any) -> None:
            path = self._split()[0].removeprefix("/worker/v1")
            status, answer = farm.answer(self.command, path, body, self.headers.get("Authorization"))
            if status == 0:
                self.close_connection = True
                return
            self._send(status, json.dumps(answer).encode())

        def _split(self) -> tuple[str, dict[str, str]]:
            parts = urlsplit(self.path)
            return parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _send(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    return Handler

"""
A farm of one thread a request, on a real socket: uploads in parts, files to fetch, and lines that break when told to.

It keeps the contract of the scenes API in memory, so that the client's own behaviour can be tried without a farm.
"""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from workers.protocol import digest_of_parts

TOKEN = "fh_small"
PROJECT = {"id": "11111111-0000-7000-8000-000000000001", "name": "Demo", "region": "local", "is_paused": False}


@dataclass
class Fault:
    """What happens to requests whose method and path begin so, as often as it says."""

    method: str
    path: str
    times: int = 1
    status: int = 0  # 0: the line is cut
    headers: dict[str, str] = field(default_factory=dict)
    code: str = ""
    is_done: bool = False  # carried out before the answer is lost
    after_bytes: int | None = None  # of an answer's body; then the line is cut


@dataclass
class Blob:
    """A content: what came of it, and whether it was confirmed."""

    size: int
    parts: dict[int, bytes] = field(default_factory=dict)
    is_there: bool = False


class SmallFarm:
    """The state, and what was asked."""

    def __init__(self, part_size: int) -> None:
        self.part_size = part_size
        self.lock = threading.RLock()
        self.asked: list[tuple[str, str]] = []
        self.keys: list[str] = []
        self.authorizations: Counter[str] = Counter()  # of signed requests
        self.faults: list[Fault] = []
        self.blobs: dict[str, Blob] = {}
        self.manifests: dict[str, dict[str, Any]] = {}
        self.scenes: list[dict[str, Any]] = []
        self.sent: Counter[tuple[str, int]] = Counter()  # parts that arrived, by digest and number
        self.sent_at_once = self.most_at_once = 0
        self.signed_at_once: list[int] = []
        self.expired: set[str] = set()  # addresses that are valid no more
        self.expire_first = 0  # so many of the next addresses are expired when given
        self.lose: set[str] = set()  # digests whose parts vanish once at confirmation
        self.garble: set[str] = set()  # digests that are always said to differ
        self.files: dict[str, bytes] = {}  # to fetch, by name
        self.answers: dict[str, Any] = {}  # to GET by path, to others by "POST /path"
        self.bodies: list[tuple[str, Any]] = []  # what came with the requests that those answered
        self.on_part: Callable[[], None] = lambda: None
        self.logs: dict[str, list[str]] = {}  # chunks, by attempt
        self._serial = 0

    def fail(self, method: str, path: str, **how: Any) -> None:
        self.faults.append(Fault(method, path, **how))

    def count(self, method: str, path: str) -> int:
        return sum(m == method and p.startswith(path) for m, p in self.asked)

    def fault_for(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.method == method and path.startswith(fault.path):
                    fault.times -= 1
                    return fault
        return None

    # --- the API

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        match [method, *path.removeprefix("/api/v1/").split("/")]:
            case ["GET", "me"]:
                return 200, {"user": "a@example.com", "studio": "S", "studio_id": "1", "currency": "USD", "scopes": []}
            case ["GET", "projects"]:
                return 200, {"results": [PROJECT], "next": None}
            case ["GET", "scenes"]:
                found = [scene for scene in self.scenes if query.get("name", scene["name"]) == scene["name"]]
                return 200, {"results": found, "next": None}
            case ["POST", "scenes"]:
                self.scenes.append({"id": f"scene-{len(self.scenes)}", **body})
                return 201, self.scenes[-1]
            case ["POST", "scenes", scene, "versions"]:
                return 201, self._begin(scene, body)
            case ["GET", "scene-versions", version]:
                return 200, self._version(version)
            case ["GET", "scene-versions", version, "missing"]:
                return 200, {"results": self._missing(version), "next": None}
            case ["GET", "scene-versions", _, "parts"]:
                return 200, self._finished(query["digest"])
            case ["POST", "scene-versions", _, "parts"]:
                return 200, {"parts": [self._grant(wish) for wish in body["parts"]]}
            case ["POST", "scene-versions", version, "blobs"]:
                return 200, self._confirm(version, body["digests"])
        for known in (f"{path}?task={query.get('task')}", path, f"{method} {path}"):
            if known in self.answers and (method == "GET" or known.startswith(method)):
                self.bodies.append((f"{method} {path}", body))
                return 200, self.answers[known]
        return 404, {"code": "not-found", "detail": f"There is no {path} here.", "errors": [], "params": {}}

    def _begin(self, scene: str, manifest: dict[str, Any]) -> dict[str, Any]:
        version = f"version-{len(self.manifests)}"
        self.manifests[version] = manifest
        for line in manifest["files"]:
            self.blobs.setdefault(line["digest"], Blob(line["size"]))
        return {"version": self._version(version), "missing": self._missing(version)}

    def _version(self, version: str) -> dict[str, Any]:
        manifest = self.manifests[version]
        status = "uploading" if self._missing(version) else "whole"
        sizes = [line["size"] for line in manifest["files"]]
        figures = {"file_count": len(sizes), "byte_count": sum(sizes), "warnings": [], "refusal": ""}
        return {"id": version, "number": 1, "status": status, "entry": manifest["entry"], **figures}

    def _missing(self, version: str) -> list[dict[str, Any]]:
        digests = dict.fromkeys(line["digest"] for line in self.manifests[version]["files"])
        return [{"digest": d, "size": self.blobs[d].size} for d in digests if not self.blobs[d].is_there]

    def _finished(self, digest: str) -> dict[str, Any]:
        parts = self.blobs[digest].parts
        rows = [
            {"number": n, "length": len(parts[n]), "sha256": hashlib.sha256(parts[n]).hexdigest()}
            for n in sorted(parts)
        ]
        return {"there": self.blobs[digest].is_there, "results": rows, "next": None}

    def _grant(self, wish: dict[str, Any]) -> dict[str, Any]:
        blob, number = self.blobs[wish["digest"]], wish["number"]
        length = min(self.part_size, blob.size - number * self.part_size)
        self._serial += 1
        url = f"/files/{wish['digest']}/{number}?sha256={wish['sha256']}&serial={self._serial}"
        if self.expire_first:
            self.expire_first -= 1
            self.expired.add(url)
        request = None if blob.is_there else {"method": "PUT", "url": url, "headers": {"X-Signed": "yes"}}
        return {"digest": wish["digest"], "number": number, "length": length, "request": request}

    def _confirm(self, version: str, digests: list[str]) -> dict[str, Any]:
        answers = [self._verify(digest) for digest in digests]
        return {"status": self._version(version)["status"], "blobs": answers}

    def _verify(self, digest: str) -> dict[str, Any]:
        blob = self.blobs[digest]
        if digest in self.lose:
            self.lose.discard(digest)
            blob.parts.pop(0, None)
        wanted = set(range(max(1, -(-blob.size // self.part_size))))
        if missing := sorted(wanted - blob.parts.keys()):
            return {"digest": digest, "answer": "incomplete", "missing": missing, "why": ""}
        sums = [hashlib.sha256(blob.parts[n]).hexdigest() for n in sorted(wanted)]
        if digest in self.garble or digest_of_parts(sums) != digest:
            blob.parts.clear()
            return {"digest": digest, "answer": "mismatch", "missing": [], "why": "its digest is another"}
        blob.is_there = True
        return {"digest": digest, "answer": "there", "missing": [], "why": ""}

    # --- signed addresses

    def take(self, url: str, content: bytes) -> tuple[int, Any]:
        if url in self.expired:
            return 403, {"code": "address-expired", "detail": "This address was valid until then."}
        digest, number = urlsplit(url).path.split("/")[2:]
        if hashlib.sha256(content).hexdigest() != parse_qs(urlsplit(url).query)["sha256"][0]:
            return 422, {"code": "wrong-sum", "detail": "The body is not what was signed."}
        self.on_part()
        with self.lock:
            self.sent[(digest, int(number))] += 1
            self.blobs[digest].parts[int(number)] = content
        return 200, {}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    farm: SmallFarm

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def _serve(self, method: str) -> None:
        farm = self.farm
        with farm.lock:
            farm.asked.append((method, self.path))
            farm.sent_at_once += 1
            farm.most_at_once = max(farm.most_at_once, farm.sent_at_once)
        try:
            self._answer(method, self.path)
        finally:
            with farm.lock:
                farm.sent_at_once -= 1

    def _answer(self, method: str, url: str) -> None:
        path = urlsplit(url).path
        fault = self.farm.fault_for(method, path)
        if fault and not fault.status and not fault.is_done and fault.after_bytes is None:
            self._cut()
            return
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if fault and fault.status:
            body = {"code": fault.code, "detail": f"The farm says {fault.code}.", "errors": [], "params": {}}
            self._reply(fault.status, json.dumps(body).encode() if fault.code else b"<html>", fault.headers)
            return
        status, headers, body_bytes = self._work(method, url, content)
        if fault and fault.is_done:
            self._cut()
            return
        self._reply(status, body_bytes, headers, cut_after=fault.after_bytes if fault else None)

    def _work(self, method: str, url: str, content: bytes) -> tuple[int, dict[str, str], bytes]:
        farm, parts = self.farm, urlsplit(url)
        if parts.path.startswith("/files/"):
            farm.authorizations[self.headers.get("Authorization", "")] += 1
            if method == "GET":
                return self._give(url)
            status, answer = farm.take(url, content)
            return status, {}, json.dumps(answer).encode()
        if parts.path.endswith("/log") and parts.path.split("/")[-2] in farm.logs:
            chunks = farm.logs[parts.path.split("/")[-2]]
            since = int(parse_qs(parts.query)["since"][0])
            return 200, {"Farm-Log-Next": str(len(chunks))}, "".join(chunks[since:]).encode()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {}, b'{"code": "authentication-failed", "detail": "Unknown token."}'
        if key := self.headers.get("Idempotency-Key"):
            farm.keys.append(key)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        body: Any = json.loads(content) if content else None
        with farm.lock:
            if method == "POST" and parts.path.endswith("/parts"):
                farm.signed_at_once.append(len(body["parts"]))
            status, answer = farm.answer(method, parts.path, query, body)
        return status, {}, json.dumps(answer).encode()

    def _give(self, url: str) -> tuple[int, dict[str, str], bytes]:
        farm = self.farm
        if url in farm.expired:
            return 403, {}, b'{"code": "address-expired", "detail": "This address was valid until then."}'
        content = farm.files[urlsplit(url).path.removeprefix("/files/")]
        asked = self.headers.get("Range")
        if not asked:
            return 200, {}, content
        start = int(asked.removeprefix("bytes=").rstrip("-"))
        if start >= len(content):
            return 416, {}, b""
        return 206, {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}, content[start:]

    def _reply(self, status: int, body: bytes, headers: dict[str, str], cut_after: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/html" if body == b"<html>" else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if cut_after is None else body[:cut_after])
        if cut_after is not None:
            self._cut()

    def _cut(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class Server(ThreadingHTTPServer):
    """The socket; cut lines are part of the play, so it says nothing of them."""

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def start(part_size: int) -> tuple[SmallFarm, Server, str]:
    """Start a farm on a free port of this machine."""
    farm = SmallFarm(part_size)
    server = Server(("127.0.0.1", 0), type("Handler", (Handler,), {"farm": farm}))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return farm, server, f"http://127.0.0.1:{server.server_port}"

"""
A server that stands before moto's S3 and refuses what S3 would refuse and moto lets pass.

It computes each request's signature anew (with botocore, not with the farm's own code), looks at its time, compares
the body with the length and the SHA-256 that were signed, and remembers the sums of parts, which moto's list leaves
out. On order it loses answers, answers "slow down", or cuts lines.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

import httpx

KEY_ID, SECRET = "AKIAFARMHANDTEST", "a secret of this test alone"
REGION = "eu-test-1"
SUM = "x-amz-checksum-sha256"
SKEW = timedelta(minutes=15)


class Refused(Exception):
    """An error as S3 answers it."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


@dataclass
class Faults:
    """What goes wrong next: each entry once, for the first request that fits."""

    lose_answer_of: list[str] = field(default_factory=list)  # "POST uploadId": done, and nobody hears it
    slow_down: int = 0
    error_in_200_of: list[str] = field(default_factory=list)  # "POST uploadId": not done, and the status says 200
    cut_after: list[int] = field(default_factory=list)  # bytes of a GET's body


class Verifier:
    """What is refused, apart from the HTTP."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str], str] = {}  # (upload, part number) -> sum
        self.uploads: dict[str, str] = {}  # unfinished ones, and their paths: moto mixes them up
        self.begun: dict[str, str] = {}  # when: moto says 2010 of all
        self.faults = Faults()
        self.seen: list[str] = []
        self.refused: list[str] = []

    def check(self, method: str, target: str, headers: dict[str, str], body: bytes, now: datetime) -> None:
        """
        Do what S3 does before it does anything.

        :raises Refused: as S3 would
        """
        query = dict(parse_qsl(urlsplit(target).query, keep_blank_values=True))
        if "X-Amz-Signature" in query:
            self._check_address(method, target, headers, query, now)
        else:
            _check_header(method, target, headers, body, now)
        if "uploadId" in query and self.uploads.get(query["uploadId"]) != urlsplit(target).path:
            raise Refused(404, "NoSuchUpload")
        told = headers.get(SUM)
        if told is not None and told != base64.b64encode(hashlib.sha256(body).digest()).decode():
            raise Refused(400, "BadDigest", "The SHA256 you specified did not match what we received.")

    def _check_address(
        self, method: str, target: str, headers: dict[str, str], query: dict[str, str], now: datetime
    ) -> None:
        signature = query.pop("X-Amz-Signature")
        made = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if now > made + timedelta(seconds=int(query["X-Amz-Expires"])):
            raise Refused(403, "AccessDenied", "Request has expired")
        if made > now + SKEW:
            raise Refused(403, "AccessDenied", "Request is not valid yet")
        key, date, region, service, _ = query["X-Amz-Credential"].split("/")
        if (key, region, service) != (KEY_ID, REGION, "s3"):
            raise Refused(403, "InvalidAccessKeyId")
        names = query["X-Amz-SignedHeaders"].split(";")
        if any(name.startswith("x-amz-") and name not in names for name in headers):
            raise Refused(403, "AccessDenied", "There were headers present in the request which were not signed")
        expected = _signature(method, target, query, {n: headers.get(n, "") for n in names}, "UNSIGNED-PAYLOAD", date)
        if not hmac.compare_digest(signature, expected):
            raise Refused(403, "SignatureDoesNotMatch")


def _check_header(method: str, target: str, headers: dict[str, str], body: bytes, now: datetime) -> None:
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/s3/aws4_request, SignedHeaders=([^,]+), Signature=(\w+)",
        headers.get("authorization", ""),
    )
    if found is None:
        raise Refused(403, "AccessDenied", "Anonymous access is forbidden")
    key, date, region, names, signature = found.groups()
    if (key, region) != (KEY_ID, REGION):
        raise Refused(403, "InvalidAccessKeyId")
    content = headers.get("x-amz-content-sha256", "")
    if content != "UNSIGNED-PAYLOAD" and content != hashlib.sha256(body).hexdigest():
        raise Refused(400, "XAmzContentSHA256Mismatch")
    query = dict(parse_qsl(urlsplit(target).query, keep_blank_values=True))
    told = {name: headers.get(name, "") for name in names.split(";")}
    expected = _signature(method, target, query, told, content, date, headers["x-amz-date"])
    if not hmac.compare_digest(signature, expected):
        raise Refused(403, "SignatureDoesNotMatch")


def _signature(
    method: str, target: str, query: dict[str, str], headers: dict[str, str], content: str, date: str, moment: str = ""
) -> str:
    arguments = "&".join(sorted(f"{quote(n, safe='-_.~')}={quote(v, safe='-_.~')}" for n, v in query.items()))
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(headers))
    path = quote(urlsplit(target).path, safe="/-_.~%")
    request = "\n".join([method, path, arguments, lines, ";".join(sorted(headers)), content])
    scope = f"{date}/{REGION}/s3/aws4_request"
    text = "\n".join(
        ["AWS4-HMAC-SHA256", moment or query["X-Amz-Date"], scope, hashlib.sha256(request.encode()).hexdigest()]
    )
    key = f"AWS4{SECRET}".encode()
    for step in scope.split("/"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _problem(refused: Refused) -> bytes:
    return f"<Error><Code>{refused.code}</Code><Message>{refused.message}</Message></Error>".encode()


class _Line(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: S3Server

    def _serve(self) -> None:
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        verifier, kind = self.server.verifier, self._kind()
        verifier.seen.append(kind)
        try:
            if verifier.faults.slow_down:
                verifier.faults.slow_down -= 1
                raise Refused(503, "SlowDown")
            verifier.check(self.command, self.path, headers, body, datetime.now(UTC))
            if kind in verifier.faults.error_in_200_of:
                verifier.faults.error_in_200_of.remove(kind)
                raise Refused(200, "InternalError", "We encountered an internal error. Please try again.")
        except Refused as refused:
            verifier.refused.append(f"{kind}: {refused.code}")
            self._answer(refused.status, {"Content-Type": "application/xml"}, _problem(refused))
            return
        self._pass_on(body, headers, kind)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        return self.rfile.read(length)

    def _kind(self) -> str:
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        names = [n for n in ("uploadId", "uploads", "partNumber", "delete", "list-type") if n in query]
        return " ".join([self.command, *names])

    def _pass_on(self, body: bytes, headers: dict[str, str], kind: str) -> None:
        if SUM in headers:
            headers["x-amz-sdk-checksum-algorithm"] = "SHA256"  # moto does not look further
        headers["accept-encoding"] = "identity"
        # What is verified here is not verified there, where some signatures are thought to be wrong.
        target = re.sub(r"X-Amz-[A-Za-z]+=[^&]*&?", "", self.path).rstrip("?&")
        headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={KEY_ID}/20260101/{REGION}/s3/aws4_request"
        answer = self.server.upstream.request(self.command, target, content=body, headers=headers)
        content = answer.content
        query = {n: v[-1] for n, v in parse_qs(urlsplit(self.path).query).items()}
        if self.command == "PUT" and "partNumber" in query and answer.is_success:
            self.server.verifier.sums[query["uploadId"], query["partNumber"]] = headers.get(SUM, "")
        uploads = self.server.verifier.uploads
        if kind == "POST uploads" and (found := re.search(rb"<UploadId>([^<]+)</UploadId>", content)):
            uploads[found[1].decode()] = urlsplit(self.path).path
            self.server.verifier.begun[found[1].decode()] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        if kind == "GET uploads":
            content = self._with_times(content)
        if kind in ("POST uploadId", "DELETE uploadId") and answer.is_success:
            uploads.pop(query["uploadId"], None)
        if kind == "GET uploadId" and answer.is_success:
            content = self._with_sums(content, query["uploadId"])
        faults = self.server.verifier.faults
        if kind in faults.lose_answer_of:
            faults.lose_answer_of.remove(kind)
            self.close_connection = True
            return
        kept = {n: v for n, v in answer.headers.items() if n.lower() not in {"content-length", "connection", "date"}}
        if self.command == "HEAD":
            kept["Content-Length"] = answer.headers.get("content-length", "0")
        cut = faults.cut_after.pop(0) if faults.cut_after and kind == "GET" and answer.is_success else None
        self._answer(answer.status_code, kept, content, cut=cut)

    def _with_sums(self, content: bytes, upload: str) -> bytes:
        def add(found: re.Match[bytes]) -> bytes:
            total = self.server.verifier.sums[upload, found[2].decode()].encode()
            return found[1] + found[2] + found[3] + b"<ChecksumSHA256>" + total + b"</ChecksumSHA256>"

        return re.sub(rb"(<Part>\s*<PartNumber>)(\d+)(</PartNumber>)", add, content)

    def _with_times(self, content: bytes) -> bytes:
        def put(found: re.Match[bytes]) -> bytes:
            at = re.search(rb"<UploadId>([^<]+)</UploadId>", found[0])
            began = self.server.verifier.begun[at[1].decode()] if at else ""
            return re.sub(rb"<Initiated>[^<]*", b"<Initiated>" + began.encode(), found[0])

        return re.sub(rb"(?s)<Upload>.*?</Upload>", put, content)

    def _answer(self, status: int, headers: dict[str, str], content: bytes, *, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers and status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content if cut is None else content[:cut])
        self.close_connection = cut is not None or self.close_connection

    def log_message(self, *args: Any) -> None:
        return


class S3Server(ThreadingHTTPServer):
    """The verifier, before a moto server at `upstream`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Line)
        self.verifier = Verifier()
        self.upstream = httpx.Client(base_url=upstream, timeout=30, trust_env=False)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def s3() -> Iterator[S3Server]:
    """Serve S3 on this machine until the block ends."""
    from moto.server import ThreadedMotoServer

    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    server = S3Server("http://{}:{}".format(*moto.get_host_and_port()))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        server.upstream.close()
        thread.join()
        moto.stop()

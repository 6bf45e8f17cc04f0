"""`/files/` as the farm serves it: granian, a socket, and no database."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import UUID

import httpx
import pytest
from django.test import override_settings

from farm.core import keys
from farm.core.folder import FolderStore
from farm.core.permits import Permit
from workers.protocol import PART_SIZE, SignedRequest

ROOT = Path(__file__).parents[2]
STUDIO = UUID("01890000-0000-7000-8000-000000000001")
SECRET = "of this test alone, and as long as Django wants them to be"


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


CONTENT = b"content"
KEY = keys.blob_key(STUDIO, sha(CONTENT))


class Farm:
    """A farm's web process whose database is away, and its store seen from behind."""

    def __init__(self, address: str, store: FolderStore, process: subprocess.Popen[bytes]) -> None:
        self.address = address
        self.store = store
        self.process = process
        self.http = httpx.Client(base_url=address, timeout=30, trust_env=False)

    def send(
        self, signed: SignedRequest, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        return self.http.request(signed.method, signed.url, content=body, headers={**signed.headers, **(headers or {})})

    def files(self) -> list[Path]:
        return [path for path in self.store.root.rglob("*") if path.is_file()]

    def peak_mib(self) -> int:
        """The most memory that any of its processes ever had."""
        group = [p for p in Path("/proc").glob("[0-9]*") if _group(p) == self.process.pid]
        peaks = [line for p in group for line in (p / "status").read_text().splitlines() if line.startswith("VmHWM")]
        return max(int(line.split()[1]) // 1024 for line in peaks)


def _group(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rsplit(")", 1)[1].split()[2])
    except OSError:
        return 0


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    folder = tmp_path_factory.mktemp("farm")
    (folder / "static").mkdir()
    port = _free_port()
    environment = os.environ | {
        "FARM_SECRET_KEY": SECRET,
        "FARM_DATA": str(folder),
        "FARM_STORAGE_URL": f"file://{folder}/store",
        "FARM_DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
    }
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--blocking-threads", "4", "farm.wsgi:application"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    farm = Farm(f"http://127.0.0.1:{port}", FolderStore(folder / "store"), process)
    try:
        _wait_until_it_answers(farm)
        yield farm
    finally:
        farm.http.close()
        process.terminate()
        process.wait(20)


def _wait_until_it_answers(farm: Farm) -> None:
    for _ in range(200):
        try:
            farm.http.get("/files/none/none")
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the farm's web process does not answer")


@pytest.fixture
def farm(served: Farm) -> Iterator[Farm]:
    with override_settings(SECRET_KEY=SECRET):
        yield served
    for path in served.files():
        path.unlink()


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


def signed_put(content: bytes, *, now: datetime, key: str = KEY) -> SignedRequest:
    return FolderStore(Path()).sign_upload(key, length=len(content), sha256=sha(content), now=now)


class TestPut:
    def test_a_part_of_16_mib_is_stored_without_ever_being_in_memory(self, farm: Farm, now: datetime) -> None:
        contents = [bytes([number]) * PART_SIZE for number in range(4)]
        urls = [signed_put(content, now=now, key=keys.blob_key(STUDIO, sha(content))) for content in contents]
        farm.send(signed_put(CONTENT, now=now), CONTENT)
        before = farm.peak_mib()

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(farm.send, urls, contents))

        assert [answer.status_code for answer in answers] == [200] * 4
        assert farm.store.stat(keys.blob_key(STUDIO, sha(contents[3]))) is not None
        assert farm.peak_mib() - before < 2 * PART_SIZE // 1024**2

    def test_a_wrong_content_is_refused_in_a_sentence_and_nothing_is_kept(self, farm: Farm, now: datetime) -> None:
        answer = farm.send(signed_put(CONTENT, now=now), b"CONTENT")

        assert answer.status_code == 422
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["code"] == "wrong-sum"
        assert "hash the file anew" in answer.json()["detail"]
        assert farm.files() == []

    def test_a_wrong_length_is_refused_before_the_body_is_read(self, farm: Farm, now: datetime) -> None:
        answer = farm.send(signed_put(CONTENT, now=now), CONTENT + b"!")

        assert (answer.status_code, answer.json()["code"]) == (422, "wrong-length")
        assert farm.files() == []

    def test_a_body_without_a_length_is_refused(self, farm: Farm, now: datetime) -> None:
        signed = signed_put(CONTENT, now=now)

        answer = farm.http.put(signed.url, content=iter([CONTENT]), headers=signed.headers)

        assert (answer.status_code, answer.json()["code"]) == (411, "length-needed")
        assert farm.files() == []

    def test_nothing_is_kept_of_a_line_that_is_cut(self, farm: Farm, now: datetime) -> None:
        content = bytes(PART_SIZE)
        signed = signed_put(content, now=now, key=keys.blob_key(STUDIO, sha(content)))
        host, port = urlsplit(farm.address).netloc.split(":")
        head = f"PUT {signed.url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(content)}\r\n\r\n"

        with socket.create_connection((host, int(port))) as line:
            line.sendall(head.encode() + content[: 5 * 1024 * 1024])
            _until(lambda: any("tmp" in path.parts for path in farm.files()))

        _until(lambda: farm.files() == [])
        assert farm.send(signed, content).status_code == 200

    @pytest.mark.parametrize("body", [b"", bytes(PART_SIZE)])
    def test_an_unsigned_body_is_refused_without_being_read(self, farm: Farm, body: bytes) -> None:
        answer = farm.http.put(f"/files/{KEY}?expires=99999999999&signature=x", content=body)

        assert (answer.status_code, answer.json()["code"]) == (403, "address-not-signed")
        assert farm.files() == []

    def test_an_expired_address_says_until_when_it_was_valid(self, farm: Farm, now: datetime) -> None:
        answer = farm.send(signed_put(CONTENT, now=now - timedelta(hours=1)), CONTENT)

        assert (answer.status_code, answer.json()["code"]) == (403, "address-expired")
        assert str((now - timedelta(minutes=45)).year) in answer.json()["detail"]

    def test_an_upload_that_has_ended_is_refused(self, farm: Farm, now: datetime) -> None:
        upload = farm.store.begin(KEY)
        farm.store.abort(KEY, upload)

        answer = farm.send(farm.store.sign_part(KEY, upload, 0, length=7, sha256=sha(CONTENT), now=now), CONTENT)

        assert (answer.status_code, answer.json()["code"]) == (409, "upload-over")


class TestSignature:
    """One thing changed in a signed address, and it is signed no longer."""

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("expires", "99999999999"),
            ("upload", "0" * 32),
            ("part", "1"),
            ("length", "8"),
            ("sha256", sha(b"CONTENT")),
            ("filename", "x.exe"),
            ("content_type", "text/html"),
            ("signature", ""),
        ],
    )
    def test_no_value_can_be_changed(self, farm: Farm, now: datetime, name: str, value: str) -> None:
        split = urlsplit(signed_put(CONTENT, now=now).url)
        changed = urlencode({**dict(parse_qsl(split.query)), name: value})

        assert farm.http.put(f"{split.path}?{changed}", content=CONTENT).status_code == 403
        assert farm.files() == []

    @pytest.mark.parametrize(
        "key", ["../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", f"{STUDIO}/blob/..", f"{STUDIO}/blob/x%00"]
    )
    def test_no_other_key_can_be_asked_for(self, farm: Farm, now: datetime, key: str) -> None:
        query = urlsplit(FolderStore(Path()).sign_download(KEY, now=now).url).query

        assert farm.http.get(f"/files/{key}?{query}").status_code in {403, 404}

    def test_a_value_cannot_pose_as_the_next(self) -> None:
        first = Permit(method="PUT", key="a/b", expires=1, filename="x&content_type=text/html")
        second = Permit(method="PUT", key="a/b", expires=1, filename="x", content_type="text/html")

        assert first.address().rsplit("signature=")[1] != second.address().rsplit("signature=")[1]

    def test_another_secret_signs_nothing_here(self, farm: Farm, now: datetime) -> None:
        with override_settings(SECRET_KEY="another secret altogether, of the usual length of secrets"):
            foreign = signed_put(CONTENT, now=now)

        assert farm.send(foreign, CONTENT).status_code == 403


class TestGet:
    @pytest.fixture
    def address(self, farm: Farm, now: datetime) -> SignedRequest:
        farm.store.write(KEY, CONTENT)
        return farm.store.sign_download(KEY, now=now, filename="Szene ä.png", content_type="image/png")

    def test_it_comes_with_the_headers_of_a_strangers_file(self, farm: Farm, address: SignedRequest) -> None:
        answer = farm.send(address)

        assert (answer.status_code, answer.content) == (200, CONTENT)
        assert answer.headers["Content-Type"] == "image/png"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Disposition"] == "attachment; filename*=utf-8''Szene%20%C3%A4.png"
        assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
        assert "immutable" in answer.headers["Cache-Control"]
        assert "Set-Cookie" not in answer.headers

    @pytest.mark.parametrize(
        ("asked", "status", "content"),
        [
            ("bytes=0-0", 206, b"c"),
            ("bytes=3-", 206, b"tent"),
            ("bytes=-3", 206, b"ent"),
            ("bytes=-99", 206, CONTENT),
            ("bytes=2-99", 206, b"ntent"),
            ("bytes=7-", 416, b""),
            ("bytes=-0", 416, b""),
            ("bytes=5-2", 200, CONTENT),
            ("bytes=0-1,3-4", 200, CONTENT),
            ("bytes=-", 200, CONTENT),
            ("lines=1-2", 200, CONTENT),
            ("bytes=" + "9" * 30 + "-", 200, CONTENT),
        ],
    )
    def test_ranges(self, farm: Farm, address: SignedRequest, asked: str, status: int, content: bytes) -> None:
        answer = farm.send(address, headers={"Range": asked})

        assert (answer.status_code, answer.content) == (status, content)

    def test_a_range_of_what_has_changed_since_comes_whole(self, farm: Farm, address: SignedRequest) -> None:
        assert farm.send(address, headers={"Range": "bytes=3-", "If-Range": '"other"'}).status_code == 200

    def test_what_the_asker_has_already_is_not_sent(self, farm: Farm, address: SignedRequest) -> None:
        answer = farm.send(address, headers={"If-None-Match": f'"{sha(CONTENT)}"'})

        assert (answer.status_code, answer.content) == (304, b"")

    def test_what_was_deleted_is_404(self, farm: Farm, address: SignedRequest) -> None:
        farm.store.delete(KEY)

        answer = farm.send(address)

        assert (answer.status_code, answer.json()["code"]) == (404, "no-such-file")

    @pytest.mark.parametrize("method", ["POST", "DELETE", "HEAD", "PATCH"])
    def test_nothing_else_can_be_done(self, farm: Farm, address: SignedRequest, method: str) -> None:
        assert farm.http.request(method, address.url).status_code == 405
        assert farm.store.stat(KEY)


def _until(claim: object) -> None:
    assert callable(claim)
    for _ in range(100):
        if claim():
            return
        time.sleep(0.1)
    raise AssertionError("it did not become true within 10 seconds")

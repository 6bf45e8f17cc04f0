"""Files of the farm's own on their way into the store."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from django.conf import LazySettings
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application
from django.utils import timezone

from farm.core.storage import store
from farm.results.sending import keep_file
from workers.protocol import PART_SIZE, digest_of_parts

STUDIO = UUID("01890000-0000-7000-8000-000000000001")
MOVIE = UUID("01890000-0000-7000-8000-000000000002")


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (its parent's word)
        """Say nothing."""


@pytest.fixture
def web(settings: LazySettings) -> Iterator[None]:
    """The farm's web process, at the farm's address."""
    server = ThreadedWSGIServer(("127.0.0.1", 0), Quiet)
    server.set_app(get_wsgi_application())
    settings.FARM_URL = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield
    server.shutdown()
    server.server_close()
    thread.join()


def large(tmp_path: Path) -> Path:
    file = tmp_path / "movie"
    file.write_bytes(b"a" * PART_SIZE + b"b" * 1000)
    return file


class TestKeepFile:
    def test_stores_a_small_file_without_asking_anybody(self, tmp_path: Path, settings: LazySettings) -> None:
        settings.FARM_URL = "http://127.0.0.1:1"
        file = tmp_path / "movie"
        file.write_bytes(b"movie")

        kept = keep_file(file, studio=STUDIO, delivery=MOVIE, now=timezone.now())

        assert (kept.size, kept.digest) == (5, hashlib.sha256(b"movie").hexdigest())
        assert kept.key == f"{STUDIO}/delivery/{MOVIE}/{kept.digest}"
        assert store().read(kept.key) == b"movie"

    @pytest.mark.usefixtures("web")
    def test_sends_a_large_file_in_parts(self, tmp_path: Path) -> None:
        file = large(tmp_path)

        kept = keep_file(file, studio=STUDIO, delivery=MOVIE, now=timezone.now())

        sums = [hashlib.sha256(part).hexdigest() for part in (b"a" * PART_SIZE, b"b" * 1000)]
        assert (kept.size, kept.digest) == (PART_SIZE + 1000, digest_of_parts(sums))
        assert b"".join(store().stream(kept.key)) == file.read_bytes()

    @pytest.mark.usefixtures("web")
    def test_sends_nothing_that_is_there_already(self, tmp_path: Path, settings: LazySettings) -> None:
        file = large(tmp_path)
        first = keep_file(file, studio=STUDIO, delivery=MOVIE, now=timezone.now())
        settings.FARM_URL = "http://127.0.0.1:1"

        assert keep_file(file, studio=STUDIO, delivery=MOVIE, now=timezone.now()) == first

    def test_leaves_nothing_behind_when_nobody_answers(self, tmp_path: Path, settings: LazySettings) -> None:
        settings.FARM_URL = "http://127.0.0.1:1"

        with pytest.raises(httpx.HTTPError):
            keep_file(large(tmp_path), studio=STUDIO, delivery=MOVIE, now=timezone.now())

        assert [p for p in (tmp_path / "store").rglob("*") if p.is_file()] == []

    @pytest.mark.usefixtures("web")
    def test_says_when_the_store_refuses(self, tmp_path: Path) -> None:
        long_ago = datetime(2020, 1, 1, tzinfo=timezone.get_current_timezone())

        with pytest.raises(httpx.HTTPStatusError, match="403"):
            keep_file(large(tmp_path), studio=STUDIO, delivery=MOVIE, now=long_ago)

"""
The contract of an object store, for every adapter: a store is added by one more kind of `bench`.

Bytes travel as they do for a client: by the signed request alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from pytest_django import Settings

from farm.core import keys
from farm.core.storage import (
    ContentDiffers,
    NoSuchObject,
    NoSuchUpload,
    ObjectStore,
    Part,
    PartsMissing,
    Stat,
    store,
)
from workers.protocol import PART_SIZE, SignedRequest, digest_of_parts

STUDIO = UUID("01890000-0000-7000-8000-000000000001")
OTHER_STUDIO = UUID("01890000-0000-7000-8000-000000000002")


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Answer:
    status: int
    content: bytes
    headers: dict[str, str]


@dataclass(frozen=True)
class Bench:
    """A store, and a client that knows nothing but signed requests."""

    store: ObjectStore
    send: Callable[..., Answer]
    expired: int  # the status of an address whose time is over
    forged: int  # and of one that is not the store's


@pytest.fixture(params=["folder", "s3"])
def bench(request: pytest.FixtureRequest) -> Bench:
    made: Bench = request.getfixturevalue(f"{request.param}_bench")
    return made


@pytest.fixture
def folder_bench(tmp_path: Path, settings: Settings) -> Bench:
    settings.FARM_STORAGE_URL = f"file://{tmp_path}/store"
    client = Client()

    def send(signed: SignedRequest, body: bytes = b"", **headers: str) -> Answer:
        sent: dict[str, Any] = (
            {"data": body, "content_type": signed.headers["Content-Type"]} if signed.method == "PUT" else {}
        )
        answer = client.generic(signed.method, signed.url, headers=headers, **sent)
        content = b"".join(answer) if answer.streaming else answer.content
        return Answer(answer.status_code, content, dict(answer.headers))

    return Bench(store=store(), send=send, expired=403, forged=403)


@pytest.fixture
def s3_bench(s3_url: str, settings: Settings) -> Iterator[Bench]:
    settings.FARM_STORAGE_URL = s3_url
    with httpx.Client(timeout=30, trust_env=False) as client:

        def send(signed: SignedRequest, body: bytes = b"", **headers: str) -> Answer:
            content = body if signed.method == "PUT" else None
            answer = client.request(signed.method, signed.url, headers={**signed.headers, **headers}, content=content)
            told = {name.title(): value for name, value in answer.headers.items()}
            return Answer(answer.status_code, answer.content, told)

        yield Bench(store=store(), send=send, expired=403, forged=403)


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


CONTENT = b"a small object"
KEY = keys.blob_key(STUDIO, sha(CONTENT))

# Two parts: the least that is an upload in parts.
BIG = bytes(PART_SIZE) + b"tail"
BIG_PARTS = [BIG[:PART_SIZE], BIG[PART_SIZE:]]
BIG_DIGEST = digest_of_parts(map(sha, BIG_PARTS))
BIG_KEY = keys.blob_key(STUDIO, BIG_DIGEST)
BIG_STAT = Stat(size=len(BIG), digest=BIG_DIGEST)


def put_part(bench: Bench, upload: str, number: int, content: bytes, *, now: datetime, key: str = BIG_KEY) -> int:
    signed = bench.store.sign_part(key, upload, number, length=len(content), sha256=sha(content), now=now)
    return bench.send(signed, content).status


def has_ended(bench: Bench, upload: str) -> bool:
    try:
        bench.store.finished_parts(BIG_KEY, upload)
    except NoSuchUpload:
        return True
    return False


def put_big(bench: Bench, *, now: datetime) -> str:
    upload = bench.store.begin(BIG_KEY)
    for number, content in enumerate(BIG_PARTS):
        assert put_part(bench, upload, number, content, now=now) == 200
    bench.store.complete(BIG_KEY, upload, size=len(BIG), digest=BIG_DIGEST)
    return upload


class TestStat:
    def test_what_was_never_stored_is_not_there(self, bench: Bench) -> None:
        assert bench.store.stat(KEY) is None

    def test_size_and_digest_of_a_small_object(self, bench: Bench) -> None:
        bench.store.write(KEY, CONTENT)

        assert bench.store.stat(KEY) == Stat(size=len(CONTENT), digest=sha(CONTENT))

    def test_size_and_digest_of_an_empty_object(self, bench: Bench) -> None:
        bench.store.write(KEY, b"")

        assert bench.store.stat(KEY) == Stat(size=0, digest=sha(b""))

    def test_the_digest_of_an_object_of_several_parts_is_that_of_their_sums(self, bench: Bench, now: datetime) -> None:
        put_big(bench, now=now)

        assert bench.store.stat(BIG_KEY) == BIG_STAT

    def test_an_object_of_one_studio_is_not_there_for_another(self, bench: Bench) -> None:
        bench.store.write(KEY, CONTENT)

        assert bench.store.stat(keys.blob_key(OTHER_STUDIO, sha(CONTENT))) is None


class TestSignUpload:
    def sign(self, bench: Bench, now: datetime, **change: Any) -> SignedRequest:
        return bench.store.sign_upload(KEY, **{"length": len(CONTENT), "sha256": sha(CONTENT), "now": now, **change})

    def test_the_announced_content_is_stored(self, bench: Bench, now: datetime) -> None:
        assert bench.send(self.sign(bench, now), CONTENT).status == 200
        assert bench.store.read(KEY) == CONTENT

    def test_an_empty_file_is_stored(self, bench: Bench, now: datetime) -> None:
        assert bench.send(self.sign(bench, now, length=0, sha256=sha(b"")), b"").status == 200
        assert bench.store.stat(KEY) == Stat(size=0, digest=sha(b""))

    def test_sending_it_twice_is_harmless(self, bench: Bench, now: datetime) -> None:
        signed = self.sign(bench, now)

        assert [bench.send(signed, CONTENT).status for _ in range(2)] == [200, 200]
        assert bench.store.read(KEY) == CONTENT

    @pytest.mark.parametrize("body", [CONTENT[:-1], CONTENT + b"!", b"", b"!" * len(CONTENT)])
    def test_any_other_content_is_refused_and_nothing_is_kept(self, bench: Bench, now: datetime, body: bytes) -> None:
        answer = bench.send(self.sign(bench, now), body)

        assert 400 <= answer.status < 500
        assert bench.store.stat(KEY) is None

    def test_a_refused_content_leaves_an_earlier_object_alone(self, bench: Bench, now: datetime) -> None:
        bench.store.write(KEY, CONTENT)

        bench.send(self.sign(bench, now), b"!" * len(CONTENT))

        assert bench.store.read(KEY) == CONTENT

    def test_after_15_minutes_it_is_refused(self, bench: Bench, now: datetime) -> None:
        answer = bench.send(self.sign(bench, now - timedelta(minutes=15, seconds=1)), CONTENT)

        assert answer.status == bench.expired
        assert bench.store.stat(KEY) is None

    def test_for_another_key_it_is_refused(self, bench: Bench, now: datetime) -> None:
        signed = self.sign(bench, now)
        other = keys.blob_key(OTHER_STUDIO, sha(CONTENT))

        answer = bench.send(
            SignedRequest(method="PUT", url=signed.url.replace(KEY, other), headers=signed.headers), CONTENT
        )

        assert answer.status == bench.forged
        assert bench.store.stat(other) is None

    def test_for_another_method_it_is_refused(self, bench: Bench, now: datetime) -> None:
        bench.store.write(KEY, CONTENT)

        answer = bench.send(SignedRequest(method="GET", url=self.sign(bench, now).url, headers={}))

        assert answer.status == bench.forged
        assert CONTENT not in answer.content


class TestBegin:
    def test_two_uploads_to_one_key_are_two(self, bench: Bench) -> None:
        assert bench.store.begin(BIG_KEY) != bench.store.begin(BIG_KEY)

    def test_a_begun_upload_is_no_object(self, bench: Bench, now: datetime) -> None:
        put_part(bench, bench.store.begin(BIG_KEY), 0, b"part", now=now)

        assert bench.store.stat(BIG_KEY) is None
        assert list(bench.store.listing(keys.studio_prefix(STUDIO))) == []


class TestSignPart:
    def test_a_part_of_another_content_is_refused_and_not_kept(self, bench: Bench, now: datetime) -> None:
        upload = bench.store.begin(BIG_KEY)
        signed = bench.store.sign_part(BIG_KEY, upload, 0, length=4, sha256=sha(b"part"), now=now)

        answers = [bench.send(signed, body).status for body in (b"trap", b"par", b"parts")]

        assert all(400 <= status < 500 for status in answers)
        assert bench.store.finished_parts(BIG_KEY, upload) == []

    def test_a_part_that_is_sent_again_replaces_the_first(self, bench: Bench, now: datetime) -> None:
        upload = bench.store.begin(BIG_KEY)
        put_part(bench, upload, 0, b"old", now=now)
        put_part(bench, upload, 0, b"newer", now=now)

        assert bench.store.finished_parts(BIG_KEY, upload) == [Part(number=0, length=5, sha256=sha(b"newer"))]

    def test_a_changed_part_number_is_refused(self, bench: Bench, now: datetime) -> None:
        upload = bench.store.begin(BIG_KEY)
        signed = bench.store.sign_part(BIG_KEY, upload, 0, length=4, sha256=sha(b"part"), now=now)
        changed = next(
            signed.url.replace(*pair)
            for pair in (("part=0", "part=1"), ("partNumber=1", "partNumber=2"))
            if pair[0] in signed.url
        )

        assert (
            bench.send(SignedRequest(method="PUT", url=changed, headers=signed.headers), b"part").status == bench.forged
        )
        assert bench.store.finished_parts(BIG_KEY, upload) == []

    def test_after_the_upload_was_aborted_it_is_refused(self, bench: Bench, now: datetime) -> None:
        upload = bench.store.begin(BIG_KEY)
        bench.store.abort(BIG_KEY, upload)

        assert 400 <= put_part(bench, upload, 0, b"part", now=now) < 500

    def test_after_the_upload_was_completed_it_changes_nothing(self, bench: Bench, now: datetime) -> None:
        upload = bench.store.begin(BIG_KEY)
        for number, content in enumerate(BIG_PARTS):
            put_part(bench, upload, number, content, now=now)
        bench.store.complete(BIG_KEY, upload, size=len(BIG), digest=BIG_DIGEST)

        assert 400 <= put_part(bench, upload, 1, b"LATE", now=now) < 500
        assert b"".join(bench.store.stream(BIG_KEY, start=PART_SIZE)) == b"tail"


class TestFinishedParts:
    def test_they_come_in_pages(self, bench: Bench, now: datetime) -> None:
        upload = bench.store.begin(BIG_KEY)
        for number in (11, 2, 0, 10, 1):
            put_part(bench, upload, number, b"%d" % number, now=now)

        first = bench.store.finished_parts(BIG_KEY, upload, limit=3)
        second = bench.store.finished_parts(BIG_KEY, upload, after=first[-1].number, limit=3)

        assert [part.number for part in first] == [0, 1, 2]
        assert second == [Part(number=n, length=2, sha256=sha(b"%d" % n)) for n in (10, 11)]

    def test_of_an_upload_that_has_ended_they_are_refused(self, bench: Bench) -> None:
        upload = bench.store.begin(BIG_KEY)
        bench.store.abort(BIG_KEY, upload)

        with pytest.raises(NoSuchUpload):
            bench.store.finished_parts(BIG_KEY, upload)

    def test_of_an_upload_to_another_key_they_are_refused(self, bench: Bench) -> None:
        with pytest.raises(NoSuchUpload):
            bench.store.finished_parts(KEY, bench.store.begin(BIG_KEY))


class TestComplete:
    @pytest.fixture
    def upload(self, bench: Bench, now: datetime) -> str:
        upload = bench.store.begin(BIG_KEY)
        for number, content in enumerate(BIG_PARTS):
            put_part(bench, upload, number, content, now=now)
        return upload

    def complete(self, bench: Bench, upload: str, size: int = len(BIG), digest: str = BIG_DIGEST) -> Stat:
        return bench.store.complete(BIG_KEY, upload, size=size, digest=digest)

    def test_the_parts_become_one_object(self, bench: Bench, upload: str) -> None:
        assert self.complete(bench, upload) == BIG_STAT
        assert b"".join(bench.store.stream(BIG_KEY)) == BIG

    def test_asked_again_the_answer_is_the_same(self, bench: Bench, upload: str) -> None:
        assert self.complete(bench, upload) == self.complete(bench, upload) == BIG_STAT

    def test_a_second_upload_of_the_same_content_is_dropped(self, bench: Bench, upload: str, now: datetime) -> None:
        self.complete(bench, upload)
        second = bench.store.begin(BIG_KEY)
        put_part(bench, second, 0, BIG_PARTS[0], now=now)

        assert self.complete(bench, second) == BIG_STAT
        assert has_ended(bench, second)

    def test_missing_parts_are_named_and_those_there_are_kept(self, bench: Bench, now: datetime) -> None:
        upload = bench.store.begin(BIG_KEY)
        put_part(bench, upload, 1, BIG_PARTS[1], now=now)

        with pytest.raises(PartsMissing) as refusal:
            self.complete(bench, upload)

        assert refusal.value.numbers == [0]
        assert [part.number for part in bench.store.finished_parts(BIG_KEY, upload)] == [1]

    def test_another_digest_is_refused_and_the_upload_deleted(self, bench: Bench, upload: str, now: datetime) -> None:
        put_part(bench, upload, 1, b"liar", now=now)

        with pytest.raises(ContentDiffers):
            self.complete(bench, upload)

        assert bench.store.stat(BIG_KEY) is None
        assert has_ended(bench, upload)

    def test_another_size_is_refused(self, bench: Bench, upload: str) -> None:
        with pytest.raises(ContentDiffers):
            self.complete(bench, upload, size=len(BIG) + 1)

        assert bench.store.stat(BIG_KEY) is None

    def test_more_parts_than_the_size_has_room_for_are_refused(self, bench: Bench, upload: str, now: datetime) -> None:
        put_part(bench, upload, 2, b"more", now=now)

        with pytest.raises(ContentDiffers):
            self.complete(bench, upload)

    def test_parts_cut_in_other_places_are_refused(self, bench: Bench, now: datetime) -> None:
        """The same bytes in parts of other lengths have another digest, whatever their sums say."""
        upload = bench.store.begin(BIG_KEY)
        cut = [BIG[: PART_SIZE - 1], BIG[PART_SIZE - 1 :]]
        for number, content in enumerate(cut):
            put_part(bench, upload, number, content, now=now)

        with pytest.raises(ContentDiffers):
            self.complete(bench, upload, digest=digest_of_parts(map(sha, cut)))

    def test_an_aborted_upload_is_refused(self, bench: Bench, upload: str) -> None:
        bench.store.abort(BIG_KEY, upload)

        with pytest.raises(NoSuchUpload):
            self.complete(bench, upload)


class TestAbort:
    def test_its_parts_are_gone(self, bench: Bench, now: datetime) -> None:
        upload = bench.store.begin(BIG_KEY)
        put_part(bench, upload, 0, b"part", now=now)

        bench.store.abort(BIG_KEY, upload)

        assert has_ended(bench, upload)

    def test_twice_is_harmless(self, bench: Bench) -> None:
        upload = bench.store.begin(BIG_KEY)

        bench.store.abort(BIG_KEY, upload)
        bench.store.abort(BIG_KEY, upload)

        assert has_ended(bench, upload)

    def test_after_completion_it_leaves_the_object_alone(self, bench: Bench, now: datetime) -> None:
        upload = put_big(bench, now=now)

        bench.store.abort(BIG_KEY, upload)

        assert bench.store.stat(BIG_KEY) == BIG_STAT


class TestDiscardStale:
    def test_uploads_begun_before_are_aborted_but_for_those_to_keep(self, bench: Bench, now: datetime) -> None:
        kept, stale = bench.store.begin(BIG_KEY), bench.store.begin(BIG_KEY)

        assert bench.store.discard_stale(now + timedelta(minutes=1), keep={kept}) == 1
        assert not has_ended(bench, kept)
        assert has_ended(bench, stale)

    def test_younger_uploads_and_objects_stay(self, bench: Bench, now: datetime) -> None:
        bench.store.write(KEY, CONTENT)
        upload = bench.store.begin(BIG_KEY)

        assert bench.store.discard_stale(now - timedelta(hours=24), keep=()) == 0
        assert not has_ended(bench, upload)
        assert bench.store.stat(KEY)


class TestSignDownload:
    def get(
        self, bench: Bench, key: str = KEY, *, now: datetime, headers: dict[str, str] | None = None, **said: Any
    ) -> Answer:
        return bench.send(bench.store.sign_download(key, now=now, **said), **headers or {})

    def test_the_whole_object_comes(self, bench: Bench, now: datetime) -> None:
        bench.store.write(KEY, CONTENT)

        answer = self.get(bench, now=now)

        assert (answer.status, answer.content) == (200, CONTENT)
        assert answer.headers["Content-Length"] == str(len(CONTENT))
        assert answer.headers["Content-Disposition"].startswith("attachment")

    def test_the_object_is_saved_under_the_name_that_was_signed(self, bench: Bench, now: datetime) -> None:
        bench.store.write(KEY, CONTENT)

        answer = self.get(bench, now=now, filename='Szene "ä"\r\n.exr')

        assert "\r" not in answer.headers["Content-Disposition"]
        assert "filename" in answer.headers["Content-Disposition"]

    @pytest.mark.parametrize(
        "seam", [(0, 0), (0, PART_SIZE), (PART_SIZE - 2, PART_SIZE + 1), (PART_SIZE, PART_SIZE + 3), (7, 7)]
    )
    def test_a_range_comes_across_the_seams_of_parts(self, bench: Bench, now: datetime, seam: tuple[int, int]) -> None:
        put_big(bench, now=now)
        first, last = seam

        answer = self.get(bench, BIG_KEY, now=now, headers={"Range": f"bytes={first}-{last}"})

        assert answer.status == 206
        assert answer.content == BIG[first : last + 1]
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{len(BIG)}"

    def test_the_rest_from_a_byte_on_comes(self, bench: Bench, now: datetime) -> None:
        put_big(bench, now=now)

        assert self.get(bench, BIG_KEY, now=now, headers={"Range": f"bytes={PART_SIZE}-"}).content == b"tail"

    def test_a_range_behind_the_end_is_refused_with_the_size(self, bench: Bench, now: datetime) -> None:
        bench.store.write(KEY, CONTENT)

        answer = self.get(bench, now=now, headers={"Range": f"bytes={len(CONTENT)}-"})

        assert answer.status == 416

    def test_after_its_time_it_is_refused(self, bench: Bench, now: datetime) -> None:
        bench.store.write(KEY, CONTENT)

        answer = self.get(bench, now=now - timedelta(minutes=31), valid=timedelta(minutes=30))

        assert answer.status == bench.expired
        assert CONTENT not in answer.content

    def test_it_is_signed_for_an_hour_at_most(self, bench: Bench, now: datetime) -> None:
        with pytest.raises(ValueError):
            bench.store.sign_download(KEY, now=now, valid=timedelta(hours=1, seconds=1))

    def test_a_type_that_a_browser_would_run_is_never_signed(self, bench: Bench, now: datetime) -> None:
        with pytest.raises(ValueError):
            bench.store.sign_download(KEY, now=now, content_type="text/html")

    def test_an_upload_with_it_is_refused(self, bench: Bench, now: datetime) -> None:
        signed = bench.store.sign_download(KEY, now=now)
        upload = SignedRequest(method="PUT", url=signed.url, headers={"Content-Type": "application/octet-stream"})

        assert bench.send(upload, b"x").status == bench.forged
        assert bench.store.stat(KEY) is None

    def test_what_is_not_there_is_404(self, bench: Bench, now: datetime) -> None:
        assert self.get(bench, now=now).status == 404


class TestStream:
    def test_no_piece_is_larger_than_a_mebibyte(self, bench: Bench, now: datetime) -> None:
        put_big(bench, now=now)

        pieces = list(bench.store.stream(BIG_KEY))

        assert max(map(len, pieces)) <= 1024 * 1024
        assert b"".join(pieces) == BIG

    def test_a_range_comes(self, bench: Bench, now: datetime) -> None:
        put_big(bench, now=now)

        assert b"".join(bench.store.stream(BIG_KEY, start=PART_SIZE - 1, length=3)) == b"\0ta"

    def test_what_is_not_there_is_refused(self, bench: Bench) -> None:
        with pytest.raises(NoSuchObject):
            bench.store.stream(KEY)


class TestRead:
    def test_what_was_written_comes_back(self, bench: Bench) -> None:
        bench.store.write(KEY, CONTENT)

        assert bench.store.read(KEY) == CONTENT

    def test_more_than_the_limit_is_not_read(self, bench: Bench) -> None:
        bench.store.write(KEY, CONTENT)

        with pytest.raises(ValueError):
            bench.store.read(KEY, limit=len(CONTENT) - 1)

    def test_what_is_not_there_is_refused(self, bench: Bench) -> None:
        with pytest.raises(NoSuchObject):
            bench.store.read(KEY)


class TestWrite:
    def test_a_later_content_replaces_an_earlier_one(self, bench: Bench) -> None:
        bench.store.write(KEY, b"first")

        assert bench.store.write(KEY, b"second") == Stat(size=6, digest=sha(b"second"))
        assert bench.store.read(KEY) == b"second"


class TestDelete:
    def test_a_small_object_is_gone(self, bench: Bench) -> None:
        bench.store.write(KEY, CONTENT)

        bench.store.delete(KEY)

        assert bench.store.stat(KEY) is None

    def test_an_object_of_several_parts_is_gone(self, bench: Bench, now: datetime) -> None:
        put_big(bench, now=now)

        bench.store.delete(BIG_KEY)

        assert bench.store.stat(BIG_KEY) is None

    def test_what_is_not_there_is_left_alone(self, bench: Bench) -> None:
        bench.store.delete(KEY)

        assert bench.store.stat(KEY) is None


class TestDeleteAll:
    def test_all_of_them_are_gone_and_no_other(self, bench: Bench, now: datetime) -> None:
        put_big(bench, now=now)
        bench.store.write(KEY, CONTENT)
        kept = keys.blob_key(OTHER_STUDIO, sha(CONTENT))
        bench.store.write(kept, CONTENT)

        bench.store.delete_all([KEY, BIG_KEY, keys.blob_key(STUDIO, sha(b"never there"))])

        assert [bench.store.stat(key) for key in (KEY, BIG_KEY)] == [None, None]
        assert bench.store.stat(kept)


class TestListing:
    def test_all_objects_below_a_prefix_are_listed(self, bench: Bench, now: datetime) -> None:
        put_big(bench, now=now)
        bench.store.write(KEY, CONTENT)
        bench.store.write(keys.blob_key(OTHER_STUDIO, sha(CONTENT)), CONTENT)

        found = {row.key: row.size for row in bench.store.listing(keys.studio_prefix(STUDIO))}

        assert found == {KEY: len(CONTENT), BIG_KEY: len(BIG)}

    def test_below_a_prefix_without_objects_there_is_nothing(self, bench: Bench) -> None:
        assert list(bench.store.listing(keys.studio_prefix(STUDIO))) == []


class TestStore:
    @pytest.mark.parametrize("url", ["s4://bucket", "file:store", "http://host/store", ""])
    def test_an_address_of_no_built_in_store_is_refused_with_an_example(self, settings: Settings, url: str) -> None:
        settings.FARM_STORAGE_URL = url

        with pytest.raises(ImproperlyConfigured, match=r"file:///.*s3://"):
            store()

    @pytest.mark.parametrize(
        "url", ["s3:bucket", "s3://bucket", "s3:///prefix?region=eu-1", "s3://b?region=eu-1&acl=x"]
    )
    def test_a_bucket_without_region_or_with_unknown_settings_is_refused_with_an_example(
        self, settings: Settings, url: str
    ) -> None:
        settings.FARM_STORAGE_URL = url

        with pytest.raises(ImproperlyConfigured, match=r"s3://bucket/prefix\?region="):
            store()

"""What only S3 does: answers get lost, it says "slow down", and its bucket has settings. The rest is the contract."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import httpx
import pytest

from farm.core import keys
from farm.core.s3 import S3Store
from farm.core.storage import ContentDiffers, Stat, StoreRefuses, StoreUnreachable
from tests.cloud.s3_server import REGION, S3Server
from tests.core.test_storage import BIG, BIG_DIGEST, BIG_KEY, BIG_PARTS, BIG_STAT, CONTENT, KEY, STUDIO, sha
from workers.protocol import SignedRequest


@pytest.fixture
def store(s3_url: str) -> S3Store:
    return S3Store.of_url(s3_url)


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


def send(signed: SignedRequest, body: bytes, **changed: str) -> int:
    return httpx.put(signed.url, content=body, headers={**signed.headers, **changed}, trust_env=False).status_code


@pytest.fixture
def upload(store: S3Store, now: datetime) -> str:
    upload = store.begin(BIG_KEY)
    for number, body in enumerate(BIG_PARTS):
        signed = store.sign_part(BIG_KEY, upload, number, length=len(body), sha256=sha(body), now=now)
        assert send(signed, body) == 200
    return upload


class TestSignUpload:
    def test_the_sum_is_a_header_that_every_sender_must_send(self, store: S3Store, now: datetime) -> None:
        signed = store.sign_upload(KEY, length=len(CONTENT), sha256=sha(CONTENT), now=now)

        assert set(signed.headers) == {"Content-Type", "x-amz-checksum-sha256"}  # what a browser's page may set
        assert send(SignedRequest(method="PUT", url=signed.url, headers={}), CONTENT) == 403

    def test_a_sum_that_was_not_signed_is_refused(self, store: S3Store, now: datetime) -> None:
        signed = store.sign_upload(KEY, length=len(CONTENT), sha256=sha(CONTENT), now=now)
        other = store.sign_upload(KEY, length=len(CONTENT), sha256=sha(b"!" * len(CONTENT)), now=now)

        assert send(signed, b"!" * len(CONTENT), **other.headers) == 403
        assert store.stat(KEY) is None

    def test_an_access_list_cannot_be_slipped_in(self, store: S3Store, now: datetime) -> None:
        signed = store.sign_upload(KEY, length=len(CONTENT), sha256=sha(CONTENT), now=now)

        assert send(signed, CONTENT, **{"x-amz-acl": "public-read"}) == 403

    def test_there_is_no_part_beyond_the_ten_thousandth(self, store: S3Store, now: datetime) -> None:
        with pytest.raises(ValueError):
            store.sign_part(BIG_KEY, "upload", 10_000, length=1, sha256=sha(b"x"), now=now)


class TestStat:
    def test_what_somebody_else_put_there_has_no_digest(self, store: S3Store, s3_server: S3Server) -> None:
        client = boto3.client("s3", endpoint_url=s3_server.url, region_name=REGION)
        client.put_object(Bucket=store.bucket, Key=store.prefix + KEY, Body=b"stranger", ChecksumAlgorithm="CRC32")

        assert store.stat(KEY) == Stat(size=8, digest="")

    def test_slow_down_is_asked_again(self, store: S3Store, s3_server: S3Server) -> None:
        store.write(KEY, CONTENT)
        s3_server.verifier.faults.slow_down = 2

        assert store.stat(KEY)

    def test_a_store_that_stays_busy_is_said_to_be_out_of_reach(self, store: S3Store, s3_server: S3Server) -> None:
        s3_server.verifier.faults.slow_down = 99

        with pytest.raises(StoreUnreachable):
            store.stat(KEY)

    def test_a_store_that_is_not_there_is_out_of_reach(self, s3_url: str) -> None:
        gone = S3Store("bucket", region=REGION, endpoint="http://127.0.0.1:9")

        with pytest.raises(StoreUnreachable):
            gone.stat(KEY)

    def test_wrong_credentials_are_for_the_operator(self, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")

        with pytest.raises(StoreRefuses):
            S3Store.of_url(s3_url).stat(KEY)

    def test_no_credentials_are_for_the_operator(
        self, s3_url: str, monkeypatch: pytest.MonkeyPatch, now: datetime
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        store = S3Store.of_url(s3_url)

        with pytest.raises(StoreRefuses):
            store.stat(KEY)
        with pytest.raises(StoreRefuses):
            store.sign_download(KEY, now=now)


class TestComplete:
    def test_a_lost_answer_is_looked_up(self, store: S3Store, upload: str, s3_server: S3Server) -> None:
        s3_server.verifier.faults.lose_answer_of = ["POST uploadId"] * 3

        assert store.complete(BIG_KEY, upload, size=len(BIG), digest=BIG_DIGEST) == BIG_STAT
        assert store.stat(BIG_KEY) == BIG_STAT

    def test_an_error_behind_a_status_of_200_is_no_success(
        self, store: S3Store, upload: str, s3_server: S3Server
    ) -> None:
        s3_server.verifier.faults.error_in_200_of = ["POST uploadId"] * 9

        with pytest.raises(StoreUnreachable):
            store.complete(BIG_KEY, upload, size=len(BIG), digest=BIG_DIGEST)

        s3_server.verifier.faults.error_in_200_of.clear()
        assert store.complete(BIG_KEY, upload, size=len(BIG), digest=BIG_DIGEST) == BIG_STAT

    def test_a_part_that_changes_meanwhile_is_not_taken(
        self, store: S3Store, upload: str, now: datetime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = store._s3.complete_multipart_upload

        def late(**said: Any) -> Any:
            signed = store.sign_part(BIG_KEY, upload, 1, length=4, sha256=sha(b"LATE"), now=now)
            assert send(signed, b"LATE") == 200
            return real(**said)

        monkeypatch.setattr(store._s3, "complete_multipart_upload", late)

        with pytest.raises((ContentDiffers, StoreRefuses)):
            store.complete(BIG_KEY, upload, size=len(BIG), digest=BIG_DIGEST)

        assert store.stat(BIG_KEY) is None


class TestFinishedParts:
    def test_more_than_a_thousand_are_listed(self, store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
        pages = [
            {"Parts": [{"PartNumber": n, "Size": 1, "ChecksumSHA256": "AA=="} for n in range(1, 1001)],
             "IsTruncated": True, "NextPartNumberMarker": 1000},
            {"Parts": [{"PartNumber": 1001, "Size": 1, "ChecksumSHA256": "AA=="}], "IsTruncated": False},
        ]  # fmt: skip
        markers = []

        def answer(**said: Any) -> Any:
            markers.append(said["PartNumberMarker"])
            return pages[len(markers) - 1]

        monkeypatch.setattr(store._s3, "list_parts", answer)

        assert len(store.finished_parts(BIG_KEY, "upload", limit=2000)) == 1001
        assert markers == [0, 1000]


class TestStream:
    def test_a_line_that_is_cut_is_taken_up_where_it_broke(self, store: S3Store, s3_server: S3Server) -> None:
        content = bytes(range(256)) * 40_000
        store.write(KEY, content)
        s3_server.verifier.faults.cut_after = [3_000_000, 2_000_000]

        assert b"".join(store.stream(KEY)) == content

    def test_a_line_that_is_always_cut_is_given_up(self, store: S3Store, s3_server: S3Server) -> None:
        store.write(KEY, CONTENT)
        s3_server.verifier.faults.cut_after = [0] * 9

        with pytest.raises(StoreUnreachable):
            list(store.stream(KEY))


class TestDeleteAll:
    def test_a_thousand_go_in_one_request(self, store: S3Store, s3_server: S3Server) -> None:
        names = [keys.log_key(STUDIO, STUDIO, number) for number in range(1001)]
        s3_server.verifier.seen.clear()

        store.delete_all(names)

        assert s3_server.verifier.seen == ["POST delete"] * 2


class TestPrepare:
    def test_the_bucket_is_closed_encrypted_and_open_to_the_portal_alone(
        self, store: S3Store, s3_server: S3Server
    ) -> None:
        for _ in range(2):
            store.prepare(["https://farm.example"])

        client = boto3.client("s3", endpoint_url=s3_server.url, region_name=REGION)
        rule = client.get_bucket_cors(Bucket=store.bucket)["CORSRules"][0]
        assert rule["AllowedOrigins"] == ["https://farm.example"]
        assert {"content-type", "x-amz-checksum-sha256"} <= set(rule["AllowedHeaders"])
        assert all(client.get_public_access_block(Bucket=store.bucket)["PublicAccessBlockConfiguration"].values())
        cleaning = client.get_bucket_lifecycle_configuration(Bucket=store.bucket)["Rules"][0]
        assert cleaning["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 2}
        assert client.get_bucket_encryption(Bucket=store.bucket)["ServerSideEncryptionConfiguration"]["Rules"]


class TestSignDownload:
    def test_at_one_moment_the_address_is_one(self, store: S3Store, now: datetime) -> None:
        asked = [store.sign_download(KEY, now=now, valid=timedelta(minutes=30)).url for _ in range(2)]

        assert asked[0] == asked[1]

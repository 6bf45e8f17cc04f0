"""
S3, or a store that speaks like it, as object store: `s3://bucket/prefix?region=eu-central-1`.

What the client announced is what S3 checks: length and SHA-256 are signed headers of each PUT, and an upload in parts
is made with S3's composite SHA-256, which is the blob's digest. So S3 knows each object's digest, and one HEAD proves
an output. Answers get lost, and a completion may fail behind a status of 200: what the object says afterwards counts.
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import boto3
import botocore.exceptions as boto_errors
from botocore.config import Config
from botocore.parsers import ResponseParserError
from django.core.exceptions import ImproperlyConfigured
from django.utils.http import content_disposition_header

from farm.core import keys
from farm.core.sigv4 import Key, bucket_address, settings_of, signed_address
from farm.core.storage import (
    DOWNLOAD_VALID,
    MAX_PARTS,
    PIECE,
    UPLOAD_VALID,
    ContentDiffers,
    Listed,
    NoSuchObject,
    NoSuchUpload,
    Part,
    Stat,
    StoreRefuses,
    StoreUnreachable,
    check_all_there,
    check_download,
    measure,
    told,
)
from workers.protocol import SignedRequest

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BATCH = 1000  # keys of one deletion, parts of one page: S3's limits
TRIES = 3  # of a reading that was cut off
CONFIG = Config(
    signature_version="s3v4",
    retries={"mode": "standard", "total_max_attempts": 3},
    connect_timeout=3,
    read_timeout=20,
    max_pool_connections=32,
    request_checksum_calculation="when_required",  # we name SHA-256 where it matters; other sums confuse other stores
    response_checksum_validation="when_required",
    user_agent_extra="farmhand",
)
# Whoever asks again later may get it. Everything else S3 refuses is for the operator to mend.
PASSING = {"InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown", "500", "502", "503"}
ABSENT = {"NoSuchKey", "404", "NotFound"}
UNANSWERED = (boto_errors.ConnectionError, boto_errors.HTTPClientError, ResponseParserError)
CUT_OFF = (boto_errors.ResponseStreamingError, boto_errors.ReadTimeoutError, boto_errors.IncompleteReadError)
TYPE = "application/octet-stream"
FOREVER = "private, max-age=31536000, immutable"  # a key's content never changes


class S3Store:
    """One bucket, or what is below a prefix of it. Credentials are boto3's: environment, profile or machine's role."""

    def __init__(self, bucket: str, *, prefix: str = "", region: str, endpoint: str = "") -> None:
        self.bucket, self.prefix, self.region, self.endpoint = bucket, prefix, region, endpoint
        self._making = threading.Lock()

    @classmethod
    def of_url(cls, url: str) -> S3Store:
        """
        Read `s3://bucket/prefix?region=…&endpoint=…`.

        :raises ImproperlyConfigured: it is no such address
        """
        parts = urlsplit(url)
        said = settings_of(parts.query)
        if not parts.netloc or not said.get("region") or said.keys() - {"region", "endpoint"}:
            raise ImproperlyConfigured(
                f"{url!r} names no S3 store. Write s3://bucket/prefix?region=eu-central-1, and &endpoint=https://… "
                "where it is not Amazon's."
            )
        prefix = parts.path.strip("/")
        return cls(
            parts.netloc,
            prefix=f"{prefix}/" if prefix else "",
            region=said["region"],
            endpoint=said.get("endpoint", "").rstrip("/"),
        )

    # --- what is there

    def stat(self, key: str) -> Stat | None:
        try:
            with _asking():
                head = self._s3.head_object(Bucket=self.bucket, Key=self._name(key), ChecksumMode="ENABLED")
        except NoSuchObject:
            return None
        return Stat(size=head["ContentLength"], digest=_digest_of(head.get("ChecksumSHA256", "")))

    def stream(self, key: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        found = self.stat(key)
        if found is None:
            raise NoSuchObject
        return self._pieces(key, start, found.size if length is None else min(found.size, start + length))

    def _pieces(self, key: str, at: int, end: int) -> Iterator[bytes]:
        """Give a range, going on where the line was cut."""
        tries = TRIES
        while at < end:
            tries -= 1
            try:
                with _asking():
                    body = self._s3.get_object(Bucket=self.bucket, Key=self._name(key), Range=f"bytes={at}-{end - 1}")[
                        "Body"
                    ]
                for piece in body.iter_chunks(PIECE):
                    at, tries = at + len(piece), TRIES
                    yield piece
            except CUT_OFF as error:
                if not tries:
                    raise StoreUnreachable(why=str(error)) from error

    def read(self, key: str, *, limit: int = 64 * PIECE) -> bytes:
        found = self.stat(key)
        if found is None:
            raise NoSuchObject
        if found.size > limit:
            raise ValueError(f"{key} has {found.size} bytes, more than {limit}")
        return b"".join(self._pieces(key, 0, found.size))

    def listing(self, prefix: str) -> Iterator[Listed]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix + prefix)
        with _asking():
            for page in pages:
                for row in page.get("Contents", []):
                    key = row["Key"].removeprefix(self.prefix)
                    yield Listed(key=key, size=row["Size"], modified=row["LastModified"])

    # --- one object

    def sign_upload(self, key: str, *, length: int, sha256: str, now: datetime) -> SignedRequest:
        return self._sign_put(key, {}, length=length, sha256=sha256, now=now)

    def sign_download(
        self,
        key: str,
        *,
        now: datetime,
        valid: timedelta = DOWNLOAD_VALID,
        filename: str = "",
        content_type: str = TYPE,
    ) -> SignedRequest:
        check_download(valid, content_type)
        said = {
            "response-cache-control": FOREVER,
            "response-content-disposition": content_disposition_header(True, _printable(filename)) or "attachment",
            "response-content-type": content_type,
        }
        return SignedRequest(method="GET", url=self._sign("GET", key, {}, said, now=now, valid=valid), headers={})

    def write(self, key: str, content: bytes) -> Stat:
        digest = hashlib.sha256(content).hexdigest()
        with _asking():
            self._s3.put_object(
                Bucket=self.bucket, Key=self._name(key), Body=content, ContentType=TYPE, ChecksumSHA256=_base64(digest)
            )
        return Stat(size=len(content), digest=digest)

    def delete(self, key: str) -> None:
        with _asking():
            self._s3.delete_object(Bucket=self.bucket, Key=self._name(key))

    def delete_all(self, keys: Iterable[str]) -> None:
        names = map(self._name, keys)
        while batch := list(islice(names, BATCH)):
            objects: Any = [{"Key": name} for name in batch]
            with _asking():
                answer = self._s3.delete_objects(Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True})
            if failed := [row for row in answer.get("Errors", []) if row.get("Code") not in ABSENT]:
                _refuse(failed[0].get("Code", ""), failed[0].get("Message", ""))

    # --- uploads in parts

    def begin(self, key: str) -> str:
        with _asking():
            return self._s3.create_multipart_upload(
                Bucket=self.bucket,
                Key=self._name(key),
                ContentType=TYPE,
                ChecksumAlgorithm="SHA256",
                ChecksumType="COMPOSITE",
            )["UploadId"]

    def sign_part(
        self, key: str, upload: str, number: int, *, length: int, sha256: str, now: datetime
    ) -> SignedRequest:
        if not 0 <= number < MAX_PARTS:
            raise ValueError(f"an upload has no part {number}")
        said = {"partNumber": str(number + 1), "uploadId": upload}
        return self._sign_put(key, said, length=length, sha256=sha256, now=now)

    def finished_parts(self, key: str, upload: str, *, after: int = -1, limit: int = 1000) -> list[Part]:
        return [_part(row) for row in islice(self._parts(key, upload, after), limit)]

    def _parts(self, key: str, upload: str, after: int = -1) -> Iterator[Any]:
        """Give S3's rows of an upload's parts: their numbers begin at 1."""
        marker, more = after + 1, True
        while more:
            with _asking():
                page = self._s3.list_parts(
                    Bucket=self.bucket, Key=self._name(key), UploadId=upload, PartNumberMarker=marker, MaxParts=BATCH
                )
            yield from page.get("Parts", [])
            marker, more = page.get("NextPartNumberMarker", 0), page.get("IsTruncated", False)

    def complete(self, key: str, upload: str, *, size: int, digest: str) -> Stat:
        wanted = Stat(size=size, digest=digest)
        if self.stat(key) != wanted:
            self._compose(key, upload, wanted)
        else:
            self.abort(key, upload)  # another completion of the same content was quicker
        return wanted

    def _compose(self, key: str, upload: str, wanted: Stat) -> None:
        rows = list(self._parts(key, upload))
        parts = [_part(row) for row in rows]
        check_all_there(parts, wanted)
        if (found := measure(parts)) != wanted:
            self.abort(key, upload)
            raise ContentDiffers(expected=told(wanted), found=told(found))
        named: Any = [{name: row[name] for name in ("PartNumber", "ETag", "ChecksumSHA256")} for row in rows]
        try:
            with _asking():
                self._s3.complete_multipart_upload(
                    Bucket=self.bucket, Key=self._name(key), UploadId=upload, MultipartUpload={"Parts": named}
                )
        except (NoSuchUpload, StoreUnreachable, StoreRefuses):  # done by another, or done and the answer lost
            if self.stat(key) != wanted:
                raise
        else:
            self._check(key, wanted)

    def _check(self, key: str, wanted: Stat) -> None:
        found = self.stat(key)
        if found is None:
            raise StoreUnreachable(why="it completed an upload and has no object")
        if found != wanted:  # a store that counts otherwise: better no object than an unproved one
            self.delete(key)
            raise ContentDiffers(expected=told(wanted), found=told(found))

    def abort(self, key: str, upload: str) -> None:
        try:
            with _asking():
                self._s3.abort_multipart_upload(Bucket=self.bucket, Key=self._name(key), UploadId=upload)
        except NoSuchUpload:
            return

    def discard_stale(self, before: datetime, *, keep: Collection[str]) -> int:
        pages = self._s3.get_paginator("list_multipart_uploads").paginate(Bucket=self.bucket, Prefix=self.prefix)
        with _asking():
            stale = [
                (row["Key"].removeprefix(self.prefix), row["UploadId"])
                for page in pages
                for row in page.get("Uploads", [])
                if row["Initiated"] < before and row["UploadId"] not in keep
            ]
        for key, upload in stale:
            self.abort(key, upload)
        return len(stale)

    # --- addresses

    @cached_property
    def _address(self) -> str:
        return bucket_address(self.bucket, region=self.region, endpoint=self.endpoint)

    def _name(self, key: str) -> str:
        return self.prefix + keys.checked(key)

    def _sign_put(self, key: str, query: dict[str, str], *, length: int, sha256: str, now: datetime) -> SignedRequest:
        headers = {"Content-Type": TYPE, "x-amz-checksum-sha256": _base64(sha256)}
        # Every sender tells the length by itself, and a browser lets nobody else tell it: signed, but not listed.
        signed = {**headers, "Content-Length": str(length)}
        url = self._sign("PUT", key, signed, query, now=now, valid=UPLOAD_VALID)
        return SignedRequest(method="PUT", url=url, headers=headers)

    def _sign(
        self, method: str, key: str, headers: dict[str, str], query: dict[str, str], *, now: datetime, valid: timedelta
    ) -> str:
        return signed_address(
            method,
            f"{self._address}/{self._name(key)}",
            headers=headers,
            query=query,
            key=self._key(),
            region=self.region,
            now=now,
            valid=valid,
        )

    def _key(self) -> Key:
        """Give the credentials of this moment; boto3 renews those of a role in time."""
        known = self._session.get_credentials()
        if known is None:
            raise StoreRefuses(why="the farm has no credentials for it")
        frozen = known.get_frozen_credentials()
        return Key(id=frozen.access_key or "", secret=frozen.secret_key or "", token=frozen.token or "")

    @cached_property
    def _session(self) -> Any:
        return boto3.session.Session()

    @property
    def _s3(self) -> S3Client:
        with self._making:  # making a client is not safe in several threads, using it is
            return self._client

    @cached_property
    def _client(self) -> S3Client:
        addressing: Any = {"addressing_style": "path" if self.endpoint else "virtual"}
        client: S3Client = self._session.client(
            "s3",
            region_name=self.region,
            endpoint_url=self.endpoint or None,
            config=CONFIG.merge(Config(s3=addressing)),
        )
        return client

    # --- the bucket itself

    def prepare(self, origins: Collection[str]) -> list[str]:
        """
        Set what the bucket needs and give each setting in words; asked again, the same.

        Browsers may send to and fetch from it from these origins alone; nothing in it is public; it is encrypted; what
        the farm forgot of an unfinished upload is gone after two days.

        :raises StoreRefuses: the farm's credentials may not
        """
        with _asking():
            self._s3.put_bucket_cors(Bucket=self.bucket, CORSConfiguration={"CORSRules": [_cors(origins)]})
            self._s3.put_bucket_lifecycle_configuration(
                Bucket=self.bucket, LifecycleConfiguration={"Rules": [self._lifecycle()]}
            )
            self._s3.put_public_access_block(
                Bucket=self.bucket,
                PublicAccessBlockConfiguration={
                    "BlockPublicAcls": True,
                    "IgnorePublicAcls": True,
                    "BlockPublicPolicy": True,
                    "RestrictPublicBuckets": True,
                },
            )
            encryption: Any = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
            self._s3.put_bucket_encryption(Bucket=self.bucket, ServerSideEncryptionConfiguration=encryption)
        return [
            f"browsers may use it from {', '.join(sorted(origins))}",
            "unfinished uploads are given up after 2 days, should the farm forget them",
            "nothing in it is public",
            "it is encrypted (AES-256)",
        ]

    def _lifecycle(self) -> Any:
        return {
            "ID": "farmhand: unfinished uploads",
            "Status": "Enabled",
            "Filter": {"Prefix": self.prefix},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2},
        }


def _cors(origins: Collection[str]) -> Any:
    return {
        "AllowedOrigins": sorted(origins),
        "AllowedMethods": ["GET", "HEAD", "PUT"],
        "AllowedHeaders": ["content-type", "x-amz-checksum-sha256", "range"],
        "ExposeHeaders": ["etag", "content-range", "accept-ranges"],
        "MaxAgeSeconds": 3600,
    }


# --- S3's words and ours


def _base64(digest: str) -> str:
    return base64.b64encode(bytes.fromhex(digest)).decode()


def _digest_of(checksum: str) -> str:
    """Give S3's checksum as a digest: of several parts it ends with their number. What has none was not sent by us."""
    return base64.b64decode(checksum.partition("-")[0]).hex()


def _part(row: Any) -> Part:
    return Part(number=row["PartNumber"] - 1, length=row["Size"], sha256=_digest_of(row.get("ChecksumSHA256", "")))


def _printable(name: str) -> str:
    return "".join(letter for letter in name if letter.isprintable())


@contextmanager
def _asking() -> Iterator[None]:
    """Turn boto3's errors into what to do next."""
    try:
        yield
    except boto_errors.ClientError as error:
        said = error.response.get("Error", {})
        _refuse(said.get("Code", ""), said.get("Message", ""), error)
    except UNANSWERED as error:
        raise StoreUnreachable(why=str(error)) from error
    except boto_errors.BotoCoreError as error:  # no credentials, an address of no store
        raise StoreRefuses(why=str(error)) from error


def _refuse(code: str, message: str, cause: Exception | None = None) -> NoReturn:
    if code in ABSENT:
        raise NoSuchObject from cause
    if code == "NoSuchUpload":
        raise NoSuchUpload from cause
    if code in PASSING:
        raise StoreUnreachable(why=f"{code} {message}".strip()) from cause
    raise StoreRefuses(why=f"{code} {message}".strip()) from cause

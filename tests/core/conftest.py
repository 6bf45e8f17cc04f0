"""A bucket of its own for each test that wants one."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import boto3
import pytest

from tests.cloud.s3_server import KEY_ID, REGION, SECRET, Faults, S3Server, s3


@pytest.fixture(scope="session")
def s3_running() -> Iterator[S3Server]:
    with s3() as server:
        yield server


@pytest.fixture
def s3_server(s3_running: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    s3_running.verifier.faults = Faults()
    s3_running.verifier.seen.clear()
    return s3_running


@pytest.fixture
def s3_url(s3_server: S3Server) -> str:
    """The address of a new, empty bucket's prefix."""
    bucket = f"farm-{uuid4().hex}"
    s3_client = boto3.client("s3", endpoint_url=s3_server.url, region_name=REGION)
    s3_client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})  # type: ignore[typeddict-item]
    return f"s3://{bucket}/below/here?region={REGION}&endpoint={s3_server.url}"

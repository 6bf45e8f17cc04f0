"""Signed addresses beside botocore's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.session
import pytest
import time_machine
from botocore.config import Config

from farm.core.sigv4 import Key, signed_address, store_origins

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def by_botocore(operation: str, token: str | None, **params: Any) -> str:
    session = botocore.session.Session()
    session.set_credentials("AKIDEXAMPLE", "a/secret+of=tests", token)
    client: Any = session.create_client(
        "s3",
        region_name="eu-central-1",
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "virtual"},
            request_checksum_calculation="when_required",
        ),
    )
    with time_machine.travel(NOW, tick=False):
        url: str = client.generate_presigned_url(
            operation, Params={"Bucket": "scenes", "Key": "a/b-c/0", **params}, ExpiresIn=900
        )
    return url


def asked(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)


@pytest.mark.parametrize("token", [None, "session/token+=="])
class TestSignedAddress:
    def sign(self, method: str, token: str | None, headers: dict[str, str], query: dict[str, str]) -> str:
        return signed_address(
            method,
            "https://scenes.s3.eu-central-1.amazonaws.com/a/b-c/0",
            headers=headers,
            query=query,
            key=Key(id="AKIDEXAMPLE", secret="a/secret+of=tests", token=token or ""),
            region="eu-central-1",
            now=NOW,
            valid=timedelta(minutes=15),
        )

    def test_a_part_is_signed_as_botocore_signs_it(self, token: str | None) -> None:
        theirs = by_botocore(
            "upload_part", token, UploadId="an upload/id~", PartNumber=7, ContentLength=12, ChecksumSHA256="c3Vt="
        )

        ours = self.sign(
            "PUT",
            token,
            {"Content-Length": "12", "x-amz-checksum-sha256": "c3Vt="},
            {"partNumber": "7", "uploadId": "an upload/id~"},
        )

        assert asked(ours) == asked(theirs)

    def test_a_download_is_signed_as_botocore_signs_it(self, token: str | None) -> None:
        name = "attachment; filename*=utf-8''Szene%20%C3%A4%21.exr"
        theirs = by_botocore("get_object", token, ResponseContentDisposition=name)

        assert asked(self.sign("GET", token, {}, {"response-content-disposition": name})) == asked(theirs)


@pytest.mark.parametrize(
    ("url", "origins"),
    [
        ("file:///srv/store", []),
        ("s3://scenes/below?region=eu-central-1", ["https://scenes.s3.eu-central-1.amazonaws.com"]),
        ("s3://scenes?region=x&endpoint=https://s3.example:9000/", ["https://s3.example:9000"]),
    ],
)
def test_browsers_may_ask_the_origin_of_the_store(url: str, origins: list[str]) -> None:
    assert store_origins(url) == origins

"""
Signed addresses of S3 (AWS Signature Version 4 in the query). Pure.

Written here and not asked of botocore because the moment is an argument: what a page asks for again and again keeps its
address for half an hour. Tests compare both.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, quote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, kw_only=True)
class Key:
    """An access key; those of a role have a token too."""

    id: str
    secret: str
    token: str = ""


def signed_address(
    method: str,
    address: str,
    *,
    headers: Mapping[str, str],
    query: Mapping[str, str],
    key: Key,
    region: str,
    now: datetime,
    valid: timedelta,
) -> str:
    """Sign one request: this method, address and query, and just these headers, which the sender has to send."""
    moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    parts = urlsplit(address)
    told = {"host": parts.netloc, **{name.lower(): value.strip() for name, value in headers.items()}}
    names = ";".join(sorted(told))
    asked = {
        **query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{key.id}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(int(valid.total_seconds())),
        "X-Amz-SignedHeaders": names,
        **({"X-Amz-Security-Token": key.token} if key.token else {}),
    }
    arguments = "&".join(f"{_quoted(name)}={_quoted(asked[name])}" for name in sorted(asked))
    lines = "".join(f"{name}:{told[name]}\n" for name in sorted(told))
    request = "\n".join([method, parts.path or "/", arguments, lines, names, "UNSIGNED-PAYLOAD"])
    text = "\n".join([_ALGORITHM, moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    signature = hmac.new(_key_of(key, scope), text.encode(), hashlib.sha256).hexdigest()
    return f"{address}?{arguments}&X-Amz-Signature={signature}"


def bucket_address(bucket: str, *, region: str, endpoint: str = "") -> str:
    """Give where a bucket's objects are; stores that are not Amazon's seldom have a host name per bucket."""
    return f"{endpoint}/{bucket}" if endpoint else f"https://{bucket}.s3.{region}.amazonaws.com"


def settings_of(query: str) -> dict[str, str]:
    """Read what stands behind the question mark of `FARM_STORAGE_URL`; of what is said twice the last counts."""
    return {name: values[-1] for name, values in parse_qs(query).items()}


def store_origins(url: str) -> list[str]:
    """Give the origins at which browsers find the store that `FARM_STORAGE_URL` names; of a folder none but our own."""
    parts = urlsplit(url)
    if parts.scheme != "s3":
        return []
    said = settings_of(parts.query)
    found = urlsplit(bucket_address(parts.netloc, region=said.get("region", ""), endpoint=said.get("endpoint", "")))
    return [f"{found.scheme}://{found.netloc}"]


def _key_of(key: Key, scope: str) -> bytes:
    made = f"AWS4{key.secret}".encode()
    for step in scope.split("/"):
        made = hmac.new(made, step.encode(), hashlib.sha256).digest()
    return made


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")

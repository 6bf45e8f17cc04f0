"""`/files/…`: the bytes of the folder store, to whoever holds a signed address. Touches no database."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse, UnreadablePostError
from django.urls import path
from django.utils import timezone
from django.utils.http import content_disposition_header
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from farm.core.errors import Refusal
from farm.core.folder import FolderStore, WrongLength
from farm.core.permits import Permit, permit_of
from farm.core.storage import NoSuchObject, store

_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


class LengthNeeded(Refusal):
    """The request does not say how long it is. Send the part with a Content-Length, not in chunks."""

    code = "length-needed"
    status = 411


@csrf_exempt  # the signature is the credential; no cookie is read
@transaction.non_atomic_requests
@require_http_methods(["GET", "PUT"])
def serve(request: HttpRequest, key: str) -> HttpResponseBase:
    """
    Take or give the bytes that a signed address allows.

    :raises AddressNotSigned: the farm signed no such address for this method
    :raises AddressExpired: it did, for a time that is over
    """
    permit = permit_of(str(request.method), key, request.GET.dict(), now=timezone.now())
    return _take(request, permit) if request.method == "PUT" else _give(request, permit)


def _take(request: HttpRequest, permit: Permit) -> HttpResponse:
    if "Transfer-Encoding" in request.headers:
        raise LengthNeeded
    announced = int(request.META.get("CONTENT_LENGTH") or 0)
    if announced != permit.length:
        raise WrongLength(sent=announced, signed=permit.length)
    try:
        _folder().receive(permit, request)
    except UnreadablePostError:
        raise WrongLength(sent="fewer", signed=permit.length) from None  # the line was cut; nobody may hear this
    return HttpResponse(status=200, headers={"ETag": f'"{permit.sha256}"'})


def _give(request: HttpRequest, permit: Permit) -> HttpResponseBase:
    found = _folder().stat(permit.key)
    if found is None:
        raise NoSuchObject
    headers = {
        "ETag": f'"{found.digest}"',
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=31536000, immutable",
        "Content-Type": permit.content_type or "application/octet-stream",
        "Content-Disposition": content_disposition_header(True, permit.filename) or "attachment",
        # A stranger's file, should a browser ever show it, is a page of no origin that may do nothing.
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
    }
    if headers["ETag"] in request.headers.get("If-None-Match", ""):
        return HttpResponse(status=304, headers=headers)
    start, end = 0, found.size
    status = 200
    if wanted := _range(request, headers["ETag"], found.size):
        start, end = wanted
        if start >= end:
            return HttpResponse(status=416, headers={**headers, "Content-Range": f"bytes */{found.size}"})
        status, headers["Content-Range"] = 206, f"bytes {start}-{end - 1}/{found.size}"
    headers["Content-Length"] = str(end - start)
    pieces: Iterator[bytes] = _folder().stream(permit.key, start=start, length=end - start)
    return StreamingHttpResponse(pieces, status=status, headers=headers)


def _range(request: HttpRequest, etag: str, size: int) -> tuple[int, int] | None:
    """Give the one range asked for, as first byte and end; None, also for several ranges: the whole."""
    asked = _RANGE.fullmatch(request.headers.get("Range", ""))
    if not asked or request.headers.get("If-Range", etag) != etag:
        return None
    first, last = asked.groups()
    if first and last and int(last) < int(first):
        return None
    if first:
        return int(first), min(size, int(last) + 1) if last else size
    return (max(0, size - int(last)), size) if last else None


def _folder() -> FolderStore:
    here = store()
    if not isinstance(here, FolderStore):
        raise ImproperlyConfigured("Only a folder store is served below /files/; another store serves its own bytes.")
    return here


urls = [path("files/<path:key>", serve)]

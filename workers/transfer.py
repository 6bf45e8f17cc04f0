"""Bytes in and out: scenes fetched into the cache, outputs and logs sent by signed requests."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import httpx

from workers.cache import Cache, Layout, digest_file, scene_key
from workers.farm_client import FarmClient, FarmUnreachable, pauses
from workers.protocol import (
    MAX_GRANTS,
    PART_SIZE,
    DownloadWish,
    GrantsRequest,
    SignedRequest,
    StepDocument,
    UploadGrant,
    UploadKind,
    UploadWish,
    digest_of_parts,
    part_length,
)

T = TypeVar("T")
TRIES = 6
TIMEOUT = httpx.Timeout(connect=5, read=60, write=60, pool=600)
STEPS_REMEMBERED = 64
BLOCK = 1024 * 1024


class TransferFailed(Exception):
    """{name} could not be transferred: {why}"""

    def __init__(self, name: str, why: str) -> None:
        super().__init__((self.__doc__ or "").format(name=name, why=why))


class GrantExpired(Exception):
    """The store no longer accepts a signed request; a new one has to be asked for."""


class Abandoned(Exception):
    """Nobody waits for this transfer any more."""


@dataclasses.dataclass(frozen=True)
class Inputs:
    """A step's document and its scene on disk."""

    document: StepDocument
    layout: Layout


@dataclasses.dataclass(frozen=True)
class Parcel:
    """One object to send: a file, or bytes at hand."""

    kind: UploadKind
    name: str
    content: Path | bytes
    size: int
    digest: str
    parts: tuple[str, ...]

    @classmethod
    def of_file(cls, kind: UploadKind, name: str, file: Path) -> Parcel:
        digest, parts, size = digest_file(file)
        return cls(kind, name, file, size, digest, tuple(parts))

    @classmethod
    def of_bytes(cls, kind: UploadKind, name: str, content: bytes) -> Parcel:
        parts = [hashlib.sha256(content[at : at + PART_SIZE]).hexdigest() for at in range(0, len(content), PART_SIZE)]
        parts = parts or [hashlib.sha256(b"").hexdigest()]
        return cls(kind, name, content, len(content), digest_of_parts(parts), tuple(parts))


class Transfers:
    """Fetches and sends, several things at once; each step's inputs are fetched once."""

    def __init__(self, farm: FarmClient, cache: Cache, *, ended: threading.Event) -> None:
        self._farm = farm
        self._cache = cache
        self._ended = ended
        self._store = httpx.Client(timeout=TIMEOUT, follow_redirects=False, trust_env=False)
        self._steps = ThreadPoolExecutor(max_workers=4, thread_name_prefix="inputs")
        self._receives = ThreadPoolExecutor(max_workers=8, thread_name_prefix="receive")
        self._sends = ThreadPoolExecutor(max_workers=6, thread_name_prefix="send")  # not behind a scene that comes in
        self._inputs: dict[str, Future[Inputs]] = {}
        self._lock = threading.Lock()
        self._arriving: dict[str, threading.Lock] = {}

    def close(self) -> None:
        self._steps.shutdown(wait=False, cancel_futures=True)
        self._receives.shutdown(wait=False, cancel_futures=True)
        self._sends.shutdown(wait=False, cancel_futures=True)
        self._store.close()

    # --- in ---

    def inputs(self, step: str) -> Future[Inputs]:
        """Start fetching a step's inputs, or join a fetch under way; what failed is tried anew."""
        with self._lock:
            while len(self._inputs) > STEPS_REMEMBERED:
                del self._inputs[next(iter(self._inputs))]
            known = self._inputs.get(step)
            if known is None or (known.done() and (known.exception() or not known.result().layout.folder.is_dir())):
                known = self._inputs[step] = self._steps.submit(self._fetch_inputs, step)
            return known

    def _fetch_inputs(self, step: str) -> Inputs:
        document = self._patiently(lambda: self._farm.step(step))
        sizes = {file.digest: file.size for file in document.manifest}
        with self._cache.pinned(list(sizes)):
            missing = self._cache.missing(sizes)
            self._fetch_blobs(step, {digest: sizes[digest] for digest in missing})
            return Inputs(document, self._cache.lay_out(scene_key(document), document.manifest))

    def _fetch_blobs(self, step: str, sizes: Mapping[str, int]) -> None:
        digests = list(sizes)
        for at in range(0, len(digests), MAX_GRANTS):
            batch = digests[at : at + MAX_GRANTS]
            grants = self._download_grants(step, batch)
            jobs = [self._receives.submit(self._fetch_blob, step, d, sizes[d], grants.get(d)) for d in batch]
            try:
                for job in jobs:
                    job.result()
            finally:
                for job in jobs:
                    job.cancel()

    def _download_grants(self, step: str, digests: Sequence[str]) -> Mapping[str, SignedRequest]:
        request = GrantsRequest(downloads=[DownloadWish(step=step, digests=list(digests))], uploads=[])
        return self._patiently(lambda: self._farm.grants(request)).downloads

    def _fetch_blob(self, step: str, digest: str, size: int, grant: SignedRequest | None) -> None:
        """
        Fetch one blob into the cache, going on where an earlier try stopped.

        :raises TransferFailed: the farm grants it not, or no try brought the right content
        """
        with self._lock:
            turn = self._arriving.setdefault(digest, threading.Lock())
        with turn, self._cache.room_for(size):
            if not self._cache.missing({digest: size}):
                return  # another step wanted it too
            why = ""
            for attempt, pause in zip(range(TRIES), pauses(), strict=False):
                if grant is None:
                    raise TransferFailed(f"Scene file {digest[:12]}", "the farm does not grant it to this worker")
                try:
                    self._receive(grant, digest, size)
                    return
                except GrantExpired:
                    grant = self._download_grants(step, [digest]).get(digest)
                    continue
                except (httpx.HTTPError, _WrongContent) as error:
                    why = f"{type(error).__name__}: {error}"
                if attempt < TRIES - 1:
                    self._pause(pause)
            raise TransferFailed(f"Scene file {digest[:12]}", why or "its grants expire at once")

    def _receive(self, grant: SignedRequest, digest: str, size: int) -> None:
        file = self._cache.partial / digest
        have = file.stat().st_size if file.exists() else 0
        if have > size:
            file.unlink()
            have = 0
        if have < size or size == 0:
            self._append(grant, file, have, size)
        if digest_file(file)[0] != digest:
            file.unlink()
            raise _WrongContent("its content does not have the digest that names it")
        self._cache.add(digest, file)

    def _append(self, grant: SignedRequest, file: Path, have: int, size: int) -> None:
        headers = {**grant.headers, **({"Range": f"bytes={have}-"} if have else {})}
        with self._store.stream(grant.method, self._address(grant), headers=headers) as answer:
            if answer.status_code in (401, 403):
                raise GrantExpired
            if answer.status_code not in (200, 206):
                raise _WrongContent(f"HTTP {answer.status_code}")
            goes_on = answer.status_code == 206 and have > 0
            with file.open("ab" if goes_on else "wb") as target:
                arrived = have if goes_on else 0
                for block in answer.iter_raw(BLOCK):
                    self._check()
                    arrived += len(block)
                    if arrived > size:
                        raise _WrongContent("it is longer than its manifest says")
                    target.write(block)
        if arrived < size:
            raise _WrongContent(f"it broke off after {arrived} of {size} bytes")

    # --- out ---

    def send(self, attempt: str, parcels: Sequence[Parcel], *, check: Callable[[], None] = lambda: None) -> None:
        """
        Send an attempt's objects; what the store has already is not sent again.

        :raises TransferFailed: the farm or the store refuses, or tries ran out
        """
        for at in range(0, len(parcels), MAX_GRANTS):
            batch = list(parcels[at : at + MAX_GRANTS])
            for _ in range(TRIES):
                batch = self._send_batch(attempt, batch, check)
                if not batch:
                    break
            else:
                raise TransferFailed(batch[0].name, "its grants expire at once")

    def _send_batch(self, attempt: str, parcels: list[Parcel], check: Callable[[], None]) -> list[Parcel]:
        """Send what can be sent and give back the parcels whose grants had expired."""
        wishes = [
            UploadWish(attempt=attempt, kind=p.kind, name=p.name, size=p.size, digest=p.digest, parts=list(p.parts))
            for p in parcels
        ]
        answer = self._patiently(lambda: self._farm.grants(GrantsRequest(downloads=[], uploads=wishes)), check)
        grants = {(g.kind, g.name): g for g in answer.uploads}
        jobs: list[tuple[Parcel, Future[None]]] = []
        for parcel in parcels:
            grant = grants.get((parcel.kind, parcel.name))
            if grant is None:
                raise TransferFailed(parcel.name, "the farm does not grant its upload")
            if not grant.already_there:
                jobs.append((parcel, self._sends.submit(self._send_parts, parcel, grant, check)))
        expired = []
        for parcel, job in jobs:
            try:
                job.result()
            except GrantExpired:
                expired.append(parcel)
        return expired

    def _send_parts(self, parcel: Parcel, grant: UploadGrant, check: Callable[[], None]) -> None:
        if len(grant.parts) != len(parcel.parts):
            raise TransferFailed(parcel.name, f"the farm grants {len(grant.parts)} of its {len(parcel.parts)} parts")
        for number, request in enumerate(grant.parts):
            self._send_part(parcel, number, request, check)

    def _send_part(self, parcel: Parcel, number: int, request: SignedRequest, check: Callable[[], None]) -> None:
        why = ""
        for _, pause in zip(range(TRIES), pauses(), strict=False):
            check()
            try:
                body = _part_bytes(parcel, number)
                answer = self._store.request(
                    request.method, self._address(request), headers=request.headers, content=body
                )
            except httpx.HTTPError as error:
                why = f"{type(error).__name__}: {error}"
            else:
                if answer.is_success:
                    return
                why = f"HTTP {answer.status_code}"
                if answer.status_code in (401, 403):
                    raise GrantExpired
                if answer.status_code == 507:
                    raise OSError(errno.ENOSPC, "the store is full")
                # 400 may be S3's word for a slow or garbling line, so it is tried again.
                if answer.status_code in (404, 409, 412, 413, 422):
                    break
            self._pause(pause)
        raise TransferFailed(parcel.name, why)

    # --- both ---

    def _patiently(self, call: Callable[[], T], check: Callable[[], None] = lambda: None) -> T:
        """Repeat a call while the farm is unreachable; the worker's own end breaks the wait."""
        for pause in pauses():
            try:
                return call()
            except FarmUnreachable:
                check()
                self._pause(pause)
        raise AssertionError("pauses never end")

    def _pause(self, seconds: float) -> None:
        if self._ended.wait(seconds):
            raise Abandoned

    def _check(self) -> None:
        if self._ended.is_set():
            raise Abandoned

    def _address(self, request: SignedRequest) -> str:
        return self._farm.farm + request.url if request.url.startswith("/") else request.url


class _WrongContent(Exception):
    """What arrived is not what was asked for."""


def _part_bytes(parcel: Parcel, number: int) -> bytes:
    length = part_length(parcel.size, number)
    if isinstance(parcel.content, bytes):
        return parcel.content[number * PART_SIZE : number * PART_SIZE + length]
    with parcel.content.open("rb") as file:
        file.seek(number * PART_SIZE)
        return file.read(length)

"""
Sending a scene: files are read once, only contents that the farm lacks travel, and what was cut goes on.

The farm remembers finished parts of a content, whichever version asked for it, so that pushing again after a cut sends
at most the parts that were under way. Addresses to send to are asked for in batches, as the work gets to them.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from farmhand.answers import Confirmation, Confirmations, NewVersion, PartGrant, Version
from farmhand.connection import PASSING, Connection, new_key, problem_of, reason, retry_after
from farmhand.digests import (
    PART_SIZE,
    FileUnreadable,
    HashCache,
    Look,
    Sums,
    look_at,
    part_count,
    read_part,
)
from farmhand.errors import FarmError, Refused, Unreachable
from farmhand.folders import Collection, Found, choose_entry, collect, source_of
from farmhand.meters import Meter, Room, Stage, Watcher, threads

AT_ONCE = 500  # parts asked for, or digests confirmed, in one request
BATCH_BYTES = 256 * 1024 * 1024
CONFIRM_BYTES = 2 * 1024**3
PARTS_UNDER_WAY = 6
FILES_UNDER_WAY = 16  # small ones wait for the line more than for its width
GRANT_VALID_S = 13 * 60  # the farm says 15 minutes; two are left for the sending
ROUNDS = 3
PIECE = 256 * 1024
NEW_ADDRESS = frozenset({403, 404, 409, 410})  # an address that expired, or whose upload has ended


class NotTaken(Refused):
    """
    The farm did not keep {count} files although they were sent {rounds} times, {path} among them. {why} Push again;
    if it stays so, tell your operator.
    """

    code = "not-taken"


class StillMissing(Refused):
    """The farm still lacks {count} contents of this version that are not in this upload. Push the folder again."""

    code = "still-missing"


@dataclass(frozen=True)
class Local:
    """A file to send, as it was when it was read."""

    found: Found
    look: Look
    sums: Sums


@dataclass(frozen=True)
class Pushed:
    """What a push came to."""

    version: Version
    files: int
    bytes: int
    sent_files: int
    sent_bytes: int  # over the line, parts sent twice counted twice
    skipped: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """What is about to be sent, read and hashed."""

    root: Path
    entry: str
    files: list[Local]
    skipped: list[str]
    warnings: list[str]

    def manifest(self, *, keep_paths: bool) -> dict[str, object]:
        """Give the manifest, with each file's absolute spelling here if the scene spells paths so."""
        lines = []
        for file in self.files:
            line = {"path": file.found.name, "digest": file.sums.digest, "size": file.sums.size}
            source = source_of(file.found.path) if keep_paths else None
            lines.append(line | ({"source": source} if source else {}))
        return {"entry": self.entry, "files": lines}


def plan_push(
    root: Path,
    *,
    entry: str = "",
    exclude: Sequence[str] = (),
    everything: bool = False,
    follow_links: bool = False,
    cache: HashCache,
    on_progress: Watcher,
) -> Plan:
    """Find and read the files to send; refusals of `collect`, `choose_entry` and `hash_file`."""
    collection = collect(root, exclude=exclude, everything=everything, follow_links=follow_links)
    opens = choose_entry(root, collection.files, entry)
    files = _read_all(collection, cache, on_progress)
    return Plan(root, opens, files, collection.skipped, list(collection.warnings))


def send_version(
    connection: Connection, scene: str, plan: Plan, *, keep_paths: bool = False, on_progress: Watcher
) -> Pushed:
    """
    Begin a version of a scene and send what the farm lacks of it.

    :raises FileChanged, FileUnreadable: a file is not as it was when it was read
    :raises NotTaken: what was sent does not stay there
    """
    body = plan.manifest(keep_paths=keep_paths)
    begun: NewVersion = connection.post(f"/scenes/{scene}/versions", body, key=new_key())
    version = begun["version"]
    missing = [line["digest"] for line in begun["missing"]]
    sender = Sender(connection, version["id"], plan.files, missing, on_progress)
    sender.run()
    if missing:
        version = connection.get(f"/scene-versions/{version['id']}")
    return Pushed(
        version=version,
        files=len(plan.files),
        bytes=sum(file.sums.size for file in plan.files),
        sent_files=len(missing),
        sent_bytes=sender.sent_bytes,
        skipped=plan.skipped,
        warnings=[*plan.warnings, *version["warnings"], *_changed_since(plan.files)],
    )


def _read_all(collection: Collection, cache: HashCache, on_progress: Watcher) -> list[Local]:
    found = collection.files
    meter = Meter(Stage.READING, on_progress, files=len(found), bytes=sum(look_at(f.path).size for f in found))

    def read(file: Found) -> Local:
        look, sums = cache.sums(file.path, on_bytes=meter.add_bytes)
        meter.add(files=1)
        return Local(file, look, sums)

    with threads(min(8, os.cpu_count() or 1), meter.stop) as pool:
        return list(pool.map(read, found))


def _changed_since(files: Iterable[Local]) -> Iterator[str]:
    """Name the files that are no longer as they were sent; the version has them as they were."""
    for file in files:
        try:
            is_same = look_at(file.found.path) == file.look
        except FileUnreadable:
            is_same = False
        if not is_same:
            why = "The version has it as it was; push again to send the new one."
            yield f"{file.found.name} changed after it was read. {why}"


@dataclass
class _Part:
    """A part to send, and the address it was given."""

    digest: str
    number: int
    grant: PartGrant | None = None
    granted_at: float = 0.0


class Sender:
    """Sends the contents of one version that the farm lacks."""

    def __init__(
        self, connection: Connection, version: str, files: Sequence[Local], missing: Sequence[str], on_progress: Watcher
    ) -> None:
        self.connection = connection
        self.path = f"/scene-versions/{version}"
        self.missing = list(missing)
        self.local = {file.sums.digest: file for file in reversed(files)}
        self.sent_bytes = 0
        self.room = Room(FILES_UNDER_WAY, PARTS_UNDER_WAY * PART_SIZE)
        self.meter = Meter(
            Stage.SENDING, on_progress, files=len(self.missing), bytes=sum(self._size(d) for d in self.missing)
        )
        self._lock = threading.Lock()
        self._left: dict[str, int] = {}  # parts of each content that are not there yet
        self._to_confirm: deque[str] = deque()
        self._status = ""
        self._why = ""

    def run(self) -> None:
        """Send, confirm, and send again what the farm says it lacks after all."""
        again = self._send(self._parts_there_are_not(self.missing))
        for _ in range(ROUNDS - 1):
            if not again and self.missing and self._status in {"", "uploading"}:
                again = self._still_missing()
            if not again:
                return
            again = self._send(again)
        if again:
            path = self.local[again[0].digest].found.name
            raise NotTaken(count=len({part.digest for part in again}), rounds=ROUNDS, path=path, why=self._why)

    # --- what to send

    def _size(self, digest: str) -> int:
        return self.local[digest].sums.size

    def _parts_there_are_not(self, digests: Iterable[str]) -> Iterator[_Part]:
        """Give the parts to send, without those that an earlier upload has left there."""
        for digest in digests:
            count = part_count(self._size(digest))
            there = self._finished(digest) if count > 1 else frozenset()
            numbers = [number for number in range(count) if number not in there]
            self.meter.add(bytes=sum(self._length(digest, number) for number in there))
            self._left[digest] = len(numbers)
            if not numbers:
                self._to_confirm.append(digest)
            yield from (_Part(digest, number) for number in numbers)

    def _finished(self, digest: str) -> frozenset[int]:
        sums = self.local[digest].sums.parts
        there: set[int] = set()
        cursor = None
        while True:
            answer = self.connection.get(f"{self.path}/parts", digest=digest, cursor=cursor)
            if answer["there"]:
                return frozenset(range(len(sums)))
            there.update(p["number"] for p in answer["results"] if p["sha256"] == sums[p["number"]])
            cursor = answer["next"]
            if cursor is None:
                return frozenset(there)

    def _length(self, digest: str, number: int) -> int:
        return min(PART_SIZE, self._size(digest) - number * PART_SIZE)

    def _still_missing(self) -> list[_Part]:
        answer: Confirmations = self.connection.post(f"{self.path}/blobs", {"digests": []}, repeatable=True)
        if answer["status"] != "uploading":
            return []
        digests = [line["digest"] for line in self.connection.pages(f"{self.path}/missing")]
        if foreign := [digest for digest in digests if digest not in self.local]:
            raise StillMissing(count=len(foreign))
        return self._again((d, range(part_count(self._size(d)))) for d in digests)

    def _again(self, wanted: Iterable[tuple[str, Iterable[int]]]) -> list[_Part]:
        parts = []
        for digest, numbers in wanted:
            again = [_Part(digest, number) for number in numbers]
            self._left[digest] = len(again)
            self.meter.add(files=-1, bytes=-sum(self._length(digest, part.number) for part in again))
            parts += again
        return parts

    # --- sending

    def _send(self, parts: Iterable[_Part]) -> list[_Part]:
        """Send parts and confirm what is complete; give those to send again."""
        again: list[_Part] = []
        under_way: set[Future[None]] = set()

        def give_up() -> None:
            self.meter.stop()
            self.connection.give_up()

        with threads(FILES_UNDER_WAY, give_up) as pool:
            for batch in self._batches(parts):
                self._sign(batch)
                for part in batch:
                    self._begin(part, pool, under_way)
                again += self._confirm(at_least=AT_ONCE)
            for done in as_completed(under_way):
                done.result()
        return again + self._confirm(at_least=1)

    def _batches(self, parts: Iterable[_Part]) -> Iterator[list[_Part]]:
        batch: list[_Part] = []
        size = 0
        for part in parts:
            length = self._length(part.digest, part.number)
            if batch and (len(batch) == AT_ONCE or size + length > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(part)
            size += length
        if batch:
            yield batch

    def _sign(self, batch: Sequence[_Part]) -> None:
        wishes = [
            {"digest": p.digest, "number": p.number, "sha256": self.local[p.digest].sums.parts[p.number]} for p in batch
        ]
        answer = self.connection.post(f"{self.path}/parts", {"parts": wishes}, repeatable=True)
        for part, grant in zip(batch, answer["parts"], strict=True):
            part.grant, part.granted_at = grant, time.monotonic()

    def _begin(self, part: _Part, pool: ThreadPoolExecutor, under_way: set[Future[None]]) -> None:
        """Have a part sent as soon as there is room; what failed so far is raised here, before more is begun."""
        size = self._length(part.digest, part.number)
        self.room.take(size)
        for done in [future for future in under_way if future.done()]:
            under_way.remove(done)
            done.result()
        future = pool.submit(self._send_part, part)
        future.add_done_callback(lambda _: self.room.give_back(size))
        under_way.add(future)

    def _send_part(self, part: _Part) -> None:
        file = self.local[part.digest]
        content = read_part(file.found.path, part.number, size=file.sums.size, sha256=file.sums.parts[part.number])
        for attempt in range(self.connection.patience.attempts):
            if time.monotonic() - part.granted_at > GRANT_VALID_S:
                self._sign([part])
            if self._try(part, content, attempt):
                self._count(part)
                return
        raise AssertionError("the last attempt sends or raises")

    def _try(self, part: _Part, content: bytes, attempt: int) -> bool:
        """Send a part once; False: it may be tried again, after the pause this took."""
        assert part.grant
        request = part.grant["request"]
        if request is None:  # somebody else was quicker
            self.meter.add(bytes=len(content))
            return True
        is_last = attempt == self.connection.patience.attempts - 1
        counted = _Counted(content, self.meter)
        headers = request["headers"] | {"Content-Length": str(len(content))}
        try:
            answer = self.connection.send_signed(request["method"], request["url"], headers, counted)
        except httpx.TransportError as error:
            counted.take_back()
            if is_last:
                raise Unreachable(url=self.connection.url, why=reason(error)) from error
            self.connection.pause(attempt, reason(error))
            return False
        with self._lock:
            self.sent_bytes += len(content)
        if answer.status_code < 300:
            counted.complete()
            return True
        counted.take_back()
        self._react(part, answer, attempt, is_last=is_last)
        return False

    def _react(self, part: _Part, answer: httpx.Response, attempt: int, *, is_last: bool) -> None:
        """Do what a refused part needs before it is tried again, or give up on it."""
        problem = problem_of(answer)
        detail = str(problem.get("detail") or f"the store answered with status {answer.status_code}")
        garbled = answer.status_code in {400, 422}  # what was read is what was announced, so the line garbled it
        if is_last or not (answer.status_code in NEW_ADDRESS | PASSING | {500} or garbled):
            code = str(problem.get("code", "store-refused"))
            raise FarmError(code, detail, status=answer.status_code, params=problem.get("params"))
        if answer.status_code in NEW_ADDRESS:
            self._sign([part])
        if attempt or answer.status_code not in NEW_ADDRESS:
            self.connection.pause(attempt, detail, asked=retry_after(answer, now=time.time()))

    def _count(self, part: _Part) -> None:
        with self._lock:
            self._left[part.digest] -= 1
            if not self._left[part.digest]:
                self._to_confirm.append(part.digest)

    # --- confirming

    def _confirm(self, *, at_least: int) -> list[_Part]:
        """Confirm what is complete, if it is much or all there is; give the parts to send again."""
        again: list[_Part] = []
        while len(self._to_confirm) >= at_least or sum(map(self._size, self._to_confirm)) > CONFIRM_BYTES:
            digests: list[str] = []
            size = 0
            while self._to_confirm and len(digests) < AT_ONCE and size <= CONFIRM_BYTES:
                digests.append(self._to_confirm.popleft())
                size += self._size(digests[-1])
            answer: Confirmations = self.connection.post(f"{self.path}/blobs", {"digests": digests}, repeatable=True)
            self._status = answer["status"]
            self.meter.add(files=len(digests))
            again += self._again((c["digest"], self._numbers(c)) for c in answer["blobs"] if c["answer"] != "there")
        return again

    def _numbers(self, confirmation: Confirmation) -> Sequence[int]:
        """Give the parts of a content to send again."""
        if confirmation["answer"] == "incomplete":
            self._why = "Their parts are not in the store."
            return confirmation["missing"]
        file = self.local[confirmation["digest"]]
        for number, sha256 in enumerate(file.sums.parts):
            read_part(file.found.path, number, size=file.sums.size, sha256=sha256)  # else it is the file that changed
        self._why = confirmation["why"]
        return range(len(file.sums.parts))


class _Counted:
    """A part's content in pieces, counted as they are taken to be sent."""

    def __init__(self, content: bytes, meter: Meter) -> None:
        self.content = content
        self.meter = meter
        self.taken = 0

    def __iter__(self) -> Iterator[bytes]:
        for at in range(0, len(self.content), PIECE):
            piece = self.content[at : at + PIECE]
            self.taken += len(piece)
            self.meter.add(bytes=len(piece))
            yield piece

    def take_back(self) -> None:
        """Uncount what was taken: it has to be sent again."""
        self.meter.add(bytes=-self.taken)
        self.taken = 0

    def complete(self) -> None:
        """Count what was never asked for: a store may answer before it has read all."""
        self.meter.add(bytes=len(self.content) - self.taken)

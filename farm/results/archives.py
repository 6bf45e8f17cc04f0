"""Many files as one: a zip that is made while it is fetched, file by file, and never lies anywhere."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.core import signing
from zipstream import ZIP_STORED, ZipStream

from farm.core.errors import Refusal
from farm.core.permits import AddressExpired, AddressNotSigned
from farm.core.storage import store
from farm.dispatch.models import Output
from farm.jobs.models import Job
from farm.jobs.ranges import numbers_of

VALID = timedelta(hours=1)  # to begin; how long it then takes is the line's affair
MOST_FILES = 10_000
MOST_AT_ONCE = 4  # a process: each keeps one of its threads for as long as its reader takes
MOST_NAME = 200  # characters of a segment
SALT = "farm.results.archives"


class NothingToDownload(Refusal):
    """There are no such files of this job yet. Frames can be downloaded as soon as they are verified."""

    code = "nothing-to-download"


class TooManyFiles(Refusal):
    """{count:,} files are more than the {limit:,} that fit one archive. Choose fewer frames, or fetch them by `farmhand job pull`, which goes on where it was cut off."""  # noqa: E501

    code = "too-many-files"
    status = 422


class TooManyArchives(Refusal):
    """The farm makes as many archives as it can at the moment. Try again in a minute."""

    code = "too-many-archives"
    status = 429


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What shall be in an archive."""

    studio: str
    job: str
    role: str
    frames: str  # a range; "" for all
    expires: int  # seconds since 1970

    def sign(self) -> str:
        """Write it so that nobody can wish for anything else."""
        return signing.dumps(asdict(self), salt=SALT, compress=True)


def wish_of(text: str, *, now: datetime) -> Wish:
    """
    Read a signed wish.

    :raises AddressNotSigned: the farm signed no such thing
    :raises AddressExpired: it did, longer than an hour ago
    """
    try:
        wish = Wish(**signing.loads(text, salt=SALT))
    except (signing.BadSignature, TypeError):
        raise AddressNotSigned(method="GET") from None
    if wish.expires <= now.timestamp():
        raise AddressExpired(until=datetime.fromtimestamp(wish.expires, UTC).isoformat())
    return wish


def files_of(job: UUID, *, role: str, frames: str) -> list[Output]:
    """
    Give the current files of a job that an archive shall have, in order of frame.

    :raises NothingToDownload: there are none
    :raises TooManyFiles: there are more than fit
    :raises Invalid: the frames are no range
    """
    rows = Output.objects.filter(job=job, role=role, is_current=True)
    if frames:
        rows = rows.filter(frame__in=numbers_of(frames, most=MOST_FILES * 20, field="frames"))
    if (count := rows.count()) > MOST_FILES:
        raise TooManyFiles(count=count, limit=MOST_FILES, field="frames")
    if not count:
        raise NothingToDownload
    return list(rows.only("key", "name", "size", "frame").order_by("frame", "name", "pk"))


def file_name(job: Job) -> str:
    """Say what the archive is called."""
    return f"{_safe_segment(job.name) or 'frames'}.zip"


_places = threading.BoundedSemaphore(MOST_AT_ONCE)


class Archive:
    """A zip of files in the store, as pieces to be sent; its length is known before it is made."""

    def __init__(self, files: Sequence[Output]) -> None:
        """
        :raises TooManyArchives: the process makes as many as it can
        """
        self._zip = ZipStream(compress_type=ZIP_STORED, sized=True)
        for file, name in zip(files, names(file.name for file in files), strict=True):
            self._zip.add(_content(file.key), name, size=file.size)
        self._has_place = _places.acquire(blocking=False)
        if not self._has_place:
            raise TooManyArchives

    def __len__(self) -> int:
        return len(self._zip)

    def __iter__(self) -> Iterator[bytes]:
        yield from self._zip

    def close(self) -> None:
        """Make room for another one."""
        if self._has_place:
            self._has_place = False
            _places.release()


def _content(key: str) -> Iterator[bytes]:
    """Open a file only when its turn comes."""
    yield from store().stream(key)


def names(wished: Iterable[str]) -> list[str]:
    """Give each file a name that stays below a folder on any system, and that no other has."""
    taken: set[str] = set()
    found = []
    for text in wished:
        name = "/".join(filter(None, map(_safe_segment, re.split(r"[/\\]", text)))) or "unnamed"
        stem, dot, ending = name.rpartition(".")
        number = 1
        while name.casefold() in taken:
            number += 1
            name = f"{stem}-{number}.{ending}" if dot and stem else f"{stem or ending}-{number}"
        taken.add(name.casefold())
        found.append(name)
    return found


_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")


def _safe_segment(text: str) -> str:
    kept = "".join("_" if letter in '<>:"/\\|?*' or not letter.isprintable() else letter for letter in text)
    kept = kept[:MOST_NAME].strip(" .")
    return f"_{kept}" if _DEVICES.match(kept) else kept

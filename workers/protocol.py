"""
The words a worker and the farm share: what travels in `register`, `sync`, `grants` and `steps/{id}`.

Standard library only, so that both sides can import it. All types are frozen dataclasses; `encode` makes plain JSON
values of them and `decode` parses JSON values strictly: a missing or unknown field, or a value of the wrong type,
raises `Malformed` with the path of the field at fault. The rules of the conversation are in `workers/README.md`.

Units are in the names: `_ms` milliseconds, `_s` seconds, `_mib` mebibytes. Digests are lower-case hex.
"""

from __future__ import annotations

import dataclasses
import hashlib
import types
import typing
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

PROTOCOL = 1
"""Number of this protocol; the farm also speaks the previous one."""

PART_SIZE = 16 * 1024 * 1024
"""Bytes of one part of a blob; a blob up to this size is one part."""

LEASE_S = 30
SYNC_INTERVAL_S = 10
LOG_CHUNK_INTERVAL_S = 5
LOG_LIMIT_BYTES = 20_000_000
MAX_GRANTS = 500

TAKEN_BACK = "the cloud takes this machine back"
"""Why a worker drains that was given notice; the farm counts these."""


class WorkerState(StrEnum):
    """What a worker says of itself, and what the farm wants it to be."""

    READY = "ready"
    DRAINING = "draining"  # takes nothing more, finishes what runs
    GONE = "gone"  # wanted only: end yourself


class Phase(StrEnum):
    """Where an attempt is on its worker."""

    QUEUED = "queued"
    FETCHING = "fetching"  # its inputs are on their way
    RUNNING = "running"
    ENDED = "ended"


class Outcome(StrEnum):
    """How an attempt ended, as its worker saw it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # the machine is going away
    CANCELLED = "cancelled"  # the farm said stop


class Order(StrEnum):
    """What the farm wants done with an attempt."""

    RUN = "run"
    STOP = "stop"


class Answer(StrEnum):
    """What became of an end that a worker reported."""

    ACCEPTED = "accepted"
    SUPERSEDED = "superseded"  # somebody else has the task; the end changed nothing
    CANCELLED = "cancelled"
    REFUSED = "refused"  # outputs are not in the store as reported: send them and report again


class Cause(StrEnum):
    """Why an attempt did not succeed."""

    SCENE_ERROR = "scene_error"
    SCENE_UNREADABLE = "scene_unreadable"
    MISSING_ASSET = "missing_asset"
    MISSING_OUTPUT = "missing_output"
    BAD_OUTPUT = "bad_output"
    UNEXPECTED_OUTPUT = "unexpected_output"
    OUT_OF_MEMORY = "out_of_memory"
    NO_GPU = "no_gpu"
    DISK_FULL = "disk_full"
    NO_PROGRESS = "no_progress"
    TIMEOUT = "timeout"
    RENDERER_CRASHED = "renderer_crashed"
    TRANSFER_FAILED = "transfer_failed"
    SANDBOX_FAILED = "sandbox_failed"
    AGENT_ERROR = "agent_error"
    INTERRUPTED = "interrupted"
    LOST = "lost"  # never reported: the farm's word for a lease that expired
    CANCELLED = "cancelled"


FARM_FAULTS = frozenset(
    {
        Cause.NO_GPU,
        Cause.DISK_FULL,
        Cause.TRANSFER_FAILED,
        Cause.SANDBOX_FAILED,
        Cause.AGENT_ERROR,
        Cause.INTERRUPTED,
        Cause.LOST,
    }
)
"""Causes the studio never pays for and that say nothing about its scene."""


class OutputRole(StrEnum):
    """What a file is to the person who ordered it."""

    RENDER = "render"  # what was ordered
    THUMBNAIL = "thumbnail"  # 320 px, display colours
    PROXY = "proxy"  # long side 1,920 px, display colours
    REPORT = "report"  # report.json of an inspection


# --- register -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlotSpec:
    """One slot: a GPU, or a share of a machine without one. `gpu_model` is "" for a CPU slot."""

    index: int
    gpu_model: str
    vram_mib: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegisterRequest:
    secret: str
    protocol: int
    boot_id: str
    machine_id: str
    agent_version: str
    slots: list[SlotSpec]
    cores: int
    memory_mib: int
    disk_mib: int
    software: dict[str, list[str]]  # {"blender": ["5.0.1"]}
    sandboxed: bool  # False only under --trust-scenes


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegisterAnswer:
    worker: str
    token: str
    queue: str
    broker_url: str  # with the broker user that may only pop this queue
    interval_s: float


# --- sync ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputReport:
    """A file that was proved and uploaded. Image fields are None for what is no image."""

    name: str
    role: OutputRole
    size: int
    digest: str
    format: str | None = None  # as OpenImageIO names it: "png", "openexr", "jpeg", "tiff", "webp"
    width: int | None = None
    height: int | None = None
    channels: int | None = None
    bit_depth: int | None = None
    statistics: dict[str, Any] | None = None  # mean, min, max, nan, alpha, uniform: see prove.py


@dataclasses.dataclass(frozen=True, kw_only=True)
class End:
    outcome: Outcome
    cause: Cause | None
    sentence: str  # one sentence with the next step to take; "" for a success
    setup_ms: int  # entering the session, 0 when it was entered already
    render_ms: int
    peak_memory_mib: int
    device: str  # what rendered: "CPU", "CUDA: NVIDIA L4", ...; "" if unknown
    outputs: list[OutputReport]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttemptReport:
    attempt: str
    generation: int
    phase: Phase
    progress: float  # 0..1
    elapsed_ms: int  # render time so far, monotonic
    log_chunks: int  # numbered log objects stored so far: 0 .. log_chunks - 1
    end: End | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlotReport:
    index: int
    step: str | None  # the step whose session is entered, if any
    gpu_use: float | None = None  # 0..1
    gpu_memory_mib: int | None = None
    gpu_power_w: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SyncRequest:
    state: WorkerState
    reason: str
    free_disk_mib: int
    scene_versions: list[str]  # on disk, whole
    slots: list[SlotReport]
    attempts: list[AttemptReport]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskParameter:
    """An OpenJD task parameter value: type INT | FLOAT | STRING | PATH | CHUNK[INT], value as OpenJD writes it."""

    type: str
    value: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpectedOutput:
    """A file the attempt must leave in the output folder. None: not known beforehand, not checked."""

    name: str
    role: OutputRole
    format: str | None
    width: int | None = None
    height: int | None = None
    bit_depth: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assignment:
    attempt: str
    generation: int
    order: Order
    reason: str  # for stop: "cancelled", "budget", ...
    slot: int
    step: str
    parameters: dict[str, TaskParameter]
    expected: list[ExpectedOutput] | None  # None: a bundle; take all regular files of its OUT folders
    timeout_s: int
    no_progress_s: int
    memory_mib: int  # 0: no limit of the job's own


@dataclasses.dataclass(frozen=True, kw_only=True)
class EndAnswer:
    attempt: str
    answer: Answer
    reason: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SyncAnswer:
    state: WorkerState  # wanted
    attempts: list[Assignment]  # all the worker shall hold
    answers: list[EndAnswer]
    interval_s: float


# --- grants -------------------------------------------------------------------------------------------------------


class UploadKind(StrEnum):
    OUTPUT = "output"
    LOG = "log"  # name is the chunk's number


@dataclasses.dataclass(frozen=True, kw_only=True)
class UploadWish:
    attempt: str
    kind: UploadKind
    name: str
    size: int
    digest: str
    parts: list[str]  # SHA-256 of each part of PART_SIZE bytes, in order


@dataclasses.dataclass(frozen=True, kw_only=True)
class DownloadWish:
    step: str
    digests: list[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GrantsRequest:
    downloads: list[DownloadWish]
    uploads: list[UploadWish]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignedRequest:
    """One HTTP request that is allowed as it stands. A `url` that begins with / is below the farm's own address."""

    method: str
    url: str
    headers: dict[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class UploadGrant:
    """One request per part, in order; `already_there` when the store has the object and nothing need be sent."""

    attempt: str
    kind: UploadKind
    name: str
    already_there: bool
    parts: list[SignedRequest]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GrantsAnswer:
    downloads: dict[str, SignedRequest]  # by digest; a digest the worker may not have is absent
    uploads: list[UploadGrant]


# --- steps/{id} ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManifestFile:
    """A file of the scene version: laid out at `path` below the scene folder; `source` is how the scene spells it."""

    path: str
    source: str | None
    digest: str
    size: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepDocument:
    """
    All a worker needs to run a step's tasks; it never changes.

    `environments` and `script` are OpenJD 2023-09 objects as the template has them: format strings unresolved.
    `parameters` are the job's: PATH values of dataFlow IN are relative to the scene folder, those of OUT and INOUT to
    the output folder. `extensions` are the template's OpenJD extensions, needed to parse.
    """

    step: str
    job: str
    studio: str
    name: str
    scene_version: str | None
    entry: str | None
    manifest: list[ManifestFile]
    parameters: dict[str, TaskParameter]
    input_paths: list[str]  # names of PATH parameters below the scene folder
    output_paths: list[str]  # names of PATH parameters below the output folder
    environments: list[dict[str, Any]]
    script: dict[str, Any]
    extensions: list[str]
    software: dict[str, str]  # {"blender": "5.0"}: which renderer to offer in the sandbox
    needs_gpu: bool


# --- wire ---------------------------------------------------------------------------------------------------------


class Malformed(ValueError):
    """A message does not have the agreed form; the text names the field at fault."""


T = TypeVar("T")


def encode(message: Any) -> Any:
    """Turn a message (or a part of one) into plain JSON values."""
    if dataclasses.is_dataclass(message) and not isinstance(message, type):
        return {f.name: encode(getattr(message, f.name)) for f in dataclasses.fields(message)}
    if isinstance(message, Mapping):
        return {str(k): encode(v) for k, v in message.items()}
    if isinstance(message, (list, tuple)):
        return [encode(v) for v in message]
    if isinstance(message, StrEnum):
        return str(message)
    return message


def decode(kind: type[T], value: Any) -> T:
    """
    Parse plain JSON values into a message.

    :raises Malformed: the value does not have the form of `kind`
    """
    result: T = _decode(kind, value, kind.__name__)
    return result


@cache
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    hints = typing.get_type_hints(kind)
    return {
        f.name: (hints[f.name], f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING)
        for f in dataclasses.fields(kind)
    }


def _decode(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _decode_fields(kind, value, where)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        inner = next(a for a in args if a is not type(None))
        return _decode(inner, value, where)
    if origin is list:
        if not isinstance(value, list):
            raise Malformed(f"{where}: expected a list, got {type(value).__name__}")
        return [_decode(args[0], v, f"{where}[{i}]") for i, v in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise Malformed(f"{where}: expected an object, got {type(value).__name__}")
        return {str(k): _decode(args[1], v, f"{where}.{k}") for k, v in value.items()}
    return _decode_scalar(kind, value, where)


def _decode_fields(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise Malformed(f"{where}: expected an object, got {type(value).__name__}")
    fields = _fields(kind)
    unknown = value.keys() - fields.keys()
    if unknown:
        raise Malformed(f"{where}: unknown field {sorted(unknown)[0]!r}")
    parsed = {}
    for name, (hint, required) in fields.items():
        if name in value:
            parsed[name] = _decode(hint, value[name], f"{where}.{name}")
        elif required:
            raise Malformed(f"{where}: missing field {name!r}")
    return kind(**parsed)


def _decode_scalar(kind: Any, value: Any, where: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        try:
            return kind(value)
        except ValueError:
            raise Malformed(f"{where}: {value!r} is not one of {', '.join(kind)}") from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Malformed(f"{where}: expected {kind.__name__}, got {type(value).__name__}")
    if kind is float and value != value:
        raise Malformed(f"{where}: NaN is not a number a message may carry")
    if kind is str and "\x00" in value:
        raise Malformed(f"{where}: text may not hold a NUL")
    return value


# --- digests ------------------------------------------------------------------------------------------------------


def digest_of_parts(parts: Iterable[str]) -> str:
    """
    Give the digest of a blob whose parts have these SHA-256 sums (hex): one part's own sum, or, for several, the
    SHA-256 of the concatenated binary sums (what S3 computes as the composite checksum of a multipart upload).
    """
    sums = list(parts)
    if len(sums) == 1:
        return sums[0]
    return hashlib.sha256(b"".join(bytes.fromhex(s) for s in sums)).hexdigest()


def part_count(size: int) -> int:
    """Number of parts of a blob of `size` bytes; an empty blob has one, empty, part."""
    return max(1, -(-size // PART_SIZE))


def part_length(size: int, number: int) -> int:
    """Bytes of part `number` (from 0) of a blob of `size` bytes."""
    return min(PART_SIZE, size - number * PART_SIZE)

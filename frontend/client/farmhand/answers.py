"""The farm's answers, as they are on the wire: what `--json` prints, and what the SDK gives."""

from __future__ import annotations

from typing import Any, TypedDict


class MyStudio(TypedDict):
    """A studio that the caller is a member of."""

    id: str
    name: str
    role: str


class Me(TypedDict):
    """Who a token acts for."""

    user: str
    user_id: str
    name: str
    language: str
    zone: str
    is_operator: bool
    studios: list[MyStudio]
    studio: str | None
    studio_id: str | None
    currency: str | None
    is_looking: bool
    scopes: list[str]


class Project(TypedDict):
    """A show or commission."""

    id: str
    name: str
    region: str
    is_paused: bool
    created_at: str


class Scene(TypedDict):
    """A named upload, in versions."""

    id: str
    project: str
    name: str
    created_at: str


class Version(TypedDict):
    """A version of a scene: its manifest in figures, and where it stands."""

    id: str
    scene: str
    number: int
    status: str  # uploading | whole | inspected | refused
    entry: str
    file_count: int
    byte_count: int
    warnings: list[str]
    refusal: str
    created_at: str
    whole_at: str | None
    inspected_at: str | None


class SceneDetail(Scene):
    """A scene with its latest version."""

    latest_version: Version | None


class Missing(TypedDict):
    """A content the farm lacks."""

    digest: str
    size: int


class NewVersion(TypedDict):
    """The version that was begun, and what to send for it."""

    version: Version
    missing: list[Missing]


class Signed(TypedDict):
    """A request that is allowed as it stands."""

    method: str
    url: str
    headers: dict[str, str]


class PartGrant(TypedDict):
    """How to send a part; no request when its content is there already."""

    digest: str
    number: int
    length: int
    request: Signed | None


class FinishedPart(TypedDict):
    """A part that the store has."""

    number: int
    length: int
    sha256: str


class Confirmation(TypedDict):
    """What the store found of a content."""

    digest: str
    answer: str  # there | incomplete | mismatch
    missing: list[int]
    why: str


class Confirmations(TypedDict):
    """Where a version stands after a confirmation."""

    status: str
    blobs: list[Confirmation]


class Offer(TypedDict):
    """A class of worker that a fleet has."""

    fleet: str
    worker_class: str


class CheckedStep(TypedDict):
    """A step of an order that was tried."""

    name: str
    tasks: int
    fleets: list[str]
    offers: list[Offer]


class Check(TypedDict):
    """What an order would come to."""

    name: str
    tasks: int
    steps: list[CheckedStep]
    parameters: dict[str, str]
    warnings: list[str]


class Job(TypedDict):
    """A job and how far it is."""

    id: str
    name: str
    project: str
    project_name: str
    scene_version: str | None
    cost_object: str
    artist: str
    artist_name: str
    sequence: str
    shot: str
    tags: dict[str, str]
    renderer: str
    parameters: dict[str, str]
    purpose: str
    status: str  # active | suspended | succeeded | failed | cancelled
    state: str  # the status; an active job is waiting, or rendering
    suspended_by: str  # person | budget | failures | approval, or ""
    approval: str
    priority: int
    deadline: str | None
    tasks: dict[str, int]  # by status: pending, ready, leased, succeeded, failed, cancelled
    created_at: str
    ended_at: str | None


class Task(TypedDict):
    """A task: one frame, or one point of a step's parameter space."""

    id: str
    step: str
    index: int
    frame: int | None
    parameters: dict[str, Any]
    status: str
    generation: int
    failures: int
    interruptions: int
    is_scout: bool
    changed_at: str


class Moved(TypedDict):
    """How many tasks changed."""

    tasks: int


class Why(TypedDict):
    """What a job does or waits for."""

    code: str
    params: dict[str, Any]
    sentence: str


class Quote(TypedDict):
    """A range for what remains of a job, on one class of worker."""

    worker_class: str
    basis: str
    tasks: int
    slots: int
    currency: str
    p10_micro: int
    p50_micro: int
    p90_micro: int
    p10_s: int
    p50_s: int
    p90_s: int
    at: str


class Attempt(TypedDict):
    """One try of a task on one worker."""

    id: str
    step: str
    task: str
    frame: int | None
    worker: str
    worker_name: str
    slot: int
    worker_class: str
    generation: int
    status: str
    progress: float
    cause: str
    sentence: str
    setup_ms: int
    render_ms: int
    elapsed_ms: int
    peak_memory_mib: int
    device: str
    log_chunks: int
    claimed_at: str
    started_at: str | None
    ended_at: str | None


class Output(TypedDict):
    """A verified file; `url` is signed, and valid for an hour."""

    id: str
    task: str
    attempt: str
    frame: int | None
    name: str
    role: str  # render | thumbnail | proxy | report
    size: int
    digest: str
    format: str
    width: int | None
    height: int | None
    channels: int | None
    bit_depth: int | None
    statistics: dict[str, Any] | None
    created_at: str
    url: str


class Movie(TypedDict):
    """A job's movie, as far as it is; `url` is signed, and valid for an hour."""

    status: str  # waiting | growing | complete
    complete: bool
    frames: int
    present: int
    shown: int
    missing: list[int]
    unreadable: list[dict[str, Any]]
    odd_sizes: list[dict[str, Any]]
    fps: str
    version: int
    width: int | None
    height: int | None
    padding: dict[str, int]
    size: int
    digest: str
    made_at: str | None
    url: str | None
    trouble: str


class Finding(TypedDict):
    """Something about a frame that a person should look at."""

    kind: str
    frame: int
    task: str
    params: dict[str, Any]
    sentence: str


class Quality(TypedDict):
    """What looks wrong with a job's frames."""

    checked: int
    counts: dict[str, int]
    findings: list[Finding]


class Money(TypedDict):
    """An amount, exactly and to read."""

    micro: int
    currency: str
    amount: str


class Budget(TypedDict):
    """What may be spent, is held and was spent by a studio in a month, a project, or a job."""

    id: str
    scope: str  # studio | project | job
    subject: str
    month: str | None
    cap: Money | None
    held: Money
    spent: Money
    left: Money | None
    created_at: str


class Line(TypedDict):
    """One attempt on the statement."""

    attempt: str
    task: str
    generation: int
    cost_object: str
    label: str
    purpose: str
    is_scout: bool
    worker_class: str
    gpus: int
    render_ms: int
    setup_ms: int
    billable_ms: int
    rate: Money
    gross: Money
    credit: Money
    charged: Money
    over_hold: Money
    forgiven: Money
    outcome: str
    cause: str
    reason: str
    started_at: str | None
    ended_at: str


class Totals(TypedDict):
    """What all lines of a statement sum to."""

    count: int
    render_ms: int
    billable_ms: int
    gross: Money
    credit: Money
    charged: Money


class CostObject(TypedDict):
    """What a job is charged to and reported by."""

    id: str
    project: str
    name: str
    artist_id: str
    artist_name: str
    sequence: str
    shot: str
    tags: dict[str, str]
    currency: str
    policy: dict[str, Any]
    rates: dict[str, Money]
    created_at: str


class Machines(TypedDict):
    """How many machines a fleet has, and whose they are."""

    starting: int
    ready: int
    draining: int
    own: int
    others: int
    nobody: int


class Fleet(TypedDict):
    """Which machines are bought, and how many are there; null is an operator's to see."""

    id: str
    name: str
    provider: str
    region: str
    zones: list[str]
    instance_types: list[str]
    gpu_models: list[str]
    market: str
    price_cap_micro: int | None
    purposes: list[str]
    software: Any
    sharing: str
    min_machines: int
    max_machines: int
    idle_timeout_s: int
    boot_timeout_s: int
    max_life_s: int
    is_paused: bool
    created_at: str
    machines: Machines
    may_use: bool
    settings: dict[str, Any] | None
    studios: list[str] | None
    micro_per_hour: int | None


class Decision(TypedDict):
    """A launch, refusal, drain, end or alarm, with the numbers that led to it."""

    id: str
    fleet: str
    worker: str | None
    kind: str
    reason: str
    params: Any
    sentence: str
    at: str


class Limits(TypedDict):
    """What no policy may exceed."""

    max_machines: int | None
    max_launches_per_hour: int | None
    max_micro_per_hour: int | None
    max_micro_per_day: int | None


class Standing(TypedDict):
    """Where the farm stands against its limits."""

    machines: int
    launches_per_hour: int
    micro_per_hour: int
    micro_per_day: int


class Farm(TypedDict):
    """The whole farm; null is an operator's to see."""

    is_paused: bool
    limits: Limits | None
    standing: Standing | None
    reached: dict[str, str] | None


class Order(TypedDict, total=False):
    """What to render, and how: a renderer of the farm's, or an OpenJD template."""

    project: str
    scene_version: str | None
    name: str
    renderer: str
    template: str
    parameters: dict[str, str]
    priority: int
    deadline: str | None
    budget_micro: int | None
    after: list[str]
    sequence: str
    shot: str
    tags: dict[str, str]
    scouts: str
    fleet: str
    renderer_version: str
    accept_newer_renderer: bool
    allow_missing_files: bool
    suspended: bool
    timeout_s: int | None
    no_progress_s: int

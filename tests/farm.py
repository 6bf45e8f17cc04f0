"""A small farm for tests: a studio, jobs of a template without a scene, and workers that do as they are told."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from farm.core import keys
from farm.core.storage import store
from farm.dispatch import conversation
from farm.dispatch.claims import run_pass
from farm.dispatch.models import Attempt
from farm.fleet import services as fleet
from farm.fleet.models import Fleet, Worker
from farm.jobs.models import Job
from farm.jobs.orders import JobOrder
from farm.jobs.services import submit_job
from farm.studios.models import Project, Studio, User
from farm.studios.services import open_studio
from workers import protocol
from workers.protocol import AttemptReport, Cause, End, Outcome, OutputReport, OutputRole, Phase

TEMPLATE = """
specificationVersion: jobtemplate-2023-09
name: Counting
parameterDefinitions:
- {name: Frames, type: STRING, default: "1-3"}
steps:
- name: Count
  parameterSpace:
    taskParameterDefinitions:
    - {name: Frame, type: INT, range: "{{Param.Frames}}"}
  script:
    actions:
      onRun: {command: echo, args: ["{{Task.Param.Frame}}"]}
"""

TWO_STEPS = """
specificationVersion: jobtemplate-2023-09
name: Two steps
steps:
- name: First
  parameterSpace:
    taskParameterDefinitions:
    - {name: Frame, type: INT, range: "1-2"}
  script: {actions: {onRun: {command: echo}}}
- name: Second
  dependencies: [{dependsOn: First}]
  script: {actions: {onRun: {command: echo}}}
"""

_names = itertools.count(1)


@dataclass(frozen=True)
class Customer:
    studio: Studio
    user: User
    project: Project


def open_customer(name: str = "", *, currency: str = "USD") -> Customer:
    name = name or f"Studio {next(_names)}"
    studio, user = open_studio(
        name=name,
        currency=currency,
        zone="UTC",
        email=f"{name.replace(' ', '.').lower()}@example.com",
        is_operator=False,
    )
    return Customer(studio, user, Project.objects.create(studio=studio, name="Show"))


def submit(customer: Customer, *, now: datetime, frames: str = "1-3", template: str = TEMPLATE, **more: Any) -> Job:
    parameters = {"Frames": frames} if "Frames" in template else {}
    order = JobOrder(template=template, parameters=parameters, **more)
    return submit_job(project=customer.project, artist=customer.user, order=order, version=None, now=now)


def local_fleet(**changes: Any) -> Fleet:
    """The fleet every farm begins with; transactional tests wipe it, so it is made again."""
    row, _ = Fleet.objects.get_or_create(
        name="local", defaults={"provider": "local", "purposes": ["render", "inspection"]}
    )
    for name, value in changes.items():
        setattr(row, name, value)
    row.save()
    return row


@dataclass
class FakeWorker:
    """Speaks the worker protocol with the farm's services, holding what it is told to hold."""

    worker: Worker
    slots: int
    held: dict[str, AttemptReport] = field(default_factory=dict)
    answer: protocol.SyncAnswer | None = None

    def sync(self, *, now: datetime, state: protocol.WorkerState = protocol.WorkerState.READY) -> protocol.SyncAnswer:
        """Report all it holds; take on what is new, forget what was answered."""
        request = protocol.SyncRequest(
            state=state,
            reason="",
            free_disk_mib=100_000,
            scene_versions=[],
            slots=[protocol.SlotReport(index=i, step=None) for i in range(self.slots)],
            attempts=list(self.held.values()),
        )
        self.worker.refresh_from_db()
        answer = conversation.sync(self.worker, request, now=now)
        for told in answer.answers:
            if told.answer is not protocol.Answer.REFUSED:
                self.held.pop(told.attempt, None)
        for wanted in answer.attempts:
            self.held.setdefault(wanted.attempt, report(wanted.attempt, wanted.generation))
        self.answer = answer
        return answer

    def end(self, attempt: UUID | str, end: End) -> None:
        """Note an attempt's end, to be told at the next sync."""
        held = self.held[str(attempt)]
        self.held[str(attempt)] = report(held.attempt, held.generation, phase=Phase.ENDED, end=end)

    def finish_all(self, *, now: datetime, render_ms: int = 2_000) -> protocol.SyncAnswer:
        for attempt in list(self.held):
            self.end(attempt, success(attempt, render_ms=render_ms))
        return self.sync(now=now)


def report(
    attempt: str, generation: int, *, phase: Phase = Phase.RUNNING, elapsed_ms: int = 0, end: End | None = None
) -> AttemptReport:
    return AttemptReport(
        attempt=attempt, generation=generation, phase=phase, progress=0.0, elapsed_ms=elapsed_ms, log_chunks=0, end=end
    )


def start_worker(
    *,
    now: datetime,
    slots: int = 1,
    gpu: str = "",
    software: dict[str, list[str]] | None = None,
    fleet_row: Fleet | None = None,
) -> FakeWorker:
    secret = f"secret-{next(_names)}"
    Worker.objects.create(
        fleet=fleet_row or local_fleet(), secret_digest=hashlib.sha256(secret.encode()).hexdigest(), requested_at=now
    )
    entered = fleet.register(
        protocol.RegisterRequest(
            secret=secret,
            protocol=protocol.PROTOCOL,
            boot_id="boot",
            machine_id="m-test",
            agent_version="0",
            slots=[protocol.SlotSpec(index=i, gpu_model=gpu, vram_mib=24_000 if gpu else 0) for i in range(slots)],
            cores=4 * slots,
            memory_mib=16_000 * slots,
            disk_mib=100_000,
            software=software or {"blender": ["5.0.1"]},
            sandboxed=True,
        ),
        now=now,
    )
    return FakeWorker(entered.worker, slots)


def stored_output(
    attempt: UUID | str, content: bytes = b"picture", *, name: str = "out.txt", role: OutputRole = OutputRole.RENDER
) -> OutputReport:
    """Put a file where an attempt's outputs lie, and report it."""
    row = Attempt.objects.get(pk=attempt)
    digest = hashlib.sha256(content).hexdigest()
    store().write(keys.output_key(row.studio_id, row.id, digest), content)
    return OutputReport(name=name, role=role, size=len(content), digest=digest)


def success(attempt: UUID | str, *, render_ms: int = 2_000, outputs: Sequence[OutputReport] | None = None) -> End:
    outputs = [stored_output(attempt, str(attempt).encode())] if outputs is None else list(outputs)
    return End(
        outcome=Outcome.SUCCEEDED,
        cause=None,
        sentence="",
        setup_ms=500,
        render_ms=render_ms,
        peak_memory_mib=100,
        device="CPU",
        outputs=outputs,
    )


def failure(cause: Cause = Cause.SCENE_ERROR, *, outcome: Outcome = Outcome.FAILED, render_ms: int = 1_000) -> End:
    return End(
        outcome=outcome,
        cause=cause,
        sentence="It broke.",
        setup_ms=0,
        render_ms=render_ms,
        peak_memory_mib=1,
        device="CPU",
        outputs=[],
    )


def dispatch(*, now: datetime) -> int:
    """Run one pass of the dispatcher; give how many tasks it claimed."""
    return run_pass(now=now).claimed


def attempts_of(job: Job) -> list[Attempt]:
    return list(Attempt.objects.filter(job=job).order_by("id"))

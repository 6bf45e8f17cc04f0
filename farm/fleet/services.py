"""What happens to workers: asked for, registered, heard of, drained, gone; each decision with its numbers."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from farm.core.errors import Refusal
from farm.core.fields import new_ids
from farm.core.moves import move_to
from farm.fleet.models import Fleet, FleetDecision, Worker
from farm.fleet.moves import LIVE_WORKERS, PRESENT_WORKERS, STARTING_WORKERS, WORKER_MOVES, WorkerStatus
from farm.fleet.providers import InsufficientCapacity, LaunchRequest, Machine, Order, ProviderError, provider
from farm.fleet.requirements import version_key
from farm.fleet.scaling import Decision, FleetRules
from workers import protocol

logger = logging.getLogger(__name__)

LAG = timedelta(seconds=30)  # a provider's own list may lag behind its launches

MAX_SLOTS = 1024


class UnknownSecret(Refusal):
    """This boot secret is unknown or was used before. A machine registers once in its life; start a new one."""

    code = "unknown-secret"
    status = 401


class ProtocolTooOld(Refusal):
    """This agent speaks protocol {spoken}, the farm {known}. Start a machine with a newer image."""

    code = "protocol-too-old"
    status = 426


class NoSlots(Refusal):
    """A worker needs 1 to 1,024 slots, with indexes from 0 upwards; this one said {slots}."""

    code = "no-slots"
    status = 422


@dataclass(frozen=True)
class Registration:
    """A worker that came in, and the token it has from now on."""

    worker: Worker
    token: str


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def rules_of(fleet: Fleet) -> FleetRules:
    """Give what `scaling` is to know of a fleet."""
    return FleetRules(fleet.min_machines, fleet.max_machines, timedelta(seconds=fleet.idle_timeout_s), fleet.is_paused)


def record(fleet: Fleet, kind: str, reason: str, *, worker: UUID | None = None, **params: Any) -> None:
    """Write a decision down, with the numbers that led to it."""
    FleetDecision.objects.create(fleet=fleet, worker_id=worker, kind=kind, reason=reason[:64], params=params)


def launch(fleet: Fleet, decision: Decision, *, now: datetime) -> int:
    """
    Ask the fleet's provider for machines and give how many came.

    The rows are committed before the provider is asked, so that no machine ever exists that the farm does not know; a
    machine whose answer was lost is found by the audit through its token.
    """
    with transaction.atomic(durable=True):
        asked = {worker: secrets.token_urlsafe(32) for worker in new_ids(decision.launch)}
        Worker.objects.bulk_create(
            Worker(id=worker, fleet=fleet, secret_digest=_digest(secret), requested_at=now)
            for worker, secret in asked.items()
        )
        record(fleet, "launch", decision.reason, worker=None, count=decision.launch, **decision.params)
    request = LaunchRequest(
        fleet=fleet.name,
        settings=fleet.settings,
        farm_url=settings.FARM_URL,
        orders=[Order(token=str(worker), secret=secret) for worker, secret in asked.items()],
        max_life_s=fleet.max_life_s,
    )
    try:
        machines = provider(fleet.provider).launch(request)
    except ProviderError as refusal:
        _give_up(fleet, list(asked), refusal, now=now)
        return 0
    note_machines(machines)
    came = {machine.token for machine in machines}
    if missing := [worker for worker in asked if str(worker) not in came]:
        why = "fewer machines came than were asked for"
        _give_up(fleet, missing, InsufficientCapacity(provider=fleet.provider, why=why), now=now)
    return len(machines)


def _give_up(fleet: Fleet, workers: Sequence[UUID], refusal: ProviderError, *, now: datetime) -> None:
    logger.warning("fleet %s: %s", fleet.name, refusal)
    with transaction.atomic():
        Worker.objects.filter(pk__in=workers, status=WorkerStatus.REQUESTED).update(
            status=WorkerStatus.GONE, cause=refusal.sentence, gone_at=now, secret_digest=None
        )
        record(fleet, "refused", refusal.code, count=len(workers), sentence=refusal.sentence)


def note_machines(machines: Sequence[Machine]) -> None:
    """Keep the provider's names of machines; those that were only asked for exist now."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE fleet_worker w
               SET machine_id = m.id, status = CASE WHEN w.status = 'requested' THEN 'booting' ELSE w.status END
              FROM unnest(%s::uuid[], %s::text[]) AS m(worker, id) WHERE w.id = m.worker AND w.machine_id = ''
            """,
            [[machine.token for machine in machines], [machine.id for machine in machines]],
        )


def register(request: protocol.RegisterRequest, *, now: datetime) -> Registration:
    """
    Take a booted machine in: its one-time secret becomes a token of its own.

    :raises UnknownSecret: the secret is unknown, or the token that came of it has been used
    :raises ProtocolTooOld: the agent is too old (or too new) to talk to
    :raises NoSlots: nothing it could run work on
    """
    if request.protocol not in {protocol.PROTOCOL, protocol.PROTOCOL - 1}:
        raise ProtocolTooOld(spoken=request.protocol, known=protocol.PROTOCOL)
    if not 1 <= len(request.slots) <= MAX_SLOTS or [s.index for s in request.slots] != list(range(len(request.slots))):
        raise NoSlots(slots=[s.index for s in request.slots][:MAX_SLOTS])
    token = secrets.token_urlsafe(32)
    with transaction.atomic():
        worker = Worker.objects.select_for_update().filter(secret_digest=_digest(request.secret)).first()
        if worker is None or not _enter(worker, request, token, now=now):
            raise UnknownSecret
        fleet = Fleet.objects.select_for_update(no_key=True).get(pk=worker.fleet_id)
        _learn_software(fleet, worker)
    return Registration(worker, token)


def _enter(worker: Worker, request: protocol.RegisterRequest, token: str, *, now: datetime) -> bool:
    """Let a worker in; one whose answer was lost may ask again, until it has used its token."""
    if worker.status == WorkerStatus.READY and worker.boot_id == request.boot_id:
        worker.token_digest = _digest(token)
        worker.save(update_fields=["token_digest"])
        return True
    arrival = {"token_digest": _digest(token), "registered_at": now, "last_seen_at": now, "idle_since": now}
    return move_to(worker, WorkerStatus.READY, moves=WORKER_MOVES, **_stated(request), **arrival)


def _stated(request: protocol.RegisterRequest) -> dict[str, Any]:
    return {
        "machine_id": request.machine_id,
        "boot_id": request.boot_id,
        "agent_version": request.agent_version,
        "slots": protocol.encode(request.slots),
        "cores": request.cores,
        "memory_mib": request.memory_mib,
        "disk_mib": request.disk_mib,
        "free_disk_mib": request.disk_mib,
        "software": request.software,
        "sandboxed": request.sandboxed,
    }


def _learn_software(fleet: Fleet, latest: Worker) -> None:
    """Remember what the fleet's machines offer, also while none runs: what those say that are there now."""
    known: dict[str, set[str]] = {}
    present = Worker.objects.filter(fleet=fleet, status__in=LIVE_WORKERS).exclude(pk=latest.pk)
    for software in [latest.software, *present.values_list("software", flat=True)]:
        for name, versions in software.items():
            known.setdefault(name, set()).update(versions)
    fleet.software = {name: sorted(versions, key=version_key) for name, versions in known.items()}
    fleet.save(update_fields=["software"])


def worker_by_token(token: str) -> Worker | None:
    """Give the living worker that holds this token."""
    return Worker.objects.select_related("fleet").filter(token_digest=_digest(token), status__in=LIVE_WORKERS).first()


def note_sync(worker: Worker, request: protocol.SyncRequest, *, is_idle: bool, now: datetime) -> None:
    """Keep what a worker said of itself; a worker that says it drains, drains."""
    if request.state is protocol.WorkerState.DRAINING and worker.status == WorkerStatus.READY:
        drain(worker, reason=request.reason or "its own word")
    steps = {str(s.index): s.step for s in request.slots if s.step}
    use = [protocol.encode(s) for s in request.slots if s.gpu_use is not None]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE fleet_worker
               SET secret_digest = NULL, free_disk_mib = %s, scene_versions = %s::uuid[], slot_steps = %s,
                   slot_use = %s, last_seen_at = %s, idle_since = CASE WHEN %s THEN coalesce(idle_since, %s) END
             WHERE id = %s
            """,
            [
                request.free_disk_mib,
                request.scene_versions,
                json.dumps(steps),
                json.dumps(use),
                now,
                is_idle,
                now,
                worker.id,
            ],
        )


def drain(worker: Worker, *, reason: str) -> None:
    """Let a worker finish what it has and take nothing more."""
    if move_to(worker, WorkerStatus.DRAINING, moves=WORKER_MOVES, cause=reason):
        record(worker.fleet, "drain", reason, worker=worker.id)


def quarantine(worker: Worker, *, reason: str, now: datetime) -> None:
    """Give a worker on which too much fails nothing more; the farm's operator sees why."""
    worker.quarantined_at = now
    worker.save(update_fields=["quarantined_at"])
    drain(worker, reason=reason)
    logger.warning("worker %s quarantined: %s", worker.id, reason)


def end_workers(fleet: Fleet, workers: Sequence[UUID], *, reason: str, now: datetime, only_idle: bool = False) -> None:
    """End machines: the farm forgets their tokens, then the provider ends them. `only_idle`: not those now at work."""
    rows = Worker.objects.select_for_update().filter(pk__in=workers, status__in=PRESENT_WORKERS).order_by("pk")
    ended: list[Worker] = []
    with transaction.atomic():
        for worker in rows.filter(idle_since__isnull=False) if only_idle else rows:
            gone = {"cause": reason, "gone_at": now, "token_digest": None, "secret_digest": None}
            if move_to(worker, WorkerStatus.GONE, moves=WORKER_MOVES, **gone):
                record(fleet, "end", reason, worker=worker.id)
                ended.append(worker)
    if machines := [w.machine_id for w in ended if w.machine_id]:
        provider(fleet.provider).terminate(machines)


def audit(fleet: Fleet, *, now: datetime) -> list[UUID]:
    """
    Compare our rows with the provider's machines, both ways; give the workers that turned out to be gone.

    A machine we do not know, or know to be gone, is ended; a worker without a machine is gone; one that never
    registered within the fleet's boot time is ended.
    """
    machines = {m.token: m for m in provider(fleet.provider).machines(fleet.name)}
    present = {str(w.id): w for w in Worker.objects.filter(fleet=fleet, status__in=PRESENT_WORKERS)}
    if strangers := [m.id for token, m in machines.items() if token not in present]:
        logger.warning("fleet %s: ended %d machines nobody asked for", fleet.name, len(strangers))
        provider(fleet.provider).terminate(strangers)
    note_machines([m for token, m in machines.items() if token in present])  # whose launch was never answered
    asked_long_ago = now - LAG
    vanished = [w for token, w in present.items() if token not in machines and w.requested_at < asked_long_ago]
    boot_time = timedelta(seconds=fleet.boot_timeout_s)
    late = [
        w
        for token, w in present.items()
        if w.status in STARTING_WORKERS and now - w.requested_at > boot_time and token in machines
    ]
    for workers, reason in ((vanished, "its machine is gone"), (late, "it never registered")):
        end_workers(fleet, [w.id for w in workers], reason=reason, now=now)
    return [w.id for w in (*vanished, *late)]

"""What happens to workers: registered, heard of, drained, ended."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from farm.core.errors import Refusal
from farm.core.moves import move_to
from farm.fleet.decisions import record
from farm.fleet.launches import digest_of
from farm.fleet.models import Fleet, Launch, Worker
from farm.fleet.moves import LIVE_WORKERS, PRESENT_WORKERS, WORKER_MOVES, WorkerStatus
from farm.fleet.pools import FleetMarket
from farm.fleet.providers import ProviderError, provider
from farm.fleet.requirements import version_key
from farm.fleet.situation import FleetRules
from farm.fleet.spending import pay_up
from workers import protocol

logger = logging.getLogger(__name__)

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


def rules_of(fleet: Fleet) -> FleetRules:
    """Give what `scaling` is to know of a fleet."""
    return FleetRules(
        min_machines=fleet.min_machines,
        max_machines=fleet.max_machines,
        idle_timeout=timedelta(seconds=fleet.idle_timeout_s),
        is_paused=fleet.is_paused,
        market=FleetMarket(fleet.market),
        price_cap_micro=fleet.price_cap_micro,
        max_life=timedelta(seconds=fleet.max_life_s),
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
        worker = _worker_to_be(request)
        if worker is None or not _enter(worker, request, token, now=now):
            raise UnknownSecret
        fleet = Fleet.objects.select_for_update(no_key=True).get(pk=worker.fleet_id)
        _learn_software(fleet, worker)
    return Registration(worker, token)


def _worker_to_be(request: protocol.RegisterRequest) -> Worker | None:
    """
    Find the worker that a machine shall be, and lock it.

    A secret is one worker's own, or a launch's: then each of its machines comes in with it once, as the worker that is
    bound to it, or as the first of the launch that is bound to none yet.
    """
    workers = Worker.objects.select_for_update(of=("self",))
    digest = digest_of(request.secret)
    if own := workers.filter(secret_digest=digest).first():
        return own
    row = Launch.objects.select_for_update(no_key=True).filter(secret_digest=digest).first()
    if row is None or not request.machine_id:
        return None
    of_launch = workers.filter(launch=row)
    found = of_launch.filter(machine_id=request.machine_id).first()
    return found or of_launch.filter(machine_id="", status=WorkerStatus.REQUESTED).order_by("pk").first()


def _enter(worker: Worker, request: protocol.RegisterRequest, token: str, *, now: datetime) -> bool:
    """Let a worker in; one whose answer was lost may ask again, until it has used its token."""
    if worker.status == WorkerStatus.READY and worker.boot_id == request.boot_id and worker.secret_digest:
        worker.token_digest = digest_of(token)
        worker.save(update_fields=["token_digest"])
        return True
    arrival = {"token_digest": digest_of(token), "registered_at": now, "last_seen_at": now, "idle_since": now}
    if worker.secret_digest is None:  # of a launch: until its first sync it may ask again with what it has
        arrival["secret_digest"] = digest_of(f"{request.secret} {request.machine_id}")
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
    return Worker.objects.select_related("fleet").filter(token_digest=digest_of(token), status__in=LIVE_WORKERS).first()


def note_sync(worker: Worker, request: protocol.SyncRequest, *, is_idle: bool, now: datetime) -> None:
    """Keep what a worker said of itself; a worker that says it drains, drains."""
    if request.state is protocol.WorkerState.DRAINING and worker.status == WorkerStatus.READY:
        drain(worker, reason=request.reason or "its own word", was_taken_back=request.reason == protocol.TAKEN_BACK)
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


def drain(worker: Worker, *, reason: str, was_taken_back: bool = False) -> None:
    """Let a worker finish what it has and take nothing more."""
    told = {"cause": reason, "was_taken_back": was_taken_back}
    if move_to(worker, WorkerStatus.DRAINING, moves=WORKER_MOVES, **told):
        record(worker.fleet, "drain", reason, worker=worker.id, machine=worker.machine_id, zone=worker.zone)


def quarantine(worker: Worker, *, reason: str, now: datetime) -> None:
    """Give a worker on which too much fails nothing more; the farm's operator sees why."""
    worker.quarantined_at = now
    worker.save(update_fields=["quarantined_at"])
    drain(worker, reason=reason)
    logger.warning("worker %s quarantined: %s", worker.id, reason)


def end_workers(fleet: Fleet, workers: Sequence[UUID], *, reason: str, now: datetime, only_idle: bool = False) -> None:
    """
    End machines: the farm forgets their tokens, then the provider ends them. `only_idle`: not those now at work.

    A provider that does not end them now is asked again by the audit, which finds machines of workers that are gone.
    """
    rows = Worker.objects.select_for_update().filter(pk__in=workers, status__in=PRESENT_WORKERS).order_by("pk")
    ended: list[Worker] = []
    with transaction.atomic():
        pay_up(now=now, workers=workers)
        for worker in rows.exclude(status__in=LIVE_WORKERS, idle_since=None) if only_idle else rows:
            gone = {"cause": reason, "gone_at": now, "token_digest": None, "secret_digest": None}
            if move_to(worker, WorkerStatus.GONE, moves=WORKER_MOVES, **gone):
                record(fleet, "end", reason, worker=worker.id, **_life(worker, now=now))
                ended.append(worker)
    if machines := [w.machine_id for w in ended if w.machine_id]:
        try:
            provider(fleet.provider, fleet.region).terminate(machines)
        except ProviderError as error:
            logger.warning("fleet %s: %d machines are not ended yet: %s", fleet.name, len(machines), error)


def _life(worker: Worker, *, now: datetime) -> dict[str, Any]:
    """Give the numbers of a machine's life, for the decision that ends it."""
    idle = (now - worker.idle_since).total_seconds() if worker.idle_since else 0
    return {
        "machine": worker.machine_id,
        "pool": " ".join(part for part in (worker.instance_type, worker.zone, worker.market) if part),
        "lived_s": round((now - worker.requested_at).total_seconds()),
        "idle_s": round(idle),
        "paid_micro": worker.paid_micro,
    }

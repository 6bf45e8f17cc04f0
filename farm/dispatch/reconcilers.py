"""What must become true of supply and demand: machines come and go with the work, reports are handed down."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from celery import shared_task
from django.db import connection, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from farm.billing.models import Budget
from farm.billing.services import forgive_scouts
from farm.core.errors import Refusal
from farm.core.storage import store
from farm.dispatch import snapshot
from farm.dispatch.ends import settle_lost
from farm.dispatch.leases import lose_workers
from farm.dispatch.matching import StepDemand
from farm.dispatch.models import Attempt, Output
from farm.dispatch.quotes import latest_quotes, quote
from farm.fleet import services as fleet
from farm.fleet.audits import audit
from farm.fleet.capacity import carry_out
from farm.fleet.models import Fleet, Worker
from farm.fleet.moves import PRESENT_WORKERS, WorkerStatus
from farm.fleet.requirements import shortfall
from farm.fleet.scaling import FleetState, Idler, decide
from farm.fleet.selectors import Offer, offers, slots_per_machine
from farm.jobs.models import Job
from farm.jobs.moves import Approval, JobStatus, Purpose
from farm.jobs.services import resume_job
from farm.scenes.moves import VersionStatus
from farm.scenes.services import record_report

logger = logging.getLogger(__name__)

CAPACITY_LOCK = 7_365_219_002
MAX_REPORT_BYTES = 32 * 1024 * 1024


@contextmanager
def _alone(lock: int) -> Iterator[bool]:
    """Hold a lock for the whole of a run that spans several transactions; False when another run holds it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [lock])
        is_mine = bool(cursor.fetchone()[0])
    try:
        yield is_mine
    finally:
        if is_mine:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [lock])


@shared_task(name="farm.dispatch.reconcilers.provide_capacity")
def provide_capacity() -> None:
    """Start machines that ready work can use, and end those that have been idle too long."""
    with _alone(CAPACITY_LOCK) as is_mine:
        if not is_mine:
            return
        provide(now=timezone.now())


def provide(*, now: datetime) -> None:
    """Let the policy decide for each fleet, and carry out what it decided."""
    demand, _ = snapshot.demand()
    offered = offers()
    for row in Fleet.objects.order_by("name"):
        try:
            state = _state(row, [offer for offer in offered if offer.fleet == row.name], demand)
            carry_out(row, decide(fleet.rules_of(row), state, now=now), now=now)
        except Refusal as refusal:  # one fleet's trouble is no other's
            logger.warning("fleet %s: %s", row.name, refusal)


def _state(row: Fleet, offered: list[Offer], demand: list[StepDemand]) -> FleetState:
    present = Worker.objects.filter(fleet=row, status__in=PRESENT_WORKERS)
    workers = list(present.only("id", "status", "idle_since"))
    usable = [w for w in workers if w.status != WorkerStatus.DRAINING]
    per_machine = slots_per_machine(row)
    staying = present.exclude(status=WorkerStatus.DRAINING).values("id")
    held = Attempt.objects.filter(worker__in=staying, status__in=["assigned", "started"])
    busy = held.values("worker", "slot").distinct().count()
    wanted = sum(
        d.ready
        for d in demand
        if d.purpose in row.purposes and any(shortfall(d.requirements, o.capabilities) is None for o in offered)
    )
    return FleetState(
        present=len(usable),
        leaving=len(workers) - len(usable),
        slots_per_machine=per_machine,
        busy_slots=busy,
        wanted_slots=wanted,
        idle=tuple(Idler(w.id, w.idle_since) for w in usable if w.status == WorkerStatus.READY and w.idle_since),
    )


@shared_task(name="farm.dispatch.reconcilers.audit_machines")
def audit_machines() -> None:
    """Compare our workers with the providers' machines; end drained ones; settle what cannot come back."""
    now = timezone.now()
    for provider, region in Fleet.objects.values_list("provider", "region").distinct():
        try:
            lose_workers(audit(provider, region, now=now), now=now)
        except Refusal as refusal:  # one provider's trouble is no other's
            logger.warning("%s in %s: %s", provider, region, refusal)
    for row in Fleet.objects.order_by("name"):
        fleet.end_workers(row, _drained(row), reason="drained", now=now)
    with transaction.atomic():
        ended = Attempt.objects.filter(status="lost", is_settled=False).exclude(task__status__in=["ready", "leased"])
        settle_lost(list(ended.select_related("task__job").defer("task__job__template").order_by("pk")), now=now)


def _drained(row: Fleet) -> list[Any]:
    draining = Worker.objects.filter(fleet=row, status=WorkerStatus.DRAINING)
    busy = Attempt.objects.filter(worker__in=draining, status__in=["assigned", "started"]).values_list(
        "worker_id", flat=True
    )
    return list(draining.exclude(pk__in=list(busy)).values_list("id", flat=True))


@shared_task(name="farm.dispatch.reconcilers.follow_scouts")
def follow_scouts() -> None:
    """Quote jobs whose scouts are done; continue those that surely fit their budget; credit declined ones."""
    now = timezone.now()
    for job in Job.objects.filter(status=JobStatus.SUSPENDED, approval=Approval.WAITING):
        with transaction.atomic():
            _continue_if_it_fits(job, now=now)
    live = Attempt.objects.filter(job=OuterRef("pk"), status__in=["assigned", "started"])
    for job in Job.objects.filter(approval=Approval.DECLINED).exclude(Exists(live)):
        with transaction.atomic():
            forgive_scouts(job.cost_object_id, now=now)
            Job.objects.filter(pk=job.pk).update(approval=Approval.CREDITED)


def _continue_if_it_fits(job: Job, *, now: datetime) -> None:
    """A job with a budget of its own goes on by itself when even the dear end of its range fits what is left of it."""
    ranges = latest_quotes(job.id) or quote(job)
    budget = Budget.objects.filter(subject=job.cost_object_id, cap_micro__isnull=False).first()
    if budget is None or budget.cap_micro is None or not ranges:
        return
    left = budget.cap_micro - budget.held_micro - budget.spent_micro
    if max(r.p90_micro for r in ranges) <= left:
        resume_job(job, now=now)


@shared_task(name="farm.dispatch.reconcilers.take_reports")
def take_reports() -> None:
    """Hand finished inspections' reports down to the scenes room."""
    ended = Job.objects.filter(
        purpose=Purpose.INSPECTION,
        status__in=[JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED],
        scene_version__status=VersionStatus.WHOLE,
    )
    for job in ended:
        try:
            with transaction.atomic():
                record_report(job.scene_version_id, _report_of(job), now=timezone.now())
        except Refusal as refusal:
            logger.warning("the report of version %s was not taken: %s", job.scene_version_id, refusal)


def _report_of(job: Job) -> dict[str, Any]:
    output = Output.objects.filter(job=job, role="report", is_current=True).first()
    if output is not None:
        try:
            report = json.loads(store().read(output.key, limit=MAX_REPORT_BYTES))
        except (ValueError, RecursionError) as error:  # a worker that ran a stranger's scene wrote it
            return _no_report(f"its report is not readable ({error})")
        return report if isinstance(report, dict) else _no_report("its report is not readable")
    last = Attempt.objects.filter(job=job).order_by("-id").first()
    return _no_report(last.sentence if last and last.sentence else "the inspection did not end well")


def _no_report(why: str) -> dict[str, Any]:
    return {
        "report": 1,
        "refusal": {"code": "inspection-failed", "params": {}, "sentence": f"The scene could not be inspected: {why}"},
    }

"""What there is to know of running work, without changing anything."""

from __future__ import annotations

from django.db.models import Sum

from farm.billing.models import Budget
from farm.billing.pricing import hold_amount
from farm.dispatch.explaining import Explanation, Situation, explain
from farm.dispatch.forecasts import eta_s
from farm.dispatch.models import Attempt, Pace
from farm.dispatch.predicting import predict
from farm.dispatch.quotes import rates_of_job
from farm.fleet.models import Fleet, FleetDecision, Worker
from farm.fleet.moves import PRESENT_WORKERS, STARTING_WORKERS
from farm.fleet.requirements import Requirements, lack_in_words
from farm.fleet.selectors import fleets_for
from farm.jobs.models import Job, JobAfter, Step
from farm.jobs.moves import JobStatus, TaskStatus


def why(job: Job) -> Explanation:
    """Explain what a job does or waits for."""
    return explain(_situation(job))


def _situation(job: Job) -> Situation:
    steps = list(Step.objects.filter(job=job).defer("document", "outputs").order_by("index"))
    counts = {str(s): sum(getattr(step, str(s)) for step in steps) for s in TaskStatus}
    step = next((s for s in steps if s.ready), None) or next((s for s in steps if s.leased), steps[0])
    able, lacking = fleets_for(Requirements.from_json(step.requirements), purpose=job.purpose)
    fleets = list(Fleet.objects.filter(name__in=[o.fleet for o in able]))
    present = Worker.objects.filter(fleet__in=fleets, status__in=PRESENT_WORKERS)
    running = (
        Attempt.objects.filter(job=job, status__in=["assigned", "started"]).values("worker", "slot").distinct().count()
    )
    refused = FleetDecision.objects.filter(fleet__in=fleets).order_by("-id").first()
    return Situation(
        status=job.status,
        suspended_by=job.suspended_by,
        counts=counts,
        waits_for_jobs=list(
            JobAfter.objects.filter(job=job)
            .exclude(after__status=JobStatus.SUCCEEDED)
            .values_list("after__name", flat=True)
        ),
        running_slots=running,
        eta_s=_eta_s(steps, running),
        fleets=[f.name for f in fleets],
        lacking={name: lack_in_words(*lack) for name, lack in lacking.items()},
        paused=_paused(job, fleets),
        unrated=_unrated(job, [o.worker_class for o in able]) if counts["ready"] else [],
        budget_missing_micro=_missing(job, [o.worker_class for o in able]) if counts["ready"] else None,
        currency=job.cost_object.currency,
        starting=present.filter(status__in=STARTING_WORKERS).count(),
        present=present.count(),
        most=sum(f.max_machines for f in fleets),
        refused=refused.params.get("sentence", "") if refused and refused.kind == "refused" else "",
        ahead=_ahead(job),
    )


def _eta_s(steps: list[Step], slots: int) -> int | None:
    """Predict the seconds left at the present number of slots; None while nothing was learnt."""
    left = {s.id: s.pending + s.ready + s.leased for s in steps}
    rows = Pace.objects.filter(step__in=list(left)).order_by("pk")
    return eta_s(left, {p.step_id: found.p50 for p in rows if (found := predict(p.recent_ms))}, slots=slots)


def _paused(job: Job, fleets: list[Fleet]) -> str:
    if job.studio.is_paused:
        return "studio"
    if job.project.is_paused:
        return "project"
    return "fleet" if fleets and all(f.is_paused for f in fleets) else ""


def _unrated(job: Job, classes: list[str]) -> list[str]:
    """Give the classes that could run it, when none of them has a rate."""
    rates = rates_of_job(job)
    return [] if any(c in rates for c in classes) else classes


def _missing(job: Job, classes: list[str]) -> int | None:
    """Give the micro-units that the tightest budget lacks for the next task's hold; None when it fits."""
    rates = rates_of_job(job)
    needed = min(
        (hold_amount(_p95(job, c), gpus=1, rate=rates[c], purpose=job.purpose) for c in classes if c in rates),
        default=0,
    )
    subjects = [job.cost_object_id, job.project_id, job.studio_id]
    budgets = Budget.objects.filter(subject__in=subjects, cap_micro__isnull=False)
    lacks = [needed - (b.cap_micro - b.held_micro - b.spent_micro) for b in budgets if b.cap_micro is not None]
    worst = max(lacks, default=0)
    return worst if worst > 0 else None


def _p95(job: Job, worker_class: str) -> int | None:
    pace = Pace.objects.filter(step__job=job, worker_class=worker_class).first()
    found = predict(pace.recent_ms) if pace else None
    return found.p95 if found else None


def _ahead(job: Job) -> int:
    """Count ready tasks of the studio's jobs that go first: higher priority, or the same and older."""
    others = Job.objects.filter(studio=job.studio_id, status=JobStatus.ACTIVE).exclude(pk=job.pk)
    first = others.filter(priority__gt=job.priority) | others.filter(priority=job.priority, pk__lt=job.pk)
    return first.aggregate(n=Sum("steps__ready"))["n"] or 0

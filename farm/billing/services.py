"""What happens to money: cost objects are opened, holds taken, extended, settled and released, caps and rates set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q

from farm.billing import books, metering, pricing, selectors
from farm.billing.books import Booking, Line, LockedBudget, OpenHold, Past, Terms
from farm.billing.metering import EndedFact
from farm.billing.models import Budget, CostObject, PolicyRow, Rate, UsageFact
from farm.billing.pricing import SCENE_FAULTS, STANDARD_TIER, BudgetScope, HoldStatus, Policy, WhenRefused
from farm.core.errors import Invalid, NotFound, Refusal
from farm.core.events import emit
from farm.core.wakeups import wake_dispatcher
from farm.studios.authentication import Caller
from farm.studios.models import Project, Studio, User
from farm.studios.services import audit

SCOUTS = "scouts"  # the reason of credits for scouts of a job that was not continued


class NoRate(Refusal):
    """There is no {currency} rate for {worker_class}, so nothing can be charged for it. The farm's operator sets one with `manage.py set_rate`; or choose another fleet."""  # noqa: E501

    code = "no-rate"


class BudgetExists(Refusal):
    """This {scope} has a budget already, with a cap of {cap} {currency}. Change its cap instead."""

    code = "budget-exists"


class RateInThePast(Refusal):
    """A rate cannot begin at {valid_from}, which is over. Let it begin now or later."""

    code = "rate-in-the-past"


class RateOverlaps(Refusal):
    """There is already a {currency} rate for {worker_class} that begins at or after {valid_from}. Let the new one begin later."""  # noqa: E501

    code = "rate-overlaps"


@dataclass(frozen=True, kw_only=True)
class HoldRequest:
    """One attempt that wants to start."""

    attempt: UUID
    cost_object: UUID
    worker_class: str
    gpus: int  # at least 1: a "cpu" slot counts as one
    predicted_p95_ms: int | None
    purpose: str = "render"


@dataclass(frozen=True, kw_only=True)
class HoldAnswer:
    """What may start, and what stands in the way of the rest."""

    granted: dict[UUID, int] = field(default_factory=dict)  # attempt: micro-units held
    refused: dict[UUID, tuple[UUID, int]] = field(default_factory=dict)  # attempt: (budget, micro-units it lacks)
    unrated: dict[UUID, str] = field(default_factory=dict)  # attempt: worker class without a rate


@transaction.atomic
def open_cost_object(
    *,
    studio: Studio,
    project: Project,
    artist: User,
    name: str,
    sequence: str = "",
    shot: str = "",
    tags: Mapping[str, Any] | None = None,
    budget_micro: int | None,
    worker_classes: Iterable[str],
    now: datetime,
) -> CostObject:
    """
    Open what a job is charged to; it keeps the policy and rates of this moment, whatever comes later.

    :raises NoRate: a worker class has no rate in the studio's currency
    """
    cost_object = CostObject.objects.create(
        studio=studio,
        project=project,
        name=name,
        artist_id=artist.id,
        artist_name=artist.name or artist.email,
        sequence=sequence,
        shot=shot,
        tags=dict(tags or {}),
        currency=studio.currency,
        policy=selectors.policy_of(studio.id, now=now).as_json(),
    )
    _quote(cost_object, worker_classes, now=now)
    month = metering.month_of(now, zone=studio.zone)
    books.ensure_budgets(
        [(studio.id, BudgetScope.STUDIO, studio.id, month), (studio.id, BudgetScope.PROJECT, project.id, None)]
    )
    Budget.objects.create(studio=studio, scope=BudgetScope.JOB, subject=cost_object.id, cap_micro=budget_micro)
    return cost_object


def _quote(cost_object: CostObject, worker_classes: Iterable[str], *, now: datetime) -> None:
    wanted = set(worker_classes)
    books.quote_rates([(cost_object.id, name) for name in wanted], now=now)
    quoted = set(cost_object.quoted_rates.values_list("worker_class", flat=True))
    for name in sorted(wanted - quoted):
        raise NoRate(worker_class=name, currency=cost_object.currency)


def hold(requests: Sequence[HoldRequest], *, now: datetime) -> HoldAnswer:
    """
    Set money aside for attempts that want to start, in the caller's transaction.

    Each passes all its budgets or does not start. In each budget the largest beginning of the requests, in their
    order, is granted: what comes first is not overtaken by something smaller.
    """
    if not requests:
        return HoldAnswer()
    terms = _terms_with_rates(requests, now=now)
    months = {t.studio: metering.month_of(now, zone=t.zone) for t in terms.values()}
    books.ensure_budgets((studio, BudgetScope.STUDIO, studio, month) for studio, month in months.items())
    wanted = {t.cost_object: books.budgets_of(t, months[t.studio]) for t in terms.values()}
    budgets = books.lock_budgets(key for keys in wanted.values() for key in keys)
    before = {b.id: b.held for b in budgets.values()}
    queue = _Queue()
    answer = HoldAnswer()
    granted: list[tuple[OpenHold, UUID]] = []
    for request in requests:
        t = terms[request.cost_object]
        if request.worker_class not in t.rates:
            answer.unrated[request.attempt] = request.worker_class
            continue
        new = _hold_for(request, rate=t.rates[request.worker_class], month=months[t.studio])
        refusal = queue.admit([budgets[key] for key in wanted[t.cost_object]], new.amount)
        if refusal is not None:
            answer.refused[request.attempt] = refusal
            continue
        answer.granted[request.attempt] = new.amount
        granted.append((new, t.studio))
    books.move_budgets({b.id: (b.held - before[b.id], 0) for b in budgets.values()})
    if granted:
        books.insert_holds(granted, now=now)
    _tell_refused(budgets.values(), answer.refused.values())
    return answer


def _terms_with_rates(requests: Sequence[HoldRequest], *, now: datetime) -> dict[UUID, Terms]:
    """Read the terms; a worker class that was not offered when the job was quoted is quoted now."""
    terms = books.terms_of(r.cost_object for r in requests)
    unquoted = {(r.cost_object, r.worker_class) for r in requests if r.worker_class not in terms[r.cost_object].rates}
    if unquoted:
        books.quote_rates(unquoted, now=now)
        terms |= books.terms_of(c for c, _ in unquoted)
    return terms


def _hold_for(request: HoldRequest, *, rate: int, month: date) -> OpenHold:
    return OpenHold(
        attempt=request.attempt,
        cost_object=request.cost_object,
        worker_class=request.worker_class,
        gpus=request.gpus,
        rate=rate,
        purpose=str(request.purpose),
        amount=pricing.hold_amount(request.predicted_p95_ms, gpus=request.gpus, rate=rate, purpose=request.purpose),
        month=month,
    )


class _Queue:
    """Lets requests through locked budgets in their order: behind one that did not fit, nothing more is let through."""

    def __init__(self) -> None:
        self._waiting: dict[UUID, int] = {}  # budget: what was refused there, together

    def admit(self, budgets: Sequence[LockedBudget], amount: int) -> tuple[UUID, int] | None:
        """Count an amount on all budgets and give None, or give the first that refuses, and how much it lacks."""
        if amount == 0:
            return None
        for budget in budgets:
            waiting = self._waiting.get(budget.id, 0)
            missing = budget.missing(waiting + amount)
            if missing:
                self._waiting[budget.id] = waiting + amount
                return budget.id, missing
        for budget in budgets:
            budget.held += amount
        return None


def extend_holds(needs: Sequence[tuple[UUID, int]], *, now: datetime) -> dict[UUID, bool]:
    """
    Extend the holds of running attempts to their predicted milliseconds, and say which may go on.

    One that is refused may go on only if its job's policy lets it finish; what it then uses beyond its hold is the
    farm's. An attempt without an open hold may not go on.
    """
    holds = books.lock_holds(attempt for attempt, _ in needs)
    terms = books.terms_of(h.cost_object for h in holds.values())
    budgets = _lock_budgets_of(holds.values(), terms)
    before = {b.id: b.held for b in budgets.values()}
    queue = _Queue()
    answer = {attempt: False for attempt, _ in needs}
    extended: dict[UUID, int] = {}
    refusals: list[tuple[UUID, int]] = []
    for attempt, predicted_ms in needs:
        if attempt not in holds:
            continue
        held, t = holds[attempt], terms[holds[attempt].cost_object]
        target = pricing.hold_amount(predicted_ms, gpus=held.gpus, rate=held.rate, purpose=held.purpose)
        more = max(0, target - extended.get(attempt, held.amount))
        refusal = queue.admit([budgets[key] for key in books.budgets_of(t, held.month)], more)
        answer[attempt] = refusal is None or t.policy.when_refused is WhenRefused.FINISH
        if refusal is not None:
            refusals.append(refusal)
        elif more:
            extended[attempt] = target
    books.move_budgets({b.id: (b.held - before[b.id], 0) for b in budgets.values()})
    if extended:
        books.extend_holds(extended)
    _tell_refused(budgets.values(), refusals)
    return answer


def lock_budgets(*, attempts: Iterable[UUID] = (), cost_objects: Iterable[UUID] = (), now: datetime) -> None:
    """
    Lock at once, in the order that all keep, what several calls of one transaction will lock.

    A transaction that settles, extends and holds calls this first, with all it is about, so that two of them cannot
    wait for each other.
    """
    starting = set(cost_objects)
    holds = books.lock_holds(attempts)
    if not starting and not holds:
        return
    terms = books.terms_of([*starting, *(h.cost_object for h in holds.values())])
    months = {c: metering.month_of(now, zone=terms[c].zone) for c in starting}
    books.ensure_budgets((terms[c].studio, BudgetScope.STUDIO, terms[c].studio, month) for c, month in months.items())
    keys = [key for c, month in months.items() for key in books.budgets_of(terms[c], month)]
    books.lock_budgets(
        [*keys, *(key for h in holds.values() for key in books.budgets_of(terms[h.cost_object], h.month))]
    )


def _lock_budgets_of(
    holds: Iterable[OpenHold], terms: Mapping[UUID, Terms]
) -> dict[tuple[UUID, date | None], LockedBudget]:
    return books.lock_budgets(key for h in holds for key in books.budgets_of(terms[h.cost_object], h.month))


def settle(facts: Sequence[EndedFact], *, now: datetime) -> None:
    """
    Settle the holds of ended attempts: say who pays, write facts and ledger, in the caller's transaction.

    `now` is when the end was received. Settled again, an attempt changes nothing.
    """
    if not facts:
        return
    holds = books.lock_holds(f.attempt for f in facts)
    terms = books.terms_of([*(f.cost_object for f in facts), *(h.cost_object for h in holds.values())])
    budgets = _lock_budgets_of(holds.values(), terms)
    past = books.past_of(facts, scene_faults=SCENE_FAULTS)
    lines = _lines(facts, holds, terms, past, now=now)
    if not lines:
        return
    books.insert_facts(lines, now=now)
    books.book([_usage_booking(line, now=now) for line in lines])
    _settle_budgets(lines, budgets)
    books.close_holds((line.ended.attempt for line in lines), HoldStatus.SETTLED, now=now)


def _lines(
    facts: Sequence[EndedFact],
    holds: Mapping[UUID, OpenHold],
    terms: Mapping[UUID, Terms],
    past: Past,
    *,
    now: datetime,
) -> list[Line]:
    """Price the facts that are new, in their order: of two that would be charged, the first is."""
    seen, charged, failed = set(past.attempts), set(past.charged), set(past.scene_faults)
    lines = []
    for ended in facts:
        if ended.attempt in seen:
            continue
        seen.add(ended.attempt)
        key = (ended.task, ended.generation)
        line = _line(
            ended,
            holds.get(ended.attempt),
            terms,
            is_generation_charged=key in charged,
            is_first_scene_fault=ended.task not in failed,
            now=now,
        )
        if line.verdict.is_charged:
            charged.add(key)
        if ended.outcome == "failed" and ended.cause in SCENE_FAULTS:
            failed.add(ended.task)
        lines.append(line)
    return lines


def _line(
    ended: EndedFact,
    held: OpenHold | None,
    terms: Mapping[UUID, Terms],
    *,
    is_generation_charged: bool,
    is_first_scene_fault: bool,
    now: datetime,
) -> Line:
    """Price one fact by its hold. Without one (never held, or released) nothing was held, so nothing is charged."""
    t = terms[held.cost_object if held else ended.cost_object]
    worker_class, gpus = (held.worker_class, held.gpus) if held else (ended.worker_class, max(1, ended.gpus))
    rate = held.rate if held else t.rates.get(worker_class, 0)
    metered = metering.meter(ended, received_at=now)
    billable = metering.billable_ms(metered, free_setup_seconds=t.policy.free_setup_seconds)
    usage = pricing.Usage(
        purpose=ended.purpose,
        outcome=ended.outcome,
        cause=ended.cause,
        billable_ms=billable,
        ms_until_cancelled=metering.ms_until_cancelled(ended),
        is_generation_charged=is_generation_charged,
        is_first_scene_fault=is_first_scene_fault,
    )
    verdict = pricing.judge(usage, t.policy)
    held_micro = held.amount if held else 0
    month = metering.month_of(now, zone=t.zone)
    return Line(
        ended=ended,
        metered=metered,
        billable_ms=billable,
        verdict=verdict,
        charge=pricing.price(verdict, billable_ms=billable, gpus=gpus, rate=rate, held=held_micro),
        terms=t,
        worker_class=worker_class,
        gpus=gpus,
        rate=rate,
        held=held_micro,
        hold_month=held.month if held else month,
        month=month,
    )


def _usage_booking(line: Line, *, now: datetime) -> Booking:
    charge = line.charge
    return Booking(
        key=f"usage:{line.ended.attempt}",
        attempt=line.ended.attempt,
        terms=line.terms,
        occurred_at=now,
        entries={
            "receivable": charge.charged,
            "over-hold": charge.over_hold,
            f"credit:{line.verdict.reason}": charge.gross - charge.charged - charge.over_hold,
            f"revenue:{line.worker_class}": -charge.gross,
        },
    )


def _settle_budgets(lines: Iterable[Line], budgets: Mapping[tuple[UUID, date | None], LockedBudget]) -> None:
    moves: dict[UUID, tuple[int, int]] = {}
    for line in lines:
        for key in books.budgets_of(line.terms, line.hold_month):
            if (budget := budgets.get(key)) is None:  # an attempt without a hold moves nothing
                continue
            held, spent = moves.get(budget.id, (0, 0))
            moves[budget.id] = (held - line.held, spent + line.charge.charged)
    books.move_budgets(moves)
    for budget in budgets.values():
        held, spent = moves.get(budget.id, (0, 0))
        budget.held, budget.spent = budget.held + held, budget.spent + spent
    _tell({b: pricing.crossed(spent=b.spent, cap=b.cap, told=b.told) for b in budgets.values()})


def release(attempts: Sequence[UUID], *, now: datetime) -> None:
    """Give back the holds of attempts that never started. Released or settled before, an attempt changes nothing."""
    holds = books.lock_holds(attempts)
    if not holds:
        return
    terms = books.terms_of(h.cost_object for h in holds.values())
    budgets = _lock_budgets_of(holds.values(), terms)
    moves: dict[UUID, tuple[int, int]] = {}
    for held in holds.values():
        for key in books.budgets_of(terms[held.cost_object], held.month):
            moves[budgets[key].id] = (moves.get(budgets[key].id, (0, 0))[0] - held.amount, 0)
    books.move_budgets(moves)
    books.close_holds(holds, HoldStatus.RELEASED, now=now)


def _tell_refused(budgets: Iterable[LockedBudget], refusals: Iterable[tuple[UUID, int]]) -> None:
    """A budget that refuses a start is used up, as far as those who wait for it are concerned."""
    refusing = {budget for budget, _ in refusals}
    _tell({b: [100] for b in budgets if b.id in refusing and 100 not in b.told})


def _tell(crossed: Mapping[LockedBudget, list[int]]) -> None:
    news = {budget: percents for budget, percents in crossed.items() if percents}
    if not news:
        return
    books.tell_budgets({budget.id: percents for budget, percents in news.items()})
    for budget, percents in news.items():
        emit(
            "budget.threshold",
            studio=budget.studio,
            subject=budget.id,
            scope=budget.scope.value,
            of=str(budget.subject),
            percent=max(percents),
            cap_micro=budget.cap,
            held_micro=budget.held,
            spent_micro=budget.spent,
        )


@transaction.atomic
def forgive_scouts(cost_object: UUID, *, now: datetime) -> int:
    """
    Give back what a job's scouts cost, because it was not continued, and say how many micro-units that is.

    Free are so many GPU-seconds per studio and day (of the scouts' end, in the studio's zone) as the job's policy
    says; the oldest scouts are free first. Asked again, it changes nothing.
    """
    t = books.terms_of([cost_object])[cost_object]
    Studio.objects.select_for_update(no_key=True).get(pk=t.studio)  # the day's allowance is the studio's: one at a time
    scouts = UsageFact.objects.filter(cost_object=cost_object, is_scout=True, charged_micro__gt=0)
    facts = list(scouts.exclude(credits__reason=SCOUTS).order_by("ended_at", "pk"))
    given = _scout_credits(facts, t)
    if not given:
        return 0
    keys = [key for fact, _, _ in given for key in books.budgets_of(t, fact.hold_month)]
    budgets = books.lock_budgets(keys)
    books.insert_credits([(t.studio, f.pk, ms, micro) for f, ms, micro in given], reason=SCOUTS, now=now)
    books.book([_credit_booking(fact, micro, t, now=now) for fact, _, micro in given])
    moves: dict[UUID, tuple[int, int]] = {}
    for fact, _, micro in given:
        for key in books.budgets_of(t, fact.hold_month):
            moves[budgets[key].id] = (0, moves.get(budgets[key].id, (0, 0))[1] - micro)
    books.move_budgets(moves)
    return sum(micro for _, _, micro in given)


def _scout_credits(facts: Sequence[UsageFact], t: Terms) -> list[tuple[UsageFact, int, int]]:
    """Spread the days' free GPU-milliseconds over the scouts: (fact, GPU-milliseconds, micro-units)."""
    left: dict[datetime, int] = {}
    given = []
    for fact in facts:
        begin, end = metering.day_bounds(fact.ended_at, zone=t.zone)
        if begin not in left:
            used = selectors.forgiven_gpu_ms(t.studio, reason=SCOUTS, begin=begin, end=end)
            left[begin] = t.policy.free_scout_gpu_seconds * 1000 - used
        free, micro = pricing.scout_credit(
            payable_ms=fact.payable_ms,
            gpus=fact.gpus,
            rate=fact.micro_per_gpu_hour,
            charged=fact.charged_micro,
            gpu_ms_left=left[begin],
        )
        if free:
            left[begin] -= free
            given.append((fact, free, micro))
    return given


def _credit_booking(fact: UsageFact, micro: int, t: Terms, *, now: datetime) -> Booking:
    entries = {"receivable": -micro, f"credit:{SCOUTS}": micro}
    return Booking(key=f"{SCOUTS}:{fact.pk}", attempt=fact.pk, terms=t, occurred_at=now, entries=entries)


@transaction.atomic
def set_budget(
    caller: Caller, *, scope: BudgetScope, subject: UUID | None, month: date | None, cap_micro: int, now: datetime
) -> Budget:
    """
    Limit what the caller's studio, one of its projects or one of its jobs may spend.

    :raises NotFound: the studio has no such project or cost object
    :raises Invalid: a month that is over, or a month or subject that does not fit the scope
    :raises BudgetExists: there is a cap already
    """
    studio = caller.studio
    key = _budget_key(studio, scope, subject, month, now=now)
    is_new = books.ensure_budgets([(studio.id, scope, *key)]) == 1
    budget = Budget.objects.select_for_update().get(subject=key[0], month=key[1])
    if budget.cap_micro is not None and not is_new:
        raise BudgetExists(scope=scope.value, cap=selectors.decimal(budget.cap_micro), currency=studio.currency)
    return _cap(caller, budget, cap_micro)


def _budget_key(
    studio: Studio, scope: BudgetScope, subject: UUID | None, month: date | None, *, now: datetime
) -> tuple[UUID, date | None]:
    if scope is BudgetScope.STUDIO:
        this_month = metering.month_of(now, zone=studio.zone)
        if subject not in {None, studio.id}:
            raise NotFound(what="studio", id=subject)
        if month is not None and (month.day != 1 or month < this_month):
            raise Invalid("month", f"{month} is not the first day of this month or a later one")
        return studio.id, month or this_month
    if month is not None:
        raise Invalid("month", f"a {scope} budget is not monthly")
    kind = Project if scope is BudgetScope.PROJECT else CostObject
    what = "project" if scope is BudgetScope.PROJECT else "cost object"
    if subject is None:
        raise Invalid("subject", f"a {scope} budget needs the id of its {what}")
    if not kind._default_manager.filter(pk=subject, studio=studio.id).exists():
        raise NotFound(what=what, id=subject, field="subject")
    return subject, None


@transaction.atomic
def change_cap(caller: Caller, budget_id: UUID, *, cap_micro: int | None) -> Budget:
    """
    Change or lift a budget's cap. Below what is held and spent, it only keeps more from starting.

    :raises NotFound: the studio has no such budget
    """
    budget = Budget.objects.select_for_update().filter(pk=budget_id, studio=caller.studio.id).first()
    if budget is None:
        raise NotFound(what="budget", id=budget_id)
    return _cap(caller, budget, cap_micro)


def _cap(caller: Caller, budget: Budget, cap_micro: int | None) -> Budget:
    before, budget.cap_micro = budget.cap_micro, cap_micro
    # Thresholds count anew for a new cap; those it has passed already, the person who sets it sees.
    budget.told = pricing.crossed(spent=budget.spent_micro, cap=cap_micro, told=[])
    budget.save(update_fields=["cap_micro", "told"])
    audit(caller, "budget.capped", subject=budget.id, before=before, after=cap_micro)
    wake_dispatcher()
    return budget


@transaction.atomic
def retag(
    caller: Caller,
    cost_object_id: UUID,
    *,
    sequence: str | None = None,
    shot: str | None = None,
    tags: dict[str, str] | None = None,
) -> CostObject:
    """
    Change what a cost object is reported by; its money rows stay as they are.

    :raises NotFound: the studio has no such cost object
    """
    cost_object = CostObject.objects.filter(pk=cost_object_id, studio=caller.studio.id).first()
    if cost_object is None:
        raise NotFound(what="cost object", id=cost_object_id)
    wish = {"sequence": sequence, "shot": shot, "tags": tags}
    changed = {name: value for name, value in wish.items() if value is not None}
    for name, value in changed.items():
        setattr(cost_object, name, value)
    if changed:
        cost_object.save(update_fields=list(changed))
        audit(caller, "cost-object.retagged", subject=cost_object.id, **changed)
    return cost_object


@transaction.atomic
def set_rate(
    *,
    worker_class: str,
    currency: str,
    micro_per_gpu_hour: int,
    valid_from: datetime,
    studio: Studio | None = None,
    source: str = "",
    now: datetime,
) -> Rate:
    """
    Let a new rate begin, and the one before it end there. Jobs that were quoted keep what they were quoted.

    :raises RateInThePast: the new rate would begin before now
    :raises RateOverlaps: a later rate is there already
    """
    if valid_from < now:
        raise RateInThePast(valid_from=valid_from.isoformat(), field="valid_from")
    same = Rate.objects.filter(studio=studio, worker_class=worker_class, tier=STANDARD_TIER, currency=currency)
    same.filter(Q(valid__contains=valid_from), valid__startswith__lt=valid_from, valid__upper_inf=True).update(
        valid=selectors.closed_at(valid_from)
    )
    try:
        with transaction.atomic():
            return Rate.objects.create(
                studio=studio,
                worker_class=worker_class,
                currency=currency,
                micro_per_gpu_hour=micro_per_gpu_hour,
                valid=(valid_from, None),
                source=source,
            )
    except IntegrityError:
        raise RateOverlaps(worker_class=worker_class, currency=currency, valid_from=valid_from.isoformat()) from None


def set_policy(policy: Policy, *, studio: Studio | None, now: datetime) -> PolicyRow:
    """Let a policy be in force from now on; jobs that were quoted keep theirs."""
    return PolicyRow.objects.create(studio=studio, valid_from=now, **policy.as_json())

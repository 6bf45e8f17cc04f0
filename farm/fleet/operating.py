"""What the farm's operators change: fleets, limits, pauses. Each act is in the audit log."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from farm.core.errors import Invalid, NotFound, Refusal
from farm.core.wakeups import wake_reconciler
from farm.fleet.models import Farm, Fleet, Worker
from farm.fleet.providers import provider
from farm.fleet.selectors import the_farm
from farm.fleet.services import drain
from farm.fleet.supply import spec_of
from farm.studios.authentication import Caller, OperatorsOnly
from farm.studios.models import Studio
from farm.studios.services import audit
from farm.studios.tenancy import become_farm

REFRESH = "farm.fleet.reconcilers.refresh_pools"


class FleetNameTaken(Refusal):
    """There is already a fleet called {name!r}. Choose another name."""

    code = "fleet-name-taken"


class FleetHasMachines(Refusal):
    """The fleet {name!r} has {machines} machines. Its {what} can change once they are gone: pause it, drain them."""

    code = "fleet-has-machines"


def become_operator(caller: Caller) -> None:
    """
    For the rest of this transaction: see and change what belongs to the farm.

    :raises OperatorsOnly: the caller is none
    """
    if not caller.user.is_operator:
        raise OperatorsOnly
    become_farm()


def create_fleet(caller: Caller, **fields: Any) -> Fleet:
    """
    Say which machines to buy.

    :raises FleetNameTaken: there is one of this name
    :raises Invalid: the provider needs to know more, or something else
    """
    fleet = Fleet(**fields)
    _check(fleet)
    try:
        with transaction.atomic():
            fleet.save()
    except IntegrityError:
        raise FleetNameTaken(name=fleet.name, field="name") from None
    fleet.refresh_from_db()
    audit(caller, "fleet.created", subject=fleet.id, **_told(fields))
    wake_reconciler(REFRESH)
    return fleet


def change_fleet(caller: Caller, fleet_id: UUID, **fields: Any) -> Fleet:
    """
    Change a fleet; where it buys cannot change while it has machines.

    :raises NotFound: there is no such fleet
    :raises FleetHasMachines: provider or region were to change under its machines
    :raises Invalid: the provider needs to know more, or something else
    """
    fleet = Fleet.objects.select_for_update().filter(pk=fleet_id).first()
    if fleet is None:
        raise NotFound(what="fleet", id=fleet_id)
    moved = [name for name in ("provider", "region") if fields.get(name, getattr(fleet, name)) != getattr(fleet, name)]
    machines = Worker.objects.filter(fleet=fleet).exclude(status="gone").count()
    if moved and machines:
        raise FleetHasMachines(name=fleet.name, machines=machines, what=moved[0], field=moved[0])
    for name, value in fields.items():
        setattr(fleet, name, value)
    _check(fleet)
    fleet.save(update_fields=list(fields))
    audit(caller, "fleet.changed", subject=fleet.id, **_told(fields))
    wake_reconciler(REFRESH)
    return fleet


def _check(fleet: Fleet) -> None:
    if fleet.min_machines > fleet.max_machines:
        raise Invalid("min_machines", f"it is more than max_machines, {fleet.max_machines}")
    if unknown := set(fleet.studios) - set(Studio.objects.filter(pk__in=fleet.studios).values_list("id", flat=True)):
        raise Invalid("studios", f"there is no studio {min(unknown)}")
    provider(fleet.provider, fleet.region).check(spec_of(fleet))


def set_limits(caller: Caller, **limits: Any) -> Farm:
    """Set what no policy may exceed; None takes a limit away."""
    farm = the_farm(lock=True)
    for name, value in limits.items():
        setattr(farm, name, value)
    farm.save(update_fields=list(limits))
    audit(caller, "farm.limits-set", subject=farm.id, **limits)
    return farm


def pause_farm(caller: Caller, *, is_paused: bool) -> Farm:
    """Launch nothing any more, or again."""
    farm = the_farm(lock=True)
    if farm.is_paused != is_paused:
        farm.is_paused = is_paused
        farm.save(update_fields=["is_paused"])
        audit(caller, "farm.paused" if is_paused else "farm.resumed", subject=farm.id)
    return farm


def drain_worker(caller: Caller, worker_id: UUID) -> None:
    """
    Let a worker finish what it has and end.

    :raises NotFound: there is no such worker
    """
    worker = Worker.objects.select_related("fleet").filter(pk=worker_id).first()
    if worker is None:
        raise NotFound(what="worker", id=worker_id)
    drain(worker, reason="an operator drains it")
    audit(caller, "worker.drained", subject=worker.id)


def _told(fields: dict[str, Any]) -> dict[str, Any]:
    """What the audit log keeps of a change: all but a provider's settings, which may name what is nobody's business."""
    return {name: str(value) if name == "studios" else value for name, value in fields.items() if name != "settings"}

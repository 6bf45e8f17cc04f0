"""Operators looking into studios: for an hour, without changing anything, each look in the studio's audit log."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from farm.core.errors import NotFound
from farm.studios.authentication import LOOK, LOOKED, BrowserOnly, Caller, OperatorsOnly, Person
from farm.studios.models import Studio
from farm.studios.services import audit
from farm.studios.tenancy import become_farm


def become_onlooker(asking: Caller | Person) -> None:
    """
    For the rest of this transaction: see all studios.

    :raises OperatorsOnly: whoever asks is none
    :raises BrowserOnly: a token asks; it belongs to one studio
    """
    if not asking.user.is_operator:
        raise OperatorsOnly
    if isinstance(asking, Caller) and asking.token:
        raise BrowserOnly
    become_farm()


def look_into(asking: Caller | Person, studio_id: UUID, *, reason: str, now: datetime) -> tuple[Studio, datetime]:
    """
    Let an operator see a studio for a while, by naming it in their requests; give it, and until when.

    :raises OperatorsOnly, BrowserOnly: as `become_onlooker`
    :raises NotFound: there is no such studio
    """
    become_onlooker(asking)
    studio = Studio.objects.filter(pk=studio_id).first()
    if studio is None:
        raise NotFound(what="studio", id=studio_id, field="studio")
    onlooker = Caller(asking.user, studio, frozenset(), token=None, address=asking.address)
    audit(onlooker, LOOKED, subject=asking.user.id, reason=reason, email=asking.user.email)
    return studio, now + LOOK

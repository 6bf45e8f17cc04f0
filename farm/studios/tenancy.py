"""A person's request becomes `farm_tenant`, bound to one studio, first thing in its transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from farm.core.errors import Refusal
from farm.core.problems import UNAVAILABLE, unavailable
from farm.studios.authentication import caller_of


def become_tenant(studio: object) -> None:
    """For the rest of this transaction: see and touch only this studio's rows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('farm.studio', %s, true)", [str(studio)])
        cursor.execute("SET LOCAL ROLE farm_tenant")


def become_farm() -> None:
    """For the rest of this transaction: be the process itself again, which sees every studio."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE NONE")


@contextmanager
def beyond_one_studio(studio: object) -> Iterator[None]:
    """Be the farm itself for what concerns a person rather than a studio; then the studio's tenant again."""
    become_farm()
    try:
        yield
    finally:
        if not connection.needs_rollback and not connection.closed_in_transaction:
            become_tenant(studio)


class TenantMiddleware:
    """Opens the transaction of a request to the public API, finds the caller, and becomes its tenant."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith("/api/v1/"):
            return self.get_response(request)
        try:
            return self._as_tenant(request)
        except UNAVAILABLE as error:  # at the transaction's begin or commit; inside, the view's own answer says so
            return unavailable(error)

    def _as_tenant(self, request: HttpRequest) -> HttpResponse:
        with transaction.atomic():
            request.caller = request.refusal = None  # type: ignore[attr-defined]
            try:
                request.caller = caller_of(request, now=timezone.now())  # type: ignore[attr-defined]
            except Refusal as refusal:
                request.refusal = refusal  # type: ignore[attr-defined]  # raised by the view's authentication
            caller = request.caller  # type: ignore[attr-defined]
            # Nobody in particular is a tenant too, of no studio: sees no row.
            become_tenant(caller.studio.id if caller else "")
            return self.get_response(request)

"""The only door for workers: `/worker/v1`. What people see is in `people`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DataError, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from farm.core.errors import Refusal
from farm.core.problems import CONTENT_TYPE, problem
from farm.core.wakeups import wake_dispatcher
from farm.dispatch import conversation
from farm.dispatch.claims import queue_of
from farm.dispatch.estimates_api import urls as estimates_urls
from farm.dispatch.people import urls as people_urls
from farm.fleet import services as fleet
from farm.fleet.models import Worker
from workers import protocol

MAX_BODY = 8 * 1024 * 1024
M = TypeVar("M")


class NotAWorker(Refusal):
    """This token belongs to no living worker. The machine was ended, or its token replaced: end yourself."""

    code = "not-a-worker"
    status = 401


class MalformedMessage(Refusal):
    """The message is malformed: {why}"""

    code = "malformed-message"
    status = 422


View = Callable[..., HttpResponse]


def _door(view: Callable[..., Any]) -> View:
    """JSON in, JSON out, refusals as problems. Each view opens its own transaction: storage is asked outside of one."""

    @csrf_exempt
    @transaction.non_atomic_requests
    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return JsonResponse(protocol.encode(view(request, *args, **kwargs)))
        except Refusal as refusal:
            return _refused(refusal)
        except DataError as error:  # a number or text that no column takes
            return _refused(MalformedMessage(why=str(error).splitlines()[0]))

    return wrapped


def _refused(refusal: Refusal) -> HttpResponse:
    body = problem(refusal.status, refusal.code, refusal.sentence, params={}, errors=[])
    return HttpResponse(json.dumps(body), status=refusal.status, content_type=CONTENT_TYPE)


def _message(request: HttpRequest, kind: type[M]) -> M:
    if request.method != "POST":
        raise MalformedMessage(why="send it by POST")
    if len(request.body) > MAX_BODY:
        raise MalformedMessage(why=f"it is larger than {MAX_BODY} bytes")
    try:
        return protocol.decode(kind, json.loads(request.body))
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(why=str(error)) from None


def _worker(request: HttpRequest) -> Worker:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    worker = fleet.worker_by_token(token.strip()) if kind.lower() == "bearer" else None
    if worker is None:
        raise NotAWorker
    return worker


@_door
def register(request: HttpRequest) -> protocol.RegisterAnswer:
    """A booted machine exchanges its one-time secret for a token."""
    entered = fleet.register(_message(request, protocol.RegisterRequest), now=timezone.now())
    wake_dispatcher()
    return protocol.RegisterAnswer(
        worker=str(entered.worker.id),
        token=entered.token,
        queue=queue_of(entered.worker.id),
        broker_url=settings.FARM_WORKER_BROKER_URL,
        interval_s=float(protocol.SYNC_INTERVAL_S),
    )


@_door
def sync(request: HttpRequest) -> protocol.SyncAnswer:
    """A worker says all it holds, and hears all it shall hold."""
    return conversation.sync(_worker(request), _message(request, protocol.SyncRequest), now=timezone.now())


@_door
def grants(request: HttpRequest) -> protocol.GrantsAnswer:
    """A worker asks for signed requests."""
    return conversation.grants(_worker(request), _message(request, protocol.GrantsRequest), now=timezone.now())


@_door
def step(request: HttpRequest, step_id: UUID) -> protocol.StepDocument:
    """A worker asks what a step is."""
    return conversation.step_document(_worker(request), step_id)


urls = [*people_urls, *estimates_urls]
worker_urls = [
    path("register", register),
    path("sync", sync),
    path("grants", grants),
    path("steps/<uuid:step_id>", step),
]

"""
`/events`: server-sent events, an ASGI application of its own.

It authorises once, holds no transaction while it streams, and has one database connection for all streams (besides
that of the thread that authorises).
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from django.core.exceptions import SuspiciousOperation
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections, connections
from django.http import HttpResponse

from farm.core.errors import Refusal
from farm.core.problems import UNAVAILABLE, ProblemMiddleware
from farm.notifications.admission import admit, is_own
from farm.notifications.hearing import Ear
from farm.notifications.selectors import horizon, missed
from farm.notifications.streams import Hub, Stream, Ticket

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
T = TypeVar("T")

ADMISSION_S = 20.0  # between two looks at whether who listens still may


class EventsServer:
    """The application: `/events`, and `/healthz` for whoever watches over it."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.ear = Ear(self.hub)
        self._tasks: list[asyncio.Task[None]] = []
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="admission")
        self._asked: dict[Stream, Scope] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    # --- life

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            told = (await receive())["type"]
            if told == "lifespan.startup":
                self._tasks = [asyncio.create_task(act()) for act in (self.ear.run, self._watch)]
            else:
                for stream in self.hub.streams:
                    stream.end()
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                await self._in_thread(connections.close_all)
                self._threads.shutdown()
            await send({"type": f"{told}.complete"})
            if told == "lifespan.shutdown":
                return

    async def _watch(self) -> None:
        """End the streams of those who may no longer listen."""
        while True:
            await asyncio.sleep(ADMISSION_S)
            for stream, scope in list(self._asked.items()):
                try:
                    if not await self._in_thread(_may_still, scope, stream.ticket):
                        stream.end()
                except Exception:  # a bug; whose right cannot be told hears nothing more
                    logger.exception("could not tell whether a stream may go on")
                    stream.end()

    # --- one request

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _request(scope)
        if scope["path"] == "/healthz":
            await _whole(send, HttpResponse(json.dumps(self.health()), content_type="application/json"), {})
        elif scope["path"] != "/events" or scope["method"] != "GET":
            await _whole(send, HttpResponse(status=404), {})
        else:
            await self._stream(request, scope, receive, send)

    def health(self) -> dict[str, Any]:
        """Say how this process does."""
        return {"healthy": True, "listening": self.ear.is_listening, "streams": len(self.hub.streams)}

    async def _stream(self, request: ASGIRequest, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = _cors(request)
            ticket = await self._in_thread(admit, request)
            stream = self.hub.open(ticket)
        except (Refusal, SuspiciousOperation, *UNAVAILABLE) as error:
            await _whole(send, _problem(request, error), _cors_or_none(request))
            return
        self._asked[stream] = scope
        try:
            # Only now, when all that changes is heard, what was missed: nothing falls between.
            begun = await self._in_thread(_catch_up, stream, request.headers.get("Last-Event-ID", ""))
            await _send_all(stream, begun, headers, receive, send)
        except UNAVAILABLE as error:
            await _whole(send, _problem(request, error), headers)
        finally:
            self._asked.pop(stream, None)
            self.hub.close(stream)

    async def _in_thread(self, act: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _with_fresh_connection, act, *args)


def _with_fresh_connection(act: Callable[..., T], *args: Any) -> T:
    close_old_connections()
    try:
        return act(*args)
    finally:
        close_old_connections()


def _request(scope: Scope) -> ASGIRequest:
    return ASGIRequest(scope, io.BytesIO())


def _may_still(scope: Scope, ticket: Ticket) -> bool:
    try:
        return admit(_request(scope)) == ticket
    except (Refusal, SuspiciousOperation):
        return False
    except UNAVAILABLE:
        return True  # nothing is said meanwhile either


def _catch_up(stream: Stream, last: str) -> int:
    """Let a stream that was cut off have what it missed; give where it begins."""
    now = horizon()[0]
    if last.isascii() and last.isdigit() and len(last) < 19:
        found = missed(stream.ticket, since=int(last))
        stream.look_again() if found is None else stream.take(found)
    return now


async def _send_all(stream: Stream, begun: int, headers: dict[str, str], receive: Receive, send: Send) -> None:
    gone = asyncio.create_task(_until_gone(receive, stream))
    try:
        told = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", **headers}
        await send({"type": "http.response.start", "status": 200, "headers": _raw(told)})
        async for text in stream.messages(horizon=begun):
            await send({"type": "http.response.body", "body": text, "more_body": True})
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        gone.cancel()


async def _until_gone(receive: Receive, stream: Stream) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.end()


def _cors(request: ASGIRequest) -> dict[str, str]:
    """Let the farm's own pages read the answer, though this is another port."""
    origin = request.headers.get("Origin", "")
    if not origin or not is_own(request, origin):
        return {"Vary": "Origin"}
    return {"Vary": "Origin", "Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true"}


def _cors_or_none(request: ASGIRequest) -> dict[str, str]:
    try:
        return _cors(request)
    except SuspiciousOperation:
        return {}


def _problem(request: ASGIRequest, error: Exception) -> HttpResponse:
    problem = ProblemMiddleware(lambda _: HttpResponse(status=400)).process_exception(request, error)
    return problem or HttpResponse(status=400)


async def _whole(send: Send, response: HttpResponse, more: dict[str, str]) -> None:
    headers = _raw(dict(response.items()) | {"Content-Length": str(len(response.content)), **more})
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

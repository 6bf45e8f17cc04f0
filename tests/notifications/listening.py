"""The events part, run beside a test in a thread of its own, and somebody who listens to it."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from farm.notifications.server import EventsServer


@dataclass(frozen=True)
class Message:
    event: str
    data: Any
    id: int


@dataclass
class Listener:
    """One request to `/events`, and what was answered."""

    loop: asyncio.AbstractEventLoop
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_over: bool = False
    _inbox: queue.Queue[bytes | None] = field(default_factory=queue.Queue)
    _started: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)
    _gone: asyncio.Event = field(default_factory=asyncio.Event)
    _rest: str = ""

    @property
    def problem(self) -> str:
        return str(json.loads(self.body)["code"])

    def next(self, event: str = "", *, within: float = 3.0) -> Message:
        """Give the next message, of one kind if that is said; the others before it are passed over."""
        end = time.monotonic() + within
        while True:
            while "\n\n" in self._rest:
                text, self._rest = self._rest.split("\n\n", 1)
                found = _parse(text)
                if found and event in ("", found.event):
                    return found
            try:
                piece = self._inbox.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {event or 'message'} within {within} s") from None
            assert piece is not None, "the stream has ended"
            self._rest += piece.decode()

    def all(self, *, within: float) -> list[Message]:
        """Give what comes within a time."""
        found = []
        end = time.monotonic() + within
        while (left := end - time.monotonic()) > 0:
            try:
                found.append(self.next(within=left))
            except AssertionError:
                break
        return found

    def leave(self) -> None:
        self.loop.call_soon_threadsafe(self._gone.set)
        assert self._ended.wait(5)

    def wait_for_end(self, within: float) -> None:
        assert self._ended.wait(within), "it goes on"

    # --- the server's side

    async def receive(self) -> MutableMapping[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._started.set()
        else:
            self.body += message["body"]
            self._inbox.put(message["body"])


def _parse(text: str) -> Message | None:
    fields = dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith(":"))
    if "event" not in fields:
        return None
    return Message(fields["event"], json.loads(fields["data"]), int(fields["id"]))


class Events:
    """The events part as it runs."""

    def __init__(self, server: EventsServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server, self.loop = server, loop

    def ask(self, query: str = "", *, path: str = "/events", **headers: str) -> Listener:
        """Ask, and wait for the answer's beginning."""
        listener = Listener(self.loop)
        told = {"host": "127.0.0.1:8781", **{name.lower().replace("_", "-"): value for name, value in headers.items()}}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in told.items()],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 8781),
        }

        async def serve() -> None:
            try:
                await self.server(scope, listener.receive, listener.send)
            finally:
                listener._ended.set()

        asyncio.run_coroutine_threadsafe(serve(), self.loop)
        assert listener._started.wait(10), "no answer"
        return listener

    def listen(self, token: str, query: str = "", **headers: str) -> Listener:
        """Open a stream and hear its beginning."""
        listener = self.ask(query, authorization=f"Bearer {token}", **headers)
        assert listener.status == 200, listener.body
        assert listener.next().event == "hello"
        return listener


@contextmanager
def events_part() -> Iterator[Events]:
    """Run an events part until the end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = EventsServer()
    said: queue.Queue[str] = queue.Queue()
    orders: asyncio.Queue[str] = asyncio.Queue()

    async def receive() -> MutableMapping[str, Any]:
        return {"type": await orders.get()}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.put(message["type"])

    life = asyncio.run_coroutine_threadsafe(server({"type": "lifespan"}, receive, send), loop)
    loop.call_soon_threadsafe(orders.put_nowait, "lifespan.startup")
    assert said.get(timeout=5) == "lifespan.startup.complete"
    end = time.monotonic() + 5
    while not server.ear.is_listening and time.monotonic() < end:
        time.sleep(0.01)
    try:
        yield Events(server, loop)
    finally:
        loop.call_soon_threadsafe(orders.put_nowait, "lifespan.shutdown")
        life.result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()

"""
One farm's address and token, and how it is asked: retries, problems, pages.

A request is repeated only when that cannot do harm: its method is idempotent, it carries an `Idempotency-Key`, the
caller says so, or it never reached the farm.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from farmhand import __version__
from farmhand.errors import AnswerLost, FarmError, NoFarm, Refused, Unreachable

IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
PASSING = frozenset({408, 425, 429, 502, 503, 504})
AWAY = frozenset({502, 503, 504})
BUSY = "idempotency-key-busy"  # its first request is still at work
PAGE = 200
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

Content = bytes | Iterable[bytes]


class BadAddress(Refused):
    """{url!r} is no address of a farm. Give one such as https://farm.example.org."""

    code = "bad-address"


@dataclass(frozen=True)
class Wait:
    """A pause before a request is repeated, and why."""

    seconds: float
    why: str


@dataclass(frozen=True)
class Patience:
    """How often and how long a request is repeated."""

    attempts: int = 7
    first: float = 0.5  # seconds before the second attempt; doubled each time
    longest: float = 20.0
    longest_asked: float = 120.0  # the longest wait that the farm may ask for

    def pause(self, attempt: int, asked: float | None, *, jitter: float) -> float:
        """Give the seconds to wait after attempt number `attempt` (from 0); `jitter` is between 0 and 1."""
        if asked is not None:
            return min(asked, self.longest_asked) + jitter * self.first
        return min(self.longest, self.first * 2.0**attempt) * (0.5 + jitter / 2)


def no_matter(wait: Wait) -> None:
    """Let a wait pass in silence."""


class Connection:
    """HTTP to one farm. Threads may share it."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        patience: Patience | None = None,
        timeout: float = 60.0,
        on_wait: Callable[[Wait], None] = no_matter,
        connections: int = 24,
    ) -> None:
        """:raises BadAddress: the address is none of HTTP"""
        self.url = checked_address(url)
        self.patience = patience or Patience()
        self.on_wait = on_wait
        self._stop = threading.Event()
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        times = httpx.Timeout(timeout, connect=10.0)
        said = {"User-Agent": f"farmhand/{__version__}"}
        trusted = httpx.create_ssl_context()  # takes a while to make, so both clients have the same
        try:
            asks = {"Authorization": f"Bearer {token}", "Accept": "application/json", **said} if token else said
            self._farm = httpx.Client(headers=asks, timeout=times, limits=limits, verify=trusted)
            # Signed requests carry their own permission; the token never goes to a store.
            self._store = httpx.Client(headers=said, timeout=times, limits=limits, verify=trusted)
        except UnicodeEncodeError:
            raise FarmError("not-authenticated", "The token has letters no token has. Copy it anew.") from None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def close(self) -> None:
        self._farm.close()
        self._store.close()

    def give_up(self) -> None:
        """End all waits between attempts: what fails from now on fails at once."""
        self._stop.set()

    # --- the API

    def get(self, path: str, **query: Any) -> Any:
        return self.json("GET", path, query=query)

    def post(self, path: str, body: Any = None, *, key: str = "", repeatable: bool = False) -> Any:
        return self.json("POST", path, body=body, key=key, repeatable=repeatable)

    def pages(self, path: str, *, after: str | None = None, **query: Any) -> Iterator[Any]:
        """Give all rows of a list, or those after one, page by page as they are asked for."""
        cursor = after
        while True:
            answer = self.get(path, limit=PAGE, cursor=cursor, **query)
            yield from answer["results"]
            cursor = answer["next"]
            if cursor is None:
                return

    def json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str = "",
        repeatable: bool = False,
    ) -> Any:
        """
        Ask the API and give its answer.

        :raises FarmError: the farm refused
        :raises Unreachable: it did not answer, however often it was asked
        :raises AnswerLost: the request may have been carried out, and repeating it could do harm
        :raises NoFarm: something else answers there
        """
        answer = self.ask(method, path, query=query, body=body, key=key, repeatable=repeatable)
        if answer.status_code == 204:
            return None
        try:
            return answer.json()
        except ValueError:
            kind = answer.headers.get("Content-Type", "no type")
            raise NoFarm(url=self.url, why=f"{method} {path} was answered with {kind}") from None

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str = "",
        repeatable: bool = False,
    ) -> httpx.Response:
        """Ask the API and give the whole response, of which the status is below 300; refusals as in `json`."""
        headers = {"Idempotency-Key": key} if key else {}
        params = {name: value for name, value in (query or {}).items() if value is not None}

        def send() -> httpx.Response:
            return self._farm.request(
                method, f"{self.url}/api/v1{path}", params=params or None, json=body, headers=headers
            )

        may_repeat = repeatable or bool(key) or method in IDEMPOTENT
        answer = self._insist(send, may_repeat=may_repeat, what=f"{method} {path}")
        if answer.status_code >= 300:
            raise self._refusal(answer)
        return answer

    # --- signed requests

    def send_signed(self, method: str, url: str, headers: Mapping[str, str], content: Content) -> httpx.Response:
        """Send a signed request once; its answer may be a refusal."""
        return self._store.request(method, self.absolute(url), headers=dict(headers), content=cast(Any, content))

    def stream_signed(self, url: str, headers: Mapping[str, str]) -> Any:
        """Begin to fetch a signed address, once; use it as `with connection.stream_signed(…) as response`."""
        return self._store.stream("GET", self.absolute(url), headers=dict(headers))

    def absolute(self, url: str) -> str:
        """Give the whole of an address that may be below the farm's own."""
        return f"{self.url}{url}" if url.startswith("/") else url

    def pause(self, attempt: int, why: str, *, asked: float | None = None) -> None:
        """Wait as long as is due after an attempt, and say so."""
        seconds = self.patience.pause(attempt, asked, jitter=random.random())
        self.on_wait(Wait(seconds, why))
        self._stop.wait(seconds)

    # --- repeating

    def _insist(self, send: Callable[[], httpx.Response], *, may_repeat: bool, what: str) -> httpx.Response:
        for attempt in range(self.patience.attempts):
            last = attempt == self.patience.attempts - 1 or self._stop.is_set()
            try:
                answer = send()
            except httpx.TransportError as error:
                never_sent = isinstance(error, NEVER_SENT)
                if not never_sent and not may_repeat:
                    raise AnswerLost(url=self.url, what=what) from error
                if last:
                    raise Unreachable(url=self.url, why=reason(error)) from error
                self.pause(attempt, reason(error))
                continue
            except httpx.InvalidURL as error:
                raise BadAddress(url=self.url) from error
            if last or not _passes(answer, may_repeat=may_repeat):
                return answer
            self.pause(attempt, _said(answer), asked=retry_after(answer, now=time.time()))
        raise AssertionError("the last attempt returns or raises")

    def _refusal(self, answer: httpx.Response) -> Exception:
        problem = problem_of(answer)
        if answer.status_code in AWAY:
            return Unreachable(url=self.url, why=problem.get("detail") or f"status {answer.status_code}")
        if 300 <= answer.status_code < 400:
            return NoFarm(url=self.url, why=f"it points to {answer.headers.get('Location', 'another address')}")
        if not problem:
            return NoFarm(url=self.url, why=f"status {answer.status_code} without an explanation")
        return FarmError(
            str(problem.get("code", "refused")),
            str(problem.get("detail", "")),
            problem.get("errors", ()),
            status=answer.status_code,
            params=problem.get("params"),
        )


def checked_address(url: str) -> str:
    """
    Give a farm's address in its plain form.

    :raises BadAddress: it is none of HTTP, or carries a password, a query or a fragment
    """
    try:
        parts = urlsplit(url.strip())
        good = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or 1)
    except ValueError:
        raise BadAddress(url=url) from None
    if not good or parts.username or parts.query or parts.fragment:
        raise BadAddress(url=url)
    return url.strip().rstrip("/")


def new_key() -> str:
    """Make a key under which a request is carried out at most once."""
    return uuid.uuid4().hex


def reason(error: httpx.TransportError) -> str:
    """Say in a few words why nothing came back."""
    if isinstance(error, httpx.TimeoutException):
        return "nothing came back in time"
    if isinstance(error, httpx.ConnectError):
        return "no connection" if not str(error) else f"no connection ({str(error).removeprefix('[Errno -2] ')})"
    return "the line broke" if not str(error) else f"the line broke ({error})"


def retry_after(answer: httpx.Response, *, now: float) -> float | None:
    """Give the seconds that the answer asks to wait, as it names them or a moment; None when it asks nothing."""
    text = answer.headers.get("Retry-After", "").strip()
    if text.isdecimal() and text.isascii():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return max(0.0, moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now)


def problem_of(answer: httpx.Response) -> dict[str, Any]:
    """Give the problem that an answer states; {} when it states none."""
    try:
        body = answer.json()
    except (ValueError, httpx.ResponseNotRead):
        return {}
    return body if isinstance(body, dict) and "code" in body else {}


def _passes(answer: httpx.Response, *, may_repeat: bool) -> bool:
    """Say whether the answer may be another one if the request is repeated, and repeating does no harm."""
    if answer.status_code == 429:
        return True  # refused before anything was done
    if answer.status_code == 409:
        return problem_of(answer).get("code") == BUSY
    return answer.status_code in PASSING and may_repeat


def _said(answer: httpx.Response) -> str:
    return problem_of(answer).get("detail") or f"the farm answered with status {answer.status_code}"

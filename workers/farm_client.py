"""The four calls a worker makes to its farm: register, sync, grants, steps/{id}."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, TypeVar

import httpx

from workers.protocol import (
    GrantsAnswer,
    GrantsRequest,
    Malformed,
    RegisterAnswer,
    RegisterRequest,
    StepDocument,
    SyncAnswer,
    SyncRequest,
    decode,
    encode,
)

T = TypeVar("T")
BASE = "/worker/v1"
FINAL = {409, 410, 426}
TIMEOUT = httpx.Timeout(connect=5, read=20, write=20, pool=20)


class FarmUnreachable(Exception):
    """The farm did not answer ({why}); it is asked again."""

    def __init__(self, why: str) -> None:
        super().__init__((self.__doc__ or "").format(why=why))


class TokenRefused(Exception):
    """The farm no longer accepts this worker's token: {why}. The agent ends; start a new one with a new secret."""

    def __init__(self, why: str) -> None:
        super().__init__((self.__doc__ or "").format(why=why))


class FarmRefuses(Exception):
    """The farm refuses this worker ({code}): {sentence}"""

    def __init__(self, code: str, sentence: str, *, is_final: bool = False) -> None:
        super().__init__((self.__doc__ or "").format(code=code, sentence=sentence))
        self.code = code
        self.sentence = sentence
        self.is_final = is_final  # this worker is not wanted any more


class FarmClient:
    """Speaks to one farm with one token; safe to use from several threads."""

    def __init__(self, farm: str) -> None:
        self.farm = farm
        self._http = httpx.Client(base_url=farm, timeout=TIMEOUT, follow_redirects=False, trust_env=False)

    def register(self, request: RegisterRequest) -> RegisterAnswer:
        """Exchange the one-time secret for a token; all later calls carry it."""
        answer = self._ask(RegisterAnswer, "POST", "/register", encode(request))
        self._http.headers["Authorization"] = f"Bearer {answer.token}"
        return answer

    def sync(self, request: SyncRequest) -> SyncAnswer:
        """Say what this worker holds and hear what it shall hold."""
        return self._ask(SyncAnswer, "POST", "/sync", encode(request))

    def grants(self, request: GrantsRequest) -> GrantsAnswer:
        """Ask for signed download and upload requests."""
        return self._ask(GrantsAnswer, "POST", "/grants", encode(request))

    def step(self, step: str) -> StepDocument:
        """Fetch what is needed to run a step's tasks; it never changes."""
        return self._ask(StepDocument, "GET", f"/steps/{step}", None)

    def close(self) -> None:
        self._http.close()

    def _ask(self, kind: type[T], method: str, path: str, body: Any) -> T:
        """
        Make one call; only a well-formed 200 is a success.

        :raises FarmUnreachable: no answer, or none that makes sense; ask again
        :raises TokenRefused: 401
        :raises FarmRefuses: any other refusal, with the farm's own sentence
        """
        try:
            answer = self._http.request(method, BASE + path, json=body)
        except httpx.HTTPError as error:
            raise FarmUnreachable(f"{type(error).__name__}: {error}") from error
        if answer.status_code == 200:
            return _parse(kind, answer)
        if answer.status_code == 401:
            raise TokenRefused(_sentence(answer))
        if 400 <= answer.status_code < 500 and answer.status_code not in (408, 425, 429):
            raise FarmRefuses(_code(answer), _sentence(answer), is_final=answer.status_code in FINAL)
        raise FarmUnreachable(f"HTTP {answer.status_code}")


def pauses(*, first: float = 0.25, limit: float = 15.0) -> Iterator[float]:
    """Give the seconds to wait before each further try: doubling, bounded, with jitter, for ever."""
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(limit, pause * 2)


def _parse(kind: type[T], answer: httpx.Response) -> T:
    try:
        return decode(kind, answer.json())
    except (ValueError, Malformed) as error:
        raise FarmUnreachable(f"its answer makes no sense: {error}") from error


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        problem = answer.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _code(answer: httpx.Response) -> str:
    return str(_problem(answer).get("code") or f"http-{answer.status_code}")


def _sentence(answer: httpx.Response) -> str:
    problem = _problem(answer)
    return str(problem.get("detail") or problem.get("title") or f"HTTP {answer.status_code}")

"""The table of parts: what runs on one machine, in which order, and how we see that each of it is well."""

import http.client
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from infra.local.environment import external, variables
from infra.local.folder import WEB_PORT, Folder
from infra.local.postgres import Postgres
from infra.local.valkey import Valkey

Command = Sequence[str | Path]


class Stage(IntEnum):
    """A stage starts when all earlier ones are ready, and stops when all later ones have stopped."""

    SERVICES = 1
    MIGRATION = 2
    WEB = 3
    WORK = 4


class NotWell(Exception):
    """A part runs and does not answer as it should."""


@dataclass(frozen=True)
class Part:
    """One process that the supervisor keeps alive, or, if `once`, runs to its end."""

    name: str
    stage: Stage
    command: Callable[[], Command]
    env: Mapping[str, str]
    prepare: Callable[[], None] = lambda: None
    check: Callable[[], None] | None = None  # raises when the part is not well; without: well when it stays alive
    once: bool = False
    last_wish: signal.Signals = signal.SIGTERM  # ends it gracefully
    patience: float = 10.0  # seconds it may take for that
    hung_after: float | None = None  # seconds without an answer after which it is started anew


@dataclass(frozen=True)
class Layout:
    """All parts of one farm and the variables they share."""

    parts: Sequence[Part]
    variables: Mapping[str, str]


def lay_out(folder: Folder, *, only_services: bool = False, throwaway: bool = False) -> Layout:
    """
    Decide what runs, on which ports. A service whose address is in our own environment is somebody else's.

    :raises folder.NoFreePort: no port is free
    """
    postgres = None if external("database") else Postgres(folder, folder.choose_port("postgres"), throwaway)
    valkey = None if external("broker") else Valkey(folder, folder.choose_port("valkey"))
    wanted = int(os.environ.get("FARM_PORT") or 0) or folder.known_port("web") or WEB_PORT
    port = wanted if only_services else folder.choose_port("web", first=wanted)
    events = 0 if only_services else folder.choose_port("events")
    shared = variables(folder, postgres=postgres, valkey=valkey, port=port, events=events)
    parts = list(_services(postgres, valkey))
    if not only_services:
        parts += _farm(folder, os.environ | shared, port, events)
    return Layout(parts, shared)


def _services(postgres: Postgres | None, valkey: Valkey | None) -> Sequence[Part]:
    parts = []
    if postgres:
        parts += [
            Part(
                "postgres", Stage.SERVICES, postgres.command, postgres.env,
                prepare=postgres.prepare, check=postgres.check, last_wish=signal.SIGINT, patience=30,
            )
        ]  # fmt: skip
    if valkey:
        parts += [
            Part("valkey", Stage.SERVICES, valkey.command, valkey.env, prepare=valkey.prepare, check=valkey.check)
        ]
    return parts


def _farm(folder: Folder, env: Mapping[str, str], port: int, events: int) -> Sequence[Part]:
    python = Path(sys.executable)
    manage: Command = (python, "manage.py")
    celery: Command = (python, "-m", "celery", "-A", "farm")
    granian: Command = (python.with_name("granian"), "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port))
    uvicorn: Command = (python.with_name("uvicorn"), "--host", "127.0.0.1", "--port", str(events))
    quiet = (
        "--no-access-log",
        "--no-server-header",
        "--no-proxy-headers",
        "--lifespan",
        "on",
        "--timeout-graceful-shutdown",
        "3",
    )
    size = ("--workers", "2", "--blocking-threads", "12", "--backlog", "1024")
    worker = ("--loglevel", "INFO", "--concurrency", "2")
    beat = ("--loglevel", "INFO", "--schedule", folder.run / "beat-schedule", "--pidfile", "")
    return [
        Part("migrate", Stage.MIGRATION, lambda: [*manage, "migrate", "--noinput"], env, once=True),
        Part(
            "web", Stage.WEB, lambda: [*granian, *size, "farm.wsgi:application"], env,
            check=lambda: _answers(f"http://127.0.0.1:{port}/healthz"), hung_after=60,
        ),
        Part(
            "events", Stage.WEB, lambda: [*uvicorn, *quiet, "farm.asgi:application"], env,
            check=lambda: _answers(f"http://127.0.0.1:{events}/healthz"), hung_after=60,
        ),
        Part("dispatcher", Stage.WORK, lambda: [*manage, "dispatcher"], env),
        Part("celery", Stage.WORK, lambda: [*celery, "worker", *worker], env, patience=25),
        Part("beat", Stage.WORK, lambda: [*celery, "beat", *beat], env),
    ]  # fmt: skip


def _answers(address: str) -> None:
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            answer.read()
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise NotWell(f"{address}: {error}") from error

"""The variables that all processes of the farm get, and which services are somebody else's."""

import os
from collections.abc import Mapping
from pathlib import Path

from infra.local.folder import ROOT, Folder
from infra.local.postgres import Postgres
from infra.local.valkey import Valkey

# Names the services below that this supervisor runs itself. A shell that took over `make env` would otherwise make
# the next `make up` believe that database and broker are external ones.
EMBEDDED = "FARM_EMBEDDED"


def external(service: str) -> str:
    """The address of a service that is not ours to start ("database", "broker", "storage"), or nothing."""
    if service in os.environ.get(EMBEDDED, "").split():
        return ""
    return os.environ.get(f"FARM_{service.upper()}_URL", "")


def variables(
    folder: Folder, *, postgres: Postgres | None, valkey: Valkey | None, port: int, events: int
) -> Mapping[str, str]:
    """What `make env` prints: enough to run any part of the farm, or the tests, by hand."""
    return {
        EMBEDDED: " ".join(["storage"] + ["database"] * bool(postgres) + ["broker"] * bool(valkey)),
        "FARM_DATA": str(folder.path),
        "FARM_URL": os.environ.get("FARM_PUBLIC_URL") or f"http://127.0.0.1:{port}",
        "FARM_EVENTS_ORIGINS": _events_origins(events),
        "FARM_SECRET_KEY": folder.secret("secret_key"),
        "FARM_STORAGE_URL": external("storage") or (folder.path / "store").as_uri(),
        "FARM_AGENT_PYTHON": str(ROOT / ".venvs/agent/bin/python"),
        **_database(postgres),
        **_broker(valkey),
        **_renderer(),
    }


def _events_origins(port: int) -> str:
    """Where browsers find `/events`. Whoever has a proxy before the farm routes the path to the port instead."""
    if not port or os.environ.get("FARM_PUBLIC_URL"):
        return os.environ.get("FARM_EVENTS_ORIGINS", "")
    return ",".join(f"http://{host}:{port}" for host in ("127.0.0.1", "localhost"))


def _database(postgres: Postgres | None) -> Mapping[str, str]:
    ours = postgres.url("farm") if postgres else external("database")
    owner = postgres.url("farm_owner") if postgres else os.environ.get("FARM_DATABASE_OWNER_URL") or ours
    return {"FARM_DATABASE_URL": ours, "FARM_DATABASE_OWNER_URL": owner}


def _broker(valkey: Valkey | None) -> Mapping[str, str]:
    ours = valkey.url("farm") if valkey else external("broker")
    workers = valkey.url("worker") if valkey else os.environ.get("FARM_WORKER_BROKER_URL") or ours
    return {"FARM_BROKER_URL": ours, "FARM_WORKER_BROKER_URL": workers}


def _renderer() -> Mapping[str, str]:
    """A Blender that a person brings goes before the module that we bring."""
    if blender := os.environ.get("FARM_BLENDER"):
        return {"FARM_BLENDER": str(Path(blender).absolute())}
    return {"FARM_RENDERER_PYTHON": str(ROOT / ".venvs/renderer/bin/python")}

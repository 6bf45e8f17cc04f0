"""What a person or a machine image says when it starts an agent: command line first, FARMHAND_* environment second."""

from __future__ import annotations

import argparse
import dataclasses
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path


class SecretUnreadable(Exception):
    """The secret file {path} cannot be read: {why}. Name the file the farm wrote for this machine."""

    def __init__(self, *, path: str, why: str) -> None:
        super().__init__((self.__doc__ or "").format(path=path, why=why))


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """The settings of one agent; `secret` is the one-time secret, never shown and never passed on."""

    farm: str
    secret: str = dataclasses.field(repr=False)
    work: Path
    machine_id: str
    slots: int | None = None  # None: one per GPU, or one
    cache_gib: float = 50.0
    trust_scenes: bool = False
    renderer_python: Path | None = None
    blender: Path | None = None
    grace_s: float = 20.0
    max_lifetime_s: float | None = None
    registered_file: Path | None = None  # made once the farm has taken the machine in
    session_idle_s: float = 60.0
    spot: str | None = None
    spot_url: str = "http://169.254.169.254"
    silence_s: float = 900.0  # without contact for so long: starts nothing more
    delivery_s: float = 3600.0  # and tries to deliver for so long after that


def parse_settings(argv: Sequence[str], environ: Mapping[str, str]) -> AgentSettings:
    """
    Read the agent's settings.

    :raises SecretUnreadable: the secret file is missing, unreadable or empty
    """
    given = _parser(environ).parse_args(argv)
    return AgentSettings(
        farm=given.farm.rstrip("/"),
        secret=_read_secret(given.secret_file),
        work=Path(given.work).absolute(),
        machine_id=given.machine_id or socket.gethostname(),
        slots=given.slots,
        cache_gib=given.cache_gib,
        trust_scenes=given.trust_scenes,
        renderer_python=_path(given.renderer_python),
        blender=_path(given.blender),
        grace_s=given.grace,
        max_lifetime_s=given.max_lifetime,
        registered_file=_path(given.registered_file),
        session_idle_s=given.session_idle,
        spot=given.spot,
        spot_url=given.spot_url,
        silence_s=given.silence,
        delivery_s=given.delivery,
    )


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """Build the parser; an option `--cache-gib` may also be given as FARMHAND_CACHE_GIB."""
    parser = argparse.ArgumentParser(prog="farmhand-agent", description="Render for a Farmhand farm on this machine.")

    def option(flag: str, *, required: bool = False, **rest: object) -> None:
        name = "FARMHAND_" + flag.lstrip("-").replace("-", "_").upper()
        default = environ.get(name, rest.pop("default", None))
        parser.add_argument(flag, default=default, required=required and default is None, **rest)  # type: ignore[arg-type]

    option("--farm", required=True, metavar="URL", help="address of the farm")
    option("--secret-file", required=True, metavar="FILE", help="file with the one-time secret of this machine")
    option("--work", required=True, metavar="DIR", help="folder for cache, scenes and results")
    option("--machine-id", metavar="ID", help="the provider's id of this machine (default: host name)")
    option("--slots", type=_count, metavar="N", help="slots to offer (default: one per GPU, or one)")
    option("--cache-gib", type=float, default="50", metavar="G", help="limit of the disk cache")
    option("--renderer-python", metavar="P", help="a Python that has bpy")
    option("--blender", metavar="B", help="a Blender binary")
    option("--grace", type=float, default="20", metavar="S", help="seconds to finish in after SIGTERM")
    option("--max-lifetime", type=float, metavar="S", help="drain after so many seconds")
    option("--registered-file", metavar="FILE", help="make this file once the farm has taken the machine in")
    option("--session-idle", type=float, default="60", metavar="S", help="leave a session after so long without work")
    option("--spot", choices=["ec2"], help="watch for this provider's interruption notice")
    option("--spot-url", default="http://169.254.169.254", metavar="URL", help="address of the metadata service")
    option("--silence", type=float, default="900", metavar="S", help="start nothing more after so long without contact")
    option("--delivery", type=float, default="3600", metavar="S", help="then try to deliver for so long")
    parser.add_argument(
        "--trust-scenes",
        action="store_true",
        default=environ.get("FARMHAND_TRUST_SCENES") == "1",
        help="run although no sandbox holds: scenes can then read and change everything this user can",
    )
    return parser


def _count(text: str) -> int:
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least one")
    return count


def _read_secret(name: str) -> str:
    try:
        secret = Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretUnreadable(path=name, why=str(error)) from error
    if not secret:
        raise SecretUnreadable(path=name, why="it is empty")
    return secret


def _path(name: str | None) -> Path | None:
    return Path(name).absolute() if name else None  # links stay: an environment's Python is one

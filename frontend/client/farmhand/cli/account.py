"""`farmhand login`, `whoami`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Annotated
from urllib.parse import urlsplit

import typer

from farmhand.cli.session import Json, session
from farmhand.connection import checked_address
from farmhand.errors import FarmhandError
from farmhand.farm import Farm
from farmhand.profiles import DEFAULT_URL, Profile, keep_profile, read_profile

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def login(
    url: Annotated[str, typer.Option(help="The farm's address.", show_default=False)] = "",
    token: Annotated[
        str,
        typer.Option(
            metavar="-", help="`-` reads the token from standard input; without it you are asked.", show_default=False
        ),
    ] = "",
    project: Annotated[
        str, typer.Option(help="The project to use unless a command names one.", show_default=False)
    ] = "",
    as_json: Json = False,
) -> None:
    """
    Keep the address and an API token of a farm, once they are tried.

    The token is asked for, or read from standard input with `--token -`; it is never part of the command line, where
    other users of this machine could read it.
    """
    terminal = session.begin(as_json=as_json)
    if token not in {"", "-"}:
        raise typer.BadParameter(
            "a token on the command line can be read by others; use `--token -`", param_hint="--token"
        )
    address = checked_address(url or _known_url() or typer.prompt("Address of the farm", default=DEFAULT_URL, err=True))
    if urlsplit(address).scheme == "http" and urlsplit(address).hostname not in LOCAL:
        terminal.warn(f"{address} is not encrypted: whoever sees the line sees the token. Use https if there is one.")
    text = _read_token(token)
    with Farm(address, text, on_wait=terminal.on_wait) as farm:
        me = farm.me()
        chosen = farm.project(project)["name"] if project else ""
    path = keep_profile(Profile(session.profile_name or "default", address, text, chosen))
    terminal.give({**me, "url": address, "profile": session.profile_name or "default"})
    terminal.say(f"Logged in to {address} as {me['user']} of {me['studio']}.")
    terminal.tell(f"Kept in {path}, which only you can read.", style="dim")
    terminal.next_steps(("farmhand scene push FOLDER", "send a scene"))


def whoami(as_json: Json = False) -> None:
    """Say which farm and studio this is, and what the token may do."""
    terminal = session.begin(as_json=as_json)
    farm = session.farm()
    me = farm.me()
    projects = list(farm.projects())
    terminal.give({**me, "url": farm.url, "projects": projects})
    terminal.say(f"{me['user']} of {me['studio']} at {farm.url}")
    terminal.say(f"projects  {', '.join(project['name'] for project in projects) or 'none'}")
    terminal.say(f"currency  {me['currency']}")
    terminal.say(f"may       {', '.join(me['scopes'])}")


def _known_url() -> str:
    """Give the address that the environment names or that was used before, if there is one."""
    if named := os.environ.get("FARMHAND_URL"):
        return named
    try:
        known = read_profile(session.profile_name)
    except FarmhandError:
        return ""
    return known.url if known != replace(known, url=DEFAULT_URL) or known.token else ""


def _read_token(wish: str) -> str:
    text = (
        sys.stdin.readline()
        if wish == "-" or not sys.stdin.isatty()
        else typer.prompt("Token", hide_input=True, err=True)
    )
    if not text.strip():
        raise typer.BadParameter("no token was given", param_hint="--token")
    return str(text).strip()

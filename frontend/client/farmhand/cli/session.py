"""What every command needs: the terminal, the profile, the farm; and what a person may do about a refusal."""

from __future__ import annotations

from typing import Annotated

import typer

from farmhand.cli.terminal import Terminal
from farmhand.errors import FarmError
from farmhand.farm import Farm
from farmhand.profiles import Profile, is_readable_by_others, read_profile, recall, remember

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.", show_default=False)]
JobId = Annotated[
    str, typer.Argument(metavar="JOB", help="A job's id, the beginning of one, or `last`.", show_default=False)
]
VersionId = Annotated[
    str,
    typer.Argument(
        metavar="VERSION",
        help="A scene version's id, the beginning of one, a scene's name (its latest version), or `last`.",
        show_default=False,
    ),
]


class Session:
    """One run of the command line."""

    def __init__(self) -> None:
        self.terminal = Terminal()
        self.profile_name = ""
        self._farm: Farm | None = None

    def begin(self, *, as_json: bool) -> Terminal:
        self.terminal.as_json = as_json
        return self.terminal

    def profile(self) -> Profile:
        return read_profile(self.profile_name)

    def farm(self) -> Farm:
        """Give the farm, as the profile or the environment names it."""
        if self._farm is None:
            profile = self.profile()
            if is_readable_by_others():
                self.terminal.warn("Your settings with their token can be read by others; log in again to mend that.")
            self._farm = Farm(profile.url, profile.require_token(), on_wait=self.terminal.on_wait)
        return self._farm

    def close(self) -> None:
        if self._farm is not None:
            self._farm.close()
        self._farm = None

    # --- ids

    def job(self, wanted: str) -> str:
        farm = self.farm()
        found = farm.find_job(wanted, last=recall(farm.url, "job"))
        remember(farm.url, "job", found)
        return found

    def version(self, wanted: str) -> str:
        farm = self.farm()
        found = farm.find_version(wanted, last=recall(farm.url, "version"))
        remember(farm.url, "version", found)
        return found


session = Session()

# What the command line can add to a refusal: its own way to do what is asked for. Keys are the farm's codes, and what a
# scene's report calls its problems.
HINTS = {
    "authentication-failed": "`farmhand login` takes a new token.",
    "eevee_needs_gpu": "Add -p Engine=CYCLES; with -p Samples=16 it is quick.",
    "engine-needs-gpu": "Add -p Engine=CYCLES; with -p Samples=16 it is quick.",
    "missing_files": "Push the whole folder (`farmhand scene push FOLDER --entry FILE`), or add --allow-missing.",
    "no_camera": "Add -p Camera=NAME or -p Scene=NAME; `farmhand scene report` lists them.",
    "not-authenticated": "`farmhand login` takes a token.",
    "outside_files": "Push the folder above (`farmhand scene push FOLDER --entry FILE`), or add --allow-missing.",
    "renderer-newer": "Add --accept-newer to agree.",
    "report-missing": "`farmhand scene report VERSION --wait` waits for it.",
    "scene-not-inspected": "`farmhand scene report VERSION --wait` waits for the report.",
    "scene-not-whole": "`farmhand scene push` the folder again; what is there already is not sent twice.",
    "unknown_engine": "Add -p Engine=CYCLES.",
}


def hints_for(error: FarmError) -> list[str]:
    """Give what the command line can add to a refusal, each once."""
    said = [error.problem(), *error.errors]
    keys = [str(key) for one in said for key in (one["code"], (one.get("params") or {}).get("problem"))]
    return list(dict.fromkeys(HINTS[key] for key in keys if key in HINTS))

"""The lock files in requirements/: how each is made, and whether it still says what the pyproject files ask for."""

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".venvs/boot/bin/uv"
FARM = "pyproject.toml"
AGENT = "workers/pyproject.toml"
CLIENT = "frontend/client/pyproject.toml"
STAMP = "# inputs: sha256:"


@dataclass(frozen=True)
class Lock:
    """One file in requirements/ and what goes into it."""

    name: str
    projects: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    python: str = "3.11"  # the oldest it must work with
    follows: str = ""  # the lock whose versions it shares, so that tests run what people run

    @property
    def path(self) -> Path:
        return ROOT / "requirements" / f"{self.name}.txt"


LOCKS = (
    Lock("boot", groups=("boot",)),
    Lock("node", groups=("node",)),
    Lock("dev", projects=(FARM, AGENT, CLIENT), extras=("local",), groups=("build", "dev")),
    Lock("farm", projects=(FARM, CLIENT), extras=("local",), groups=("build",), follows="dev"),
    Lock("agent", projects=(AGENT,), groups=("build",), follows="dev"),
    Lock("renderer-py311", groups=("renderer-py311",)),
    Lock("renderer-py313", groups=("renderer-py313",), python="3.13"),
)


def read_project(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text())


def wanted(lock: Lock) -> dict[str, Any]:
    """Everything that decides a lock's content, as the pyproject files say it today."""
    groups = read_project(FARM)["dependency-groups"]
    projects = {path: read_project(path)["project"] for path in lock.projects}
    return {
        "python": lock.python,
        "requires": {path: project["requires-python"] for path, project in projects.items()},
        "dependencies": {path: project["dependencies"] for path, project in projects.items()},
        "extras": {extra: read_project(FARM)["project"]["optional-dependencies"][extra] for extra in lock.extras},
        "groups": {group: groups[group] for group in lock.groups},
    }


def stamp(lock: Lock) -> str:
    return STAMP + hashlib.sha256(json.dumps(wanted(lock), sort_keys=True).encode()).hexdigest()


def stale(locks: Sequence[Lock] = LOCKS) -> list[str]:
    """Name the lock files that are absent or older than what the pyproject files ask for."""
    return [lock.name for lock in locks if not lock.path.exists() or stamp(lock) not in lock.path.read_text()]


def compile_lock(lock: Lock, *, upgrade: bool) -> None:
    """Resolve one lock for all platforms, with hashes and without naming where the packages came from."""
    command: list[str | Path] = [
        UV,
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--generate-hashes",
        "--fork-strategy",
        "fewest",
    ]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--no-header", "--python-version", lock.python]
    command += ["--output-file", lock.path, *lock.projects]
    command += [f"--extra={extra}" for extra in lock.extras] + [f"--group={group}" for group in lock.groups]
    command += ["--constraints", f"requirements/{lock.follows}.txt"] if lock.follows else []
    command += ["--upgrade"] if upgrade else []

    subprocess.run(command, cwd=ROOT, check=True)

    lock.path.write_text(f"# Made by `make lock`; do not edit.\n{stamp(lock)}\n{lock.path.read_text()}")


def main(arguments: Sequence[str]) -> int:
    if "--check" in arguments:
        if names := stale():
            print(f"Out of date: requirements/ {', '.join(names)}. Run `make lock` and commit what it writes.")
        return 1 if names else 0
    for lock in LOCKS:
        compile_lock(lock, upgrade=bool(os.environ.get("UPGRADE")))
        print(f"requirements/{lock.name}.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

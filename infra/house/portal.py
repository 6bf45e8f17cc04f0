"""The browser portal: its packages from the lock, its build, its checks: `-m infra.house.portal build|check|test`."""

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from infra.house.environments import ENVIRONMENTS, ROOT

PORTAL = ROOT / "frontend/portal"
PACKAGES = PORTAL / "node_modules"
BUILT = PORTAL / "dist"
DOCUMENT = ROOT / "frontend/openapi.json"
STAMP = ".made-from"
LOCKED = ("package.json", "package-lock.json")
NOT_SOURCE = {"node_modules", "dist", "test-results"}


def digest(files: Iterable[Path]) -> str:
    """Everything that should make us do it anew, as one line."""
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(f"{path.relative_to(ROOT)} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def sources() -> list[Path]:
    """What the build is made from; the generated types follow from the document."""
    tops = [path for path in PORTAL.iterdir() if path.name not in NOT_SOURCE]
    found = [file for top in tops for file in ([top] if top.is_file() else top.rglob("*")) if file.is_file()]
    return [DOCUMENT, *(path for path in found if path.name != "schema.d.ts")]


def is_current(folder: Path, made_from: str) -> bool:
    stamp = folder / STAMP
    return stamp.exists() and stamp.read_text() == made_from


NODE = ENVIRONMENTS["node"].folder / "bin"  # its own, so that a machine needs Python only


def node_variables() -> dict[str, str]:
    """Give the variables that Node's programs run with."""
    # A user's npm settings for building from source are nothing to us, and npm warns of them.
    own = {name: value for name, value in os.environ.items() if not name.lower().startswith("npm_config_nodedir")}
    return own | {"PATH": f"{NODE}:{os.environ['PATH']}", "CI": "1"}


def node(*command: str) -> int:
    """Run one of Node's programs in the portal's folder."""
    return subprocess.run([NODE / command[0], *command[1:]], cwd=PORTAL, env=node_variables(), check=False).returncode


def install() -> int:
    """Bring node_modules to what the lock says; no package runs a script of its own."""
    made_from = digest(PORTAL / name for name in LOCKED)
    if is_current(PACKAGES, made_from):
        return 0
    print("Making frontend/portal/node_modules from package-lock.json", flush=True)
    if failed := node("npm", "ci", "--ignore-scripts", "--no-progress", "--loglevel=error"):
        return failed
    (PACKAGES / STAMP).write_text(made_from)
    return 0


def build() -> int:
    """Build the portal, if what it is made from changed."""
    made_from = digest(sources())
    if is_current(BUILT, made_from):
        return 0
    if failed := install():
        return failed
    print("Building the portal in frontend/portal/dist", flush=True)
    if failed := node("npm", "run", "--silent", "build"):
        return failed
    (BUILT / STAMP).write_text(made_from)
    return 0


def check() -> int:
    return install() or node("npm", "run", "--silent", "check")


def test() -> int:
    return install() or node("npm", "run", "--silent", "test")


ACTS = {"build": build, "check": check, "test": test}


def main(arguments: Sequence[str]) -> int:
    (ROOT / ".venvs").mkdir(exist_ok=True)
    with (ROOT / ".venvs/.portal-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once build one portal, not half of two
        return ACTS[arguments[0]]()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

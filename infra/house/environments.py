"""The environments in .venvs/: one for each kind of process, made from its lock and stamped with what made it."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENVS = ROOT / ".venvs"
UV = VENVS / "boot/bin/uv"
STAMP = ".made-from"


@dataclass(frozen=True)
class Environment:
    """A folder under .venvs, the lock it holds and the parts of this checkout that are installed in place."""

    name: str
    lock: str
    local: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return VENVS / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"


BOOT = Environment("boot", "boot")
ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        BOOT,
        Environment("node", "node"),
        Environment("farm", "farm", local=("workers", "frontend/client")),
        Environment("agent", "agent", local=("workers",)),
        Environment("renderer", f"renderer-py{sys.version_info.major}{sys.version_info.minor}"),
        Environment("dev", "dev", local=("workers", "frontend/client")),
    )
}


def made_from(environment: Environment) -> str:
    """Everything that should make us build an environment anew, as one line."""
    inputs = [ROOT / "requirements" / f"{environment.lock}.txt"]
    inputs += [ROOT / part / "pyproject.toml" for part in environment.local]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()
    return f"{digest} {sys.version.split()[0]} {ROOT}\n"


def stamp(environment: Environment) -> str:
    """What the environment was made from; nothing if it is absent, broken or half made."""
    path = environment.folder / STAMP
    return path.read_text() if path.exists() and environment.python.exists() else ""


def is_current(environment: Environment) -> bool:
    return stamp(environment) == made_from(environment)


def is_same_python(environment: Environment) -> bool:
    """Whether the folder can be kept and only its packages changed."""
    return stamp(environment).split()[1:] == made_from(environment).split()[1:]


def make_boot() -> None:
    """The one environment that pip makes: it holds uv, which makes the others."""
    if BOOT.folder.exists():
        shutil.rmtree(BOOT.folder)
    venv.create(BOOT.folder, with_pip=True, symlinks=True)
    pip: list[str | Path] = [
        BOOT.python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-warn-script-location",
    ]
    subprocess.run([*pip, "--require-hashes", "-r", ROOT / "requirements/boot.txt"], check=True)


def make(environment: Environment) -> None:
    """Bring an environment to exactly what its lock says, no package more."""
    if not is_same_python(environment):
        run_uv("venv", "--clear", "--python", sys.executable, environment.folder)
    lock = ROOT / "requirements" / f"{environment.lock}.txt"
    (environment.folder / STAMP).unlink(missing_ok=True)
    # Compiled ahead: the sandbox sees the environment read-only and could keep nothing it compiles.
    run_uv("pip", "sync", "--require-hashes", "--compile-bytecode", "--python", environment.python, lock)
    for part in environment.local:
        in_place = ("--no-deps", "--no-build-isolation", "--editable", ROOT / part)
        run_uv("pip", "install", "--python", environment.python, *in_place)


def run_uv(*arguments: str | Path) -> None:
    settings = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
    subprocess.run([UV, "--quiet", *arguments], check=True, env=os.environ | settings)


def bring_up_to_date(environment: Environment) -> None:
    if is_current(environment):
        return
    print(f"Making .venvs/{environment.name} from requirements/{environment.lock}.txt", flush=True)
    make_boot() if environment is BOOT else make(environment)
    (environment.folder / STAMP).write_text(made_from(environment))


def main(names: Sequence[str]) -> int:
    VENVS.mkdir(exist_ok=True)
    with (VENVS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once build one environment, not half of two
        bring_up_to_date(BOOT)
        for name in names:
            bring_up_to_date(ENVIRONMENTS[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

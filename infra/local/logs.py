"""Log files that stay small. The parts append to them and never reopen them, so a full one is copied and emptied."""

import os
import shutil
from pathlib import Path

LIMIT = 10 * 2**20
KEPT = 3


def keep_small(folder: Path, *, limit: int = LIMIT) -> None:
    for log in folder.glob("*.log"):
        if log.stat().st_size > limit:
            _turn(log)


def _turn(log: Path) -> None:
    for number in range(KEPT - 1, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)


def last_lines(log: Path, count: int = 15) -> str:
    """The end of a log, for a person who must know why something did not start."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 16_384))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-count:])

"""Processes of this farm that nobody looks after: left by a killed supervisor, or started by a part that has ended."""

import signal
import time
from collections.abc import Collection

from infra.local.folder import Folder
from infra.local.process import Process, find_marked
from infra.local.state import read_report

PATIENCE = 10.0  # seconds to finish by themselves


def find_strays(folder: Folder, *, besides: Collection[int] = ()) -> list[Process]:
    """All processes of a farm except the given ones and what descends from them."""
    # Some programs write over their environment and with it over the marker; the report knows these by their number.
    report = read_report(folder)
    reported = [part.process for part in report.parts if part.process.is_alive()] if report else []
    return [
        process
        for process in {*reported, *find_marked(folder.marker)}
        if process.pid not in besides and not any(pid in besides for pid in process.ancestors())
    ]


def end_strays(folder: Folder, *, besides: Collection[int] = (), patience: float = PATIENCE) -> int:
    """Ask the outermost strays to end, kill what is left after a while, and say how many there were."""
    strays = find_strays(folder, besides=besides)
    numbers = {process.pid for process in strays}
    for process in strays:
        if next(process.ancestors(), 0) not in numbers:  # it ends its own children better than we could
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)  # a paused one could not hear

    deadline = time.monotonic() + patience
    while (left := find_strays(folder, besides=besides)) and time.monotonic() < deadline:
        time.sleep(0.1)
    while left:  # again and again: a dying parent may have had time for one more child
        for process in left:
            process.send(signal.SIGKILL)
        time.sleep(0.05)
        left = find_strays(folder, besides=besides)
    return len(strays)

"""Processes of this farm that nobody looks after: left by a killed supervisor, or started by a part that has ended."""

import signal
import time
from collections.abc import Collection

from infra.local.process import Process, find_marked

PATIENCE = 10.0  # seconds to finish by themselves


def find_strays(marker: str, *, besides: Collection[int] = ()) -> list[Process]:
    """All marked processes except the given ones and what descends from them."""
    return [
        process
        for process in find_marked(marker)
        if process.pid not in besides and not any(pid in besides for pid in process.ancestors())
    ]


def end_strays(marker: str, *, besides: Collection[int] = (), patience: float = PATIENCE) -> int:
    """Ask the outermost strays to end, kill what is left after a while, and say how many there were."""
    strays = find_strays(marker, besides=besides)
    numbers = {process.pid for process in strays}
    for process in strays:
        if next(process.ancestors(), 0) not in numbers:  # it ends its own children better than we could
            process.send(signal.SIGTERM)

    deadline = time.monotonic() + patience
    while (left := find_strays(marker, besides=besides)) and time.monotonic() < deadline:
        time.sleep(0.1)
    while left:  # again and again: a dying parent may have had time for one more child
        for process in left:
            process.send(signal.SIGKILL)
        time.sleep(0.05)
        left = find_strays(marker, besides=besides)
    return len(strays)

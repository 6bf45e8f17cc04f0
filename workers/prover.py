"""Provers kept warm: each a sandboxed `prove.py` that serves one studio and dies with its first strange image."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import queue
import shutil
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workers.causes import AttemptFailed
from workers.protocol import Cause
from workers.sandbox import LIB, Enclosure, Mount, Plan

COMMAND = ("/farmhand/bin/python3", "-m", "workers.prove")
MEMORY_MIB = 3072
HEADER_S = 10.0  # of processor time, as is what follows: a prover steps back behind the renderers
SECONDS_PER_MEGAPIXEL = 0.5
PATIENCE = 20  # times as long by the clock
LINE_LIMIT = 64 * 1024


@dataclasses.dataclass(frozen=True)
class Proof:
    """What is known of a file that proved good; `made` are its previews, below the prover's folder of made files."""

    facts: Mapping[str, Any]
    made: Sequence[Mapping[str, Any]]


class ProverDied(Exception):
    """{name} cannot be examined: {why}. Render the frame again."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__((self.__doc__ or "").format(name=name, why=why))


class Prover:
    """One process in one sandbox; it proves one attempt at a time."""

    def __init__(
        self, folder: Path, mounts: Sequence[Mount], enclosure: Enclosure, *, number: int, studio: str
    ) -> None:
        self.studio = studio
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        self._in, self._made = folder / "in", folder / "made"
        for place in (self._in, self._made):
            place.mkdir(parents=True)
        own = [Mount(self._in, "/in"), Mount(self._made, "/made", writable=True)]
        self._tree = enclosure.start(
            Plan(
                name=f"prover{number}",
                command=[*COMMAND, "/in", "/made"],
                mounts=[*mounts, *own],
                environment={"PYTHONPATH": LIB, "OPENBLAS_NUM_THREADS": "1"},
                memory_mib=MEMORY_MIB,
                tmp_mib=64,
            )
        )
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, name=f"prover{number}-pipe", daemon=True).start()

    @contextlib.contextmanager
    def showing(self, files: Path) -> Iterator[None]:
        """Move an attempt's files to where this prover, and no other, sees them; then back."""
        shown = self._in / "files"
        files.rename(shown)
        try:
            yield
        finally:
            shown.rename(files)

    def prove(self, file: str, order: Mapping[str, Any], *, name: str) -> Proof:
        """
        Prove one of the files shown; `name` is what people call it.

        :raises AttemptFailed: it is not as ordered
        :raises ProverDied: the prover cannot go on
        """
        with contextlib.suppress(OSError, ValueError):
            self._tree.stdin.write(json.dumps({**order, "name": f"files/{file}", "preview": file}).encode() + b"\n")
            self._tree.stdin.flush()
        answer = self._hear(name, HEADER_S)
        if "megapixels" in answer:
            answer = self._hear(name, HEADER_S + SECONDS_PER_MEGAPIXEL * float(answer["megapixels"]))
        if "proof" in answer:
            facts = dict(answer["proof"])
            return Proof(facts, facts.pop("made", []))
        cause = Cause.DISK_FULL if answer.get("cause") == Cause.DISK_FULL else Cause.BAD_OUTPUT
        raise AttemptFailed(cause, f"{name} is not a good file: {answer.get('sentence')}. Render the frame again.")

    def take_made(self, name: str, target: Path) -> None:
        """Move a made file out; it must be a plain file."""
        (self._made / name).rename(target)
        if not stat.S_ISREG(target.lstat().st_mode):
            target.unlink()
            raise ProverDied(name, "its preview is no plain file")

    def _hear(self, name: str, seconds: float) -> dict[str, Any]:
        answer = self._await(name, seconds)
        if answer is None:
            is_large = self._tree.limits.had_oom_kill()
            raise ProverDied(name, "it needs too much memory" if is_large else "its decoder crashed")
        return answer

    def _await(self, name: str, seconds: float) -> dict[str, Any] | None:
        """Wait for the next answer, None if none comes; once it is late, it may take so much processor time more."""
        began: float | None = None
        for _ in range(PATIENCE):
            with contextlib.suppress(queue.Empty):
                return self._answers.get(timeout=seconds)
            used = self._tree.use().cpu_s
            began = used if began is None else began
            if used - began > seconds:
                break
        raise ProverDied(name, "it takes too long")

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := self._tree.stdout.readline(LINE_LIMIT):
                answer = json.loads(line)
                if not isinstance(answer, dict):
                    break
                self._answers.put(answer)
        self._answers.put(None)

    def close(self) -> None:
        self._tree.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Provers:
    """A few provers, lent to one attempt at a time; none ever serves a second studio."""

    def __init__(self, folder: Path, mounts: Sequence[Mount], enclosure: Enclosure, *, limit: int) -> None:
        self._folder = folder
        self._enclosure = enclosure
        self._mounts = mounts
        self._free = threading.Semaphore(limit)
        self._limit = limit
        self._idle: list[Prover] = []
        self._lock = threading.Lock()
        self._number = 0

    @contextlib.contextmanager
    def lend(self, studio: str) -> Iterator[Prover]:
        """Lend a prover of this studio; one that died or was interrupted is not lent again."""
        with self._free:
            prover = self._take(studio)
            try:
                yield prover
            except AttemptFailed:
                self._give_back(prover)
                raise
            except BaseException:
                prover.close()
                raise
            self._give_back(prover)

    def warm_up(self, studio: str) -> None:
        """Start a prover that will soon be needed, if none is at hand."""
        with self._lock:
            if any(prover.studio == studio for prover in self._idle) or len(self._idle) >= self._limit:
                return
        with self.lend(studio):
            pass

    def close(self) -> None:
        with self._lock:
            for prover in self._idle:
                prover.close()
            self._idle.clear()

    def _take(self, studio: str) -> Prover:
        with self._lock:
            for prover in self._idle:
                if prover.studio == studio:
                    self._idle.remove(prover)
                    return prover
            if len(self._idle) >= self._limit:
                self._idle.pop(0).close()
            self._number += 1
            number = self._number
        return Prover(self._folder / str(number), self._mounts, self._enclosure, number=number, studio=studio)

    def _give_back(self, prover: Prover) -> None:
        with self._lock:
            self._idle.append(prover)
            surplus = self._idle.pop(0) if len(self._idle) > self._limit else None
        if surplus is not None:
            surplus.close()

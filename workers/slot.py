"""One slot: a thread that runs its attempts one after the other, in sessions that outlive them."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path

from workers import causes
from workers.attempts import Attempts, Held, Stop
from workers.cache import Cache, CacheTooSmall, ManifestRefused, windows_sources
from workers.causes import AttemptFailed, Evidence
from workers.farm_client import FarmRefuses, TokenRefused
from workers.finish import Finisher, Stopped, free_mib
from workers.gpu import Gpu
from workers.limits import Use
from workers.protocol import Cause, Outcome, Phase, StepDocument, TaskParameter, encode
from workers.renderer import Renderer
from workers.rooms import Room, Rooms
from workers.sandbox import Enclosure, SandboxUnusable, SourceNotAllowed
from workers.session_pipe import Said, SessionPipe
from workers.transfer import Abandoned, Inputs, TransferFailed, Transfers

LOG = logging.getLogger("farmhand.slot")
LOOK_S = 1.0
TOGETHER_S = 1.0  # a start waits so long, to be told in one round with the end before it
LEAVE_S = 15.0
IDLE_CPU = 0.02  # of one core: less is no progress


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workplace:
    """What all slots of an agent share."""

    folder: Path
    attempts: Attempts
    cache: Cache
    transfers: Transfers
    finisher: Finisher
    renderer: Renderer
    enclosure: Enclosure
    memory_mib: int  # of one slot
    session_idle_s: float
    wake: Callable[[float], None]  # have the farm told within so many seconds
    may_start: Callable[[], bool]


@dataclasses.dataclass
class Entered:
    """A session that was entered: which step's, in which room, on which scene."""

    step: str
    room: Room
    keep: contextlib.ExitStack

    @property
    def pipe(self) -> SessionPipe:
        return self.room.pipe


class Slot(threading.Thread):
    """Holds a queue of attempts; the first of them runs."""

    def __init__(self, index: int, gpu: Gpu, place: Workplace) -> None:
        super().__init__(name=f"slot{index}", daemon=True)
        self.index = index
        self.gpu = gpu
        self._place = place
        self._queue: deque[Held] = deque()
        self._changed = threading.Condition()
        self._current: Held | None = None
        self._session: Entered | None = None
        self._ending = False
        self._rooms = Rooms(
            f"slot{index}",
            place.folder / "slots" / str(index),
            gpu=gpu,
            renderer=place.renderer,
            enclosure=place.enclosure,
            memory_mib=place.memory_mib,
        )
        self._render_times: deque[float] = deque(maxlen=20)

    # --- from other threads ---

    @property
    def step(self) -> str | None:
        """The step whose session is entered."""
        session = self._session
        return session.step if session is not None else None

    @property
    def current(self) -> Held | None:
        return self._current

    def assign(self, held: Held) -> None:
        """Queue an attempt and start fetching what it needs."""
        held.phase = Phase.FETCHING
        fetch = self._place.transfers.inputs(held.assignment.step)
        fetch.add_done_callback(lambda _: _fetched(held))
        with self._changed:
            self._queue.append(held)
            self._changed.notify()

    def stop(self, held: Held) -> None:
        """Stop an attempt that has an order to stop, if it is here; what runs of it is killed."""
        with self._changed:
            is_waiting = held in self._queue
            if is_waiting:
                self._queue.remove(held)
        if is_waiting:
            self._place.finisher.stopped(held)
        elif held is self._current and (session := self._session) is not None:
            session.pipe.poke()

    def waiting(self) -> list[Held]:
        """List the attempts that have not been started."""
        with self._changed:
            return list(self._queue)

    @property
    def is_served(self) -> bool:
        """Say whether another attempt waits behind the one that runs: nobody stands idle if a further one is late."""
        with self._changed:
            return self._current is not None and bool(self._queue)

    @property
    def predicted_s(self) -> float | None:
        """How long the next frame will take, by the median of the latest."""
        times = sorted(self._render_times)
        return times[len(times) // 2] if times else None

    def end(self) -> None:
        """Let the thread end after what it does now; whatever runs is killed."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        if (session := self._session) is not None:
            session.pipe.close()

    # --- the thread ---

    def run(self) -> None:
        while not self._ending:
            if self._session is None and not self._queue:
                self._get_ready()
            held = self._next()
            if held is not None:
                self._serve(held)
                self._current = None
            elif not self._ending:
                self._leave()
        self._drop()
        self._rooms.close()

    def _next(self) -> Held | None:
        """Wait for an attempt; None when a session waited too long or the slot ends."""
        patience = self._place.session_idle_s if self._session is not None else None
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._ending, patience)
            if self._ending or not self._queue:
                return None
            self._current = self._queue.popleft()
            return self._current

    def _serve(self, held: Held) -> None:
        """Run one attempt and hand it to the finisher, whatever becomes of it."""
        finisher = self._place.finisher
        try:
            rendered = self._render(held)
        except Stopped:
            if held.phase is Phase.RUNNING:
                self._drop()
            finisher.stopped(held)
        except Abandoned:
            self._drop()
        except AttemptFailed as failure:
            if held.phase is Phase.RUNNING:
                self._leave()
            finisher.failed(held, failure)
        except Exception as error:
            LOG.exception("slot %s: attempt %s", self.index, held.id)
            self._drop()
            finisher.failed(held, self._explain(error))
        else:
            finisher.rendered(held, studio=rendered.studio, saw_no_space=rendered.saw_no_space)

    def _explain(self, error: Exception) -> AttemptFailed:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return causes.disk_full(free_mib(self._place.folder))
        return AttemptFailed(Cause.AGENT_ERROR, causes.MISTAKE)

    def _render(self, held: Held) -> _Rendered:
        inputs = self._await_inputs(held)
        self._check_may_run(held, inputs.document)
        evidence = Evidence()
        session = self._enter(held, inputs, evidence)
        self._run_task(held, session, inputs.document, evidence)
        held.results.mkdir()
        _move_all(session.room.out, held.results)
        return _Rendered(studio=inputs.document.studio, saw_no_space=evidence.saw_no_space)

    def _await_inputs(self, held: Held) -> Inputs:
        fetch = self._place.transfers.inputs(held.assignment.step)
        while True:
            _check_stop(held)
            try:
                return fetch.result(timeout=0.25)
            except NotYet:
                if fetch.done():
                    raise
            except (TransferFailed, FarmRefuses, CacheTooSmall, ManifestRefused, SourceNotAllowed, OSError) as error:
                raise _fetch_failure(error, self._place.folder) from error
            except TokenRefused as error:
                raise Abandoned from error

    def _check_may_run(self, held: Held, document: StepDocument) -> None:
        if not self._place.may_start():
            held.order_stop(
                Stop(Outcome.INTERRUPTED, Cause.INTERRUPTED, "The worker ends and did not start this frame.")
            )
            raise Stopped
        if document.needs_gpu and not self.gpu.model:
            raise causes.no_gpu("")
        for name, version in document.software.items():
            offered = self._place.renderer.software.get(name, [])
            if not any(v == version or v.startswith(version + ".") for v in offered):
                raise AttemptFailed(
                    Cause.AGENT_ERROR,
                    f"The task wants {name} {version} and this worker offers {', '.join(offered) or 'none'}.",
                )

    # --- sessions ---

    def _enter(self, held: Held, inputs: Inputs, evidence: Evidence) -> Entered:
        """Give the session of the attempt's step, entering it unless it is entered already."""
        if self._session is not None and self._session.step == inputs.document.step:
            return self._session
        self._leave()
        held.phase = Phase.RUNNING
        self._place.wake(0.0)
        self._render_times.clear()
        began = time.monotonic()
        try:
            session = self._open(held, inputs)
            self._place.finisher.expect(inputs.document.studio)
            session.pipe.order("enter", **_session_order(inputs.document, session))
            said = self._hear_end(held, session, evidence)
        finally:
            held.setup_ms = round((time.monotonic() - began) * 1000)
        self._check_success(held, session, said, evidence, during="starting up")
        return session

    def _open(self, held: Held, inputs: Inputs) -> Entered:
        with contextlib.ExitStack() as keep:
            layout = keep.enter_context(self._place.cache.in_use(inputs.layout))
            try:
                room = self._rooms.open(layout, memory_mib=held.assignment.memory_mib)
            except SandboxUnusable as error:
                raise AttemptFailed(Cause.SANDBOX_FAILED, f"{error} The frame is rendered elsewhere.") from error
            except SourceNotAllowed as error:
                raise AttemptFailed(Cause.MISSING_ASSET, str(error)) from error
            keep.callback(room.close)
            self._session = Entered(step=inputs.document.step, room=room, keep=keep.pop_all())
        return self._session

    def _get_ready(self) -> None:
        """Keep a room ready for the next session; it is a help, not a need."""
        try:
            self._rooms.get_ready()
        except (SandboxUnusable, OSError) as error:
            LOG.warning("slot %s has no room ready: %s", self.index, error)

    def _leave(self) -> None:
        """Leave the session in order, if it still follows, and give everything back."""
        session = self._session
        if session is not None and session.pipe.tree.is_running:
            session.pipe.order("leave")
            deadline = time.monotonic() + LEAVE_S
            while (left := deadline - time.monotonic()) > 0:
                said = session.pipe.hear(left)
                if said is None or said.kind in ("ended", "gone"):
                    break
        self._drop()

    def _drop(self) -> None:
        """Kill the session's tree and give everything back."""
        session, self._session = self._session, None
        if session is not None:
            session.keep.close()

    # --- tasks ---

    def _run_task(self, held: Held, session: Entered, document: StepDocument, evidence: Evidence) -> None:
        held.start_clock()
        self._place.wake(TOGETHER_S if self._is_finishing_another(held) else 0.0)
        try:
            folders = [str(Path(_placed(document, name, session).value).parent) for name in document.output_paths]
            session.pipe.order("run", parameters=encode(held.assignment.parameters), folders=folders)
            said = self._hear_end(held, session, evidence)
        finally:
            held.stop_clock()
            held.device = evidence.device
        held.peak_memory_mib = max(held.peak_memory_mib, session.pipe.use().peak_mib)
        self._check_success(held, session, said, evidence, during="rendering")
        if document.needs_gpu and evidence.device.upper().startswith("CPU"):
            raise causes.no_gpu(evidence.device)
        self._render_times.append(held.render_ms / 1000)

    def _is_finishing_another(self, held: Held) -> bool:
        """Say whether the frame before is being proved and sent: its end will be told in a moment."""
        others = (other for other in self._place.attempts.all() if other is not held)
        return any(o.phase is Phase.RUNNING and o.assignment.slot == self.index for o in others)

    def _hear_end(self, held: Held, session: Entered, evidence: Evidence) -> Said:
        """
        Listen until the present order has ended, watching over it meanwhile.

        :raises Stopped: the attempt is to be stopped
        :raises AttemptFailed: a limit was reached; the session is dead then
        """
        watch = _Watch(held, session, self.gpu, self._place.folder)
        while True:
            said = session.pipe.hear(LOOK_S)
            _check_stop(held)
            if said is not None and said.kind == "log":
                held.log.write(said.text)
                evidence.read(said.text)
                watch.heard()
            elif said is not None and said.kind == "progress":
                held.progress = said.value
                watch.heard()
            elif said is not None and said.kind in ("ended", "gone"):
                return said
            try:
                watch.look()
            except AttemptFailed:
                self._drop()
                raise

    def _check_success(self, held: Held, session: Entered, said: Said, evidence: Evidence, *, during: str) -> None:
        """
        :raises AttemptFailed: the action did not succeed; what the agent saw itself goes before what it was told
        """
        claimed = causes.claimed_failure(evidence)
        is_full = (free := free_mib(self._place.folder)) < _reserve_mib(self._place.folder)
        if said.kind == "ended" and said.state == "success" and claimed is None and not is_full:
            return
        if session.pipe.tree.limits.had_oom_kill():
            limit = self._rooms.limit(held.assignment.memory_mib)
            raise causes.out_of_memory(limit_mib=limit, peak_mib=min(limit, held.peak_memory_mib) or limit)
        if is_full:  # a renderer says that it finished, then
            raise causes.disk_full(free)
        if claimed is not None:
            raise claimed
        if said.kind == "gone":
            if self._ending:
                raise Abandoned
            if (words := session.pipe.tree.last_words).startswith("bwrap:"):
                raise AttemptFailed(Cause.SANDBOX_FAILED, f"The sandbox did not start: {words[:300]}")
            raise AttemptFailed(
                Cause.RENDERER_CRASHED,
                f"The session broke off while {during}; read the end of the log, then retry the frame.",
            )
        if said.state == "error":
            raise AttemptFailed(Cause.AGENT_ERROR, f"The session could not go on while {during}: {said.text[:300]}")
        raise causes.failed_action(exit_code=said.exit_code, message=said.text, during=during)


@dataclasses.dataclass(frozen=True)
class _Rendered:
    studio: str
    saw_no_space: bool


class _Watch:
    """Looks after a running action once a second: time, progress, memory, disk."""

    def __init__(self, held: Held, session: Entered, gpu: Gpu, folder: Path) -> None:
        self._held = held
        self._session = session
        self._gpu = gpu
        self._folder = folder
        self._began = self._moved = self._looked = time.monotonic()
        self._cpu_s = session.pipe.use().cpu_s

    def heard(self) -> None:
        self._moved = time.monotonic()

    def look(self) -> None:
        """:raises AttemptFailed: a limit is reached"""
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        use = self._session.pipe.use()
        self._held.peak_memory_mib = max(self._held.peak_memory_mib, use.peak_mib)
        self._check_progress(use, now)
        self._check_time(now)
        if self._session.pipe.tree.limits.is_exceeded(use):
            raise causes.out_of_memory(
                limit_mib=self._session.pipe.tree.limits.memory_mib, peak_mib=self._held.peak_memory_mib
            )
        if (free := free_mib(self._folder)) < _reserve_mib(self._folder):
            raise causes.disk_full(free)
        self._looked = now

    def _check_progress(self, use: Use, now: float) -> None:
        if abs(use.cpu_s - self._cpu_s) > IDLE_CPU * (now - self._looked) or self._gpu.read().use:
            self._moved = now
        self._cpu_s = use.cpu_s
        limit = self._held.assignment.no_progress_s
        if limit and now - self._moved > limit:
            raise causes.no_progress(limit)

    def _check_time(self, now: float) -> None:
        limit = self._held.assignment.timeout_s
        if limit and now - self._began > limit:
            raise causes.timeout(limit)


def _check_stop(held: Held) -> None:
    if held.stop is not None:
        raise Stopped


def _fetched(held: Held) -> None:
    if held.phase is Phase.FETCHING:
        held.phase = Phase.QUEUED


def _fetch_failure(error: Exception, folder: Path) -> AttemptFailed:
    """Word why a step's inputs could not be had."""
    if isinstance(error, SourceNotAllowed):
        return AttemptFailed(Cause.MISSING_ASSET, str(error))
    if isinstance(error, ManifestRefused):
        return AttemptFailed(Cause.SCENE_UNREADABLE, str(error))
    if isinstance(error, CacheTooSmall):
        return AttemptFailed(Cause.DISK_FULL, str(error))
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return causes.disk_full(free_mib(folder))
    return AttemptFailed(Cause.TRANSFER_FAILED, f"{error} The frame is rendered elsewhere.")


def _session_order(document: StepDocument, session: Entered) -> dict[str, object]:
    return {
        "name": document.name,
        "parameters": encode({name: _placed(document, name, session) for name in document.parameters}),
        "rules": [[source, f"{session.room.scene_seen}/{path}"] for source, path in windows_sources(document.manifest)],
        "environments": document.environments,
        "script": document.script,
        "extensions": document.extensions,
    }


def _placed(document: StepDocument, name: str, session: Entered) -> TaskParameter:
    """Give a job parameter as the session sees it: paths below the scene and the output folder."""
    parameter = document.parameters[name]
    if name in document.input_paths:
        root = session.room.scene_seen
    elif name in document.output_paths:
        root = session.room.out_seen
    else:
        return parameter
    return TaskParameter(type=parameter.type, value=os.path.normpath(f"{root}/{parameter.value}"))


def _reserve_mib(folder: Path) -> int:
    """Room on the disk below which nothing should go on: 256 MiB, less on a tiny disk."""
    disk = os.statvfs(folder)
    return max(1, min(256, (disk.f_blocks * disk.f_frsize >> 20) // 50))


def _move_all(source: Path, target: Path) -> None:
    """Move whatever an attempt left, by name only: nothing is opened, so nothing can trap us."""
    for entry in list(source.iterdir()):
        entry.rename(target / entry.name)

"""The Farmhand agent: registers a machine with its farm and renders what it is assigned, until it is told to end."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import psutil

from workers import __version__
from workers.attempts import Attempts, Held
from workers.cache import Cache
from workers.conversation import Conversation, hand_back, interruption
from workers.escape import find_escapes, listening_port
from workers.farm_client import FarmClient, FarmRefuses, FarmUnreachable, TokenRefused, pauses
from workers.finish import Finisher, send_log
from workers.gpu import Gpu, find_gpus
from workers.limits import remove_leftovers
from workers.messages import Messages
from workers.protocol import LOG_CHUNK_INTERVAL_S, PROTOCOL, TAKEN_BACK, Phase, RegisterAnswer, RegisterRequest
from workers.prover import Provers
from workers.renderer import Renderer, RendererBroken, ask_versions, set_up_launchers
from workers.sandbox import Enclosure, SandboxUnusable
from workers.settings import AgentSettings, SecretUnreadable, parse_settings
from workers.slot import Slot, Workplace
from workers.spot import SpotNotice
from workers.transfer import Transfers

LOG = logging.getLogger("farmhand.agent")
REGISTER_S = 900.0
UPLOAD_S = 10.0  # of a notice, kept for proving and sending
LAST_WORDS_S = 30.0
SPARE_MEMORY_MIB = 1024
AHEAD_S = 2.0  # work for slots that have some waits so long to be heard of
FAILED, UNSAFE, REFUSED = 1, 4, 3


class Unsafe(Exception):
    """
    This machine cannot hold a scene: {why}. Nothing is rendered here. Repair the sandbox, or start the agent with
    --trust-scenes if every scene is your own.
    """

    def __init__(self, why: str) -> None:
        super().__init__(" ".join((self.__doc__ or "").split()).format(why=why))


class Agent:
    """One boot of one machine: one worker of the farm."""

    def __init__(self, settings: AgentSettings) -> None:
        """
        Prepare everything that can be prepared without the farm.

        :raises Unsafe: a scene could escape
        :raises RendererBroken: the renderer does not say its version
        """
        self._settings = settings
        self._ended = threading.Event()
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        settings.work.mkdir(parents=True, exist_ok=True)
        settings.work.chmod(0o700)
        remove_leftovers()
        launchers = set_up_launchers(settings)
        self._enclosure, self._is_safe = choose_enclosure(settings, launchers)
        self._renderer = ask_versions(launchers, settings, self._enclosure)
        self._gpus = choose_slots(settings.slots, find_gpus())
        self._farm = FarmClient(settings.farm)

    def run(self) -> int:
        """Register and work; give the exit code."""
        answer = self._register()
        if answer is None:
            return REFUSED
        LOG.info("worker %s of %s", answer.worker, self._settings.farm)
        if self._settings.registered_file:
            self._settings.registered_file.touch()
        self._build(answer)
        threads = [threading.Thread(target=work, daemon=True) for work in (self._talk, self._send_logs)]
        threads += [
            *self._slots,
            Messages(answer.broker_url, answer.queue, wake=self._ask_for_work, ended=self._ended),
        ]
        if self._settings.spot == "ec2":
            threads.append(SpotNotice(self._settings.spot_url, warn=self._heed_notice, ended=self._ended))
        for thread in threads:
            thread.start()
        self._wait()
        self._close()
        return 0

    def stop(self, number: int) -> None:
        """Take a signal: the first drains, the second ends at once."""
        self._signals.put(number)

    # --- beginning ---

    def _register(self) -> RegisterAnswer | None:
        deadline = time.monotonic() + REGISTER_S
        for pause in pauses():
            try:
                return self._farm.register(self._introduction())
            except FarmUnreachable as error:
                LOG.warning("%s", error)
            except (FarmRefuses, TokenRefused) as error:
                LOG.error("%s", error)
                return None
            if time.monotonic() > deadline or not self._signals.empty():
                LOG.error("the farm at %s did not answer; giving up", self._settings.farm)
                return None
            time.sleep(pause)
        raise AssertionError("pauses never end")

    def _introduction(self) -> RegisterRequest:
        return RegisterRequest(
            secret=self._settings.secret,
            protocol=PROTOCOL,
            boot_id=boot_id(),
            machine_id=self._settings.machine_id,
            agent_version=__version__,
            slots=[gpu.spec(index) for index, gpu in enumerate(self._gpus)],
            cores=psutil.cpu_count() or 1,
            memory_mib=psutil.virtual_memory().total >> 20,
            disk_mib=psutil.disk_usage(str(self._settings.work)).total >> 20,
            software=self._renderer.software,
            sandboxed=self._is_safe,
        )

    def _build(self, answer: RegisterAnswer) -> None:
        settings, work = self._settings, self._settings.work
        self._attempts = Attempts(work / "attempts")
        self._cache = Cache(work / "cache", limit_bytes=round(settings.cache_gib * 1024**3))
        self._transfers = Transfers(self._farm, self._cache, ended=self._ended)
        count = min(4, len(self._gpus))
        self._provers = Provers(work / "provers", self._renderer.agent_mounts, self._enclosure, limit=count)
        self._finisher = Finisher(
            self._attempts, self._transfers, self._provers, threads=count + 1, wake=lambda: self._conversation.wake()
        )
        place = Workplace(
            folder=work,
            attempts=self._attempts,
            cache=self._cache,
            transfers=self._transfers,
            finisher=self._finisher,
            renderer=self._renderer,
            enclosure=self._enclosure,
            memory_mib=slot_memory_mib(len(self._gpus)),
            session_idle_s=settings.session_idle_s,
            wake=lambda within: self._conversation.wake(within=within),
            may_start=lambda: self._conversation.may_start(),
        )
        self._slots = [Slot(index, gpu, place) for index, gpu in enumerate(self._gpus)]
        self._conversation = Conversation(
            self._farm,
            folder=work,
            attempts=self._attempts,
            cache=self._cache,
            slots=self._slots,
            finisher=self._finisher,
            interval_s=answer.interval_s,
            silence_s=settings.silence_s,
            delivery_s=settings.delivery_s,
        )

    # --- working ---

    def _talk(self) -> None:
        try:
            self._conversation.run()
        finally:
            self._ended.set()

    def _ask_for_work(self) -> None:
        """There is work: fetch it at once, or, if every slot has some waiting, with the next thing to be told."""
        self._conversation.wake(within=AHEAD_S if all(slot.is_served for slot in self._slots) else 0.0)

    def _send_logs(self) -> None:
        while not self._ended.wait(LOG_CHUNK_INTERVAL_S):
            for held in self._attempts.all():
                if held.phase is Phase.RUNNING and not held.is_finishing:
                    send_log(self._transfers, held)

    def _wait(self) -> None:
        """Wait for the end, heeding signals and the machine's lifetime."""
        born = time.monotonic()
        lifetime = self._settings.max_lifetime_s
        while not self._ended.wait(0.2):
            with contextlib.suppress(queue.Empty):
                self._signals.get_nowait()
                if self._conversation.is_draining:
                    return
                threading.Thread(target=self._drain, args=("asked to end", self._settings.grace_s), daemon=True).start()
            if lifetime and time.monotonic() - born > lifetime and not self._conversation.is_draining:
                self._conversation.drain("this machine reached its lifetime")

    def _heed_notice(self, seconds: float) -> None:
        self._drain(TAKEN_BACK, max(0.0, seconds - UPLOAD_S))

    def _drain(self, reason: str, seconds: float) -> None:
        """Take nothing more, hand back what waits, finish what can be finished in `seconds`, drop the rest."""
        deadline = time.monotonic() + seconds
        self._conversation.drain(reason)
        for slot in self._slots:
            for held in slot.waiting():
                held.order_stop(hand_back(reason))
                slot.stop(held)
        for slot in self._slots:
            if (running := slot.current) is not None and not _fits(slot, running, seconds):
                _interrupt(slot, running, reason)
        while any(slot.current for slot in self._slots) and time.monotonic() < deadline:
            if self._ended.wait(0.1):
                return
        for slot in self._slots:
            if (running := slot.current) is not None:
                _interrupt(slot, running, reason)
        if not self._ended.wait(max(LAST_WORDS_S, UPLOAD_S)):
            LOG.warning("the farm did not take the last reports in time")
            self._ended.set()

    def _close(self) -> None:
        self._ended.set()
        for slot in self._slots:
            slot.end()
        self._finisher.close()
        self._transfers.close()
        for slot in self._slots:
            slot.join(10)
        self._provers.close()
        self._farm.close()
        LOG.info("ended")


def choose_enclosure(settings: AgentSettings, renderer: Renderer) -> tuple[Enclosure, bool]:
    """
    Test the sandbox; say how scenes are enclosed here, and whether that holds.

    :raises Unsafe: it does not, and nobody said that scenes are trusted
    """
    enclosure = Enclosure()
    try:
        with listening_port() as port:
            escapes = find_escapes(settings.work / "escape", renderer.mounts, port=port)
        why = "a test program could " + ", ".join(escapes) if escapes else ""
    except SandboxUnusable as error:
        why = str(error)
        enclosure = Enclosure(is_sandbox=False)
    if why and not settings.trust_scenes:
        raise Unsafe(why)
    if why:
        LOG.warning("NO SAFE SANDBOX: %s. Scenes run with this user's rights because of --trust-scenes.", why)
    return enclosure, not why


def choose_slots(wanted: int | None, gpus: list[Gpu]) -> list[Gpu]:
    """Give what each slot has: one GPU each; more slots than GPUs are CPU slots."""
    count = wanted if wanted is not None else max(1, len(gpus))
    return [gpus[index] if index < len(gpus) else Gpu() for index in range(count)]


def slot_memory_mib(slots: int) -> int:
    """Share the machine's memory among its slots, some kept for the agent."""
    memory = psutil.virtual_memory()  # others live on this machine too: what they have is not ours to lend
    usable = min(memory.total, memory.available) >> 20
    return max(512, (usable - SPARE_MEMORY_MIB) // slots)


def boot_id() -> str:
    """Name this boot of the agent: the machine's boot, and this start within it."""
    with contextlib.suppress(OSError):
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}/{uuid.uuid4()}"
    return str(uuid.uuid4())


def _fits(slot: Slot, held: Held, seconds: float) -> bool:
    predicted = slot.predicted_s
    return predicted is None or predicted - held.elapsed_ms / 1000 <= seconds


def _interrupt(slot: Slot, held: Held, reason: str) -> None:
    held.order_stop(interruption(reason))
    slot.stop(held)


def main(argv: Sequence[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would write signed addresses
    try:
        settings = parse_settings(sys.argv[1:] if argv is None else argv, os.environ)
        agent = Agent(settings)
    except SecretUnreadable as error:
        LOG.error("%s", error)
        return FAILED
    except (Unsafe, RendererBroken) as error:
        LOG.error("%s", error)
        return UNSAFE
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: agent.stop(received))
    return agent.run()


def run() -> NoReturn:
    """Be an agent and end at once when it is over: all children die with this process, nothing is waited for."""
    code = main()
    logging.shutdown()
    os._exit(code)


if __name__ == "__main__":
    run()

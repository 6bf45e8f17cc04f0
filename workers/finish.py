"""The end of an attempt, off its slot's thread: prove what it left, send it, word the end."""

from __future__ import annotations

import dataclasses
import errno
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from workers.attempts import Attempts, Held, Stop
from workers.causes import MISTAKE, AttemptFailed, disk_full
from workers.collect import Found, collect
from workers.farm_client import FarmRefuses, TokenRefused
from workers.protocol import Cause, End, Outcome, OutputReport, OutputRole, UploadKind
from workers.prover import Proof, Prover, ProverDied, Provers
from workers.transfer import Abandoned, Parcel, TransferFailed, Transfers

LOG = logging.getLogger("farmhand.finish")
LOW_DISK_MIB = 64
IMAGE_FIELDS = ("format", "width", "height", "channels", "bit_depth", "statistics")


class Stopped(Exception):
    """The attempt is to be stopped."""


class Finisher:
    """Proves and sends for all slots; every attempt handed in leaves it ended, or forgotten if the farm wants so."""

    def __init__(
        self, attempts: Attempts, transfers: Transfers, provers: Provers, *, threads: int, wake: Callable[[], None]
    ) -> None:
        self._attempts = attempts
        self._transfers = transfers
        self._provers = provers
        self._wake = wake
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="finish")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def expect(self, studio: str) -> None:
        """Have a prover ready for the first frame of a session that is being entered."""
        self._pool.submit(self._provers.warm_up, studio)

    def rendered(self, held: Held, *, studio: str, saw_no_space: bool) -> None:
        """Take over an attempt that rendered; its results are in its own folder."""
        self._pool.submit(self._guarded, held, lambda: self._prove_and_send(held, studio, saw_no_space))

    def failed(self, held: Held, failure: AttemptFailed) -> None:
        """Take over an attempt that failed: its log is sent, then its end is reported."""
        self._pool.submit(self._guarded, held, lambda: self._fail(held, failure))

    def stopped(self, held: Held) -> None:
        """Take over an attempt that was stopped; nothing of it runs any more."""
        stop = held.stop
        assert stop is not None
        if stop.outcome is None:
            self._attempts.forget(held)
        elif held.log.is_empty:
            self._end_stopped(held, stop.outcome, stop)
        else:
            self._pool.submit(self._end_stopped, held, stop.outcome, stop)

    def _end_stopped(self, held: Held, outcome: Outcome, stop: Stop) -> None:
        self._send_log(held)
        self._attempts.end(held, held.end(outcome=outcome, cause=stop.cause, sentence=stop.sentence))
        self._wake()

    def send_again(self, held: Held) -> None:
        """The farm did not find the outputs in its store: send them again and repeat the end."""
        end = self._attempts.reopen(held)
        self._pool.submit(self._guarded, held, lambda: self._send_outputs_again(held, end))

    def _guarded(self, held: Held, work: Callable[[], None]) -> None:
        """Whatever happens, the attempt ends: a started attempt gets exactly one end."""
        try:
            self._work_or_fail(held, work)
        except Stopped:
            self.stopped(held)
        except (Abandoned, TokenRefused):
            LOG.info("attempt %s is given up: the agent ends", held.id)
        except Exception:
            if held.stop is not None:  # its folder may be gone already
                self.stopped(held)
                return
            LOG.exception("attempt %s could not be finished", held.id)
            self._fail(held, AttemptFailed(Cause.AGENT_ERROR, MISTAKE))

    def _work_or_fail(self, held: Held, work: Callable[[], None]) -> None:
        try:
            work()
        except AttemptFailed as failure:
            self._fail(held, failure)
        except (TransferFailed, FarmRefuses) as error:
            self._fail(held, AttemptFailed(Cause.TRANSFER_FAILED, f"{error} It is rendered again elsewhere."))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self._fail(held, disk_full(free_mib(held.folder)))

    def _fail(self, held: Held, failure: AttemptFailed) -> None:
        shutil.rmtree(held.results, ignore_errors=True)
        held.log.write(f"farmhand: {failure.cause}: {failure.sentence}")
        self._send_log(held)
        end = held.end(outcome=Outcome.FAILED, cause=failure.cause, sentence=failure.sentence)
        self._attempts.end(held, end)
        self._wake()

    def _prove_and_send(self, held: Held, studio: str, saw_no_space: bool) -> None:
        check = _stop_check(held)
        try:
            outputs = self._prove(held, studio, check)
        except AttemptFailed:
            if saw_no_space or free_mib(held.folder) < LOW_DISK_MIB:  # a renderer on a full disk says it finished
                raise disk_full(free_mib(held.folder)) from None
            raise
        self._send_results(held, check)
        end = held.end(outcome=Outcome.SUCCEEDED, cause=None, sentence="")
        self._attempts.end(held, dataclasses.replace(end, outputs=outputs))
        self._wake()

    def _prove(self, held: Held, studio: str, check: Callable[[], None]) -> list[OutputReport]:
        """Prove every file and its previews into being; the attempt's parcels are packed then."""
        files = held.folder / "files"
        found = collect(held.results, files, held.assignment.expected)
        proofs, previews = [], []
        try:
            with self._provers.lend(studio) as prover, prover.showing(files):
                for one in found:
                    check()
                    proofs.append(prover.prove(one.file.name, _order(one), name=one.name))
                    previews += _take_previews(held, prover, one, proofs[-1].made)
        except ProverDied as death:
            raise AttemptFailed(Cause.BAD_OUTPUT, str(death)) from death
        described = [*(_describe(one, proof) for one, proof in zip(found, proofs, strict=True)), *previews]
        held.parcels = [parcel for _, parcel in described]
        return [report for report, _ in described]

    def _send_results(self, held: Held, check: Callable[[], None]) -> None:
        """Send the outputs and, by the same request for grants, the log; trouble with the log is not the outputs'."""
        _close_log(held)
        with held.log.turn:
            log = [] if (chunk := held.log.next_chunk()) is None else [_log_parcel(held, chunk)]
            try:
                self._transfers.send(held.id, [*held.parcels, *log], check=check)
            except (TransferFailed, FarmRefuses) as error:
                if not log:
                    raise
                LOG.warning("outputs and log of attempt %s are sent one by one: %s", held.id, error)
                self._transfers.send(held.id, held.parcels, check=check)
            else:
                if log:
                    held.log.stored()
        send_log(self._transfers, held)

    def _send_log(self, held: Held) -> None:
        _close_log(held)
        send_log(self._transfers, held)

    def _send_outputs_again(self, held: Held, end: End) -> None:
        self._transfers.send(held.id, held.parcels, check=_stop_check(held))
        self._attempts.end(held, end)
        self._wake()


def send_log(transfers: Transfers, held: Held) -> None:
    """Store the log's waiting chunks; what cannot be stored now stays for the next time."""
    try:
        with held.log.turn:
            while (chunk := held.log.next_chunk()) is not None:
                transfers.send(held.id, [_log_parcel(held, chunk)])
                held.log.stored()
    except (TransferFailed, FarmRefuses, TokenRefused, Abandoned, OSError) as error:
        LOG.warning("log of attempt %s is not stored: %s", held.id, error)


def _close_log(held: Held) -> None:
    held.is_finishing = True
    held.log.close()


def _log_parcel(held: Held, chunk: bytes) -> Parcel:
    return Parcel.of_bytes(UploadKind.LOG, str(held.log.chunks_stored), chunk)


def free_mib(folder: Path) -> int:
    """Give the free room on the disk that holds `folder`."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free >> 20


def _stop_check(held: Held) -> Callable[[], None]:
    def check() -> None:
        if held.stop is not None:
            raise Stopped

    return check


def _order(found: Found) -> dict[str, object]:
    expected = found.expected
    return {
        "role": str(expected.role),
        "format": expected.format,
        "width": expected.width,
        "height": expected.height,
        "bit_depth": expected.bit_depth,
        "is_image": found.is_image,
    }


def _describe(found: Found, proof: Proof) -> tuple[OutputReport, Parcel]:
    parcel = Parcel.of_file(UploadKind.OUTPUT, found.name, found.file)
    return _report(parcel, found.expected.role, proof.facts), parcel


def _take_previews(
    held: Held, prover: Prover, found: Found, made: Sequence[Mapping[str, Any]]
) -> list[tuple[OutputReport, Parcel]]:
    """Take the previews of one file over, under the only names they may have."""
    folder = held.folder / "made"
    folder.mkdir(exist_ok=True)
    taken = []
    for facts in made:
        role = OutputRole(facts["role"])
        file = f"{found.file.name}.{role}.jpg"
        prover.take_made(file, folder / file)
        parcel = Parcel.of_file(UploadKind.OUTPUT, f"{found.name}.{role}.jpg", folder / file)
        taken.append((_report(parcel, role, facts), parcel))
    return taken


def _report(parcel: Parcel, role: OutputRole, facts: Mapping[str, Any]) -> OutputReport:
    fields = {name: facts[name] for name in IMAGE_FIELDS if name in facts}
    return OutputReport(name=parcel.name, role=role, size=parcel.size, digest=parcel.digest, **fields)

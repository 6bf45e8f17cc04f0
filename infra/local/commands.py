"""What a person can ask for: up, down, status, env, restart-part, and a command with services of its own."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from infra.local import process
from infra.local.folder import ROOT, Folder
from infra.local.logs import last_lines
from infra.local.refusals import Refusal
from infra.local.state import PartReport, PartState, Report, read_report, read_variables
from infra.local.strays import end_strays

LOOK = 0.05  # seconds between two looks at what the supervisor reports
PATIENCE_UP = 180.0
PATIENCE_DOWN = 90.0


class DoesNotRun(Refusal):
    """Farmhand does not run; `make up` starts it."""


class DidNotStart(Refusal):
    """Farmhand did not start. {failure}\n{log}"""


class TakesTooLong(Refusal):
    """Farmhand was not ready within {seconds:.0f} seconds; `make status` shows what it waits for."""


class NoSuchPart(Refusal):
    """There is no running part called {name}; there are {names}."""


class DoesNotEnd(Refusal):
    """The supervisor (process {pid}) did not end within {seconds:.0f} seconds; its log is {log}."""


def up(folder: Folder, *, only_services: bool) -> int:
    """
    Start a supervisor that stays, and wait until all is well.

    :raises DidNotStart: a part does not start
    :raises TakesTooLong: not all was well in time
    """
    if folder.is_supervised():
        report = await_well(folder)
        print(f"Farmhand already runs: {report.address}")
        return 0
    folder.make()
    with (folder.log / "supervisor.log").open("ab") as log:
        supervisor = spawn(folder, *(["--only", "services"] if only_services else []), output=log.fileno())
    report = await_well(folder, supervisor, tell=print_news())
    print(f"Farmhand runs: {report.address}  (data and logs: {folder.path})")
    return 0


def spawn(folder: Folder, *options: str, output: int, dies_with_us: bool = False) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "infra.local", "run", *options],
        cwd=ROOT,
        env=os.environ | {"FARM_DATA": str(folder.path)},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=process.die_with_parent(signal.SIGTERM) if dies_with_us else None,
    )


def await_well(
    folder: Folder,
    supervisor: "subprocess.Popen[bytes] | None" = None,
    *,
    tell: Callable[[Report], None] = lambda report: None,
) -> Report:
    """
    Wait until everything is ready, following the reports of one supervisor or of whichever works there.

    :raises DidNotStart: the supervisor gave up
    :raises TakesTooLong: not all was well in time
    """
    deadline = time.monotonic() + PATIENCE_UP
    while time.monotonic() < deadline:
        has_ended = supervisor.poll() is not None if supervisor else not folder.is_supervised()
        report = read_report(folder)
        if report and (not supervisor or report.supervisor.pid == supervisor.pid):
            tell(report)
            if report.is_well():
                return report
        if has_ended:
            raise DidNotStart(failure=report.failure if report else "", log=why(folder, report))
        time.sleep(LOOK)
    raise TakesTooLong(seconds=PATIENCE_UP)


def why(folder: Folder, report: Report | None) -> str:
    """The last lines of the logs that tell why a start failed."""
    failed = [part.name for part in report.parts if part.note] if report else []
    return "\n".join(last_lines(folder.log / f"{name}.log") for name in failed or ["supervisor"])


def print_news() -> Callable[[Report], None]:
    """A teller that prints each part once, when it is ready."""
    told: set[str] = set()
    began = time.monotonic()

    def tell(report: Report) -> None:
        for part in report.parts:
            if part.state in {PartState.READY, PartState.DONE} and part.name not in told:
                told.add(part.name)
                print(f"  {part.name:<11} {part.state}  {time.monotonic() - began:.1f} s", flush=True)

    return tell


def down(folder: Folder) -> int:
    """
    End the supervisor and everything it started; also what a killed supervisor left.

    :raises DoesNotEnd: it hangs
    """
    report = read_report(folder)
    if not folder.is_supervised():
        left = end_strays(folder) if report else 0
        print(f"Farmhand did not run; ended {left} processes it had left." if left else "Farmhand does not run.")
        return 0
    assert report
    report.supervisor.send(signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_DOWN
    while folder.is_supervised() or report.supervisor.is_alive():
        if time.monotonic() > deadline:
            raise DoesNotEnd(pid=report.supervisor.pid, seconds=PATIENCE_DOWN, log=folder.log / "supervisor.log")
        time.sleep(LOOK)
    print("Farmhand has stopped.")
    return 0


def status(folder: Folder) -> int:
    """Print a table of the parts; 0 when all is well, 3 when not everything is, 4 when nothing runs."""
    report = read_report(folder)
    if not report or not folder.is_supervised():
        print("Farmhand does not run.")
        return 4
    print(f"Farmhand is {report.state}: {report.address}  (supervisor {report.supervisor.pid}, data {folder.path})")
    print(f"  {'part':<11} {'state':<9} {'process':>8} {'for':>8} {'restarts':>8}")
    for part in report.parts:
        print(f"  {row(part, now=time.time())}".rstrip())
    return 0 if report.is_well() else 3


def row(part: PartReport, *, now: float) -> str:
    age = time.strftime("%H:%M:%S", time.gmtime(min(now - part.since, 359_999)))
    return f"{part.name:<11} {part.state:<9} {part.pid or '-':>8} {age:>8} {part.restarts:>8}  {part.note}"


def env(folder: Folder) -> int:
    """
    Print, as shell commands, the variables of the farm's processes and of `farmhand`, and where the programs are.

    :raises DoesNotRun: it was never started in this folder
    """
    if not (variables := read_variables(folder)):
        raise DoesNotRun
    for name, value in {**variables, "FARMHAND_URL": variables["FARM_URL"]}.items():
        print(f"export {name}={shlex.quote(value)}")
    print(f'export PATH={shlex.quote(str(Path(sys.executable).parent))}:"$PATH"')
    return 0


def restart_part(folder: Folder, name: str) -> int:
    """
    End one part gracefully and wait until the supervisor has started it again.

    :raises DoesNotRun: nothing does
    :raises NoSuchPart: not this one
    :raises TakesTooLong: it was not ready in time
    """
    report = read_report(folder)
    if not report or not folder.is_supervised():
        raise DoesNotRun
    running = {part.name: part for part in report.parts if part.pid}
    if name not in running:
        raise NoSuchPart(name=name, names=", ".join(running))
    old = running[name].process
    old.send(signal.SIGINT if name == "postgres" else signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_UP
    while time.monotonic() < deadline:
        parts = report.parts if (report := read_report(folder)) else []
        if any(part.name == name and part.state is PartState.READY and part.process != old for part in parts):
            print(f"{name} runs again.")
            return 0
        time.sleep(LOOK)
    raise TakesTooLong(seconds=PATIENCE_UP)


def with_services(command: Sequence[str], *, durable: bool = False) -> int:
    """Run a command with a database and a broker of its own, and leave nothing of them."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with (
        tempfile.TemporaryDirectory(prefix="farmhand-") as path,
        services(Folder(Path(path)), durable=durable) as folder,
    ):
        name, marker = folder.marker.split("=", 1)
        return subprocess.call(command, env=os.environ | read_variables(folder) | {name: marker})


@contextlib.contextmanager
def services(folder: Folder, *, durable: bool = False) -> Iterator[Folder]:
    """
    A supervisor of the services alone, for as long as this lasts and no longer than this process.
    Unless `durable` they do not wait for the disk: what survives a killed server need not survive a power cut.

    :raises DidNotStart: one of them does not start
    """
    folder.make()
    with (folder.log / "supervisor.log").open("ab") as log:
        speed = [] if durable else ["--throwaway"]
        supervisor = spawn(folder, "--only", "services", *speed, output=log.fileno(), dies_with_us=True)
    try:
        await_well(folder, supervisor)
        yield folder
    finally:
        supervisor.terminate()
        supervisor.wait(PATIENCE_DOWN)

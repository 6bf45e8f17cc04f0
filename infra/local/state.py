"""What the supervisor says about itself and its parts, for the commands that ask."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from infra.local.folder import Folder, read_json, write_json
from infra.local.process import Process


class PartState(StrEnum):
    WAITING = "waiting"  # for an earlier stage
    STARTING = "starting"
    READY = "ready"
    UNWELL = "unwell"  # it runs and does not answer as it should
    DOWN = "down"  # it ended; it is started again in a moment
    DONE = "done"  # it ran to its end, as it should
    STOPPED = "stopped"


class FarmState(StrEnum):
    STARTING = "starting"
    UP = "up"  # everything was ready once; a part may be unwell
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True)
class PartReport:
    name: str
    state: PartState
    pid: int
    started: int  # clock tick, see `Process`
    since: float  # wall clock
    restarts: int
    note: str

    @property
    def process(self) -> Process:
        return Process(self.pid, self.started)


@dataclass(frozen=True)
class Report:
    """One look at everything."""

    supervisor: Process
    state: FarmState
    address: str
    failure: str
    parts: Sequence[PartReport]

    def is_well(self) -> bool:
        good = {PartState.READY, PartState.DONE}
        return self.state is FarmState.UP and all(part.state in good for part in self.parts)


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def write_report(folder: Folder, report: Report) -> None:
    write_json(folder.run / "state.json", asdict(report) | {"boot": boot()})


def read_report(folder: Folder) -> Report | None:
    """The last report, also of a supervisor that is gone; ask `folder.is_supervised` which it is."""
    if not (content := read_json(folder.run / "state.json")):
        return None
    parts = [PartReport(**(part | {"state": PartState(part["state"])})) for part in content.pop("parts")]
    process = Process(**content.pop("supervisor"))
    if content.pop("boot", "") != boot():  # numbers and ticks began anew since
        return None
    return Report(supervisor=process, state=FarmState(content.pop("state")), parts=parts, **content)


def write_variables(folder: Folder, variables: Mapping[str, str]) -> None:
    write_json(folder.path / "environment.json", variables)


def read_variables(folder: Folder) -> Mapping[str, str]:
    return read_json(folder.path / "environment.json")

"""
A whole farm to be hurt: its own services, web, dispatcher, Celery, beat, and real agents in their sandboxes.

Everything lies in one temporary folder and ends with the test. Tasks are shell commands, so that hundreds of ends take
seconds; what is hurt is real: processes are killed and stopped by their own ids, messages are taken out of the broker.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import redis

ROOT = Path(__file__).resolve().parents[1]
FARM_PYTHON = ROOT / ".venvs/farm/bin/python"
RENDERER_PYTHON = Path(os.environ.get("FARM_RENDERER_PYTHON") or ROOT / ".venvs/renderer/bin/python")

TEMPLATE = """
specificationVersion: jobtemplate-2023-09
name: Sleeping
parameterDefinitions:
- {name: Frames, type: STRING}
- {name: Seconds, type: STRING, default: "1"}
- {name: OutDir, type: PATH, objectType: DIRECTORY, dataFlow: OUT, default: "."}
steps:
- name: Sleep
  parameterSpace:
    taskParameterDefinitions:
    - {name: Frame, type: INT, range: "{{Param.Frames}}"}
  script:
    actions:
      onRun:
        command: sh
        args: [-c, "sleep {{Param.Seconds}}; echo {{Task.Param.Frame}} > '{{Param.OutDir}}/{{Task.Param.Frame}}.txt'"]
"""


def make_sample_scene(folder: Path) -> Path:
    """Have Blender write the sample scene, with its texture, into a folder."""
    blender: list[str | Path] = [RENDERER_PYTHON, "-m", "workers.renderers.blender.bpy_shim", "--background"]
    script: list[str | Path] = ["--python", ROOT / "workers/renderers/blender/sample.py", "--", folder]
    subprocess.run([*blender, *script], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=120)
    return folder


@dataclass(frozen=True)
class Violation:
    """A sentence that must never be true of the farm, and how often it was."""

    what: str
    count: int


# Each counts what must not be. They are run after every fault.
INVARIANTS = {
    "tasks of ended jobs that have not ended": """
        SELECT count(*) FROM jobs_task t JOIN jobs_job j ON j.id = t.job_id
         WHERE j.status IN ('succeeded', 'failed', 'cancelled') AND t.status IN ('ready', 'leased')""",
    "succeeded tasks without exactly one succeeded attempt of their generation": """
        SELECT count(*) FROM jobs_task t WHERE t.status = 'succeeded' AND 1 <> (
            SELECT count(*) FROM dispatch_attempt a
             WHERE a.task_id = t.id AND a.status = 'succeeded' AND a.generation = t.generation)""",
    "succeeded tasks not charged exactly once": """
        SELECT count(*) FROM jobs_task t JOIN jobs_job j ON j.id = t.job_id AND j.purpose = 'render'
         WHERE t.status = 'succeeded' AND 1 <> (
            SELECT count(*) FROM billing_usagefact f
             WHERE f.task = t.id AND f.generation = t.generation AND f.outcome = 'succeeded')""",
    "charges for what did not succeed": """
        SELECT count(*) FROM billing_usagefact
         WHERE outcome IN ('lost', 'interrupted', 'superseded') AND charged_micro > 0""",
    "ledger groups that do not sum to zero": """
        SELECT count(*) FROM (SELECT 1 FROM billing_ledgerentry GROUP BY group_id HAVING sum(amount_micro) <> 0) x""",
    "leases that expired and were not taken back": """
        SELECT count(*) FROM dispatch_attempt
         WHERE status IN ('assigned', 'started') AND lease_until < clock_timestamp() - interval '20 s'""",
    "steps whose counters differ from their tasks": """
        SELECT count(*) FROM jobs_step s JOIN LATERAL (
            SELECT count(*) FILTER (WHERE status = 'pending') p, count(*) FILTER (WHERE status = 'ready') r,
                   count(*) FILTER (WHERE status = 'leased') l, count(*) FILTER (WHERE status = 'succeeded') s,
                   count(*) FILTER (WHERE status = 'failed') f, count(*) FILTER (WHERE status = 'cancelled') c
              FROM jobs_task t WHERE t.step_id = s.id) n ON true
         WHERE (s.pending, s.ready, s.leased, s.succeeded, s.failed, s.cancelled) <> (n.p, n.r, n.l, n.s, n.f, n.c)""",
    "open holds of ended attempts": """
        SELECT count(*) FROM billing_hold h JOIN dispatch_attempt a ON a.id = h.attempt
         WHERE h.status = 'open' AND a.status IN ('succeeded', 'failed', 'interrupted', 'cancelled', 'superseded')""",
}


class Farm:
    """A farm in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Nothing of the test's own services: this farm brings its own.
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("FARM_")} | {"FARM_DATA": str(folder)}
        self.variables: dict[str, str] = {}
        self.client = httpx.Client()
        self.project = ""
        self.token = ""

    # --- life

    def up(self) -> None:
        self._local("up", timeout=240)
        self.variables = json.loads((self.folder / "environment.json").read_text())
        shown = subprocess.run(
            [FARM_PYTHON, "manage.py", "bootstrap", "--json"],
            cwd=ROOT, env=self.env | self.variables, check=True, capture_output=True, text=True,
        )  # fmt: skip
        self.token = json.loads(shown.stdout)["token"]
        self.client = httpx.Client(
            base_url=self.variables["FARM_URL"], headers={"Authorization": f"Bearer {self.token}"}, timeout=30
        )
        self.project = self.get("/api/v1/projects")["results"][0]["id"]

    def down(self) -> None:
        self._local("down", timeout=120)
        self.client.close()

    def _local(self, command: str, *, timeout: float) -> None:
        subprocess.run([FARM_PYTHON, "-m", "infra.local", command], cwd=ROOT, env=self.env, check=True, timeout=timeout)

    # --- the API, patiently

    def get(self, path: str, **query: Any) -> Any:
        return self._ask("GET", path, params=query)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._ask("POST", path, json=body, headers=headers)

    def _ask(self, method: str, path: str, **more: Any) -> Any:
        """Ask again while the farm says 503 or does not answer, as every client should."""
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = self.client.request(method, path, **more)
                if answer.status_code != 503:
                    answer.raise_for_status()
                    return answer.json()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{method} {path}: no answer for a minute")
            time.sleep(0.3)

    def submit(self, frames: str, *, seconds: float = 1.0) -> str:
        order = {
            "project": self.project,
            "template": TEMPLATE,
            "parameters": {"Frames": frames, "Seconds": str(seconds)},
        }
        job: str = self.post("/api/v1/jobs", order, **{"Idempotency-Key": os.urandom(8).hex()})["id"]
        return job

    def job(self, job: str) -> Any:
        return self.get(f"/api/v1/jobs/{job}")

    def wait_for(self, what: Callable[[], Any], *, seconds: float, why: str) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := what()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds} s: {why}")
            time.sleep(0.2)
        return found

    def wait_until_running(self, job: str, *, seconds: float = 60) -> None:
        self.wait_for(lambda: self.started(job), seconds=seconds, why="a task of the job runs")

    def started(self, job: str) -> list[tuple[Any, ...]]:
        return self.sql("SELECT id, worker_id FROM dispatch_attempt WHERE job_id = %s AND status = 'started'", job)

    def wait_until_done(self, job: str, *, seconds: float) -> Any:
        ended = {"succeeded", "failed", "cancelled"}
        self.wait_for(lambda: self.job(job)["status"] in ended, seconds=seconds, why=f"job {job} ends")
        return self.job(job)

    # --- what it is made of

    def part(self, name: str) -> int:
        state = json.loads((self.folder / "run" / "state.json").read_text())
        return next(int(p["pid"]) for p in state["parts"] if p["name"] == name)

    def agents(self) -> list[int]:
        """Give the pids of the agents that run, newest machine last."""
        notes = sorted((self.folder / "machines").glob("m-*/pid"), key=lambda f: f.stat().st_mtime)
        pids = [int(note.read_text().split()[0]) for note in notes]
        return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]

    def agent_of(self, worker: Any) -> int:
        """Give the pid of a worker's agent."""
        machine = self.sql("SELECT machine_id FROM fleet_worker WHERE id = %s", worker)[0][0]
        return int((self.folder / "machines" / machine / "pid").read_text().split()[0])

    def family(self, pid: int) -> list[psutil.Process]:
        try:
            leader = psutil.Process(pid)
            return [leader, *leader.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def strays(self) -> list[psutil.Process]:
        """Give the processes whose command line or folder leads into this farm's folder, or its sandboxes."""
        mine = str(self.folder)
        found = []
        for process in psutil.process_iter(["pid", "cmdline"]):
            with contextlib.suppress(psutil.Error):
                if mine in " ".join(process.info["cmdline"] or []) and process.pid != os.getpid():
                    found.append(process)
        return found

    def kill(self, part: str) -> None:
        os.kill(self.part(part), signal.SIGKILL)

    def sql(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        """Ask the database, again and again while it is away."""
        deadline = time.monotonic() + 60
        while True:
            try:
                with psycopg.connect(self.variables["FARM_DATABASE_URL"], autocommit=True) as session:
                    cursor = session.execute(statement, params)
                    return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)

    def broker(self) -> redis.Redis:
        return redis.Redis.from_url(self.variables["FARM_BROKER_URL"])

    def set_fleet(self, *, machines: int, idle_s: int = 120) -> None:
        self.sql("UPDATE fleet_fleet SET max_machines = %s, idle_timeout_s = %s", machines, idle_s)

    def violations(self) -> list[Violation]:
        counted = [Violation(what, self.sql(check)[0][0]) for what, check in INVARIANTS.items()]
        return [v for v in counted if v.count]

    def books(self) -> str:
        """Let the farm recompute its books independently."""
        done = subprocess.run(
            [FARM_PYTHON, "manage.py", "check_books"],
            cwd=ROOT,
            env=self.env | self.variables,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout


@contextlib.contextmanager
def stopped(pids: list[psutil.Process]) -> Iterator[None]:
    """Stop processes for a while (SIGSTOP), as a machine that sleeps."""
    for process in pids:
        process.suspend()
    try:
        yield
    finally:
        for process in pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

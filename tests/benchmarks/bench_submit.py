"""
Submit: 100,000 tasks through `submit_job`, as a person's request, ÷ COPY of the same rows.

The request is `farm_tenant` under row-level security, from the order to the commit: expansion by `openjd-model`,
checks, job, steps and tasks. COPY fills a table with the same columns, indexes and foreign key, but no row-level
security, with rows that are written out beforehand. `TASKS`, `RUNS` shrink it for a first look.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import django

TASKS = int(os.environ.get("TASKS", "100000"))
RUNS = int(os.environ.get("RUNS", "5"))
ROOT = Path(__file__).resolve().parents[2]

LIKE_TASKS = """
CREATE TABLE plain_task (LIKE jobs_task INCLUDING ALL);
ALTER TABLE plain_task ADD FOREIGN KEY (step_id) REFERENCES jobs_step DEFERRABLE INITIALLY DEFERRED;
"""


class Bench:
    """A farm's database, and the rows of the job submitted last."""

    def __init__(self) -> None:
        import psycopg
        from django.conf import settings

        from tests.farm import local_fleet, open_customer

        self.customer = open_customer("Bench")
        local_fleet()
        self.owner = psycopg.connect(settings.FARM_DATABASE_OWNER_URL, autocommit=True)
        self.owner.execute(LIKE_TASKS)
        self.reader = psycopg.connect(os.environ["FARM_DATABASE_URL"], autocommit=True)
        self.rows: list[bytes | bytearray | memoryview] = []

    def submit(self) -> float:
        """Submit a job in a request's transaction; give the seconds to its commit."""
        from django.db import transaction

        from farm.studios.tenancy import become_tenant
        from tests.farm import submit

        began = time.perf_counter()
        with transaction.atomic():
            become_tenant(self.customer.studio.id)
            job = submit(self.customer, frames=f"1-{TASKS}", now=datetime.now(UTC))
        took = time.perf_counter() - began
        self.write_out(job.id)
        return took

    def write_out(self, job: UUID) -> None:
        """Keep a job's rows as COPY takes them."""
        wish: Any = f"COPY (SELECT * FROM jobs_task WHERE job_id = '{job}' ORDER BY id) TO STDOUT (FORMAT binary)"
        with self.reader.cursor().copy(wish) as copy:
            self.rows = list(copy)

    def copy(self) -> float:
        """COPY the same rows; give the seconds to the commit."""
        content = b"".join(self.rows)
        began = time.perf_counter()
        with self.owner.transaction(), self.owner.cursor().copy("COPY plain_task FROM STDIN (FORMAT binary)") as copy:
            copy.write(content)
        took = time.perf_counter() - began
        (count,) = self.owner.execute("SELECT count(*) FROM plain_task").fetchone() or (0,)
        assert count % TASKS == 0
        return took


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "farm.settings")
    subprocess.run([sys.executable, ROOT / "manage.py", "migrate", "--verbosity=0"], check=True)
    django.setup()
    import farm.celery  # noqa: F401  (makes it the current app)
    from tests.benchmarks.measure import alternate, close, ratio, spread

    bench = Bench()
    bench.submit()  # openjd-model is imported, and everything is warm
    bench.copy()
    print(f"{TASKS:,} tasks; seconds")
    found = alternate({"submit": bench.submit, "copy": bench.copy}, times=RUNS)
    value = ratio(found["submit"], found["copy"])
    print(f"submit {spread(found['submit'])}, COPY {spread(found['copy'])}: ratio {value:.2f}")
    close("submit", value, goal=3, tasks=TASKS, runs=RUNS, seconds={k: spread(v) for k, v in found.items()})


if __name__ == "__main__":
    main()

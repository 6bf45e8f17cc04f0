"""What the dispatcher sees: ready steps, free slots, shares. A few queries a pass, however many tasks wait."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import connection

from farm.dispatch.matching import Shares, Slot, StepDemand
from farm.dispatch.predicting import predict
from farm.fleet.models import Worker
from farm.fleet.requirements import Requirements, capabilities_of
from farm.fleet.selectors import ready_workers

_DEMAND = """
SELECT s.id, j.id, j.project_id, j.studio_id, j.purpose, j.priority, j.deadline, s.ready, s.requirements,
       j.scene_version_id, p.paces, st.share, pr.share, f.failed_on
  FROM jobs_step s
  JOIN jobs_job j ON j.id = s.job_id
  JOIN studios_studio st ON st.id = j.studio_id
  JOIN studios_project pr ON pr.id = j.project_id
  LEFT JOIN LATERAL (SELECT jsonb_object_agg(worker_class, recent_ms) AS paces
                       FROM dispatch_pace WHERE step_id = s.id) p ON true
  LEFT JOIN LATERAL (SELECT t.failed_on FROM jobs_task t
                      WHERE t.step_id = s.id AND t.status = 'ready' ORDER BY t.rank, t.index LIMIT 1) f ON true
 WHERE s.ready > 0 AND s.status = 'active' AND j.status = 'active' AND NOT st.is_paused AND NOT pr.is_paused
   AND NOT j.cost_object_id = ANY(%s)
 ORDER BY j.id
"""

_HELD = """
SELECT a.worker_id, a.slot, count(*), (array_agg(a.step_id ORDER BY a.id DESC))[1]
  FROM dispatch_attempt a WHERE a.status IN ('assigned', 'started') GROUP BY 1, 2
"""

_RUNNING = """
SELECT j.studio_id, j.project_id, j.id, count(*)
  FROM dispatch_attempt a JOIN jobs_job j ON j.id = a.job_id WHERE a.status IN ('assigned', 'started') GROUP BY 1, 2, 3
"""


def demand(*, without: Collection[UUID] = ()) -> tuple[list[StepDemand], dict[UUID, int]]:
    """Give the steps with ready tasks, oldest job first, and the shares of their studios and projects."""
    with connection.cursor() as cursor:
        cursor.execute(_DEMAND, [list(without)])
        rows = cursor.fetchall()
    weight: dict[UUID, int] = {}
    found = []
    for age, row in enumerate(rows):
        (
            step,
            job,
            project,
            studio,
            purpose,
            priority,
            deadline,
            ready,
            requirements,
            version,
            paces,
            share,
            project_share,
            failed_on,
        ) = row
        weight[studio], weight[project] = share, project_share
        found.append(
            StepDemand(
                step=step,
                job=job,
                project=project,
                studio=studio,
                purpose=purpose,
                priority=priority,
                deadline=deadline,
                age=age,
                ready=ready,
                requirements=Requirements.from_json(_loaded(requirements)),
                scene_version=version,
                p50_ms={kind: p.p50 for kind, recent in (_loaded(paces) or {}).items() if (p := predict(recent))},
                avoid=frozenset(failed_on or ()),
            )
        )
    return found, weight


def _loaded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def slots() -> list[Slot]:
    """Give every slot of every ready worker, with what it holds and has at hand."""
    with connection.cursor() as cursor:
        cursor.execute(_HELD)
        held = {(worker, slot): (count, step) for worker, slot, count, step in cursor.fetchall()}
    return [slot for worker in ready_workers() for slot in _slots_of(worker, held)]


def _slots_of(worker: Worker, held: dict[tuple[UUID, int], tuple[int, UUID]]) -> list[Slot]:
    found = []
    for spec in worker.slots:
        count, last = held.get((worker.id, spec["index"]), (0, None))
        in_memory = worker.slot_steps.get(str(spec["index"]))
        found.append(
            Slot(
                worker=worker.id,
                index=spec["index"],
                worker_class=spec["gpu_model"] or "cpu",
                capabilities=capabilities_of(
                    cores=worker.cores,
                    memory_mib=worker.memory_mib,
                    disk_mib=worker.free_disk_mib,
                    slots=len(worker.slots),
                    gpu_model=spec["gpu_model"],
                    vram_mib=spec["vram_mib"],
                    fleet=worker.fleet.name,
                    software=worker.software,
                ),
                purposes=tuple(worker.fleet.purposes),
                studio=worker.studio_id,
                binds=worker.fleet.sharing == "studio",
                step=last or (UUID(in_memory) if in_memory else None),
                scene_versions=frozenset(worker.scene_versions),
                held=count,
            )
        )
    return found


def shares(weight: dict[UUID, int]) -> Shares:
    """Give the weights and how many slots each studio, project and job holds."""
    running: dict[UUID, int] = {}
    with connection.cursor() as cursor:
        cursor.execute(_RUNNING)
        for studio, project, job, count in cursor.fetchall():
            for party in (studio, project, job):
                running[party] = running.get(party, 0) + count
    return Shares(weight, running)

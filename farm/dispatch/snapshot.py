"""What the dispatcher sees: ready steps, slots, shares, limits. A few queries a pass, however many tasks wait."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db import connection

from farm.dispatch.matching import Limit, Slot, StepDemand
from farm.dispatch.models import Allowance
from farm.dispatch.models import Limit as LimitRow
from farm.dispatch.predicting import predict, scaled
from farm.dispatch.turns import Shares
from farm.fleet.catalogue import speed
from farm.fleet.pools import Market
from farm.fleet.requirements import LIMIT, Capabilities, Requirements, capabilities_of

# A step that has finished nothing yet is predicted from the scene's last job: the step there of the same name.
_DEMAND = """
SELECT s.id, j.id, j.project_id, j.studio_id, j.purpose, j.priority, j.deadline, s.ready, s.requirements,
       j.scene_version_id, coalesce(p.paces, e.paces), st.share, pr.share, f.failed_on,
       CASE WHEN pr.machine_regions = '{}' THEN ARRAY[pr.region] ELSE pr.machine_regions END
  FROM jobs_step s
  JOIN jobs_job j ON j.id = s.job_id
  JOIN studios_studio st ON st.id = j.studio_id
  JOIN studios_project pr ON pr.id = j.project_id
  LEFT JOIN LATERAL (SELECT jsonb_object_agg(worker_class, recent_ms) AS paces
                       FROM dispatch_pace WHERE step_id = s.id) p ON true
  LEFT JOIN LATERAL (SELECT jsonb_object_agg(worker_class, recent_ms) AS paces FROM dispatch_pace
                      WHERE p.paces IS NULL AND step_id = (
                            SELECT os.id FROM scenes_sceneversion v
                              JOIN scenes_sceneversion o ON o.scene_id = v.scene_id
                              JOIN jobs_job oj ON oj.scene_version_id = o.id AND oj.id < j.id AND oj.purpose = j.purpose
                              JOIN jobs_step os ON os.job_id = oj.id AND os.name = s.name
                             WHERE v.id = j.scene_version_id AND os.succeeded > 0
                             ORDER BY os.id DESC LIMIT 1)) e ON true
  LEFT JOIN LATERAL (SELECT t.failed_on FROM jobs_task t
                      WHERE t.step_id = s.id AND t.status = 'ready' ORDER BY t.rank, t.index LIMIT 1) f ON true
 WHERE s.ready > 0 AND s.status = 'active' AND j.status = 'active' AND NOT st.is_paused AND NOT pr.is_paused
   AND NOT j.cost_object_id = ANY(%s)
 ORDER BY j.id
"""

# Of each slot at work: how many attempts it holds, the step of the last, and whose the first is.
_HELD = """
SELECT h.worker_id, h.slot, h.held, h.last_step, h.first_job, j.studio_id, j.project_id
  FROM (SELECT worker_id, slot, count(*) AS held, (array_agg(step_id ORDER BY id DESC))[1] AS last_step,
               (array_agg(job_id ORDER BY id))[1] AS first_job
          FROM dispatch_attempt WHERE status IN ('assigned', 'started') GROUP BY 1, 2) h
  JOIN jobs_job j ON j.id = h.first_job
"""

_WORKERS = """
SELECT w.id, w.studio_id, w.slots, w.cores, w.memory_mib, w.free_disk_mib / 1024, w.software::text, w.slot_steps,
       w.scene_versions, w.market, w.price_micro,
       f.name, f.purposes, f.sharing, f.region, f.studios
  FROM fleet_worker w JOIN fleet_fleet f ON f.id = w.fleet_id WHERE w.status = 'ready'
"""

_USED = f"""
SELECT a.worker_id, substr(l.key, {len(LIMIT) + 1}), sum(l.value::float), max(l.value::float)
  FROM dispatch_attempt a JOIN jobs_step s ON s.id = a.step_id
 CROSS JOIN LATERAL jsonb_each_text(s.requirements -> 'amounts') l
 WHERE a.status IN ('assigned', 'started') AND l.key LIKE '{LIMIT}%%' GROUP BY 1, 2
"""  # noqa: S608


def demand(*, without: Collection[UUID] = ()) -> tuple[list[StepDemand], dict[UUID, int]]:
    """Give the steps with ready tasks, oldest job first, and the weights of their studios and projects."""
    weight: dict[UUID, int] = {}
    found = []
    for age, row in enumerate(_rows(_DEMAND, [list(without)])):
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
            regions,
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
                regions=frozenset(regions),
            )
        )
    return found, weight


def known_on(demand: Sequence[StepDemand], classes: Iterable[str]) -> list[StepDemand]:
    """Give the demand with times for these classes of worker too, scaled by how fast the catalogue says each is."""
    wanted = set(classes)
    return [
        replace(step, p50_ms=scaled(step.p50_ms, {name: speed(name) for name in wanted | step.p50_ms.keys()}))
        if step.p50_ms and not wanted <= step.p50_ms.keys()
        else step
        for step in demand
    ]


def _rows(statement: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def _loaded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


@dataclass
class Supply:
    """Every slot of every ready worker, and how many slots each studio, project and job holds."""

    slots: list[Slot] = field(default_factory=list)
    running: dict[UUID, int] = field(default_factory=dict)

    @property
    def classes(self) -> set[str]:
        return {slot.worker_class for slot in self.slots}


def supply() -> Supply:
    """Look at the workers, with what each slot holds and has at hand."""
    found = Supply(running=defaultdict(int))
    held = {}
    for worker, slot, count, step, job, studio, project in _rows(_HELD):
        held[worker, slot] = (count, step)
        for party in (job, studio, project):
            found.running[party] += 1
    known: dict[tuple[Any, ...], Capabilities] = {}
    for row in _rows(_WORKERS):
        found.slots += _slots_of(row, held, known)
    return found


def _slots_of(
    row: tuple[Any, ...],
    held: dict[tuple[UUID, int], tuple[int, UUID]],
    known: dict[tuple[Any, ...], Capabilities],
) -> list[Slot]:
    worker, studio, specs, cores, memory, disk_gib, software, steps, versions, market, price, fleet, *rest = row
    purposes, sharing, region, studios = rest
    specs, steps = _loaded(specs), _loaded(steps)
    found = []
    for spec in specs:
        index, gpu, vram = spec["index"], spec["gpu_model"], spec["vram_mib"]
        count, last = held.get((worker, index), (0, None))
        alike = (cores, memory, disk_gib, len(specs), gpu, vram, fleet, software)
        if alike not in known:  # most machines are like another: what they have is worked out once
            known[alike] = capabilities_of(
                cores=cores,
                memory_mib=memory,
                disk_mib=disk_gib * 1024,
                slots=len(specs),
                gpu_model=gpu,
                vram_mib=vram,
                fleet=fleet,
                software=json.loads(software),
            )
        in_memory = steps.get(str(index))
        found.append(
            Slot(
                worker=worker,
                index=index,
                worker_class=gpu or "cpu",
                capabilities=known[alike],
                purposes=tuple(purposes),
                studio=studio,
                binds=sharing == "studio",
                step=last or (UUID(in_memory) if in_memory else None),
                scene_versions=frozenset(versions),
                held=count,
                region=region,
                studios=frozenset(studios),
                price_micro=price // len(specs),
                is_safe=market == Market.ON_DEMAND,
            )
        )
    return found


def slots() -> list[Slot]:
    """Give every slot of every ready worker."""
    return supply().slots


def shares(weight: dict[UUID, int], running: dict[UUID, int]) -> Shares:
    """Put what studios and projects weigh, are promised and may have at most beside what they hold."""
    rows = Allowance.objects.filter(subject__in=list(weight)).values_list("subject", "guaranteed_slots", "max_slots")
    found = list(rows)
    return Shares(
        weight,
        running,
        guaranteed={subject: guaranteed for subject, guaranteed, _ in found if guaranteed},
        most={subject: most for subject, _, most in found if most is not None},
    )


def limits(demand: Iterable[StepDemand]) -> list[Limit]:
    """Give the limits that this demand asks for, with what is in use of each."""
    names = {name for step in demand for name in step.requirements.limits}
    if not names:
        return []
    used: dict[str, float] = defaultdict(float)
    by_host: dict[str, dict[UUID, float]] = defaultdict(dict)
    for worker, name, total, most in _rows(_USED):
        used[name] += total
        by_host[name][worker] = most
    return [
        Limit(
            row.name,
            row.most,
            is_per_host=row.is_per_host,
            used=sum(by_host[row.name].values()) if row.is_per_host else used[row.name],
            hosts=frozenset(by_host[row.name]),
        )
        for row in LimitRow.objects.filter(name__in=names)
    ]

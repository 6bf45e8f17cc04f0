"""Who gets which slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from farm.dispatch.matching import Assignment, Shares, Slot, StepDemand, match
from farm.fleet.requirements import Requirements, capabilities_of

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def slot(*, gpu: str = "", memory_mib: int = 16_000, **more: object) -> Slot:
    plain = Slot(
        worker=uuid4(),
        index=0,
        worker_class=gpu or "cpu",
        capabilities=capabilities_of(
            cores=8,
            memory_mib=memory_mib,
            disk_mib=100_000,
            slots=1,
            gpu_model=gpu,
            vram_mib=24_000 if gpu else 0,
            fleet="local",
            software={"blender": ["5.0.1"]},
        ),
        purposes=("render", "inspection"),
        studio=None,
        binds=False,
        step=None,
        scene_versions=frozenset(),
        held=0,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def step(*, studio: UUID | None = None, ready: int = 10, age: int = 0, **more: object) -> StepDemand:
    plain = StepDemand(
        step=uuid4(),
        job=uuid4(),
        project=uuid4(),
        studio=studio or uuid4(),
        purpose="render",
        priority=50,
        deadline=None,
        age=age,
        ready=ready,
        requirements=Requirements(),
        scene_version=None,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def matched(slots: Sequence[Slot], demand: Sequence[StepDemand], shares: Shares | None = None) -> list[Assignment]:
    return match(slots, demand, shares or Shares({}, {}), now=NOW)


class TestMayItRunThere:
    def test_a_gpu_task_goes_to_a_gpu_only(self) -> None:
        cpu, gpu = slot(), slot(gpu="NVIDIA L4")
        wish = step(requirements=Requirements({"worker.gpu": 1}, {}))

        found = matched([cpu, gpu], [wish])

        assert [a.worker for a in found] == [gpu.worker]

    def test_a_scene_goes_only_where_its_renderer_version_is(self) -> None:
        wish = step(requirements=Requirements({}, {"farmhand:blender": ["5.2"]}))

        assert matched([slot()], [wish]) == []

    def test_a_bound_worker_serves_nobody_else(self) -> None:
        stranger = step()

        assert matched([slot(studio=uuid4())], [stranger]) == []

    def test_the_first_assignment_binds_all_slots_of_a_worker(self) -> None:
        worker = uuid4()
        slots = [slot(worker=worker, index=i, binds=True) for i in range(2)]
        one, other = step(ready=1), step(ready=1)

        assert len(matched(slots, [one, other])) == 1

    def test_a_worker_on_which_it_failed_is_taken_only_when_there_is_no_other(self) -> None:
        bad, good = slot(), slot()
        wish = step(ready=1, avoid=frozenset({bad.worker}))

        assert [a.worker for a in matched([bad, good], [wish])] == [good.worker]
        assert [a.worker for a in matched([bad], [wish])] == [bad.worker]


class TestWhoseTurn:
    def test_inspections_come_before_all_else(self) -> None:
        render, inspection = step(priority=100), step(purpose="inspection", priority=0, ready=1)

        assert [a.step for a in matched([slot()], [render, inspection])] == [inspection.step]

    def test_two_studios_share_by_their_weights(self) -> None:
        big, small = uuid4(), uuid4()
        demand = [step(studio=big, ready=100), step(studio=small, ready=100)]

        found = matched([slot() for _ in range(40)], demand, Shares({big: 300, small: 100}, {}))

        by_studio = Counter(a.step for a in found)
        assert by_studio == {demand[0].step: 30, demand[1].step: 10}

    def test_who_holds_more_waits(self) -> None:
        rich, poor = uuid4(), uuid4()
        demand = [step(studio=rich), step(studio=poor)]

        found = matched([slot() for _ in range(4)], demand, Shares({}, {rich: 4}))

        assert {a.step for a in found} == {demand[1].step}


class TestWhichJob:
    def test_higher_priority_first_then_older(self) -> None:
        studio, project = uuid4(), uuid4()
        shared = {"studio": studio, "project": project, "ready": 1}
        old, new, urgent = step(**shared, age=1), step(**shared, age=2), step(**shared, age=3, priority=80)  # type: ignore[arg-type]

        found = matched([slot(), slot(), slot()], [new, old, urgent])

        assert [a.step for a in found] == [urgent.step, old.step, new.step]

    def test_one_that_would_miss_its_deadline_overtakes_priority(self) -> None:
        studio, project = uuid4(), uuid4()
        late = step(studio=studio, project=project, deadline=NOW + timedelta(minutes=1), p50_ms={"cpu": 60_000})
        urgent = step(studio=studio, project=project, priority=100)

        assert [a.step for a in matched([slot()], [urgent, late])] == [late.step]


class TestWhichSlot:
    def test_the_step_in_memory_before_the_scene_on_disk_before_neither(self) -> None:
        version = uuid4()
        wish = step(ready=1, scene_version=version)
        cold, warm, hot = slot(), slot(scene_versions=frozenset({version})), slot(step=wish.step)

        assert [a.worker for a in matched([cold, warm, hot], [wish])] == [hot.worker]
        assert [a.worker for a in matched([cold, warm], [wish])] == [warm.worker]


class TestQueueingAhead:
    def test_a_short_frame_is_queued_behind_one_that_runs(self) -> None:
        wish = step(p50_ms={"cpu": 2_000})

        found = matched([slot(step=wish.step, held=1)], [wish])

        assert len(found) == 1

    def test_a_long_frame_is_not(self) -> None:
        wish = step(p50_ms={"cpu": 120_000})

        assert matched([slot(step=wish.step, held=1)], [wish]) == []

    def test_not_while_another_studio_waits_for_its_share(self) -> None:
        mine, other = step(p50_ms={"cpu": 2_000}), step(requirements=Requirements({"worker.gpu": 1}, {}))

        assert matched([slot(step=mine.step, held=1)], [mine, other], Shares({}, {mine.studio: 1})) == []


steps = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 30), st.integers(0, 100), st.sampled_from([0, 1])),
    min_size=1,
    max_size=8,
)


class TestAlways:
    @settings(max_examples=60, deadline=None)
    @given(steps, st.lists(st.booleans(), min_size=0, max_size=30))
    def test_no_slot_twice_no_task_too_many_and_nobody_idles_beside_work(
        self, wishes: list[tuple[int, int, int, int]], gpus: list[bool]
    ) -> None:
        studios = [uuid4() for _ in range(4)]
        demand = [
            step(studio=studios[s], ready=ready, priority=p, age=i, requirements=Requirements({"worker.gpu": g}, {}))
            for i, (s, ready, p, g) in enumerate(wishes)
        ]
        slots = [slot(gpu="NVIDIA L4" if has else "") for has in gpus]

        found = matched(slots, demand)

        assert max(Counter((a.worker, a.slot) for a in found).values(), default=0) <= 1
        lent = Counter(a.step for a in found)
        assert all(lent[d.step] <= d.ready for d in demand)
        idle = [s for s in slots if s.worker not in {a.worker for a in found}]
        hungry = [d for d in demand if lent[d.step] < d.ready]
        assert not any(
            s.capabilities.amounts["worker.gpu"] >= d.requirements.amounts["worker.gpu"] for s in idle for d in hungry
        )

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.integers(1, 400), min_size=2, max_size=5), st.integers(20, 120))
    def test_under_backlog_each_studio_has_its_share(self, weights: list[int], machines: int) -> None:
        studios = {uuid4(): w for w in weights}
        demand = [step(studio=s, ready=1_000) for s in studios]

        found = matched([slot() for _ in range(machines)], demand, Shares(studios, {}))

        lent = Counter(a.step for a in found)
        for wish in demand:
            fair = machines * studios[wish.studio] / sum(weights)
            assert abs(lent[wish.step] - fair) <= len(studios)

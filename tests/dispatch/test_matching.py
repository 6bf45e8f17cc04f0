"""Who gets which slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from farm.dispatch.matching import Assignment, Limit, Shares, Slot, StepDemand, match
from farm.dispatch.turns import Past
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

    def test_a_fleet_that_is_for_some_studios_serves_no_other(self) -> None:
        wish = step()

        assert matched([slot(studios=frozenset({uuid4()}))], [wish]) == []
        assert len(matched([slot(studios=frozenset({uuid4(), wish.studio}))], [wish])) == 1

    def test_a_project_keeps_to_its_regions(self) -> None:
        wish = step(regions=frozenset({"eu-west-1", "local"}))

        assert matched([slot(region="us-east-1")], [wish]) == []
        assert len(matched([slot(region="eu-west-1")], [wish])) == 1


class TestLimits:
    def test_a_limit_counts_tasks_with_those_at_work(self) -> None:
        wish = step(ready=10, requirements=Requirements({"farmhand:limit.nuke": 2}, {}))

        found = match([slot() for _ in range(9)], [wish], Shares({}, {}), now=NOW, limits=[Limit("nuke", 9, used=4)])

        assert len(found) == 2

    def test_a_limit_by_host_counts_each_worker_once(self) -> None:
        one, other, third = uuid4(), uuid4(), uuid4()
        slots = [slot(worker=worker, index=i) for worker in (one, other, third) for i in range(4)]
        wish = step(ready=20, requirements=Requirements({"farmhand:limit.host": 1}, {}))
        limit = Limit("host", 2, is_per_host=True, used=1, hosts=frozenset({third}))

        found = match(slots, [wish], Shares({}, {}), now=NOW, limits=[limit])

        workers = {a.worker for a in found}
        assert len(found) == 8
        assert len(workers) == 2
        assert third in workers

    def test_what_the_farm_has_no_limit_for_is_not_to_be_had(self) -> None:
        assert matched([slot()], [step(requirements=Requirements({"farmhand:limit.houdini": 1}, {}))]) == []

    def test_nothing_that_uses_one_by_task_is_queued_ahead(self) -> None:
        wish = step(p50_ms={"cpu": 500}, requirements=Requirements({"farmhand:limit.nuke": 1}, {}))

        found = match([slot()], [wish], Shares({}, {}), now=NOW, limits=[Limit("nuke", 9)])

        assert len(found) == 1


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

    def test_who_is_guaranteed_slots_gets_them_first(self) -> None:
        sure, other = uuid4(), uuid4()
        demand = [step(studio=sure, ready=100), step(studio=other, ready=100)]

        found = matched([slot() for _ in range(10)], demand, Shares({sure: 10, other: 1_000}, {}, guaranteed={sure: 6}))

        assert Counter(a.step for a in found) == {demand[0].step: 6, demand[1].step: 4}

    def test_nobody_bursts_beyond_its_most_though_slots_stay_free(self) -> None:
        wish = step(ready=100, p50_ms={"cpu": 500})

        found = matched([slot() for _ in range(10)], [wish], Shares({}, {wish.studio: 1}, most={wish.studio: 4}))

        assert len({a.worker for a in found}) == 3

    def test_a_project_has_its_own_share_of_its_studios(self) -> None:
        studio, big, small = uuid4(), uuid4(), uuid4()
        demand = [step(studio=studio, project=p, ready=100) for p in (big, small)]

        found = matched([slot() for _ in range(8)], demand, Shares({big: 300, small: 100}, {}, most={big: 5}))

        assert Counter(a.step for a in found) == {demand[0].step: 5, demand[1].step: 3}


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

    def test_then_the_cheapest_for_the_frame(self) -> None:
        wish = step(ready=1, p50_ms={"T4": 40_000, "H100": 4_000})
        slow, fast = slot(worker_class="T4", price_micro=500_000), slot(worker_class="H100", price_micro=4_000_000)

        assert [a.worker for a in matched([slow, fast], [wish])] == [fast.worker]

    def test_one_that_ends_in_time_before_a_cheaper_one(self) -> None:
        wish = step(ready=1, p50_ms={"T4": 40_000, "H100": 4_000}, deadline=NOW + timedelta(seconds=30))
        slow, fast = slot(worker_class="T4", price_micro=1), slot(worker_class="H100", price_micro=4_000_000)

        assert [a.worker for a in matched([slow, fast], [wish])] == [fast.worker]

    def test_what_could_not_be_done_again_goes_where_no_cloud_takes_it_back(self) -> None:
        spot = slot(is_safe=False, price_micro=1)
        safe = slot(price_micro=10)
        hurry = step(ready=1, p50_ms={"cpu": 40_000}, deadline=NOW + timedelta(seconds=60))

        assert [a.worker for a in matched([spot, safe], [hurry])] == [safe.worker]
        assert [a.worker for a in matched([spot, safe], [replace(hurry, deadline=None)])] == [spot.worker]

    def test_a_gpu_is_left_to_those_who_need_one(self) -> None:
        cpu, gpu = slot(), slot(gpu="NVIDIA L4")

        assert [a.worker for a in matched([gpu, cpu], [step(ready=1)])] == [cpu.worker]


class TestTheTail:
    def test_begins_when_fewer_tasks_are_left_than_twice_the_slots(self) -> None:
        wish = step(ready=7, p50_ms={"cpu": 60_000})

        found = matched([slot() for _ in range(3)], [wish])

        assert [a.is_tail for a in found] == [False, False, True]


class TestQueueingAhead:
    def test_a_short_frame_is_queued_behind_one_that_runs(self) -> None:
        wish = step(p50_ms={"cpu": 8_000})

        found = matched([slot(step=wish.step, held=1)], [wish])

        assert len(found) == 1

    def test_frames_of_a_few_seconds_are_queued_two_ahead(self) -> None:
        wish = step(p50_ms={"cpu": 2_000})

        assert len(matched([slot(step=wish.step, held=1)], [wish])) == 2

    def test_a_long_frame_is_not(self) -> None:
        wish = step(p50_ms={"cpu": 120_000})

        assert matched([slot(step=wish.step, held=1)], [wish]) == []

    def test_not_while_another_studio_waits_for_its_share(self) -> None:
        mine, other = step(p50_ms={"cpu": 2_000}), step()

        assert matched([slot(step=mine.step, held=1)], [mine, other], Shares({}, {mine.studio: 1})) == []

    def test_but_one_that_waits_for_other_slots_keeps_nobody_back(self) -> None:
        mine, other = step(p50_ms={"cpu": 8_000}), step(requirements=Requirements({"worker.gpu": 1}, {}))

        found = matched([slot(step=mine.step, held=1)], [mine, other], Shares({}, {mine.studio: 1}))

        assert [a.step for a in found] == [mine.step]

    def test_takes_nothing_of_its_studios_share(self) -> None:
        short = step(p50_ms={"cpu": 500}, ready=100)
        long = step(p50_ms={"cpu": 120_000}, ready=100)

        found = matched([slot() for _ in range(10)], [short, long])

        slots = {a.step: {b.worker for b in found if b.step == a.step} for a in found}
        assert len(slots[short.step]) == len(slots[long.step]) == 5


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

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.integers(1, 400), min_size=2, max_size=5), st.integers(100, 300))
    def test_under_backlog_each_studio_has_its_share_within_a_slot_or_a_twentieth(
        self, weights: list[int], machines: int
    ) -> None:
        studios = {uuid4(): w for w in weights}
        demand = [step(studio=s, ready=1_000) for s in studios]

        found = matched([slot() for _ in range(machines)], demand, Shares(studios, {}))

        lent = Counter(a.step for a in found)
        for wish in demand:
            fair = machines * studios[wish.studio] / sum(weights)
            assert abs(lent[wish.step] - fair) <= max(1.0, machines / 20)

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40), st.integers(0, 3)), min_size=1, max_size=8),
        st.lists(st.integers(1, 4), min_size=1, max_size=12),
        st.integers(0, 12),
        st.integers(0, 6),
        st.integers(0, 10),
    )
    def test_no_cap_is_ever_exceeded(
        self, wishes: list[tuple[int, int, int]], machines: list[int], by_task: int, by_host: int, most: int
    ) -> None:
        studios = [uuid4() for _ in range(3)]
        needs = [{}, {"farmhand:limit.t": 1}, {"farmhand:limit.h": 1}, {"farmhand:limit.t": 2, "farmhand:limit.h": 1}]
        demand = [
            step(studio=studios[s], ready=n, p50_ms={"cpu": 500}, requirements=Requirements(needs[k], {}))
            for s, n, k in wishes
        ]
        slots = [slot(worker=w, index=i) for w, n in ((uuid4(), n) for n in machines) for i in range(n)]
        limits = [Limit("t", by_task), Limit("h", by_host, is_per_host=True)]

        found = match(slots, demand, Shares({}, {}, most={studios[0]: most}), now=NOW, limits=limits)

        need = {d.step: d.requirements.limits for d in demand}
        assert sum(need[a.step].get("t", 0) for a in found) <= by_task
        assert len({a.worker for a in found if "h" in need[a.step]}) <= by_host
        of_first = {d.step for d in demand if d.studio == studios[0]}
        assert len({(a.worker, a.slot) for a in found if a.step in of_first}) <= most

    @settings(max_examples=8, deadline=None)
    @given(
        st.lists(st.integers(1, 9), min_size=2, max_size=5),
        st.integers(1, 4),
        st.lists(st.integers(1, 3), min_size=5, max_size=5),
    )
    def test_over_time_nobody_starves_and_each_has_its_share_even_of_a_single_slot(
        self, weights: list[int], machines: int, lengths: list[int]
    ) -> None:
        """Frames of different lengths, fewer slots than studios: what counts is the time on slots."""
        demand = [step(studio=uuid4(), ready=10_000) for _ in weights]
        weight = {d.studio: w for d, w in zip(demand, weights, strict=True)}
        length = {d.step: n * 60 for d, n in zip(demand, lengths, strict=False)}
        studio = {d.step: d.studio for d in demand}
        places = [slot() for _ in range(machines)]
        busy: dict[UUID, tuple[UUID, int]] = {}  # worker → step, until
        had: Counter[UUID] = Counter()
        past = Past()
        for second in range(0, 900 * 60, 60):
            busy = {worker: (s, until) for worker, (s, until) in busy.items() if until > second}
            running = Counter(studio[s] for s, _ in busy.values())
            now = NOW + timedelta(seconds=second)
            past.pass_to(now)
            free = [p for p in places if p.worker not in busy]
            for found in match(free, demand, Shares(weight, running, debt=past.debts()), now=now):
                busy[found.worker] = (found.step, second + length[found.step])
            held = Counter(studio[s] for s, _ in busy.values())
            past.remember({d.project: d.studio for d in demand}, Shares(weight, held))
            had.update(held)

        for party, its in weight.items():
            assert abs(had[party] / had.total() - its / sum(weights)) <= 0.05

"""What is made up to be rendered."""

from __future__ import annotations

import random
import statistics

import pytest

from farm.simulation.workloads import Doubt, JobPlan, StepPlan, Workload, calibrated, lognormal, make_step


class TestLognormal:
    def test_it_has_the_mean_that_was_asked_for(self) -> None:
        rng = random.Random(1)

        assert statistics.fmean(lognormal(rng, 100, 0.5) for _ in range(20_000)) == pytest.approx(100, rel=0.02)


class TestMakeStep:
    def test_what_is_predicted_is_right_on_average_and_wrong_for_each(self) -> None:
        step = make_step(random.Random(1), tasks=20_000, mean_s=100, doubt=Doubt(bias=0))

        assert statistics.fmean(step.predicted) == pytest.approx(statistics.fmean(step.seconds), rel=0.02)
        assert any(abs(p / s - 1) > 0.3 for p, s in zip(step.predicted, step.seconds, strict=True))

    def test_those_predicted_longest_take_as_long_as_predicted_on_average(self) -> None:
        step = make_step(random.Random(1), tasks=20_000, mean_s=100, doubt=Doubt(bias=0))
        longest = sorted(zip(step.predicted, step.seconds, strict=True))[-2000:]

        predicted, true = (statistics.fmean(side) for side in zip(*longest, strict=True))

        assert true == pytest.approx(predicted, rel=0.05)


class TestCalibrated:
    def test_without_spread_all_are_alike(self) -> None:
        assert calibrated([1.0, 900.0], 100, 0, 0.3) == [100, 100]


class TestWorkload:
    def test_it_counts(self) -> None:
        workload = Workload([JobPlan("j", "S", [StepPlan([1.0, 2.0])]), JobPlan("k", "S", [StepPlan([4.0])])])

        assert (workload.tasks, workload.work_s) == (3, 7)

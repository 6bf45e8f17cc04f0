"""`manage.py simulate`: what a person sees of a rehearsal."""

from __future__ import annotations

import io
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from farm.dispatch.models import Attempt
from farm.jobs.models import Job
from farm.rehearsals.management.commands.simulate import Progress, clock
from farm.rehearsals.selectors import past_work
from tests.farm import dispatch, open_customer, start_worker, submit

SMALL = {"jobs": 3, "machines": 30, "deadline_hours": 4.0}


def simulate(**options: object) -> list[str]:
    out = io.StringIO()
    call_command("simulate", stdout=out, stderr=io.StringIO(), **options)
    return out.getvalue().splitlines()


class TestSimulate:
    def test_it_lays_policies_beside_each_other(self) -> None:
        lines = simulate(policies="farm,on-demand,rate-matching", **SMALL)

        head, *rows = lines
        cost = {row.split()[0]: float(row.split()[1]) for row in rows}
        assert head.split()[:3] == ["policy", "cost", "$"]
        assert all(f"Studio {name}" in head for name in "ABC")
        assert 0 < cost["farm"] < cost["on-demand"]

    def test_it_is_the_same_with_the_same_seed(self) -> None:
        first, again, other = (simulate(policies="farm", seed=seed, **SMALL) for seed in (1, 1, 2))

        assert first == again
        assert first != other

    def test_work_may_come_from_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "jobs.csv"
        file.write_text("job,studio,submitted_s,deadline_s,tasks,mean_s\none,Harbour,0,,20,60\ntwo,Mill,60,9000,5,30\n")

        head, row = simulate(policies="farm", work=file, machines=10)

        assert ("Harbour" in head, "Mill" in head, row.split()[2]) == (True, True, "0")

    @pytest.mark.parametrize(
        "text", ["job,studio\n1,2\n", "job,studio,submitted_s,deadline_s,tasks,mean_s\na,b,x,,1,1\n"]
    )
    def test_a_file_that_is_none_is_refused(self, tmp_path: Path, text: str) -> None:
        file = tmp_path / "jobs.csv"
        file.write_text(text)

        with pytest.raises(CommandError, match="no file of jobs"):
            simulate(work=file)

    def test_an_unknown_policy_is_refused_with_those_there_are(self) -> None:
        with pytest.raises(CommandError, match="rate-matching"):
            simulate(policies="magic", **SMALL)


@pytest.mark.django_db
class TestPastWork:
    def test_a_farm_without_a_past_is_told_so(self) -> None:
        with pytest.raises(CommandError, match="no work"):
            simulate(past_days=7.0)

    def test_what_was_rendered_is_work_again(self, now: datetime) -> None:
        worker = start_worker(now=now)
        job = submit(open_customer("Harbour"), frames="1-2", now=now)
        while dispatch(now=now):
            worker.sync(now=now)
            worker.finish_all(now=now)
        Job.objects.filter(pk=job.pk).update(created_at=now)
        Attempt.objects.filter(job=job).update(render_ms=5000, worker_class="cpu")

        workload = past_work(since=now - timedelta(hours=1), until=now + timedelta(hours=1))

        (past,) = workload.jobs
        assert (past.studio, past.submitted_s, past.steps[0].seconds) == ("Harbour", 3600, [5.0, 5.0])


class TestProgress:
    def test_a_bar_is_drawn_on_a_terminal_only(self) -> None:
        class Terminal(io.StringIO):
            def __init__(self) -> None:
                super().__init__()
                self.bars: list[str] = []

            def isatty(self) -> bool:
                return True

            def write(self, text: str, ending: str = "") -> int:
                self.bars.append(text + ending)
                return len(text)

        terminal, file = Terminal(), io.StringIO()
        for out in (terminal, file):
            Progress(out, "farm", 10, begun=1, of=2)(10)

        assert "100%" in terminal.bars[0]
        assert file.getvalue() == ""


class TestClock:
    @pytest.mark.parametrize(("seconds", "text"), [(0, "0:00 h"), (5400, "1:30 h"), (90_000, "25:00 h")])
    def test_hours_and_minutes(self, seconds: float, text: str) -> None:
        assert clock(seconds) == text

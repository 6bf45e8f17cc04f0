"""`bill …`: lines that lead to frames, sums that agree, and budgets."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from farmhand.cli.bill import REASONS, harmless

from farm.billing.pricing import Reason
from tests.frontend.client.cli.conftest import Run
from tests.frontend.client.small_farm import PROJECT, SmallFarm


def money(micro: int) -> dict[str, Any]:
    return {"micro": micro, "currency": "USD", "amount": f"{micro / 1e6:.6f}"}


def line(label: str, charged: int, credit: int = 0, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "label": label,
        "cost_object": "cost",
        "outcome": "succeeded",
        "cause": "",
        "reason": "verified",
    }
    row |= {"is_scout": False, "worker_class": "cpu", "gpus": 1, "billable_ms": 4200, "rate": money(400_000)}
    row |= {"gross": money(charged + credit), "credit": money(credit), "charged": money(charged), "attempt": "a"}
    row |= {"forgiven": money(0), "over_hold": money(0)}
    return row | {"ended_at": "2026-11-30T12:00:00Z", "task": "t", "generation": 1, **more}


@pytest.fixture
def lines(small: SmallFarm) -> list[dict[str, Any]]:
    rows = [
        line("frame 1", 1256, is_scout=True),
        line("frame 2", 0, 300, outcome="interrupted", cause="interrupted", reason="interrupted"),
        line("frame 2", 1516),
    ]
    totals = {"count": 3, "render_ms": 1, "billable_ms": 12_600, "gross": money(3072), "credit": money(300)}
    small.answers["/api/v1/statement"] = {"results": rows, "next": None, "totals": totals | {"charged": money(2772)}}
    small.answers["/api/v1/cost-objects/cost"] = {"name": "Dusk"}
    return rows


class TestShow:
    def test_each_line_leads_to_a_frame_and_the_columns_add_up(self, run: Run, lines: list[dict[str, Any]]) -> None:
        out = run("bill", "show").out

        rows = [line.split("  ") for line in out.splitlines()[1:4]]
        assert [float(row[-1]) for row in rows] == [0.001256, 0.0, 0.001516]
        assert "Dusk: frame 1 (scout)" in out
        assert "interrupted  cpu" in out
        assert "0.003072  0.000300  0.002772" in out
        assert "Charged: 0.0028 USD for 3 attempts" in out

    def test_columns_without_anything_to_say_are_left_out(
        self, run: Run, small: SmallFarm, lines: list[dict[str, Any]]
    ) -> None:
        small.answers["/api/v1/statement"]["totals"]["credit"] = money(0)

        assert run("bill", "show").out.splitlines()[0].split() == [
            "ended", "what", "outcome", "on", "time", "per", "hour", "charged",
        ]  # fmt: skip

    def test_what_is_not_charged_says_why(self, run: Run, lines: list[dict[str, Any]]) -> None:
        lines[0] |= {"outcome": "failed", "cause": "no_gpu", "reason": "farm-fault"}
        lines[2] |= {"forgiven": money(5)}

        out = run("bill", "show").out

        assert "failed, no gpu, the farm's fault" in out
        assert "succeeded, given back later" in out

    def test_the_farm_has_no_reason_without_words(self) -> None:
        assert set(REASONS) == {str(reason) for reason in Reason}

    def test_filters_are_the_farms_own(self, run: Run, small: SmallFarm, lines: list[dict[str, Any]]) -> None:
        run("bill", "show", "--project", "demo", "--from", "2026-11-01", "--to", "2026-12-01")

        asked = next(path for method, path in small.asked if "/statement" in path)
        assert f"project={PROJECT['id']}&from=2026-11-01&to=2026-12-01" in asked

    def test_json_has_lines_and_totals(self, run: Run, lines: list[dict[str, Any]]) -> None:
        found = run("bill", "show", "--json").json

        assert found["lines"] == lines
        assert found["totals"]["charged"]["micro"] == 2772

    def test_csv_has_the_same_sums(self, run: Run, lines: list[dict[str, Any]], tmp_path: Path) -> None:
        ran = run("bill", "show", "--csv", str(tmp_path / "bill.csv"))

        rows = list(csv.DictReader(io.StringIO((tmp_path / "bill.csv").read_text(encoding="utf-8"))))
        assert "3 lines written" in ran.err
        assert sum(round(float(row["charged"]) * 1e6) for row in rows) == 2772
        assert [row["frame"] for row in rows] == ["frame 1", "frame 2", "frame 2"]

    def test_csv_goes_to_standard_output_too(self, run: Run, lines: list[dict[str, Any]]) -> None:
        assert len(list(csv.reader(io.StringIO(run("bill", "show", "--csv", "-").out)))) == 4

    def test_a_file_that_cannot_be_written_is_said(self, run: Run, lines: list[dict[str, Any]]) -> None:
        ran = run("bill", "show", "--csv", "/nowhere/at/all.csv")

        assert ran.code == 1
        assert "no such file" in ran.err

    def test_nothing_used_is_said(self, run: Run, small: SmallFarm) -> None:
        totals = {"count": 0, "charged": money(0), "credit": money(0), "gross": money(0)}
        small.answers["/api/v1/statement"] = {"results": [], "next": None, "totals": totals}

        assert "Nothing was used" in run("bill", "show").out


class TestHarmless:
    @pytest.mark.parametrize(
        ("value", "written"),
        [("=cmd()", "'=cmd()"), ("@a", "'@a"), ("-0.5", "-0.5"), ("+a", "'+a"), ("Dusk", "Dusk"), (3, 3)],
    )
    def test_a_name_is_no_formula(self, value: Any, written: Any) -> None:
        assert harmless(value) == written


class TestBudgetSet:
    @pytest.fixture(autouse=True)
    def _budgets(self, small: SmallFarm) -> None:
        budget = {"id": "b", "scope": "studio", "subject": "s", "month": "2026-12-01", "cap": money(500_000_000)}
        budget |= {"held": money(0), "spent": money(1_000_000), "left": money(499_000_000)}
        small.answers |= {"POST /api/v1/budgets": budget, "/api/v1/budgets": {"results": [], "next": None}}
        small.answers["/api/v1/jobs/01a22ebc-17ad-7253-99c6-a09bb683b378"] = {"cost_object": "cost"}

    def test_a_month_of_the_studio(self, run: Run, small: SmallFarm) -> None:
        ran = run("bill", "budget", "set", "500", "--month", "2026-12")

        wish = {"scope": "studio", "cap_micro": 500_000_000, "month": "2026-12-01"}
        assert small.bodies[-1] == ("POST /api/v1/budgets", wish)
        assert "at most 500.00 USD in 2026-12, 1.00 USD spent so far, 0.00 USD held for what runs." in ran.out

    def test_a_project(self, run: Run, small: SmallFarm) -> None:
        run("bill", "budget", "set", "12.50", "--project", "Demo")

        wish = {"scope": "project", "cap_micro": 12_500_000, "subject": PROJECT["id"]}
        assert small.bodies[-1] == ("POST /api/v1/budgets", wish)

    def test_a_job_by_what_it_is_charged_to(self, run: Run, small: SmallFarm) -> None:
        run("bill", "budget", "set", "5", "--job", "01a22ebc-17ad-7253-99c6-a09bb683b378")

        assert small.bodies[-1][1]["subject"] == "cost"

    def test_the_limit_is_lifted(self, run: Run, small: SmallFarm) -> None:
        run("bill", "budget", "set", "none")

        assert small.bodies[-1][1]["cap_micro"] is None

    @pytest.mark.parametrize("options", [["--job", "a", "--project", "b"], ["--job", "a", "--month", "2026-12"]])
    def test_two_budgets_at_once_are_refused(self, run: Run, small: SmallFarm, options: list[str]) -> None:
        assert run("bill", "budget", "set", "5", *options).code == 2
        assert small.asked == []


class TestBudgetList:
    def test_none_says_what_to_do(self, run: Run, small: SmallFarm) -> None:
        small.answers["/api/v1/budgets"] = {"results": [], "next": None}

        ran = run("bill", "budget", "list")

        assert "No budgets" in ran.out
        assert "farmhand bill budget set 500" in ran.err

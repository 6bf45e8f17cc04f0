"""The import directions in pyproject.toml fail on a planted bad import."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.local.folder import ROOT

# module, what it must not import, the contract that says so
PLANTS = [
    ("farm.core.planted", "farm.studios", "A room of the farm imports only rooms below it"),
    ("farm.billing.planted", "farm.scenes", "A room of the farm imports only rooms below it"),
    ("farm.jobs.planted", "farm.dispatch", "A room of the farm imports only rooms below it"),
    ("farm.notifications.planted", "farm.results", "A room of the farm imports only rooms below it"),
    ("farm.studios.models.planted", "farm.studios.services", "Inside an app"),
    ("farm.scenes.reconcilers.planted", "farm.scenes.api", "Inside an app"),
    ("farm.billing.pricing.planted", "django", "Pure rules and the simulator"),
    ("farm.simulation.planted", "celery", "Pure rules and the simulator"),
    ("farm.jobs.also_planted", "boto3", "Only the object store and the providers know boto3"),
    ("farm.fleet.planted", "workers.agent", "The farm knows the workers' protocol and renderers"),
    ("workers.planted", "farm.core", "A worker knows nothing of the farm"),
    ("workers.also_planted", "boto3", "A worker knows nothing of the farm"),
    ("workers.renderers.planted", "workers.agent", "The protocol is standard library only"),
    ("farmhand.planted", "workers.protocol", "The client knows the public API"),
    ("infra.local.planted", "farm.core", "The supervisor starts the farm"),
    ("farm.core.also_planted", "infra.local", "Nobody imports the house's tools"),
]


def write_module(root: Path, name: str, text: str) -> None:
    """Write a module; a parent that is no package yet becomes an empty one, in place of the module it may be."""
    path = root.joinpath(*name.split("."))
    for parent in [root.joinpath(*name.split(".")[:depth]) for depth in range(1, name.count(".") + 1)]:
        parent.with_suffix(".py").unlink(missing_ok=True)
        parent.mkdir(exist_ok=True)
        (parent / "__init__.py").touch()
    path.with_suffix(".py").write_text(text)


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What import-linter says about rooms that hold nothing but the planted imports."""
    root = tmp_path_factory.mktemp("planted")
    shutil.copy(ROOT / "pyproject.toml", root)
    for package in ("farm", "workers", "farmhand", "infra"):
        write_module(root, f"{package}.__init__", "")
    for name in ("workers.protocol", "workers.renderers.__init__", *(target for _, target, _ in PLANTS)):
        if name.split(".")[0] in {"farm", "workers"}:
            write_module(root, name if name.count(".") > 1 or name.startswith("workers") else f"{name}.__init__", "")
    for name, target, _ in PLANTS:
        write_module(root, name, f"import {target}\n")
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=root, check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(root), "COLUMNS": "400", "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    return done.stdout


class TestContracts:
    @pytest.mark.parametrize(("module", "target", "contract"), PLANTS)
    def test_a_planted_import_breaks_its_contract(self, verdict: str, module: str, target: str, contract: str) -> None:
        line = next(line for line in verdict.splitlines() if line.startswith(contract))

        assert line.endswith("BROKEN")
        assert f"{module} -> {target}" in verdict

    def test_no_other_contract_is_broken(self, verdict: str) -> None:
        assert f"{len({contract for *_, contract in PLANTS})} broken" in verdict

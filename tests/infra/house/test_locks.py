"""Whether a lock says what the pyproject files ask for."""

import re
import shutil
from pathlib import Path

import pytest

from infra.house import locks
from infra.house.locks import LOCKS


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of everything that decides the locks."""
    for name in (locks.FARM, locks.AGENT, locks.CLIENT):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(locks.ROOT / name, tmp_path / name)
    shutil.copytree(locks.ROOT / "requirements", tmp_path / "requirements")
    monkeypatch.setattr(locks, "ROOT", tmp_path)
    return tmp_path


class TestStale:
    def test_the_committed_locks_are_not(self, copy: Path) -> None:
        assert locks.stale() == []

    def test_a_new_dependency_of_the_agent_makes_those_stale_that_hold_it(self, copy: Path) -> None:
        project = copy / locks.AGENT
        project.write_text(project.read_text().replace("dependencies = [", 'dependencies = [\n    "six",'))

        assert locks.stale() == ["dev", "agent"]

    def test_other_words_in_a_pyproject_change_nothing(self, copy: Path) -> None:
        project = copy / locks.AGENT
        project.write_text(project.read_text() + "\n# a remark\n")

        assert locks.stale() == []

    def test_an_absent_lock_is(self, copy: Path) -> None:
        (copy / "requirements/boot.txt").unlink()

        assert locks.stale() == ["boot"]


class TestLocks:
    @pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
    def test_every_package_is_pinned_and_hashed_and_no_address_stands_there(self, lock: locks.Lock) -> None:
        text = lock.path.read_text()

        packages = re.findall(r"^(\S.*?) \\\n(    --hash)?", text, re.MULTILINE)

        assert packages
        assert all("==" in package and hashed for package, hashed in packages)
        assert "://" not in text

    def test_environments_share_versions_with_what_is_tested(self) -> None:
        def pins(name: str) -> set[str]:
            lock = next(lock for lock in LOCKS if lock.name == name)
            return set(re.findall(r"^[a-z0-9-]+==[^ ]+", lock.path.read_text(), re.MULTILINE))

        assert pins("farm") <= pins("dev")
        assert pins("agent") <= pins("dev")

"""The two scripts that run before there is anything else: which Python, and what the system lacks."""

import os
import subprocess
from pathlib import Path

import pytest

from infra.local.folder import ROOT

NEEDED = ("sh", "dirname", "id", "cat")


def run(script: str, *, path: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a script with nothing on PATH but what the test put there, in a checkout without environments."""
    house = path.parent / "infra/house"
    house.mkdir(parents=True, exist_ok=True)
    for name in ("python.sh", "check-system.sh"):
        (house / name).write_text((ROOT / "infra/house" / name).read_text())
    return subprocess.run(
        ["/bin/sh", f"infra/house/{script}"], cwd=path.parent, env={"PATH": str(path), **variables},
        check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def program(path: Path, name: str, text: str) -> Path:
    assert not (path / name).is_symlink()  # it would be the machine's own that we write
    (path / name).write_text(f"#!/bin/sh\n{text}\n")
    (path / name).chmod(0o755)
    return path / name


def python(path: Path, name: str, version: str) -> Path:
    """A Python that knows its version and where it lies."""
    return program(
        path, name, f'case "$2" in *_base_executable*) echo {path / name} ;; *version_info*) echo {version} ;; esac'
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder of programs: the plain ones of any system."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in NEEDED:
        for place in os.defpath.split(":"):
            if place and (Path(place) / name).exists() and not (folder / name).exists():
                (folder / name).symlink_to(Path(place) / name)
    program(folder, "ldconfig", "true")
    return folder


class TestPython:
    def test_the_machines_own_is_taken_when_it_fits(self, path: Path) -> None:
        python(path, "python3", "3.13")
        python(path, "python3.11", "3.11")

        assert run("python.sh", path=path).stdout == f"{path}/python3\n"

    def test_another_is_looked_for_when_it_does_not(self, path: Path) -> None:
        python(path, "python3", "3.12")
        python(path, "python3.11", "3.11")

        assert run("python.sh", path=path).stdout == f"{path}/python3.11\n"

    def test_none_that_fits_is_refused_with_what_was_found(self, path: Path) -> None:
        python(path, "python3", "3.12")

        done = run("python.sh", path=path)

        assert done.returncode == 1
        assert "3.11 or 3.13" in done.stderr
        assert "python3 is 3.12" in done.stderr

    def test_a_person_decides(self, path: Path) -> None:
        python(path, "python3", "3.11")
        mine = python(path, "mine", "3.13")

        assert run("python.sh", path=path, PYTHON=str(mine)).stdout == f"{mine}\n"

    def test_a_persons_unfit_choice_is_refused(self, path: Path) -> None:
        python(path, "python3", "3.11")
        mine = python(path, "mine", "3.10")

        done = run("python.sh", path=path, PYTHON=str(mine))

        assert done.returncode == 1
        assert "mine is 3.10" in done.stderr


class TestCheckSystem:
    def test_a_complete_system_is_quiet(self, path: Path) -> None:
        python(path, "python3", "3.11")
        program(path, "bwrap", "exit 0")
        program(path, "ldconfig", "cat libraries")
        libraries = (ROOT / "infra/house/check-system.sh").read_text().split('LIBRARIES="')[1].split('"')[0]
        (path.parent / "libraries").write_text(
            "".join(f"{line.split()[0]} (libc6)\n" for line in libraries.splitlines())
        )

        done = run("check-system.sh", path=path)

        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_what_is_missing_is_named_with_the_command_that_installs_it(self, path: Path) -> None:
        python(path, "python3", "3.11")
        program(path, "ldconfig", "echo libX11.so.6 .libc6.")
        program(path, "apt-get", "exit 1")

        done = run("check-system.sh", path=path)

        assert done.returncode == 1
        assert "missing: bubblewrap" in done.stderr
        assert "missing: libXi.so.6" in done.stderr
        assert "libX11" not in done.stderr
        assert "apt-get install -y --no-install-recommends" in done.stderr
        assert " libxi6" in done.stderr
        assert " bubblewrap" in done.stderr

    def test_no_python_at_all_is_a_package_too(self, path: Path) -> None:
        done = run("check-system.sh", path=path)

        assert done.returncode == 1
        assert "python3 python3-venv" in done.stderr

    def test_a_sandbox_that_the_machine_forbids_is_refused_with_its_reason(self, path: Path) -> None:
        python(path, "python3", "3.11")
        program(path, "bwrap", "echo setting up uid map: Permission denied >&2; exit 1")

        done = run("check-system.sh", path=path)

        assert done.returncode == 1
        assert "uid map: Permission denied" in done.stderr
        assert "user namespaces" in done.stderr

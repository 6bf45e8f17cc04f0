"""Lower bounds of what work costs by a deadline, when all the future is known: a linear program solved by HiGHS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.optimize import linprog

from farm.simulation.markets import Market

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Slots:
    """The future until the deadline, cut where any capacity changes. The last row of each table is on demand."""

    seconds: Matrix
    capacity: Matrix  # machines, zones × slots
    usd: Matrix  # of a machine-second, zones × slots


def cut(market: Market, zones: Sequence[str], start_s: float, left_s: float, machines: int) -> Slots:
    """Lay a market out from a moment for so long; moments are seconds of its trace."""
    end_s = start_s + left_s
    marks = [start_s, *(m for m in market.changes if start_s < m < end_s)]
    chosen = [market.zones[name] for name in zones]
    capacity = [[zone.capacity.at(m) for m in marks] for zone in chosen] + [[machines] * len(marks)]
    usd = [[zone.spot_usd.at(m) / 3600 for m in marks] for zone in chosen]
    usd.append([min(zone.on_demand_usd for zone in chosen) / 3600] * len(marks))
    return Slots(np.diff([*marks, end_s]), np.array(capacity, float), np.array(usd, float))


def naive(slots: Slots, work_s: float, machines: int) -> float:
    """Give the cost of the cheapest machine-seconds: no start-up, nothing is lost."""
    offers = []
    for place, length in enumerate(slots.seconds):
        left = float(machines)
        for zone in np.argsort(slots.usd[:, place]):
            count = min(left, slots.capacity[zone, place])
            left -= count
            offers.append((slots.usd[zone, place], count * length))
    usd = 0.0
    for price, seconds in sorted(offers):
        taken = min(seconds, work_s)
        usd, work_s = usd + taken * price, work_s - taken
    return float(usd) if work_s <= 1e-6 else float("nan")


def plan(
    slots: Slots, work_s: float, startup_s: float, machines: int, *, held: Matrix | None = None
) -> tuple[float, Matrix | None]:
    """
    Give the least cost, start-up included, and the machines of each zone and slot; None when it cannot be done.

    min Σ usd·seconds·x  with  Σ seconds·x − startup·y ≥ work,  y[z,k] ≥ x[z,k] − x[z,k−1],  x ≤ capacity, Σ_z x ≤ most:
    x machines and y launches, both fractional, and nothing that runs is ever lost.
    """
    zones, marks = slots.capacity.shape
    size = zones * marks
    cost = np.concatenate([(slots.usd * slots.seconds).ravel(), np.full(size, 1e-9)])
    work = np.concatenate([-np.tile(slots.seconds, zones), np.full(size, startup_s)])
    one = sparse.identity(size, format="csr")
    before = sparse.kron(sparse.identity(zones), sparse.eye(marks, k=-1), format="csr")
    launches = sparse.hstack([one - before, -one])
    each = sparse.hstack([sparse.kron(np.ones((1, zones)), sparse.identity(marks)), sparse.csr_matrix((marks, size))])
    already = np.zeros((zones, marks))
    if held is not None:
        already[:, 0] = held
    found = linprog(  # type: ignore[call-overload]  # the stubs know no sparse matrices
        cost,
        A_ub=sparse.vstack([sparse.csr_matrix(work), launches, each], format="csr"),
        b_ub=np.concatenate([[-work_s], already.ravel(), np.full(marks, machines)]),
        bounds=np.column_stack([np.zeros(2 * size), np.concatenate([slots.capacity.ravel(), np.full(size, np.inf)])]),
        method="highs",
    )
    if found.status != 0:
        return float("nan"), None
    return float(found.fun), found.x[:size].reshape(zones, marks)

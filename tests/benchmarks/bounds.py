"""Lower bounds of what work costs by a deadline, when all the future is known: a linear program solved by HiGHS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from scipy.optimize import linprog


@dataclass(frozen=True)
class Slots:
    """The future until the deadline, cut where any capacity changes."""

    seconds: Sequence[float]
    capacity: np.ndarray  # zones × slots
    usd: np.ndarray  # zones × slots, dollars of a machine-second; the last zone is on demand


def cut(market, zones, start_s, left_s, max_machines) -> Slots:
    marks = [start_s, *(m for m in market.changes if start_s < m < start_s + left_s), start_s + left_s]
    seconds = np.diff(marks)
    capacity = [[market.zones[z].capacity.at(m) for m in marks[:-1]] for z in zones]
    usd = [[market.zones[z].spot_usd.at(m) / 3600 for m in marks[:-1]] for z in zones]
    capacity.append([max_machines] * len(seconds))
    usd.append([market.on_demand_usd / 3600] * len(seconds))
    return Slots(seconds, np.array(capacity, float), np.array(usd, float))


def naive(slots: Slots, work_s: float, max_machines: int) -> float:
    """Fill the cheapest machine-seconds; no start-up, no loss."""
    offers = []
    for k, length in enumerate(slots.seconds):
        left = max_machines
        for z in np.argsort(slots.usd[:, k]):
            n = min(left, slots.capacity[z, k])
            left -= n
            if n:
                offers.append((slots.usd[z, k], n * length))
    total = 0.0
    for usd, s in sorted(offers):
        take = min(s, work_s)
        total += take * usd
        work_s -= take
        if work_s <= 0:
            return total
    return float("nan")


def plan(slots: Slots, work_s: float, startup_s: float, max_machines: int, held: np.ndarray | None = None, booted=None):
    """
    min Σ usd·seconds·x  with  Σ seconds·x − startup·y ≥ work,  y[z,k] ≥ x[z,k] − x[z,k−1],  x ≤ capacity,  Σ_z x ≤ max.
    """
    Z, K = slots.capacity.shape
    n = Z * K
    cost = np.concatenate([(slots.usd * slots.seconds).ravel(), np.full(n, 1e-9)])
    work = np.concatenate([-np.tile(slots.seconds, Z), np.full(n, startup_s)])
    eye = sparse.identity(n, format="csr")
    shift = sparse.kron(sparse.identity(Z), sparse.eye(K, k=-1), format="csr")
    launches = sparse.hstack([eye - shift, -eye])
    each = sparse.hstack([sparse.kron(np.ones((1, Z)), sparse.identity(K)), sparse.csr_matrix((K, n))])
    rhs0 = np.zeros((Z, K))
    if held is not None:
        rhs0[:, 0] = held
    A = sparse.vstack([sparse.csr_matrix(work), launches, each], format="csr")
    b = np.concatenate([[-work_s], rhs0.ravel(), np.full(K, max_machines)])
    upper = np.concatenate([slots.capacity.ravel(), np.full(n, np.inf)])
    r = linprog(cost, A_ub=A, b_ub=b, bounds=np.column_stack([np.zeros(2 * n), upper]), method="highs")
    if r.status != 0:
        return None, None
    return r.fun, r.x[:n].reshape(Z, K)

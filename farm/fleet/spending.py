"""What machines cost, added up as they run: at the price paid, and beside it what they would have cost on demand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection

# Each present machine pays from where it last paid to now, at the price of now; its fleet's day takes the sum. A worker
# that another run is paying for at this moment is left to it.
_PAY = """
WITH due AS (
    SELECT id, fleet_id, greatest(0, extract(epoch FROM %(now)s - paid_until)) AS seconds, price_micro,
           coalesce(on_demand_micro, price_micro) AS on_demand_micro
      FROM fleet_worker
     WHERE status <> 'gone' AND paid_until IS NOT NULL AND (%(workers)s::uuid[] IS NULL OR id = ANY(%(workers)s))
     ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), paid AS (
    UPDATE fleet_worker w
       SET paid_until = greatest(w.paid_until, %(now)s),
           paid_micro = w.paid_micro + round(d.seconds * d.price_micro / 3600)
      FROM due d WHERE w.id = d.id
    RETURNING w.fleet_id, round(d.seconds * d.price_micro / 3600) AS micro,
              round(d.seconds * d.on_demand_micro / 3600) AS on_demand, round(d.seconds * 1000) AS ms
)
INSERT INTO fleet_spending (fleet_id, day, paid_micro, on_demand_micro, machine_ms)
SELECT fleet_id, (%(now)s AT TIME ZONE 'UTC')::date, sum(micro), sum(on_demand), sum(ms) FROM paid GROUP BY fleet_id
    ON CONFLICT (fleet_id, day) DO UPDATE
   SET paid_micro = fleet_spending.paid_micro + excluded.paid_micro,
       on_demand_micro = fleet_spending.on_demand_micro + excluded.on_demand_micro,
       machine_ms = fleet_spending.machine_ms + excluded.machine_ms
"""


def pay_up(*, now: datetime, workers: Sequence[UUID] | None = None) -> None:
    """Add what these machines, or all, have cost since they last paid."""
    with connection.cursor() as cursor:
        cursor.execute(_PAY, {"now": now, "workers": None if workers is None else list(workers)})

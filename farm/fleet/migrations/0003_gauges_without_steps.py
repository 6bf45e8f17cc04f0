from django.db import migrations

from farm.core.tenancy import CURRENT_STUDIO, shared_table

# As before, but what a slot's GPU does comes without the step it does it for.
SEEN = f"""
DROP VIEW fleet_seenworker;
CREATE VIEW fleet_seenworker AS
SELECT id, fleet_id, status, cause, was_taken_back, instance_type, zone, market, agent_version, sandboxed, slots, cores,
       memory_mib, disk_mib, free_disk_mib, software,
       (SELECT coalesce(jsonb_agg(gauge - 'step' ORDER BY gauge -> 'index'), '[]')
          FROM jsonb_array_elements(slot_use) gauge) AS slot_use,
       last_seen_at, idle_since, quarantined_at, requested_at, registered_at, gone_at,
       studio_id IS NOT NULL AS is_bound,
       studio_id IS NOT NULL AND studio_id IS NOT DISTINCT FROM {CURRENT_STUDIO} AS is_own
  FROM fleet_worker
"""


class Migration(migrations.Migration):
    dependencies = [("fleet", "0002_machines_for_rent")]

    operations = [
        migrations.RunSQL(SEEN, migrations.RunSQL.noop),
        shared_table("fleet_seenworker"),
    ]

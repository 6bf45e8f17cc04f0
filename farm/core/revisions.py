"""
How a reader misses nothing: rows remember the transaction that changed them, readers the oldest one that then ran.

Parts of SQL statements.
"""

# The oldest transaction that still runs: whatever is committed later has a transaction of at least this number.
OLDEST = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"

# The number that no transaction has yet. Who says to have heard more knows another farm, or one that was restored.
COMING = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"

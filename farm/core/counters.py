"""Where all processes count attempts: Django's database cache, which here forgets nothing that still counts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.cache.backends.db import DatabaseCache
from django.db import connections

# Whoever else drops the same rows at this moment does it for us.
_DROP = """
DELETE FROM core_cache
 WHERE cache_key IN (SELECT cache_key FROM core_cache WHERE expires < %s FOR UPDATE SKIP LOCKED)
"""


class Counters(DatabaseCache):
    """
    Drops what is over, once there are many entries, and nothing else.

    Django's own would then throw away others to make room, so that whoever floods it begins to guess anew.
    """

    def _cull(self, db: str, cursor: Any, now: datetime, num: int) -> None:
        cursor.execute(_DROP, [connections[db].ops.adapt_datetimefield_value(now)])

"""What is counted against guessing is never thrown away to make room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.cache import cache

from tests.api import raw_rows

pytestmark = pytest.mark.django_db

FLOOD = """
INSERT INTO core_cache (cache_key, value, expires)
SELECT ':1:flood-' || n, 'gAUu', now() + %s::interval FROM generate_series(1, %s) n RETURNING 1
"""


@pytest.fixture
def many() -> Iterator[int]:
    """More entries than the cache looks at before it tidies up."""
    cache.clear()
    yield int(cache._max_entries) + 1
    cache.clear()


class TestCounters:
    def test_a_flood_washes_no_live_count_away(self, many: int) -> None:
        counts = {f"{letter}-count": number for number, letter in enumerate("0aAmz~")}
        cache.set_many(counts, 300)
        raw_rows(FLOOD, ["5 minutes", many])

        cache.set("another", 1, 300)

        assert cache.get_many(counts) == counts
        assert raw_rows("SELECT count(*) FROM core_cache") == [(many + len(counts) + 1,)]

    def test_what_is_over_goes(self, many: int) -> None:
        cache.set("count", 5, 300)
        raw_rows(FLOOD, ["-5 minutes", many])

        cache.set("another", 1, 300)

        assert raw_rows("SELECT count(*) FROM core_cache") == [(2,)]

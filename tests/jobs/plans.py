"""How the database goes about a question: which rows of a table it looks at."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.db import connection


def rows_looked_at(table: str, ask: Callable[[], object]) -> int:
    """Give how many rows of a table the questions look at, those that a filter throws away included."""
    looked_at: list[int] = []

    def explained(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if table in sql and sql.lstrip().startswith(("SELECT", "WITH")):
            told = execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params, many, context).fetchone()[0]
            looked_at.append(_rows((json.loads(told) if isinstance(told, str) else told)[0]["Plan"], table))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explained):
        ask()
    assert looked_at, f"nothing was asked of {table}"
    return sum(looked_at)


def _rows(node: dict[str, Any], table: str) -> int:
    own = 0
    if node.get("Relation Name") == table:
        thrown_away = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
        own = round((node["Actual Rows"] + thrown_away) * node["Actual Loops"])
    return own + sum(_rows(child, table) for child in node.get("Plans", ()))


def analyze(*tables: str) -> None:
    """Let the planner know what is there."""
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ANALYZE {table}")

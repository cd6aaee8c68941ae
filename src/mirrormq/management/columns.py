"""Selection of columns in a request: `columns=name,message_stats.publish`.

A dot selects a member of an object, or of each object in a list. A plain value, and an object that
RabbitMQ treats as one value, is shown whole. RabbitMQ writes an empty list if no column remains.
"""

from __future__ import annotations

from typing import Any

Columns = list[list[str]]

SINGLE_VALUES = frozenset(
    {
        "arguments",
        "churn_rates",
        "client_properties",
        "effective_policy_definition",
        "limits",
        "metadata",
        "object_totals",
        "queue_totals",
    }
)
"""Objects that RabbitMQ treats as one value."""


def wanted(query: dict[str, str]) -> Columns | None:
    """Return the path of each requested column; None for all columns."""
    given = query.get("columns")
    if given is None:
        return None
    ways = [[name for name in column.split(".") if name] for column in given.split(",")]
    return [way for way in ways if way]


def cut(value: Any, columns: Columns | None) -> Any:
    """Return the selected columns of a row or of a nested value."""
    if columns is None or [] in columns:
        return value
    if isinstance(value, list):
        return [cut(inner, columns) for inner in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, inner in value.items():
        inside = [way[1:] for way in columns if way[0] == name]
        if inside:
            kept[name] = inner if name in SINGLE_VALUES else cut(inner, inside)
    return kept or []


def of_one(row: Any, query: dict[str, str]) -> Any:
    """Return one object with the requested columns."""
    return cut(row, wanted(query)) if isinstance(row, dict) else row

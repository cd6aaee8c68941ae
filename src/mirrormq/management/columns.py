"""The columns that a request asks for: `columns=name,message_stats.publish`.

A dot leads inside: into an object, or into each object of a list. What has no inside is shown whole, and so
is what RabbitMQ keeps as one value. Where nothing is left RabbitMQ writes an empty list.
"""

from __future__ import annotations

from typing import Any

Columns = list[list[str]]

WHOLE = frozenset(
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
"""Objects that RabbitMQ does not take apart."""


def wanted(query: dict[str, str]) -> Columns | None:
    """The way to each column; None: everything."""
    given = query.get("columns")
    if given is None:
        return None
    ways = [[name for name in column.split(".") if name] for column in given.split(",")]
    return [way for way in ways if way]


def cut(value: Any, columns: Columns | None) -> Any:
    """What is wanted of a row, or of what is inside one."""
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
            kept[name] = inner if name in WHOLE else cut(inner, inside)
    return kept or []


def of_one(row: Any, query: dict[str, str]) -> Any:
    """One object with the columns that were asked for."""
    return cut(row, wanted(query)) if isinstance(row, dict) else row

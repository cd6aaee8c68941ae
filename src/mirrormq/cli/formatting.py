"""Formatters of rows as in rabbitmqctl: tabs, CSV, JSON or a drawn table. Erlang terms are in erlang_rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

FORMATTERS = ("table", "json", "csv", "pretty_table", "json_stream", "erlang")
AMQP_TYPES = frozenset(
    {
        "bool", "byte", "unsignedbyte", "short", "unsignedshort", "signedint", "unsignedint", "long",
        "double", "float", "decimal", "longstr", "array", "timestamp", "table", "void", "binary",
    }
)  # fmt: skip

Row = dict[str, Any]


def table(rows: Sequence[Row], columns: Sequence[str], headers: bool) -> Iterable[str]:
    """Yield tab-separated lines below a line of column names; nothing if there are no rows."""
    if rows and headers:
        yield "\t".join(columns)
    for row in rows:
        yield "\t".join(text_of(row.get(column, "")) for column in columns)


def csv(rows: Sequence[Row], columns: Sequence[str], headers: bool) -> Iterable[str]:
    """Yield CSV lines with every value in double quotes."""
    if rows and headers:
        yield ",".join(_quoted(column) for column in columns)
    for row in rows:
        yield ",".join(_quoted(text_of(row.get(column, ""))) for column in columns)


def json_rows(rows: Sequence[Row], columns: Sequence[str], headers: bool) -> Iterable[str]:
    """Yield one object per line inside brackets, as rabbitmqctl streams them."""
    yield "["
    for number, row in enumerate(rows):
        yield ("," if number else "") + _json_object(row, columns)
    yield "]"


def json_stream(rows: Sequence[Row], columns: Sequence[str], headers: bool) -> Iterable[str]:
    """Yield one object per line with an empty line between two."""
    for number, row in enumerate(rows):
        yield ("\n" if number else "") + _json_object(row, columns)


def pretty_table(rows: Sequence[Row], columns: Sequence[str], headers: bool) -> Iterable[str]:
    """Yield a table drawn with box characters."""
    lines = [[text_of(row.get(column, "")) for column in columns] for row in rows]
    every = [list(columns), *lines] if headers else lines
    if not rows:
        return
    widths = [max(len(line[place]) for line in every) for place in range(len(columns))]
    rule = ["─" * (width + 2) for width in widths]
    yield "┌" + "┬".join(rule) + "┐"
    for number, line in enumerate(every):
        if number:
            yield "├" + "┼".join(rule) + "┤"
        yield "│" + "│".join(f" {cell:<{width}} " for cell, width in zip(line, widths, strict=True)) + "│"
    yield "└" + "┴".join(rule) + "┘"


RENDERERS = {
    "table": table,
    "csv": csv,
    "json": json_rows,
    "json_stream": json_stream,
    "pretty_table": pretty_table,
}


def _json_object(row: Row, columns: Sequence[str]) -> str:
    return json.dumps(
        {column: _json_cell(column, row.get(column, "")) for column in columns}, separators=(",", ":")
    )


def _json_cell(column: str, value: Any) -> Any:
    """Return the JSON value of a cell. As in rabbitmqctl, objects (definitions, limits) become JSON text."""
    if column == "protocol" and isinstance(value, str):
        return [int(part) for part in value.strip("{}").split(",") if part.isdigit()]
    return compact_json(value) if isinstance(value, dict) else value


def compact_json(value: Any) -> str:
    """Encode a value as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def text_of(value: Any) -> str:
    """Return the text of a table cell."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return compact_json(value)
    if isinstance(value, list):
        if value and all(map(_is_triple, value)):
            return "[" + ",".join(f'{{"{name}",{_term(kind, inner)}}}' for name, kind, inner in value) + "]"
        return "[" + ", ".join(map(text_of, value)) + "]"
    return "" if value is None else _one_line(str(value))


def _one_line(text: str) -> str:
    """Escape control characters, which would break the table."""
    return text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def _is_triple(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and value[1] in AMQP_TYPES


def _term(kind: str, value: Any) -> str:
    if kind in ("longstr", "binary"):
        return f'"{value}"'
    if kind == "table":
        return text_of(value)
    if kind == "array":
        return "[" + ",".join(_term(inner_kind, inner) for inner_kind, inner in value) + "]"
    return text_of(value)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'

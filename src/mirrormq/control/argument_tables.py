"""Conversion of AMQP tables to and from the two forms that operator tools use.

Triples `[name, type, value]` are the form of rabbitmqctl's JSON; plain objects are the form of definitions
files. `arguments` are a table's bytes without its length, as the metadata stores them.
"""

from __future__ import annotations

from typing import Any

from mirrormq.wire import fields


def decoded_arguments(arguments: bytes) -> fields.Table:
    """Decode a table."""
    return fields.decode_entries(arguments)


def typed_arguments(arguments: bytes) -> list[list[Any]]:
    """Return a table as triples."""
    return typed_table(decoded_arguments(arguments)) if arguments else []


def typed_table(table: fields.Table) -> list[list[Any]]:
    """Return a decoded table as triples, nested tables included."""
    return [[name, fields.TYPE_NAMES[field.kind], _typed(field)] for name, field in table.items()]


def _typed(field: fields.Field) -> Any:
    if isinstance(field.value, dict):
        return typed_table(field.value)
    if isinstance(field.value, list):
        return [[fields.TYPE_NAMES[item.kind], _typed(item)] for item in field.value]
    return fields.plain_value(field) if field.kind != "D" else str(fields.plain_value(field))


def plain_arguments(arguments: bytes) -> dict[str, Any]:
    """Return a table as an object of plain values."""
    return fields.plain(decoded_arguments(arguments)) if arguments else {}


def encoded_arguments(values: dict[str, Any]) -> bytes:
    """Encode an object of plain values as a table; raise ValueError or TypeError if a value has no AMQP
    type."""
    return fields.encode_table(fields.table_of(values))[4:]

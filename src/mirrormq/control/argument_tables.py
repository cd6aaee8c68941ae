"""AMQP tables as the operator's tools show and write them.

Two forms: triples `[name, type, value]`, as rabbitmqctl's JSON has them, and plain objects, as
definitions files have them. `arguments` are a table's bytes without its length, as the metadata
keeps them.
"""

from __future__ import annotations

from typing import Any

from mirrormq.wire import fields


def decoded_arguments(arguments: bytes) -> fields.Table:
    """A table from its bytes."""
    return fields.decode_entries(arguments)


def typed_arguments(arguments: bytes) -> list[list[Any]]:
    """A table as triples."""
    return typed_table(decoded_arguments(arguments)) if arguments else []


def typed_table(table: fields.Table) -> list[list[Any]]:
    """A decoded table as triples, nested ones too."""
    return [[name, fields.TYPE_NAMES[found.kind], _typed(found)] for name, found in table.items()]


def _typed(found: fields.Field) -> Any:
    if isinstance(found.value, dict):
        return typed_table(found.value)
    if isinstance(found.value, list):
        return [[fields.TYPE_NAMES[item.kind], _typed(item)] for item in found.value]
    return fields.plain_value(found) if found.kind != "D" else str(fields.plain_value(found))


def plain_arguments(arguments: bytes) -> dict[str, Any]:
    """A table as an object of plain values."""
    return fields.plain(decoded_arguments(arguments)) if arguments else {}


def encoded_arguments(values: dict[str, Any]) -> bytes:
    """An object of plain values as a table's bytes; ValueError or TypeError if it cannot be one."""
    return fields.encode_table(fields.table_of(values))[4:]

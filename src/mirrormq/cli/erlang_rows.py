"""Conversion of rows and facts to Erlang terms: which values RabbitMQ has as atoms, binaries or pids.

A node sends values as JSON, which has only texts. The column determines the Erlang type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mirrormq.cli.erlang_format import Atom, Pid, written
from mirrormq.cli.formatting import compact_json

ADDRESS = re.compile(r"\d+(\.\d+){3}")
STATE_OF_NODE = re.compile(r"\{(.+), (\w+)\}")
AMQP_LISTS = frozenset({"arguments", "client_properties"})
ATOM_COLUMNS = frozenset(
    {
        "state", "type", "source_kind", "destination_kind", "stability", "provided_by", "activity_status",
        "default_queue_type",
    }
)  # fmt: skip
ATOM_LISTS = frozenset({"tags", "untrusted_mirror_nodes"})
PID_COLUMNS = frozenset(
    {
        "pid", "owner_pid", "exclusive_consumer_pid", "channel_pid", "slave_pids", "synchronised_slave_pids",
        "mirror_pids", "synchronised_mirror_pids", "recoverable_slaves",
    }
)  # fmt: skip
ADDRESS_COLUMNS = frozenset({"host", "peer_host"})
TEXT_COLUMNS = frozenset(
    {
        "name", "source_name", "destination_name", "routing_key", "description", "user", "vhost", "exchange",
        "configure", "write", "read", "pattern", "consumer_tag", "queue_name", "desc", "doc_url", "value",
    }
)  # fmt: skip
"""Columns whose values may be empty texts; in other columns an empty value means none and becomes the
empty atom."""


def listing(command: str, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """Return a table as a term. As in RabbitMQ, consumers are grouped in one list per queue."""
    lines = [
        [(Atom(column), _cell(command, column, row.get(column, ""))) for column in columns] for row in rows
    ]
    if command != "list_consumers":
        return written(lines)
    queues: dict[Any, list[Any]] = {}
    for number, (row, line) in enumerate(zip(rows, lines, strict=True)):
        queues.setdefault(row.get("queue_name", number), []).append(line)
    return written(list(queues.values()))


def _cell(command: str, column: str, value: Any) -> Any:
    if isinstance(value, dict):
        return compact_json(value)
    if isinstance(value, list):
        return _list(column, value)
    if not isinstance(value, str):
        return Atom("") if value is None else value
    is_name_of_flag = command == "list_feature_flags" and column == "name"
    if column in ATOM_COLUMNS or is_name_of_flag or (not value and column not in TEXT_COLUMNS):
        return Atom(value)
    if column in PID_COLUMNS:
        return Pid(value)
    if column == "protocol" and value.startswith("{"):
        return tuple(int(part) for part in value.strip("{}").split(",") if part.isdigit())
    if column in ADDRESS_COLUMNS and ADDRESS.fullmatch(value):
        return tuple(map(int, value.split(".")))
    return value


def _list(column: str, values: list[Any]) -> list[Any]:
    if column in AMQP_LISTS:
        return _table(values)
    if column == "cluster_state":
        states = [STATE_OF_NODE.fullmatch(value) for value in values]
        return [(Atom(state[1]), Atom(state[2])) for state in states if state]
    kind = Pid if column in PID_COLUMNS else Atom if column in ATOM_LISTS else str
    return [kind(value) if isinstance(value, str) else value for value in values]


def _table(fields: list[Any]) -> list[Any]:
    return [(name, Atom(kind), _field(kind, value)) for name, kind, value in fields]


def _field(kind: str, value: Any) -> Any:
    if kind == "table":
        return _table(value)
    if kind == "array":
        return [(Atom(inner), _field(inner, element)) for inner, element in value]
    return value


def facts(value: Any) -> Any:
    """Return a node's facts as a list of pairs."""
    if isinstance(value, dict):
        return [(Atom(name), facts(inner)) for name, inner in value.items()]
    return [facts(inner) for inner in value] if isinstance(value, list) else value

"""Resource: preview of an import of definitions; the page shows it before the import.

The preview builds the commands of the import and compares each with the record that exists, so it skips what
the import skips, for the same reason.
"""

from __future__ import annotations

from typing import Any, cast

from mirrormq.control.definitions_import import plan_import
from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest
from mirrormq.management.resources.definitions import UNREADABLE, import_options, importable
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata import records
from mirrormq.metadata.index_tables import TABLE_OF

NAMES_SHOWN_MAX = 100
"""Largest number of objects per kind in the reply; the numbers count all of them."""

EFFECTS = ADDED, CHANGED, KEPT, SAME = "added", "changed", "kept", "same"
DECLARED = (records.Exchange, records.Queue)
"""Kinds that an import leaves unchanged if they exist."""
FIELDS_OF_DECLARATION = {
    records.Exchange: ("kind", "durable", "auto_delete", "internal", "arguments"),
    records.Queue: ("durable", "auto_delete", "arguments"),
}


def _effect(before: Any, record: Any) -> str:
    if before is None:
        return ADDED
    if isinstance(record, DECLARED):
        names = FIELDS_OF_DECLARATION[type(record)]
        return SAME if all(getattr(before, name) == getattr(record, name) for name in names) else KEPT
    return SAME if before == record else CHANGED


def _name(record: Any) -> str:
    if isinstance(record, records.Permission):
        return record.user
    if isinstance(record, records.TopicPermission):
        return f"{record.user}, {record.exchange}"
    if isinstance(record, records.Binding):
        return f"{record.source} → {record.destination} ({record.routing_key})"
    if isinstance(record, records.Parameter):
        return f"{record.component} {record.name}"
    return str(record.name)


def preview(call: ApiRequest) -> dict[str, Any]:
    """Return per kind how many objects an import would add, change, keep as they are, or find equal, and the
    entries that it would skip."""
    document = importable(call, call.body(unreadable=UNREADABLE), call.query.get("vhost", ""))
    plan = plan_import(call.state, document, call.node.settings, import_options(call))
    kinds: dict[str, dict[str, Any]] = {}
    for command in plan.commands:
        record = cast(Any, command).record  # An import only puts records.
        table = TABLE_OF[type(record)]
        effect = _effect(getattr(call.state, table).get(record.key), record)
        row = kinds.setdefault(table, {"kind": table, **dict.fromkeys(EFFECTS, 0), "items": []})
        row[effect] += 1
        if effect != SAME and len(row["items"]) < NAMES_SHOWN_MAX:
            vhost = getattr(record, "vhost", "")
            row["items"].append({"name": _name(record), "vhost": vhost, "effect": effect})
    skipped = [entry.row() for entry in plan.skipped[:NAMES_SHOWN_MAX]]
    return {"kinds": list(kinds.values()), "skipped": skipped, "converted": plan.converted}


ROUTES = [ApiRoute("mirrormq/definitions-preview", access.administrator, {"POST": preview})]

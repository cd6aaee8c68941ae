"""Tables of the metadata state by record type, in the order in which records depend on each other."""

from __future__ import annotations

from typing import Any

from mirrormq.metadata import records
from mirrormq.metadata.link_records import Link

TABLE_OF: dict[type, str] = {
    records.Vhost: "vhosts",
    records.User: "users",
    records.Permission: "permissions",
    records.TopicPermission: "topic_permissions",
    records.Exchange: "exchanges",
    records.Queue: "queues",
    records.Binding: "bindings",
    records.Policy: "policies",
    records.OperatorPolicy: "operator_policies",
    records.Parameter: "parameters",
    records.GlobalParameter: "global_parameters",
    records.Node: "nodes",
    records.Lease: "leases",
    records.Job: "jobs",
    records.Producer: "producers",
    Link: "links",
}
TABLES = tuple(TABLE_OF.values())
IN_VHOST = (
    "permissions", "topic_permissions", "policies", "operator_policies", "parameters", "jobs", "producers",
    "links",
)  # fmt: skip


def drop_from_index(index: dict[Any, Any], key: Any, member: Any) -> None:
    """Remove a member from an index, and its key with the last member."""
    del index[key][member]
    if not index[key]:
        del index[key]

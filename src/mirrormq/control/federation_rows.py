"""Rows of federation links under RabbitMQ's names, for `federation_status` and the HTTP API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mirrormq.bridges.federation_links import (
    EXCHANGE_LINK,
    QUEUE_LINK,
    FederatedExchange,
    FederatedQueue,
    link_id,
)
from mirrormq.bridges.link_kinds import KINDS
from mirrormq.bridges.link_status import LinkState, shown_uri
from mirrormq.control.shovel_rows import moment, progress
from mirrormq.metadata.link_records import LinkKey
from mirrormq.metadata.state import MetadataState

STATUSES = {LinkState.TERMINATED.value: "error"}
"""State of a link → RabbitMQ's status, where they differ."""
UP = ("running", "starting")


@dataclass(frozen=True)
class FederationLink:
    """Federation link with the status that its node reports."""

    key: LinkKey
    definition: FederatedExchange | FederatedQueue
    node: str
    report: dict[str, Any]
    """Row of the link; empty if no node reports one."""

    @property
    def id(self) -> str:
        return link_id(self.key[1], self.definition)

    @property
    def status(self) -> str:
        state = str(self.report.get("state", LinkState.STARTING.value))
        return STATUSES.get(state, state)

    @property
    def is_down(self) -> bool:
        return self.status not in UP

    @property
    def kind(self) -> str:
        return "exchange" if self.key[1] == EXCHANGE_LINK else "queue"

    @property
    def uri(self) -> str:
        return str(self.report.get("source_uri") or shown_uri(self.definition.upstream.uris[0]))


def all_links(state: MetadataState, link_rows: Iterable[dict[str, Any]]) -> list[FederationLink]:
    """Return every federation link, sorted by vhost, kind and name."""
    reported = {(row["vhost"], row["kind"], row["name"]): row for row in link_rows}
    found = []
    for key, assigned in sorted(state.links.items()):
        if key[1] not in (EXCHANGE_LINK, QUEUE_LINK):
            continue
        definition = KINDS[key[1]].define(state, key)
        if definition is not None:
            row = reported.get(key, {})
            report = row if row.get("epoch", 0) >= assigned.epoch else {}
            found.append(FederationLink(key, definition, assigned.node, report))
    return found


def api_row(link: FederationLink) -> dict[str, Any]:
    """Return the row of `/api/federation-links`."""
    definition, report = link.definition, link.report
    row: dict[str, Any] = {
        "node": link.node,
        link.kind: definition.name,
        f"upstream_{link.kind}": definition.upstream_name,
        "type": link.kind,
        "vhost": definition.vhost,
        "upstream": definition.upstream.name,
        "id": link.id,
        "status": link.status,
    }
    if isinstance(definition, FederatedQueue):
        row["consumer_tag"] = definition.upstream.consumer_tag
    if report.get("reason"):
        row["error"] = report["reason"]
    elif report.get("local_connection"):
        row["local_connection"] = report["local_connection"]
    row |= {"uri": link.uri, "timestamp": moment(report.get("changed_ms", 0), padded=False)}
    return row | progress(report)


def ctl_row(link: FederationLink) -> dict[str, Any]:
    """Return the row of `federation_status`; every row has every column but the consumer tag."""
    definition = link.definition
    is_queue = isinstance(definition, FederatedQueue)
    row = {
        "error": link.report.get("reason", ""),
        "exchange": "" if is_queue else definition.name,
        "id": link.id,
        "last_changed": moment(link.report.get("changed_ms", 0), padded=True),
        "local_connection": link.report.get("local_connection", ""),
        "queue": definition.name if is_queue else "",
        "status": link.status,
        "type": link.kind,
        "upstream": definition.upstream.name,
        "upstream_exchange": "" if is_queue else definition.upstream_name,
        "upstream_queue": definition.upstream_name if is_queue else "",
        "uri": link.uri,
        "vhost": definition.vhost,
    }
    if is_queue:
        row["consumer_tag"] = definition.upstream.consumer_tag
    return dict(sorted(row.items()))

"""Events of shovels and federation links, with RabbitMQ's names and facts."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from mirrormq.bridges.federation_links import FederatedExchange, FederatedQueue
from mirrormq.bridges.link_status import LinkState, LinkStatus
from mirrormq.bridges.shovel_plan import ends_of
from mirrormq.control.federation_rows import FederationLink
from mirrormq.metadata.link_records import Link

Event = tuple[str, dict[str, object]]


def link_status_event(link: Link, definition: Any, status: LinkStatus) -> Event:
    """Return the event of a new status or reason."""
    if isinstance(definition, FederatedExchange | FederatedQueue):
        row = FederationLink(link.key, definition, link.node, msgspec.structs.asdict(status))
        facts = _identity(row) | {
            "status": row.status,
            "uri": row.uri,
            "timestamp": _moment(status.changed_ms),
        }
        if status.reason:
            facts["error"] = status.reason
        elif status.local_connection:
            facts["local_connection"] = status.local_connection
        return "federation.link.status", facts
    facts = _shovel(link) | {"status": status.state}
    if status.reason:
        facts["reason"] = status.reason
    if status.state == LinkState.RUNNING.value:
        facts |= ends_of(definition) | {"src_uri": status.source_uri, "dest_uri": status.destination_uri}
    return "shovel.worker.status", facts


def link_removed_event(link: Link, definition: Any) -> Event:
    """Return the event of a link that has ended in good order on its node."""
    if isinstance(definition, FederatedExchange | FederatedQueue):
        return "federation.link.removed", _identity(FederationLink(link.key, definition, link.node, {}))
    return "shovel.worker.removed", _shovel(link)


def _shovel(link: Link) -> dict[str, object]:
    facts: dict[str, object] = {"name": link.name}
    if link.vhost:
        facts["vhost"] = link.vhost
    return facts


def _identity(row: FederationLink) -> dict[str, object]:
    definition = row.definition
    facts: dict[str, object] = {
        row.kind: definition.name,
        f"upstream_{row.kind}": definition.upstream_name,
        "type": row.kind,
        "vhost": definition.vhost,
        "upstream": definition.upstream.name,
        "id": row.id,
    }
    if isinstance(definition, FederatedQueue):
        facts["consumer_tag"] = definition.upstream.consumer_tag
    return facts


def _moment(milliseconds: int) -> str:
    """Write a time as Erlang prints a date and time of day."""
    year, month, day, hour, minute, second, *_ = time.localtime(milliseconds / 1000)
    return f"{{{{{year},{month},{day}}},{{{hour},{minute},{second}}}}}"

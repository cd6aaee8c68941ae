"""Rows of shovels under RabbitMQ's names, for `shovel_status` and the HTTP API.

Every node knows all shovels. Only the node that runs one knows its status. A shovel without a status is
`starting`: no node has taken it yet, or its node does not answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mirrormq.bridges.link_kinds import KINDS
from mirrormq.bridges.link_placement import SHOVEL
from mirrormq.bridges.link_status import LinkState, shown_uri
from mirrormq.bridges.shovel_parameters import ShovelDefinition
from mirrormq.metadata.link_records import LinkKey
from mirrormq.metadata.state import MetadataState

PROTOCOL = "amqp091"
COUNTS = ("attempts", "forwarded", "remaining", "pending", "unconfirmed", "refused", "restarts")
"""Facts of a link's status that RabbitMQ 3.10 does not have."""


@dataclass(frozen=True)
class Shovel:
    """Shovel with the status that its node reports."""

    key: LinkKey
    definition: ShovelDefinition
    node: str
    status: dict[str, Any]
    """Row of the link; empty if no node reports one."""

    @property
    def state(self) -> str:
        return str(self.status.get("state", LinkState.STARTING.value))


def all_shovels(state: MetadataState, link_rows: Iterable[dict[str, Any]]) -> list[Shovel]:
    """Return every shovel, sorted by vhost and name."""
    reported = {(row["vhost"], row["kind"], row["name"]): row for row in link_rows}
    found = []
    for key in sorted(key for key in state.parameters if key[1] == SHOVEL):
        assigned, row = state.links.get(key), reported.get(key, {})
        if assigned is None or row.get("epoch", 0) < assigned.epoch:
            row = {}
        definition = KINDS[SHOVEL].define(state, key)
        found.append(Shovel(key, definition, "" if assigned is None else assigned.node, row))
    return found


def moment(milliseconds: int, *, padded: bool) -> str:
    """Write a time as RabbitMQ does: local time, in the HTTP API without a leading zero of the hour."""
    if not milliseconds:
        return ""
    given = time.localtime(milliseconds / 1000)
    hour = f"{given.tm_hour:02}" if padded else str(given.tm_hour)
    return time.strftime("%Y-%m-%d ", given) + hour + time.strftime(":%M:%S", given)


def _ends(shovel: Shovel) -> dict[str, Any]:
    definition, status = shovel.definition, shovel.status
    given = {
        "src_uri": status.get("source_uri") or shown_uri(definition.source_uris[0]),
        "src_protocol": PROTOCOL,
        "dest_protocol": PROTOCOL,
        "dest_uri": status.get("destination_uri") or shown_uri(definition.destination_uris[0]),
        "src_queue": definition.source_queue,
        "src_exchange": definition.source_exchange,
        "src_exchange_key": definition.source_exchange_key or None,
        "dest_queue": definition.destination_queue,
        "dest_exchange": definition.destination_exchange,
        "dest_exchange_key": definition.destination_exchange_key,
    }
    return {name: value for name, value in given.items() if value is not None}


def api_row(shovel: Shovel) -> dict[str, Any]:
    """Return the row of `/api/shovels`."""
    status = shovel.status
    row: dict[str, Any] = {
        "node": shovel.node,
        "timestamp": moment(status.get("changed_ms", 0), padded=False),
        "name": shovel.key[2],
        "vhost": shovel.key[0],
        "type": "dynamic",
        "state": shovel.state,
        **_ends(shovel),
    }
    if status.get("reason"):
        row["reason"] = status["reason"]
    row |= {name: status[name] for name in COUNTS if name in status and status[name] != -1}
    if status.get("next_attempt_ms"):
        row["next_attempt"] = moment(status["next_attempt_ms"], padded=False)
    return row


CTL_NAMES = {
    "src_uri": "source",
    "src_protocol": "source_protocol",
    "src_queue": "source_queue",
    "src_exchange": "source_exchange",
    "src_exchange_key": "source_exchange_key",
    "dest_uri": "destination",
    "dest_protocol": "destination_protocol",
    "dest_queue": "destination_queue",
    "dest_exchange": "destination_exchange",
    "dest_exchange_key": "destination_exchange_key",
}
"""Names of the HTTP API → names of `shovel_status`."""


def ctl_row(shovel: Shovel) -> dict[str, Any]:
    """Return the row of `shovel_status`."""
    row: dict[str, Any] = {CTL_NAMES[name]: value for name, value in _ends(shovel).items()}
    row |= {
        "last_changed": moment(shovel.status.get("changed_ms", 0), padded=True),
        "name": shovel.key[2],
        "state": shovel.state,
        "termination_reason": shovel.status.get("reason", ""),
        "type": "dynamic",
        "vhost": shovel.key[0],
    }
    return dict(sorted(row.items()))

"""Rows of shovels under RabbitMQ's names, for `shovel_status` and the HTTP API.

Every node knows all shovels by name. Only the node that runs one knows its status. A shovel without a status
is `starting`: no node has taken it yet, or its node does not answer. The definition of a static shovel is in
the settings of its nodes, so its ends come with the status.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mirrormq.bridges.link_kinds import KINDS
from mirrormq.bridges.link_placement import SHOVEL, STATIC_SHOVEL, static_shovel_key, static_shovel_nodes
from mirrormq.bridges.link_status import LinkState
from mirrormq.bridges.shovel_plan import DYNAMIC, STATIC, ends_of
from mirrormq.metadata.link_records import LinkKey
from mirrormq.metadata.state import MetadataState

COUNTS = (
    "attempts", "forwarded", "remaining", "rate", "eta_s", "backlog", "pending", "unconfirmed", "refused",
    "restarts",
)  # fmt: skip
"""Facts of a link's status that RabbitMQ 3.10 does not have."""


@dataclass(frozen=True)
class Shovel:
    """Shovel with the status that its node reports."""

    key: LinkKey
    ends: dict[str, Any]
    """URIs without credentials, names of queues and exchanges; empty if no node reports a static shovel."""
    node: str
    status: dict[str, Any]
    """Row of the link; empty if no node reports one."""

    @property
    def state(self) -> str:
        return str(self.status.get("state", LinkState.STARTING.value))

    @property
    def type(self) -> str:
        return STATIC if self.key[1] == STATIC_SHOVEL else DYNAMIC

    @property
    def place(self) -> dict[str, str]:
        """Vhost of a dynamic shovel; static ones have none."""
        return {"vhost": self.key[0]} if self.key[0] else {}


def all_shovels(state: MetadataState, link_rows: Iterable[dict[str, Any]]) -> list[Shovel]:
    """Return every shovel: static ones, then dynamic ones, sorted by vhost and name."""
    reported = {(row["vhost"], row["kind"], row["name"]): row for row in link_rows}
    static = [static_shovel_key(name) for name in static_shovel_nodes(state)]
    found = []
    for key in static + sorted(key for key in state.parameters if key[1] == SHOVEL):
        assigned, row = state.links.get(key), reported.get(key, {})
        if assigned is None or row.get("epoch", 0) < assigned.epoch:
            row = {}
        definition = KINDS[SHOVEL].define(state, key) if key[1] == SHOVEL else None
        ends = row.get("ends", {}) if definition is None else ends_of(definition)
        if ends:
            used = {"src_uri": row.get("source_uri"), "dest_uri": row.get("destination_uri")}
            ends = ends | {name: uri for name, uri in used.items() if uri}
        found.append(Shovel(key, ends, "" if assigned is None else assigned.node, row))
    return found


def deletion_refusal(state: MetadataState, key: LinkKey) -> str:
    """Return why a shovel cannot be deleted; empty for a dynamic one."""
    if key[1] != STATIC_SHOVEL:
        return ""
    nodes = ", ".join(sorted(static_shovel_nodes(state)[key[2]]))
    return (
        f"Shovel '{key[2]}' is static: remove the keys shovel.{key[2]}.* from the settings file of {nodes}, "
        "then restart the node"
    )


def moment(milliseconds: int, *, padded: bool) -> str:
    """Write a time as RabbitMQ does: local time, in the HTTP API without a leading zero of the hour."""
    if not milliseconds:
        return ""
    given = time.localtime(milliseconds / 1000)
    hour = f"{given.tm_hour:02}" if padded else str(given.tm_hour)
    return time.strftime("%Y-%m-%d ", given) + hour + time.strftime(":%M:%S", given)


def progress(status: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a link's status that RabbitMQ does not have, as far as they are known."""
    row = {name: status[name] for name in COUNTS if name in status and status[name] != -1}
    for name in ("last_message", "next_attempt"):
        if status.get(f"{name}_ms"):
            row[name] = moment(status[f"{name}_ms"], padded=False)
    return row


def api_row(shovel: Shovel) -> dict[str, Any]:
    """Return the row of `/api/shovels`."""
    status = shovel.status
    row: dict[str, Any] = {
        "node": shovel.node,
        "timestamp": moment(status.get("changed_ms", 0), padded=False),
        "name": shovel.key[2],
        **shovel.place,
        "type": shovel.type,
        "state": shovel.state,
        **shovel.ends,
    }
    if status.get("reason"):
        row["reason"] = status["reason"]
    return row | progress(status)


CTL_NAMES = {
    "src_uri": "source",
    "src_protocol": "source_protocol",
    "src_queue": "source_queue",
    "src_exchange": "source_exchange",
    "src_exchange_key": "source_exchange_key",
    "src_address": "source_address",
    "dest_address": "destination_address",
    "dest_uri": "destination",
    "dest_protocol": "destination_protocol",
    "dest_queue": "destination_queue",
    "dest_exchange": "destination_exchange",
    "dest_exchange_key": "destination_exchange_key",
}
"""Names of the HTTP API → names of `shovel_status`."""


def ctl_row(shovel: Shovel) -> dict[str, Any]:
    """Return the row of `shovel_status`."""
    row: dict[str, Any] = {CTL_NAMES[name]: value for name, value in shovel.ends.items()}
    row |= {
        "last_changed": moment(shovel.status.get("changed_ms", 0), padded=True),
        "name": shovel.key[2],
        "state": shovel.state,
        "termination_reason": shovel.status.get("reason", ""),
        "type": shovel.type,
        **shovel.place,
    }
    return dict(sorted(row.items()))

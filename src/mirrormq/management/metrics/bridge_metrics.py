"""Metrics of shovels and federation links that run on this node."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mirrormq.bridges.link_status import LinkState
from mirrormq.management.metrics.exposition import Exposition, labels

if TYPE_CHECKING:
    from mirrormq.management.managed_node import ManagedNode

FACTS = {
    "mirrormq_bridge_forwarded_total": "forwarded",
    "mirrormq_bridge_refused_total": "refused",
    "mirrormq_bridge_restarts_total": "restarts",
    "mirrormq_bridge_backlog": "backlog",
    "mirrormq_bridge_pending": "pending",
    "mirrormq_bridge_unconfirmed": "unconfirmed",
}
"""Metrics → fields of a link's status."""


def of_bridges(node: ManagedNode, exposition: Exposition, per_object: bool) -> None:
    """Add the number of links by state, and their counters: of each link, or their sums."""
    rows = node.live.links()
    states = Counter(row["state"] for row in rows)
    for state in LinkState:
        if state is not LinkState.FINISHED:
            exposition.add("mirrormq_bridge_links", states[state.value], labels(state=state.value))
    for metric, fact in FACTS.items():
        if not per_object:
            exposition.add(metric, sum(max(0, row[fact]) for row in rows))
            continue
        exposition.announce(metric)
        for row in rows:
            named = labels(vhost=row["vhost"], kind=row["kind"], name=row["name"])
            exposition.add(metric, max(0, row[fact]), named)

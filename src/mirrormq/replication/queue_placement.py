"""Placement of a new queue: master and mirrors are chosen when a client declares it."""

from __future__ import annotations

from collections import Counter

import msgspec

from mirrormq.metadata import records
from mirrormq.replication import initial_placement
from mirrormq.replication.placement import MIN_MASTERS
from mirrormq.replication.replication_host import PlacementHost
from mirrormq.wire.fields import Table, decode_entries


def placed(broker: PlacementHost, queue: records.Queue, arguments: Table) -> records.Queue:
    """Return the record of a new queue with its master and mirrors."""
    state, settings = broker.metadata.state, broker.settings
    definition = broker.policies.effective(queue.vhost, queue.name, "queues").definition
    locator = initial_placement.locator(arguments, definition, settings.queue_master_locator)
    masters: Counter[str] = Counter()
    if locator == MIN_MASTERS:
        masters.update(other.node for other in state.queues.values())
    return initial_placement.place(
        queue, locator, definition, settings.name, state.nodes, masters, broker.choose
    )


def placed_again(broker: PlacementHost, queue: records.Queue) -> records.Queue:
    """Return the record of a queue that is declared again, with a new id, master and mirrors."""
    fresh = msgspec.structs.replace(
        queue, queue_id=0, node="", view=None, waits_for=(), copies=(), former=(), rescue=None
    )
    return placed(broker, fresh, decode_entries(fresh.arguments))

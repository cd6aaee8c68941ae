"""Mirrored exchanges: a queue that is bound to one is mirrored on all nodes.

An exchange declared with `x-mirrored: true` applies `ha-mode: all` to the queues bound to it. A policy that
sets `ha-mode` takes precedence. Only a direct binding from the exchange counts, not a path through other
exchanges. When the last such binding is deleted, so are the mirrors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.records import Binding, Exchange, Queue
from mirrormq.metadata.state import MetadataState
from mirrormq.wire.fields import decode_table

MIRRORED = "x-mirrored"

_NAME = MIRRORED.encode()


def is_mirrored(exchange: Exchange) -> bool:
    """Return whether an exchange was declared with `x-mirrored: true`."""
    if _NAME not in exchange.arguments:
        return False
    table = decode_table(len(exchange.arguments).to_bytes(4, "big") + exchange.arguments, 0)[0]
    field = table.get(MIRRORED)
    return field is not None and field.value is True


def mirrored_definition(state: MetadataState, policies: PolicyMatcher, queue: Queue) -> Mapping[str, Any]:
    """Return the effective policy of a queue, with `ha-mode` from its exchanges."""
    definition = policies.effective(queue.vhost, queue.name, "queues").definition
    if "ha-mode" in definition:
        return definition
    sources = {binding.source for binding in state.bindings_to(queue.vhost, "queue", queue.name).values()}
    if any(is_mirrored(state.exchanges[queue.vhost, name]) for name in sources):
        return {**definition, "ha-mode": "all"}
    return definition


def queues_concerned(state: MetadataState, record: Binding | Exchange) -> Iterator[Queue]:
    """Yield the queues whose mirroring a changed binding or exchange may affect. The bindings of a deleted
    exchange are deleted before it."""
    if isinstance(record, Binding):
        source = state.exchanges.get((record.vhost, record.source))
        if source is not None and not is_mirrored(source):
            return
    bindings = [record] if isinstance(record, Binding) else state.bindings_from(*record.key).values()
    for binding in bindings:
        if binding.destination_kind == "queue":
            queue = state.queues.get((binding.vhost, binding.destination))
            if queue is not None:
                yield queue

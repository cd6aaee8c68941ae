"""Mirrored exchanges: a queue that is bound to one is mirrored on all nodes.

An exchange declared with `x-mirrored: true` says of the queues bound to it what a policy with `ha-mode: all`
would say. A policy that has a word on mirroring comes first. Only a binding from the exchange itself counts,
not a way through other exchanges; when the last such binding goes, so do the mirrors.
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
    """Was it declared with `x-mirrored: true`?"""
    if _NAME not in exchange.arguments:
        return False
    table = decode_table(len(exchange.arguments).to_bytes(4, "big") + exchange.arguments, 0)[0]
    field = table.get(MIRRORED)
    return field is not None and field.value is True


def mirrored_definition(state: MetadataState, policies: PolicyMatcher, queue: Queue) -> Mapping[str, Any]:
    """What policies and exchanges say about a queue, as a policy's definition."""
    definition = policies.effective(queue.vhost, queue.name, "queues").definition
    if "ha-mode" in definition:
        return definition
    sources = {binding.source for binding in state.bindings_to(queue.vhost, "queue", queue.name).values()}
    if any(is_mirrored(state.exchanges[queue.vhost, name]) for name in sources):
        return {**definition, "ha-mode": "all"}
    return definition


def queues_concerned(state: MetadataState, record: Binding | Exchange) -> Iterator[Queue]:
    """The queues for which it may make a difference that a binding or an exchange has changed. When an
    exchange goes, its bindings have gone before."""
    bindings = [record] if isinstance(record, Binding) else state.bindings_from(*record.key).values()
    for binding in bindings:
        if binding.destination_kind == "queue":
            queue = state.queues.get((binding.vhost, binding.destination))
            if queue is not None:
                yield queue

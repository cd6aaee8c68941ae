"""Which queues are copies of which: what `x-copy-from` and `x-copy-routing-key` come to.

An exclusive queue is its connection's alone, so only that connection may have it copied. Every node must come
to the same answer, also those that do not know the connection. So the declaration of a copy is refused if
its source is somebody else's, and a copy that was declared first, when nobody could know, gets nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.broker.arguments import COPY_FROM, COPY_ROUTING_KEY
from mirrormq.exchanges.named_copies import EVERYTHING
from mirrormq.metadata.state import MetadataState
from mirrormq.wire.fields import Table


class QueueCopy(NamedTuple):
    """What a queue wants copies of."""

    source: str
    pattern: str


def wish(arguments: Table) -> QueueCopy | None:
    """What the arguments of a queue ask for."""
    source = _text(arguments, COPY_FROM)
    if not source:
        return None
    pattern = _text(arguments, COPY_ROUTING_KEY)
    return QueueCopy(source, EVERYTHING if pattern is None else pattern)


def may_copy(state: MetadataState, vhost: str, source: str, copy: str) -> bool:
    """Are there two such queues, and may one have what the other gets?"""
    original, copied = state.queues.get((vhost, source)), state.queues.get((vhost, copy))
    if original is None or copied is None:
        return False
    return not original.exclusive or copied.queue_id > original.queue_id


def _text(arguments: Table, name: str) -> str | None:
    field = arguments.get(name)
    if field is None or not isinstance(field.value, bytes):
        return None
    return field.value.decode("utf-8", "surrogateescape")

"""Named copies: evaluation of `x-copy-from` and `x-copy-routing-key`.

An exclusive queue belongs to its connection, so only that connection may have it copied. Every node must
reach the same decision, also nodes that do not know the connection. The declaration of a copy is therefore
refused if its source belongs to another connection. A copy that was declared first, when the owner was
unknown, receives nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.broker.arguments import COPY_FROM, COPY_ROUTING_KEY
from mirrormq.exchanges.named_copies import EVERYTHING
from mirrormq.metadata.state import MetadataState
from mirrormq.wire.fields import Table


class QueueCopy(NamedTuple):
    """Source queue and routing key pattern of a named copy."""

    source: str
    pattern: str


def requested_copy(arguments: Table) -> QueueCopy | None:
    """Return the copy that the arguments of a queue request, or None."""
    source = _text(arguments, COPY_FROM)
    if not source:
        return None
    pattern = _text(arguments, COPY_ROUTING_KEY)
    return QueueCopy(source, EVERYTHING if pattern is None else pattern)


def may_copy(state: MetadataState, vhost: str, source: str, copy: str) -> bool:
    """Return whether both queues exist and one may receive the other's messages."""
    original, copied = state.queues.get((vhost, source)), state.queues.get((vhost, copy))
    if original is None or copied is None:
        return False
    # Queue ids grow: a copy with a higher id was declared after its source and has passed the owner check.
    return not original.exclusive or copied.queue_id > original.queue_id


def _text(arguments: Table, name: str) -> str | None:
    field = arguments.get(name)
    if field is None or not isinstance(field.value, bytes):
        return None
    return field.value.decode("utf-8", "surrogateescape")

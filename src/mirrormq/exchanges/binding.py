"""Bindings: rules by which an exchange routes matching messages to a queue or to another exchange."""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.wire.fields import encode_table

QUEUE = "queue"
EXCHANGE = "exchange"

NO_ARGUMENTS = encode_table({})


class Destination(NamedTuple):
    """Queue or exchange of the same vhost."""

    kind: str
    name: str


class Binding(NamedTuple):
    """Binding of one exchange: two are the same iff all three fields are equal.

    `arguments` is an encoded table, sorted by name. A binding is therefore hashable, and the order of its
    arguments does not matter.
    """

    destination: Destination
    routing_key: str
    arguments: bytes = NO_ARGUMENTS


def to_queue(name: str, routing_key: str = "", arguments: bytes = NO_ARGUMENTS) -> Binding:
    """Return a binding whose destination is the queue `name`."""
    return Binding(Destination(QUEUE, name), routing_key, arguments)

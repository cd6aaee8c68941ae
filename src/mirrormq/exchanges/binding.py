"""Bindings: an exchange's promise to pass on what matches to a queue or to another exchange."""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.wire.fields import encode_table

QUEUE = "queue"
EXCHANGE = "exchange"

NO_ARGUMENTS = encode_table({})


class Destination(NamedTuple):
    """A queue or an exchange of the same vhost."""

    kind: str
    name: str


class Binding(NamedTuple):
    """Two bindings of one exchange are the same iff all three parts are equal.

    `arguments` is an encoded table, sorted by name, so that a binding can be hashed and their order does not
    tell two apart.
    """

    destination: Destination
    routing_key: str
    arguments: bytes = NO_ARGUMENTS


def to_queue(name: str, routing_key: str = "", arguments: bytes = NO_ARGUMENTS) -> Binding:
    """A binding whose destination is the queue `name`."""
    return Binding(Destination(QUEUE, name), routing_key, arguments)

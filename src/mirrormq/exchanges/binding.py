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


class CountedDestinations(dict[Destination, int]):
    """Destinations with their number of bindings, in the order in which they were first added.

    Several bindings may name one destination; it leaves with its last binding.
    """

    __slots__ = ()

    def add(self, destination: Destination) -> None:
        """Count one more binding to this destination."""
        self[destination] = self.get(destination, 0) + 1

    def discard(self, destination: Destination) -> None:
        """Count one binding fewer to this destination."""
        count = self[destination] - 1
        if count:
            self[destination] = count
        else:
            del self[destination]

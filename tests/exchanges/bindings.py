"""Bindings as tests need them."""

from __future__ import annotations

from mirrormq.exchanges.binding import EXCHANGE, NO_ARGUMENTS, Binding, Destination
from mirrormq.wire.fields import Table, encode_table


def encode_arguments(arguments: Table) -> bytes:
    return encode_table(dict(sorted(arguments.items())))


def to_exchange(name: str, routing_key: str = "", arguments: bytes = NO_ARGUMENTS) -> Binding:
    """A binding whose destination is the exchange `name`."""
    return Binding(Destination(EXCHANGE, name), routing_key, arguments)

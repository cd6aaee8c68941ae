"""x-consistent-hash: one destination per message, chosen by a hash and the bindings' weights.

Three properties are required. Each destination gets its share by weight. Equal hashed values always go to the
same destination, on every node and after every restart. When a destination is added or removed, only the
values move that must. The choice may therefore depend on the *set* of bindings only, never on the order in
which they were made (RabbitMQ's own bucket list does: unbinding there shifts buckets).

A value is hashed to one of `SLOTS` slots, and each slot belongs to the winner of a weighted rendezvous: every
destination draws a number from (its name, the slot), exponentially distributed with its weight as rate. The
smallest draw wins, with probability weight / sum of weights. A new destination can only take slots, a removed
one only leaves its own. Draws cost a digest per destination. Winners are cached until a binding changes, and
routing is a checksum and a list look-up.

A destination that is bound twice has the weight of its older binding, as in RabbitMQ. RabbitMQ removes the
destination altogether when either binding is removed; here the remaining binding stays in force.

The hashed value is the routing key, or a header (argument `hash-header`), or one of three properties
(`hash-property`). A message that lacks the header or property hashes an empty value.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from zlib import crc32

from mirrormq.errors import InternalError, PreconditionFailed
from mirrormq.exchanges.binding import Binding, Destination
from mirrormq.exchanges.exchange import NO_PROPERTIES, Exchange, Properties
from mirrormq.wire.erlang_terms import binary_text, comparable
from mirrormq.wire.fields import Table

SLOTS = 16_384
"""Number of slots. A share of a tenth deviates by 2 % at this number (one sigma, relative). Four times the
slots would halve that, and quadruple the time to fill the table after a binding changes."""

PROPERTIES = ("correlation_id", "message_id", "timestamp")


def hash_argument(arguments: Table, name: str) -> str | None:
    """Return a string argument; for another type RabbitMQ replies with an internal error without a text."""
    field = arguments.get(name)
    if field is None:
        return None
    if field.kind != "S" or not isinstance(field.value, bytes):
        raise InternalError
    return field.value.decode("utf-8", "surrogateescape")


def validate_arguments(arguments: Table) -> None:
    """Refuse arguments that RabbitMQ's plugin refuses."""
    header = hash_argument(arguments, "hash-header")
    hashed_property = hash_argument(arguments, "hash-property")
    if header is not None and hashed_property is not None:
        raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
    if hashed_property is not None and hashed_property not in PROPERTIES:
        raise PreconditionFailed(f"Unsupported property: {hashed_property}")


def validate_weight(routing_key: str) -> None:
    """Refuse a binding key that is not a positive integer, the weight. At most 255 digits fit a float."""
    digits = routing_key[1:] if routing_key[:1] in ("+", "-") else routing_key
    if not (digits.isascii() and digits.isdigit()):
        shown = binary_text(routing_key.encode("utf-8", "surrogateescape"))
        raise PreconditionFailed(f"The binding key must be an integer: {shown}")
    if int(routing_key) < 1:
        raise PreconditionFailed("The binding key must be greater than 0")


class ConsistentHashExchange(Exchange):
    kind = "x-consistent-hash"

    def __init__(self, name: str, arguments: Table) -> None:
        super().__init__(name)
        self._header = hash_argument(arguments, "hash-header")
        self._property = hash_argument(arguments, "hash-property")
        self.needs_headers = self._header is not None
        self.needs_properties = self._property is not None
        self.cacheable = not (self.needs_headers or self.needs_properties)
        self._weights: dict[Destination, list[int]] = {}
        """By destination, the weights of its bindings in order of binding; only the first is in force."""
        self._owners: list[Destination | None] = []

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        if not self._weights:
            return ()
        slot = crc32(self._hashed(routing_key, headers, properties)) % SLOTS
        owner = self._owners[slot]
        if owner is None:
            owner = self._owners[slot] = self._winner(slot)
        return (owner,)

    def _hashed(self, routing_key: str, headers: Table, properties: Properties) -> bytes:
        text: object = routing_key
        if self._header is not None:
            field = headers.get(self._header)
            text = "" if field is None else comparable(field)
        elif self._property is not None:
            text = properties.get(self._property, "")
        return text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")

    def _winner(self, slot: int) -> Destination:
        return min(self._weights, key=lambda each: _draw(each, slot) / self._weights[each][0])

    def _added(self, binding: Binding) -> None:
        # Winners are recomputed lazily, slot by slot: a new destination changes only the slots that it
        # wins.
        self._weights.setdefault(binding.destination, []).append(int(binding.routing_key))
        self._owners = [None] * SLOTS

    def _removed(self, binding: Binding) -> None:
        weights = self._weights[binding.destination]
        weights.remove(int(binding.routing_key))
        if not weights:
            del self._weights[binding.destination]
        self._owners = [None] * SLOTS


def _draw(destination: Destination, slot: int) -> float:
    """Return an exponentially distributed number with rate 1 that depends only on the arguments."""
    named = f"{slot}/{destination.kind}/{destination.name}".encode("utf-8", "surrogateescape")
    digest = int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "big")
    return -math.log((digest + 1) / (2**64 + 1))

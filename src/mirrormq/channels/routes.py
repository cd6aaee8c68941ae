"""Routes of a channel: everything that depends on a basic.publish payload alone, found once.

A payload names an exchange and a routing key. Whether the user may publish there, and which queues messages
reach, changes only with the topology and the user's rights; the vhost has one number that grows with both. A
channel remembers a route for each payload it has seen, by the raw bytes, and forgets all of them when that
number has changed. For most messages publishing then means: look up, slice, append.
"""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.queues.message import Envelope
from mirrormq.queues.queue_interface import QueueInterface


class Destination(NamedTuple):
    """An exchange and the queues that messages reach from there; one object for all routes with this pair."""

    exchange: str
    queues: tuple[QueueInterface, ...]


class Route:
    """Where one basic.publish payload leads."""

    __slots__ = (
        "_envelopes", "_suffix", "destination", "exchange", "mandatory", "publish", "routing_key",
        "seen_envelope", "seen_properties", "seen_queues",
    )  # fmt: skip

    def __init__(self, publish: bytes, exchange: str, routing_key: str, *, mandatory: bool) -> None:
        self.publish = publish
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.destination: Destination | None = None
        """Where messages go unless their properties say otherwise; None if that depends on their properties,
        or if there is no queue."""
        self._suffix = b"\x00" + publish[6:-1] + b"\xce"
        """The tail of basic.deliver: not redelivered, exchange, routing key, frame end."""
        self._envelopes: dict[int, Envelope] = {}
        self.seen_properties: bytes | None = None
        """Properties of the last message that had to be looked at, if equal ones may be treated the same …"""
        self.seen_envelope: Envelope | None = None
        self.seen_queues: tuple[QueueInterface, ...] = ()
        """… with this envelope, for these queues."""

    def envelope(self, traits: int) -> Envelope:
        """The envelope of messages with these traits (`wire.properties.plain_traits`)."""
        found = self._envelopes.get(traits)
        if found is None:
            found = self._envelopes[traits] = self.new_envelope(None, traits & 1 != 0, traits >> 1)
        return found

    def new_envelope(self, properties: bytes | None, persistent: bool, priority: int) -> Envelope:
        """An envelope of messages that do not expire."""
        return Envelope(
            self.publish, self.exchange, self.routing_key, self.mandatory, properties, persistent, priority,
            None, self._suffix,
        )  # fmt: skip

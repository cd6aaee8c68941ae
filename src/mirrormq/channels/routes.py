"""Routes of a channel: everything that depends on a basic.publish payload alone, determined once.

A payload names an exchange and a routing key. The user's permission to publish, and the queues that messages
reach, change only with the topology and the permissions; a version number grows with both. A channel caches a
route for each payload, by the raw bytes, and drops all routes when the version changes. For most messages
publishing then means: look up, slice, append.
"""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.queues.message import Envelope
from mirrormq.queues.queue import AnyQueue


class Destination(NamedTuple):
    """Exchange and the queues that messages reach from it; one object for all routes with this pair."""

    exchange: str
    queues: tuple[AnyQueue, ...]


class Route:
    """Cached result of checking and routing one basic.publish payload."""

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
        """Destination of messages without special properties; None if it depends on the properties, or
        without a queue."""
        self._suffix = b"\x00" + publish[6:-1] + b"\xce"
        """Tail of basic.deliver: not redelivered, exchange, routing key, frame end."""
        self._envelopes: dict[int, Envelope] = {}
        self.seen_properties: bytes | None = None
        """Properties of the last message that was looked up, if equal properties give the same envelope
        and queues."""
        self.seen_envelope: Envelope | None = None
        self.seen_queues: tuple[AnyQueue, ...] = ()
        """Queues of messages with `seen_properties`; `seen_envelope` is their envelope."""

    def envelope(self, traits: int) -> Envelope:
        """Return the envelope of messages with these traits (`wire.properties.plain_traits`)."""
        found = self._envelopes.get(traits)
        if found is None:
            found = self._envelopes[traits] = self.new_envelope(None, traits & 1 != 0, traits >> 1)
        return found

    def new_envelope(self, properties: bytes | None, persistent: bool, priority: int) -> Envelope:
        """Create an envelope of messages without expiration."""
        return Envelope(
            self.publish, self.exchange, self.routing_key, self.mandatory, properties, persistent, priority,
            None, self._suffix,
        )  # fmt: skip

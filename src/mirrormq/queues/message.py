"""A message: raw content frames, and the little of it that somebody must read.

The broker never takes a message apart unless it has to. What a publisher sent arrives as one
`basic.publish` method payload and a run of content frames (one header frame, body frames); a
consumer receives the same content frames behind a `basic.deliver`. So a message *is* those bytes:

    publish   the payload of the basic.publish method frame
    frames    the header frame and the body frames, back to back, as they came off the wire
              (their channel number is the publisher's; `wire.content` rewrites it when it differs)

Everything a queue must know beyond that (delivery mode, priority, expiration) depends only on
the publish payload and the header, and publishers repeat themselves: a thousand messages in a row
usually differ in nothing but their bodies, or in an id. They share one `Envelope`.
"""

from __future__ import annotations

from mirrormq.wire.content import properties_of

NEVER = 0
"""`expires_at` of a message that does not expire."""


class Envelope:
    """What messages with equal publish payload have in common, as far as a queue treats them alike."""

    __slots__ = (
        "deliver_suffix",
        "exchange",
        "expiration_ms",
        "hidden_keys",
        "mandatory",
        "persistent",
        "priority",
        "producer_ids",
        "properties",
        "publish",
        "routing_key",
    )

    def __init__(
        self,
        publish: bytes,
        exchange: str,
        routing_key: str,
        mandatory: bool,
        properties: bytes | None,
        persistent: bool,
        priority: int,
        expiration_ms: int | None,
        deliver_suffix: bytes,
    ) -> None:
        self.publish = publish
        """The raw basic.publish payload, class and method ids included."""
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.properties = properties
        """The raw header payload from the property flags on (class, weight, body size left off). None if each
        message has properties of its own, of which a queue need not know more than is said here."""
        self.persistent = persistent
        self.priority = priority
        self.expiration_ms = expiration_ms
        self.producer_ids: tuple[str, int] | None = None
        """Its publisher's name and number for it, if it is to be kept once (`queues.producers`)."""
        self.hidden_keys: tuple[str, ...] = ()
        """Routing keys of the BCC header, which nobody may see; a dead letter goes to them again."""
        self.deliver_suffix = deliver_suffix
        """The tail of basic.deliver: not redelivered, exchange, routing key, frame end."""


class Message:
    """One message in one queue."""

    __slots__ = (
        "body_size", "envelope", "expires_at", "frames", "ingested_ms", "position", "redelivered", "sequence",
    )  # fmt: skip

    def __init__(
        self, envelope: Envelope, frames: bytes, expires_at: int = NEVER, body_size: int = -1
    ) -> None:
        self.envelope = envelope
        self.frames = frames
        self.body_size = body_size if body_size >= 0 else int.from_bytes(frames[11:19], "big")
        """The body's length, as its header declares it."""
        self.expires_at = expires_at
        """Milliseconds since the Unix epoch, NEVER if it does not expire."""
        self.sequence = 0
        """Its place in the queue's history, given by the queue; grows by one, starts at 1."""
        self.position = 0
        """Where the journal keeps it; 0 while it is in memory only."""
        self.ingested_ms = 0
        """When the journal first stored it, in milliseconds since the Unix epoch; 0 before that, and for
        messages of journal format 1."""
        self.redelivered = False

    @property
    def properties(self) -> bytes:
        """The raw header payload from the property flags on."""
        shared = self.envelope.properties
        return properties_of(self.frames) if shared is None else shared

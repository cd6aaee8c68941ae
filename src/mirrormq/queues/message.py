"""Message: raw content frames, and the few fields of it that the broker needs.

The broker parses a message only where it must. A publisher sends one `basic.publish` method payload and a run
of content frames (one header frame, body frames). A consumer receives the same content frames behind a
`basic.deliver`. A message therefore consists of those bytes:

    publish   the payload of the basic.publish method frame
    frames    the header frame and the body frames, back to back, as they came off the wire
              (their channel number is the publisher's; `wire.content` rewrites it when it differs)

Everything else that a queue needs (delivery mode, priority, expiration) depends only on the publish payload
and the header. Successive messages of a publisher usually differ only in their bodies, or in an id. They
share one `Envelope`.
"""

from __future__ import annotations

from typing import Final

from mirrormq.wire.content import properties_of

NEVER: Final = 0
"""`expires_at` of a message that does not expire."""


class Envelope:
    """Fields common to messages with equal publish payload, as far as a queue treats them alike."""

    __slots__ = (
        "deliver_suffix",
        "exchange",
        "expiration_ms",
        "hidden_keys",
        "mandatory",
        "persistent",
        "plain",
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
        """Raw basic.publish payload, class and method ids included."""
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.properties = properties
        """Raw header payload from the property flags on (without class, weight, body size). None if the
        messages have different properties; a queue needs only the fields of this class."""
        self.persistent = persistent
        self.priority = priority
        self.expiration_ms = expiration_ms
        self.producer_ids: tuple[str, int] | None = None
        """Producer name and publish id, if the message is deduplicated (`queues.publish_ids`)."""
        self.plain = expiration_ms is None
        """Whether the messages neither expire nor have a publish id."""
        self.hidden_keys: tuple[str, ...] = ()
        """Routing keys of the BCC header, which consumers must not see; a dead letter is routed to them
        again."""
        self.deliver_suffix = deliver_suffix
        """Tail of basic.deliver: not redelivered, exchange, routing key, frame end."""

    def identify(self, producer_ids: tuple[str, int] | None) -> None:
        """Set producer name and publish id."""
        self.producer_ids = producer_ids
        self.plain = producer_ids is None and self.expiration_ms is None


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
        """Body length, as the header declares it."""
        self.expires_at = expires_at
        """Milliseconds since the Unix epoch, NEVER if it does not expire."""
        self.sequence = 0
        """Number of the message in the queue, set by the queue; starts at 1 and grows by one."""
        self.position = 0
        """Position in the journal; 0 while the message is in memory only."""
        self.ingested_ms = 0
        """Time when the queue's master accepted it, in milliseconds since the Unix epoch. Every copy has the
        same. 0 before the publish, and for messages of journal format 1."""
        self.redelivered = False

    @property
    def properties(self) -> bytes:
        """Raw header payload from the property flags on."""
        shared = self.envelope.properties
        return properties_of(self.frames) if shared is None else shared

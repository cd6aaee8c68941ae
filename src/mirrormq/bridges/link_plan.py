"""Plan of a link: where messages come from, where they go, and when the source forgets them; the context in
which a plan is made.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.client.client_channel import ClientChannel
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import ChannelClosed, Delivery, Event, MethodReply
from mirrormq.metadata.state import MetadataState
from mirrormq.wire.fields import Table

DEFAULT_PREFETCH = 1000
"""RabbitMQ's default of `src-prefetch-count` and of `prefetch-count`."""

DEFAULT_RECONNECT_DELAY_S = 5.0
"""RabbitMQ's default of `reconnect-delay`."""

HELD_BYTES_MAX = 64 * 1024 * 1024
"""Bodies that one link holds before it stops reading the source."""

T = TypeVar("T")
Reply = MethodReply | ChannelClosed
Setup = Generator[bytes | tuple[bytes, ...], Reply, T]
"""Script that yields requests and receives their replies. Of several requests at once, only the last has a
reply. It opens no channel: after a ChannelClosed the next
request goes out on a new one."""


class AckMode(Enum):
    """Moment at which the source may forget a message; values are RabbitMQ's."""

    ON_CONFIRM = "on-confirm"
    """After the destination has confirmed it: nothing is lost, a break may duplicate messages."""
    ON_PUBLISH = "on-publish"
    """After it was written to the destination's connection: a break may lose or duplicate messages."""
    NO_ACK = "no-ack"
    """When the source sends it: a break loses messages under way."""


class Outgoing(NamedTuple):
    """Message as it is published to the destination."""

    exchange: str
    routing_key: str
    properties: bytes
    """Encoded properties, from the flags on."""
    body: bytes | bytearray


class Subscription(NamedTuple):
    """Result of a source's setup: the queue to consume from."""

    queue: str
    ready: int = 0
    """Ready messages when the queue was declared."""
    also: tuple[str, ...] = ()
    """Further queues to consume from."""


class SetupFailed(Exception):
    """Refused step of a setup script; the text becomes the reason in the link's status."""


class LinkExtension(Protocol):
    """User of further channels on the source's connection, for example for bindings."""

    def running(self, source: ClientConnection) -> None:
        """Handle the start of the transfer; channels may be opened."""

    def source_event(self, event: Event) -> str | None:
        """Handle an event of a channel that the link does not use itself; a text ends the attempt."""

    def check(self) -> None:
        """Ask the source whether the link's objects still exist; a refusal arrives as an event."""

    def closing(self, channel: ClientChannel) -> None:
        """Send last requests on the consumer's channel: the link ends in good order."""

    def ended(self) -> None:
        """Handle the end of the connection."""


@dataclass(frozen=True)
class Source:
    """Source end of a link."""

    uris: tuple[AmqpUri, ...]
    setup: Callable[[ClientConnection], Setup[Subscription]]
    prefetch: int = DEFAULT_PREFETCH
    consumer_tag: str = ""
    consumer_arguments: Table = field(default_factory=dict)


@dataclass(frozen=True)
class Destination:
    """Destination end of a link."""

    uris: tuple[AmqpUri, ...]
    setup: Callable[[ClientConnection], Setup[None]]
    mandatory: bool = True
    """Publish with `mandatory`: a message that reaches no queue stays in the source and blocks the link."""


@dataclass(frozen=True)
class LinkPlan:
    """Everything that a link needs to know about its work."""

    name: str
    """Name of its connections in lists of the brokers."""
    source: Source
    destination: Destination
    transform: Callable[[Delivery, ClientConnection], Outgoing | None]
    """Returns the message to publish; None drops the delivery and acknowledges it."""
    ack_mode: AckMode = AckMode.ON_CONFIRM
    reconnect_delay_s: float = DEFAULT_RECONNECT_DELAY_S
    """Pause between attempts; 0 or less: no further attempt."""
    limit: int | None = None
    """Number of messages after which the link is finished; None: no limit."""
    limit_to_ready: bool = False
    """Flag: the limit is the number of ready messages when the link starts."""
    extension: LinkExtension | None = None
    consume_at_start: bool = True
    """False: the link runs without a consumer until `Link.consume`."""
    moved: Callable[[Delivery], None] | None = None
    """Called for each message that the link has finished with, before its acknowledgement."""
    held_bytes_max: int = HELD_BYTES_MAX


def required(request: bytes) -> Setup[MethodReply]:
    """Send a request that must succeed."""
    reply = yield request
    if isinstance(reply, ChannelClosed):
        raise SetupFailed(reply.text)
    return reply


class LinkContext(NamedTuple):
    """Facts about a running link and its node that a plan needs."""

    state: MetadataState
    cluster_name: str
    now_s: Callable[[], int]
    """Returns the Unix time."""
    uri_indexes: Callable[[], tuple[int, int]]
    """Returns the places of the URIs in use in the lists of source and destination."""

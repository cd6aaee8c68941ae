"""Events of a client connection, in the order in which the broker caused them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from mirrormq.wire import methods
from mirrormq.wire.fields import Table


class CloseReason(Enum):
    """Cause of the end of a connection, as a code; the text of `Closed` is for users."""

    CLIENT = "closed by the client"
    SERVER = "closed by the broker"
    LOGIN_REFUSED = "login refused"
    VHOST_REFUSED = "vhost refused"
    NO_MECHANISM = "no common authentication mechanism"
    WRONG_PROTOCOL = "not AMQP 0-9-1"
    PROTOCOL_ERROR = "protocol error"
    FRAME_TOO_LARGE = "frame too large"
    BODY_TOO_LARGE = "message body too large"
    HEARTBEAT_TIMEOUT = "heartbeat timeout"
    CONNECT_FAILED = "cannot connect"
    TLS_FAILED = "TLS handshake failed"
    TLS_FILES = "TLS files cannot be used"
    TIMEOUT = "no answer in time"
    LOST = "connection lost"

    @property
    def permanent(self) -> bool:
        """Whether the same attempt fails again until an operator changes something."""
        return self in _PERMANENT


_PERMANENT = frozenset(
    {
        CloseReason.LOGIN_REFUSED,
        CloseReason.VHOST_REFUSED,
        CloseReason.NO_MECHANISM,
        CloseReason.WRONG_PROTOCOL,
        CloseReason.TLS_FILES,
    }
)


class Opened(NamedTuple):
    """Handshake complete, with the negotiated values."""

    server_properties: Table
    channel_max: int
    frame_max: int
    heartbeat_s: int


class Blocked(NamedTuple):
    """connection.blocked: the broker reads no publishes until Unblocked."""

    reason: str


class Unblocked(NamedTuple):
    """connection.unblocked."""


class Closed(NamedTuple):
    """End of the connection; always the last event."""

    reason: CloseReason
    text: str
    code: int = 0
    """Reply code of the broker's connection.close; 0 if it sent none."""


class ChannelOpened(NamedTuple):
    """channel.open-ok."""

    channel: int


class ChannelClosed(NamedTuple):
    """End of a channel; pending requests get no reply."""

    channel: int
    code: int
    """Reply code; 0 if the client closed the channel."""
    text: str
    class_id: int = 0
    method_id: int = 0


class FlowChanged(NamedTuple):
    """channel.flow; the reply is already sent."""

    channel: int
    active: bool


class MethodReply(NamedTuple):
    """Reply to a request; replies of one channel arrive in the order of its requests."""

    channel: int
    method: methods.Method


class Delivery(NamedTuple):
    """basic.deliver with its content."""

    channel: int
    consumer_tag: str
    delivery_tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: bytes
    """Encoded properties, from the flags on."""
    body: bytes | bytearray
    """Body; a bytearray only if it arrived in several frames."""


class GetReply(NamedTuple):
    """basic.get-ok with its content. An empty queue gives MethodReply with basic.get-empty."""

    channel: int
    delivery_tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    message_count: int
    properties: bytes
    body: bytes | bytearray


class Returned(NamedTuple):
    """basic.return: a mandatory message that reached no queue."""

    channel: int
    code: int
    text: str
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes | bytearray


class Confirm(NamedTuple):
    """basic.ack or basic.nack from the broker."""

    channel: int
    delivery_tag: int
    multiple: bool
    accepted: bool


class ConsumerCancelled(NamedTuple):
    """basic.cancel: the broker ended a consumer, for example because its queue was deleted."""

    channel: int
    consumer_tag: str


Event = (
    Opened
    | Blocked
    | Unblocked
    | Closed
    | ChannelOpened
    | ChannelClosed
    | FlowChanged
    | MethodReply
    | Delivery
    | GetReply
    | Returned
    | Confirm
    | ConsumerCancelled
)


class ClientFault(Exception):
    """Violation of the protocol or of a limit by the broker; `ClientConnection` turns it into a Closed
    event."""

    def __init__(self, reason: CloseReason, text: str) -> None:
        super().__init__(text)
        self.reason = reason

"""Dispatch of frames to the channels of an open connection.

A channel that waits for a reply has its frames postponed until then (`channels.pending_requests`). The
runtime stops reading from a client that sends too much to such a channel.

The functions take the connection and use its public attributes only, like those of `handshake`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.channels.channel import Channel
from mirrormq.connections import handshake
from mirrormq.connections.states import OPEN
from mirrormq.errors import AmqpError, ChannelError, ChannelErrorHard, NotAllowed
from mirrormq.wire import methods
from mirrormq.wire.frames import METHOD
from mirrormq.wire.runs import ACK_SIZE

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection

_CHANNEL_OPEN = methods.CHANNEL_OPEN.to_bytes(4, "big")


def frame(connection: Connection, kind: int, number: int, payload: bytes) -> None:
    """Dispatch a frame to its channel, or open a channel."""
    if connection.state is not OPEN:
        raise handshake.not_open(connection, kind, number, payload)
    channel = connection.channels.get(number)
    ids = payload[:4] if kind == METHOD else b""
    if channel is None:
        if ids != _CHANNEL_OPEN:
            raise unopened(kind, payload)
        _open_channel(connection, number, payload)
    elif channel.waiting.count:
        channel.waiting.postpone(len(payload), lambda: frame(connection, kind, number, payload))
    else:
        try:
            channel.frame(kind, payload)
        except ChannelError as error:
            connection.close_channel(channel, error)


def postpone_run(
    connection: Connection, channel: Channel, publish: bytes, properties: bytes, contents: list[bytes]
) -> None:
    """Postpone publishes that differ in their bodies alone."""
    channel.waiting.postpone(
        sum(map(len, contents)),
        lambda: connection.publishes(channel.number, publish, properties, contents),
    )


def postpone_publishes(
    connection: Connection, channel: Channel, publishes: list[bytes], contents: list[bytes], header_bytes: int
) -> None:
    """Postpone publishes with their own payloads."""
    channel.waiting.postpone(
        sum(map(len, contents)),
        lambda: connection.publishes_mixed(channel.number, publishes, contents, header_bytes),
    )


def postpone_acknowledgements(connection: Connection, channel: Channel, tags: list[int]) -> None:
    """Postpone a run of acknowledgements."""
    channel.waiting.postpone(len(tags) * ACK_SIZE, lambda: connection.acknowledges(channel.number, tags))


def unopened(kind: int, payload: bytes) -> AmqpError:
    """Return the error for a frame of a channel that is not open; raise the decoding error if it is
    malformed."""
    method_id = 0
    if kind == METHOD:
        methods.decode_method(payload)
        method_id = int.from_bytes(payload[:4], "big")
    return ChannelErrorHard("expected 'channel.open'").at(method_id)


def _open_channel(connection: Connection, number: int, payload: bytes) -> None:
    methods.decode_channel_open(payload)
    if connection.channel_max and len(connection.channels) >= connection.channel_max:
        raise NotAllowed(
            f"number of channels opened ({len(connection.channels)}) "
            f"has reached the negotiated channel_max ({connection.channel_max})",
            class_id=0,
        )
    refusal = connection.broker.client_limits.channel_refusal(connection.user)
    if refusal is not None:
        raise NotAllowed(refusal, class_id=0)
    connection.channels[number] = Channel(connection, number)
    connection.send(number, methods.encode_channel_open_ok())
    connection.broker.events.channel_created(connection.channels[number])

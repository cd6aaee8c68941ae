"""The frames of an open connection's channels, and how each of them fares.

A channel that waits for an answer has its frames put aside until then (`channels.questions`). A client that
sends ever more to such a channel is no longer read from.

These are functions that take the connection and use what others see of it, like those of `handshake`. What
the scanner calls is a method of it: `Connection` names them in its body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq import limits
from mirrormq.channels.channel import Channel
from mirrormq.connections import handshake
from mirrormq.connections.states import ConnectionState
from mirrormq.errors import AmqpError, ChannelError, ChannelErrorHard, NotAllowed
from mirrormq.wire import methods
from mirrormq.wire.frames import METHOD
from mirrormq.wire.runs import ACK_SIZE

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection

_CHANNEL_OPEN = methods.CHANNEL_OPEN.to_bytes(4, "big")


def publishes(
    connection: Connection, channel: int, publish: bytes, properties: bytes, contents: list[bytes]
) -> None:
    """A run of publishes from the scanner."""
    connection.effort -= 1 + len(properties) // limits.HEADER_BYTES_PER_EFFORT
    open_channel = _publishing_channel(connection, channel, publish)
    if open_channel is None:
        return
    if open_channel.waiting.count:
        size_bytes = sum(map(len, contents))
        open_channel.waiting.postpone(
            size_bytes, lambda: publishes(connection, channel, publish, properties, contents)
        )
        return
    try:
        open_channel.publishes(publish, properties, contents)
    except ChannelError as error:
        connection.close_channel(open_channel, error)


def publishes_mixed(connection: Connection, channel: int, publish: bytes, contents: list[bytes]) -> None:
    """A run of publishes whose properties differ."""
    header_bytes = sum([int.from_bytes(content[3:7], "big") for content in contents])
    connection.effort -= len(contents) + header_bytes // limits.HEADER_BYTES_PER_EFFORT
    open_channel = _publishing_channel(connection, channel, publish)
    if open_channel is None:
        return
    if open_channel.waiting.count:
        size_bytes = sum(map(len, contents))
        open_channel.waiting.postpone(
            size_bytes, lambda: publishes_mixed(connection, channel, publish, contents)
        )
        return
    try:
        open_channel.publishes_mixed(publish, contents)
    except ChannelError as error:
        connection.close_channel(open_channel, error)


def acknowledges(connection: Connection, channel: int, tags: list[int]) -> None:
    """A run of acknowledgements."""
    connection.effort -= 1
    acknowledging = connection.channels.get(channel)
    if acknowledging is None:
        raise ChannelErrorHard("expected 'channel.open'").at(methods.BASIC_ACK)
    if connection.state is not ConnectionState.OPEN:
        return
    if acknowledging.waiting.count:
        size_bytes = len(tags) * ACK_SIZE
        acknowledging.waiting.postpone(size_bytes, lambda: acknowledges(connection, channel, tags))
        return
    try:
        acknowledging.acknowledges(tags)
    except ChannelError as error:
        connection.close_channel(acknowledging, error)


def _publishing_channel(connection: Connection, number: int, publish: bytes) -> Channel | None:
    """The channel of a publish; None if the connection is closing and publishes are dropped."""
    channel = connection.channels.get(number)
    if channel is None:
        raise _unopened(METHOD, publish)
    return channel if connection.state is ConnectionState.OPEN else None


def frame(connection: Connection, kind: int, number: int, payload: bytes) -> None:
    """Any other frame."""
    if connection.state is not ConnectionState.OPEN:
        raise handshake.not_open(connection, kind, number, payload)
    channel = connection.channels.get(number)
    ids = payload[:4] if kind == METHOD else b""
    if channel is None:
        if ids != _CHANNEL_OPEN:
            raise _unopened(kind, payload)
        _open_channel(connection, number, payload)
    elif channel.waiting.count:
        channel.waiting.postpone(len(payload), lambda: frame(connection, kind, number, payload))
    else:
        try:
            channel.frame(kind, payload)
        except ChannelError as error:
            connection.close_channel(channel, error)


def _unopened(kind: int, payload: bytes) -> AmqpError:
    """What is wrong with a frame of a channel that is not open: if it cannot be read, that."""
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

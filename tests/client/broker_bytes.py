"""Bytes as a broker sends them, for tests of the client core without a broker."""

from __future__ import annotations

import itertools

from mirrormq.client.client_channel import ClientChannel
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import Event
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame

FRAME_MAX = 4096
"""Small, so that bodies of several frames are cheap."""


def start(mechanisms: bytes = b"PLAIN AMQPLAIN") -> bytes:
    return method_frame(0, methods.encode_connection_start(0, 9, {}, mechanisms, b"en_US"))


def tune(channel_max: int = 10, frame_max: int = FRAME_MAX, heartbeat_s: int = 0) -> bytes:
    return method_frame(0, methods.encode_connection_tune(channel_max, frame_max, heartbeat_s))


def open_ok() -> bytes:
    return method_frame(0, methods.encode_connection_open_ok())


def handshake() -> bytes:
    return start() + tune() + open_ok()


def channel_open_ok(channel: int = 1) -> bytes:
    return method_frame(channel, methods.encode_channel_open_ok())


def content(method: bytes, body: bytes, *, channel: int = 1, properties: bytes = b"\0\0") -> bytes:
    return method_frame(channel, method) + build_frames(channel, properties, body, FRAME_MAX)


def delivery(
    tag: int,
    body: bytes,
    *,
    consumer: str = "c",
    key: str = "k",
    channel: int = 1,
    properties: bytes = b"\0\0",
) -> bytes:
    deliver = methods.encode_basic_deliver(consumer, tag, tag % 2 == 0, "x", key)
    return content(deliver, body, channel=channel, properties=properties)


def confirm(tag: int, *, multiple: bool = False, accepted: bool = True, channel: int = 1) -> bytes:
    if accepted:
        return method_frame(channel, methods.encode_basic_ack(tag, multiple))
    return method_frame(channel, methods.encode_basic_nack(tag, multiple, False))


def opened(options: ClientOptions | None = None) -> ClientConnection:
    """A connection whose handshake is done."""
    connection = ClientConnection(options or ClientOptions(heartbeat_s=None))
    connection.receive(handshake())
    connection.take_output()
    return connection


def opened_channel(connection: ClientConnection) -> ClientChannel:
    """A channel whose channel.open is answered."""
    channel = connection.open_channel()
    connection.receive(channel_open_ok(channel.number))
    connection.take_output()
    return channel


def feed(connection: ClientConnection, data: bytes, cuts: list[int]) -> list[Event]:
    """Events of a byte stream that comes in pieces."""
    events: list[Event] = []
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in itertools.pairwise(places):
        if begin < end:
            events += connection.receive(data[begin:end])
    return events

"""The client's end of a connection to a simulated node: real AMQP frames, no socket.

What a client reads is what its node wrote at the end of a turn; then it may answer, in the same moment or
later. A node that dies takes the connection with it, and the client hears nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mirrormq.broker.broker import Broker
from mirrormq.connections.connection import Connection
from mirrormq.connections.peer import Peer
from mirrormq.ranges import questions
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import Field, Table
from mirrormq.wire.frames import BODY, HEADER, METHOD
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

FRAME_MAX = 131_072
CAPABILITIES = ("consumer_cancel_notify", "publisher_confirms", "basic.nack")
PERSISTENT, TRANSIENT = 2, 1


class Heard(NamedTuple):
    """A method, and the content that came with it if any."""

    method: Any
    properties: BasicProperties | None = None
    body: bytes = b""


class Session:
    """One connection with channel 1 open."""

    def __init__(self, broker: Broker, heard: Callable[[Heard], None]) -> None:
        self.connection = Connection(broker, Peer("127.0.0.1", 1))
        self._heard = heard
        self._unread: list[Heard] = []
        can: Table = {name: Field("t", True) for name in CAPABILITIES}
        properties: Table = {"capabilities": Field("F", can)}
        self.connection.receive(b"AMQP\x00\x00\x09\x01")
        login = methods.encode_connection_start_ok(properties, "PLAIN", b"\0guest\0guest", "en_US")
        for payload in (
            login,
            methods.encode_connection_tune_ok(2047, FRAME_MAX, 0),
            methods.encode_connection_open("/"),
        ):
            self.send(payload, channel=0)
        self.send(methods.encode_channel_open())

    @property
    def over(self) -> bool:
        """Has the node ended it?"""
        return self.connection.closed or self.connection.finished

    def send(self, *payloads: bytes, channel: int = 1) -> None:
        """Methods without content."""
        self.connection.receive(b"".join([method_frame(channel, payload) for payload in payloads]))

    def publish(
        self,
        key: str,
        body: bytes,
        delivery_mode: int = PERSISTENT,
        expiration: str = "",
        priority: int = 0,
    ) -> None:
        """To the default exchange."""
        properties = BasicProperties(
            delivery_mode=delivery_mode, expiration=expiration or None, priority=priority or None
        )
        header = encode_properties(properties)
        method = method_frame(1, methods.encode_basic_publish("", key))
        self.connection.receive(method + build_frames(1, header, body, FRAME_MAX))

    def ask(self, question: Table, body: bytes) -> None:
        """About ranges and leases."""
        header = encode_properties(
            BasicProperties(headers=question, reply_to=questions.REPLY_QUEUE, correlation_id="1")
        )
        method = method_frame(1, methods.encode_basic_publish("", questions.ROUTING_KEY))
        self.connection.receive(method + build_frames(1, header, body, FRAME_MAX))

    def hang_up(self) -> None:
        """The client goes without a word."""
        if not self.connection.finished:
            self.connection.lost()

    @property
    def has_news(self) -> bool:
        """Is there something to read, or something that the node has not taken yet?"""
        return self.connection in self.connection.broker.writing or self.connection.buffered_bytes > 0

    def poll(self) -> None:
        """Read what there is, and let the node take what it could not take before."""
        self.connection.resume()
        self.connection.broker.writing.pop(self.connection, None)
        self._decode(b"".join(self.connection.take_output()))
        found, self._unread = self._unread, []
        for heard in found:
            self._heard(heard)

    def _decode(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            kind = data[at]
            size = int.from_bytes(data[at + 3 : at + 7], "big")
            payload = data[at + 7 : at + 7 + size]
            at += size + 8
            if kind == METHOD:
                self._unread.append(Heard(methods.decode_method(payload)))
            elif kind == HEADER:
                properties = decode_properties(payload, 12)
                self._unread[-1] = self._unread[-1]._replace(properties=properties)
            elif kind == BODY:
                last = self._unread[-1]
                self._unread[-1] = last._replace(body=last.body + payload)

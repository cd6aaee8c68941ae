"""The client's end of a connection to a simulated node: real AMQP frames, no socket.

What a client reads is what its node wrote at the end of a turn; then it may answer, in the same moment or
later. A node that dies takes the connection with it, and the client hears nothing more.
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.broker.broker import Broker
from mirrormq.client.client_connection import ClientConnection, ClientState
from mirrormq.client.client_events import Closed, CloseReason, Event
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.connections.connection import Connection
from mirrormq.connections.peer import Peer
from mirrormq.ranges import range_protocol
from mirrormq.wire.fields import Table
from mirrormq.wire.properties import PERSISTENT, BasicProperties, encode_properties

OPTIONS = ClientOptions(
    heartbeat_s=None,
    capabilities=dict.fromkeys(("consumer_cancel_notify", "publisher_confirms", "basic.nack"), True),
)


class SimulatedSession:
    """One connection with channel 1 open."""

    def __init__(self, broker: Broker, heard: Callable[[Event], None]) -> None:
        self.connection = Connection(broker, Peer("127.0.0.1", 1))
        self._heard = heard
        self._client = ClientConnection(OPTIONS)
        self._unread: list[Event] = []
        while output := self._client.take_output():
            self.connection.receive(output)
            self._read()
        assert self._client.state in (ClientState.OPEN, ClientState.CLOSED), "a login waits for something"
        self._channel = self._client.open_channel()
        self._write()

    @property
    def over(self) -> bool:
        """Has the node ended it?"""
        return self.connection.closed or self.connection.finished

    def send(self, *payloads: bytes) -> None:
        """Methods without content."""
        for payload in payloads:
            self._channel.request(payload)
        self._write()

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
        self._channel.publish("", key, encode_properties(properties), body)
        self._write()

    def ask(self, question: Table, body: bytes) -> None:
        """About ranges and leases."""
        properties = BasicProperties(
            headers=question, reply_to=range_protocol.REPLY_QUEUE, correlation_id="1"
        )
        self._channel.publish("", range_protocol.ROUTING_KEY, encode_properties(properties), body)
        self._write()

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
        self._read()
        found, self._unread = self._unread, []
        for event in found:
            self._heard(event)
        if not self.over:
            self._write()  # answers of the client core itself

    def _read(self) -> None:
        events = self._client.receive(b"".join(self.connection.take_output()))
        for event in events:
            # A client that hung up and came back would hide that the broker broke the protocol.
            assert not isinstance(event, Closed) or event.reason is CloseReason.SERVER, event
        self._unread += events

    def _write(self) -> None:
        if output := self._client.take_output():
            self.connection.receive(output)

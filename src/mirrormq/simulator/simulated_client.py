"""Client end of a connection to a simulated node: real AMQP frames, no socket.

A client reads what its node wrote at the end of a turn, and may reply at the same moment or later. When the
node fails, the connection is gone and the client receives nothing more.
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.auth.client_peer import Peer
from mirrormq.broker.broker import Broker
from mirrormq.client.client_connection import ClientConnection, ClientState
from mirrormq.client.client_events import Closed, CloseReason, Event
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.connections.connection import Connection
from mirrormq.ranges import range_protocol
from mirrormq.wire.fields import Table
from mirrormq.wire.properties import PERSISTENT, BasicProperties, encode_properties

OPTIONS = ClientOptions(
    heartbeat_s=None,
    capabilities=dict.fromkeys(("consumer_cancel_notify", "publisher_confirms", "basic.nack"), True),
)


class SimulatedSession:
    """Connection with channel 1 open."""

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
        """Return whether the node has closed the connection."""
        return self.connection.closed or self.connection.finished

    def send(self, *payloads: bytes) -> None:
        """Send methods without content."""
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
        headers: Table | None = None,
        exchange: str = "",
    ) -> None:
        """Publish a message."""
        properties = BasicProperties(
            delivery_mode=delivery_mode,
            expiration=expiration or None,
            priority=priority or None,
            headers=headers,
        )
        self._channel.publish(exchange, key, encode_properties(properties), body)
        self._write()

    def ask(self, request: Table, body: bytes) -> None:
        """Send a request about ranges or leases."""
        properties = BasicProperties(headers=request, reply_to=range_protocol.REPLY_QUEUE, correlation_id="1")
        self._channel.publish("", range_protocol.ROUTING_KEY, encode_properties(properties), body)
        self._write()

    def hang_up(self) -> None:
        """Drop the connection without closing it."""
        if not self.connection.finished:
            self.connection.lost()

    @property
    def has_news(self) -> bool:
        """Return whether there is something to read, or input that the node has not processed yet."""
        return self.connection in self.connection.broker.writing or self.connection.buffered_bytes > 0

    def poll(self) -> None:
        """Read available output, and let the node process buffered input."""
        self.connection.resume()
        self.connection.broker.writing.pop(self.connection, None)
        self._read()
        events, self._unread = self._unread, []
        for event in events:
            self._heard(event)
        if not self.over:
            self._write()  # replies of the client core itself

    def _read(self) -> None:
        events = self._client.receive(b"".join(self.connection.take_output()))
        for event in events:
            # A client that reconnected after a protocol error would hide the broker's bug.
            assert not isinstance(event, Closed) or event.reason is CloseReason.SERVER, event
        self._unread += events

    def _write(self) -> None:
        if output := self._client.take_output():
            self.connection.receive(output)

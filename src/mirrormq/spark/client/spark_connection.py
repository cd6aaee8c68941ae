"""Connection of a Spark driver or task: the blocking AMQP client with the errors of `client_errors`.

The client disables heartbeats: a task may be busy with Spark for longer than any interval, and the broker
would close its connection. Time limits detect a silent broker, TCP keep-alive one that has disappeared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.client.client_events import CloseReason, Event
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client_io.blocking_client import ANSWER_TIMEOUT_S, BlockingClient
from mirrormq.client_io.client_socket import ChannelEnded, ConnectionEnded
from mirrormq.spark.client.client_errors import BrokerError, ConnectionLost, closed
from mirrormq.wire import methods

CHANNEL = 1
"""Number of the only channel; encoded frames contain it."""

PRODUCT = "mirrormq spark"

CONNECT_TIMEOUT_S = 5.0
"""Time limit for a connection attempt and for the handshake: a dead machine or a frozen process does not
reply, and there are other nodes."""

_OPERATOR_ERRORS = (CloseReason.NO_MECHANISM, CloseReason.TLS_FILES)
"""Reasons that another node does not change, without a refusal by the broker."""


class SparkConnection:
    """Connection that is open after construction; every method may raise ConnectionLost or RequestRefused."""

    def __init__(
        self,
        address: AmqpUri,
        timeout_s: float = ANSWER_TIMEOUT_S,
        handshake_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self.address = address
        options = ClientOptions.of_uri(address, PRODUCT, heartbeat_s=None)
        with _translated(address):
            self._client = BlockingClient(address, options, handshake_timeout_s)
        self._client.timeout_s = timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.drop()

    @property
    def frame_max(self) -> int:
        """Largest frame that both sides agreed on."""
        return self._client.frame_max

    def call(self, payload: bytes) -> methods.Method:
        """Send a method on the channel, wait for its reply and return it."""
        with _translated(self.address):
            return self._client.call(payload)

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send frames; blocks until the broker accepts them."""
        with _translated(self.address):
            self._client.send(data)

    def receives_within(self, timeout_s: float) -> bool:
        """Whether an event is queued, or input arrives within this time. It may be part of an event only."""
        with _translated(self.address):
            return self._client.receives_within(timeout_s)

    def events(self) -> list[Event]:
        """Return the queued events without waiting; an end of the connection raises after the events before
        it."""
        with _translated(self.address):
            return self._client.events(0.0)

    def close(self) -> None:
        """Close after the broker has handled everything sent before; close the socket in any case."""
        self._client.close()

    def drop(self) -> None:
        """Close the socket without connection.close: unacked deliveries return to their queue."""
        self._client.drop()


@contextmanager
def _translated(address: AmqpUri) -> Iterator[None]:
    """Raise errors of the client core as errors of the Spark client, which decide what to retry."""
    try:
        yield
    except ConnectionEnded as error:
        raise _connection_error(error, address) from None
    except ChannelEnded as error:
        raise closed(error.closed.code, error.closed.text) from None


def _connection_error(error: ConnectionEnded, address: AmqpUri) -> BrokerError:
    end = error.closed
    if end.code:
        return closed(end.code, end.text)
    if end.reason is CloseReason.WRONG_PROTOCOL:
        return ConnectionLost(f"{address.where}: {end.text}")
    return BrokerError(end.text) if end.reason in _OPERATOR_ERRORS else ConnectionLost(end.text)

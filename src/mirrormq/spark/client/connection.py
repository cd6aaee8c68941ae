"""One blocking connection with one channel, and its errors in Spark's two words: Lost and Refused.

Heartbeats are not asked for: a task may be busy with Spark for longer than any interval, and would be
taken for dead. A peer that is silent is noticed by the time limit of whoever waits for it, and one that
is gone by the keep-alive of TCP.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

from mirrormq.client.client_events import CloseReason, Event
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client_io.blocking_client import ANSWER_TIMEOUT_S, BlockingClient
from mirrormq.client_io.client_socket import ChannelEnded, ClientError, ConnectionEnded
from mirrormq.spark.client.address import Address
from mirrormq.spark.client.errors import BrokerError, Lost, closed
from mirrormq.wire import methods

CHANNEL = 1

CONNECT_TIMEOUT_S = 5.0
"""For a node to take a connection: a dead machine answers nothing, and there are other nodes."""


class Connection:
    """Open when made; every method may raise Lost or Refused."""

    def __init__(self, address: Address, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self.address = address
        options = replace(ClientOptions.of_uri(address, "mirrormq spark"), heartbeat_s=None)
        with _translated():
            self._client = BlockingClient(address, options, timeout_s, CONNECT_TIMEOUT_S)
        self.frame_max = self._client.frame_max

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.drop()

    def close(self) -> None:
        """Say goodbye, so that the broker has handled all that was sent; then hang up in any case."""
        self._client.close()

    def drop(self) -> None:
        """Hang up without a word: what is unacknowledged returns to its queue."""
        self._client.drop()

    def call(self, payload: bytes) -> methods.Method:
        """Send a method on the channel and wait for its answer."""
        with _translated():
            return self._client.call(payload)

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send frames, waiting until the broker takes them."""
        with _translated():
            self._client.send(data)

    def receive(self) -> Event:
        """The next event; Lost when none comes in time."""
        try:
            return self._client.receive()
        except ClientError as error:
            raise _translation(error) from None

    def comes_within(self, timeout_s: float) -> bool:
        """Whether something is there to receive, or begins to come within this time."""
        try:
            return self._client.comes_within(timeout_s)
        except ClientError as error:
            raise _translation(error) from None


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise _translation(error) from None


def _translation(error: ClientError) -> BrokerError:
    """Lost, if another node or a later time may do better; else a refusal."""
    if isinstance(error, ChannelEnded | ConnectionEnded) and error.closed.code:
        return closed(error.closed.code, error.closed.text)
    if isinstance(error, ConnectionEnded) and error.closed.reason is CloseReason.TLS_FILES:
        return BrokerError(str(error))
    return Lost(str(error))

"""Blocking adapter of the client core: one socket, one connection, one channel."""

from __future__ import annotations

import ssl
import time
from collections import deque
from types import TracebackType
from typing import Self

from mirrormq.client.amqp_uri import AmqpUri, parse_amqp_uri
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import (
    ChannelClosed,
    Closed,
    CloseReason,
    Event,
    GetReply,
    MethodReply,
    Opened,
)
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client_io.client_socket import ChannelEnded, ConnectionEnded, open_socket
from mirrormq.wire import methods
from mirrormq.wire.fields import table_of

RECEIVE_BYTES = 256 * 1024
"""Bytes per read: about a thousand small deliveries."""

ANSWER_TIMEOUT_S = 60.0
"""Longest wait for a reply: longer than a failover takes."""

CLOSE_TIMEOUT_S = 5.0
"""Longest wait for connection.close-ok; afterwards the client closes the socket."""


def connect(
    uri: str, timeout_s: float = ANSWER_TIMEOUT_S, product: str = "mirrormq client"
) -> BlockingClient:
    """Connect with the defaults of the command line tools; raises ConnectionEnded or UriError.

    Heartbeats are off unless the URI enables them: the client sends none while the caller is busy.
    """
    parsed = parse_amqp_uri(uri).for_socket()
    return BlockingClient(parsed, ClientOptions.of_uri(parsed, product, heartbeat_s=None), timeout_s)


class BlockingClient:
    """Connection with one channel, open after construction. Methods raise ConnectionEnded or ChannelEnded.

    The client sends heartbeats while a method waits. A caller that is busy for long disables them.
    """

    def __init__(
        self,
        uri: AmqpUri,
        options: ClientOptions,
        timeout_s: float = ANSWER_TIMEOUT_S,
        connect_timeout_s: float | None = None,
    ) -> None:
        self.uri = uri
        self.timeout_s = timeout_s
        self.connection = ClientConnection(options)
        self._inbox: deque[Event] = deque()
        self.socket = open_socket(uri, timeout_s if connect_timeout_s is None else connect_timeout_s)
        try:
            self.flush()
            self._await(Opened)
            self.channel = self.connection.open_channel()
            self.flush()
            self.receive(timeout_s)
        except BaseException:
            self.socket.close()
            raise

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
        return self.connection.frame_max

    # -- sending --------------------------------------------------------------------------------

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send frames; blocks until the broker accepts them."""
        try:
            self.socket.settimeout(self.timeout_s)
            self.socket.sendall(data)
        except TimeoutError:
            blocked = self.connection.blocked
            why = f", which blocks publishers ({blocked})," if blocked else ""
            raise self._ended(
                CloseReason.TIMEOUT, f"the broker at {self.uri.where}{why} takes no more"
            ) from None
        except OSError as error:
            raise self._broken(error) from None

    def flush(self) -> None:
        """Send the output of connection and channel."""
        if data := self.connection.take_output():
            self.send(data)

    def call(self, payload: bytes) -> methods.Method:
        """Send a request on the channel and wait for its reply; other events stay queued for `receive`."""
        self.channel.request(payload)
        self.flush()
        answer = self._await(MethodReply)
        assert isinstance(answer, MethodReply)
        return answer.method

    def get(self, queue: str, *, no_ack: bool = False) -> GetReply | None:
        """Send basic.get; return None if the queue is empty."""
        self.channel.request(methods.encode_basic_get(queue, no_ack))
        self.flush()
        answer = self._await(MethodReply, GetReply)
        return answer if isinstance(answer, GetReply) else None

    def declare_queue(
        self, queue: str, *, durable: bool, exclusive: bool = False, passive: bool = False, kind: str = ""
    ) -> int:
        """Declare a queue, with `kind` as its x-queue-type; return the number of ready messages."""
        arguments = table_of({"x-queue-type": kind}) if kind else {}
        payload = methods.encode_queue_declare(queue, passive, durable, exclusive, arguments=arguments)
        answer = self.call(payload)
        assert isinstance(answer, methods.QueueDeclareOk)
        return answer.message_count

    # -- receiving ------------------------------------------------------------------------------

    def receive(self, timeout_s: float | None = None) -> Event:
        """Wait for the next event."""
        event = self._next(time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s))
        if isinstance(event, ChannelClosed):
            raise ChannelEnded(event)
        return event

    def comes_within(self, timeout_s: float) -> bool:
        """Whether an event is queued or arrives within this time."""
        if self._inbox:
            return True
        deadline_s = time.monotonic() + timeout_s
        while not self._inbox:
            if not self._fill(max(0.0, deadline_s - time.monotonic())) and time.monotonic() >= deadline_s:
                return False
        return True

    def receives_within(self, timeout_s: float) -> bool:
        """Whether an event is queued, or any input arrives within this time; reads at most once."""
        return bool(self._inbox) or self._fill(timeout_s)

    def events(self, wait_s: float) -> list[Event]:
        """Return the events of one read, possibly none; waits up to `wait_s`."""
        if not self._inbox:
            self._fill(wait_s)
        found: list[Event] = []
        while self._inbox:
            event = self._inbox[0]
            if isinstance(event, Closed | ChannelClosed):
                if found:
                    break  # deliver the events before the close first
                self._inbox.popleft()
                raise ConnectionEnded(event) if isinstance(event, Closed) else ChannelEnded(event)
            found.append(self._inbox.popleft())
        return found

    def _await(self, *kinds: type[Event]) -> Event:
        """Wait for an event of these kinds and keep the others queued."""
        deadline_s = time.monotonic() + self.timeout_s
        kept: list[Event] = []
        try:
            while True:
                event = self._next(deadline_s)
                if isinstance(event, kinds):
                    return event
                if isinstance(event, ChannelClosed):
                    raise ChannelEnded(event)
                kept.append(event)
        finally:
            self._inbox.extendleft(reversed(kept))

    def _next(self, deadline_s: float) -> Event:
        while not self._inbox:
            if not self._fill(max(0.0, deadline_s - time.monotonic())) and time.monotonic() >= deadline_s:
                raise self._ended(
                    CloseReason.TIMEOUT, f"the broker at {self.uri.where} did not answer in time"
                )
        event = self._inbox.popleft()
        if isinstance(event, Closed):
            raise ConnectionEnded(event)
        return event

    def _fill(self, timeout_s: float) -> bool:
        """Read once; return False if nothing arrived in time, or a heartbeat is due before."""
        if heartbeat_s := self.connection.heartbeat_s:
            timeout_s = min(timeout_s, heartbeat_s / 2)
            self._inbox.extend(self.connection.tick(time.monotonic()))
            self.flush()
            if self._inbox:
                return True
        try:
            self.socket.settimeout(timeout_s)
            data = self.socket.recv(RECEIVE_BYTES)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            raise self._broken(error) from None
        where = self.uri.where
        if data:
            self._inbox.extend(self.connection.receive(data))
        else:
            self._inbox.extend(self.connection.lost(f"the broker at {where} closed the connection"))
            if not self._inbox:
                raise self._ended(CloseReason.LOST, f"the connection to {where} has ended")
        try:
            self.flush()
        except ConnectionEnded:
            if not self._inbox:
                raise  # the inbox holds the broker's reason otherwise
        return True

    # -- ending ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Close after the broker has handled everything sent before; close the socket in any case."""
        try:
            self.connection.close()
            self.flush()
            deadline_s = time.monotonic() + CLOSE_TIMEOUT_S
            while True:
                self._next(deadline_s)
        except ConnectionEnded:
            pass
        self.drop()

    def drop(self) -> None:
        """Close the socket without connection.close: the broker requeues unacked deliveries."""
        self.socket.close()

    def _broken(self, error: OSError) -> ConnectionEnded:
        text = f"the connection to {self.uri.where} broke ({error.strerror or error})"
        return self._ended(CloseReason.LOST, text)

    def _ended(self, reason: CloseReason, text: str) -> ConnectionEnded:
        """End the core, too: its Closed event has a better text than the socket's error during login."""
        found = [event for event in self.connection.lost(text, reason) if isinstance(event, Closed)]
        return ConnectionEnded(found[0] if found else Closed(reason, text))

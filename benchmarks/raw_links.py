"""Client connections that cost little: frames prepared before the measurement, replies read by their lengths.

A link opens its connection and declares what it needs with the blocking client. Then the event loop takes the
socket over. A read calls `confirmed`, `delivered`, `returned` or `replied` for each frame or content; what
they append to `out` is written once, behind the read.
"""

from __future__ import annotations

import asyncio
import time
from typing import cast

from mirrormq.client_io.blocking_client import BlockingClient, connect
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.properties import BasicProperties, encode_properties

ANSWER_TIMEOUT_S = 120.0
"""Longest wait for the reply to a declaration; deleting 1,000 queues with messages takes RabbitMQ a while."""

FRAME_BYTES_MAX = 131_072
"""Frame size that both brokers negotiate by default."""

_METHOD, _HEADER, _BODY = 1, 2, 3
_ACK = methods.BASIC_ACK.to_bytes(4, "big")
_NACK = methods.BASIC_NACK.to_bytes(4, "big")
_DELIVER = methods.BASIC_DELIVER.to_bytes(4, "big")
_GET_OK = methods.BASIC_GET_OK.to_bytes(4, "big")
_RETURN = methods.BASIC_RETURN.to_bytes(4, "big")
_CONNECTION_CLOSE = methods.CONNECTION_CLOSE.to_bytes(4, "big")
_CHANNEL_CLOSE = methods.CHANNEL_CLOSE.to_bytes(4, "big")
_ACK_FRONT = b"\x01\x00\x01\x00\x00\x00\x0d" + _ACK
_ACK_BACK = b"\x00\xce"


class BrokerRefused(RuntimeError):
    """connection.close, channel.close or basic.nack in the middle of a measurement."""


def publish(
    exchange: str, key: str, properties: BasicProperties, body: bytes, mandatory: bool = False
) -> bytes:
    """Return one publish as frames of channel 1."""
    method = method_frame(1, methods.encode_basic_publish(exchange, key, mandatory))
    return method + build_frames(1, encode_properties(properties), body, FRAME_BYTES_MAX)


def ack(tag: int) -> bytes:
    """Return basic.ack of one delivery on channel 1."""
    return _ACK_FRONT + tag.to_bytes(8, "big") + _ACK_BACK


class RawLink(asyncio.Protocol):
    """Connection with one channel; subclasses decide what is sent when."""

    def __init__(self, uri: str, *requests: bytes) -> None:
        self.count = 0
        """Messages that this link has finished; what that means depends on the role."""
        self.out: list[bytes] = []
        self.failure: str | None = None
        self.client: BlockingClient = connect(uri, ANSWER_TIMEOUT_S)
        for payload in requests:
            self.client.call(payload)
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._content = b""
        self._tag = self._missing_bytes = 0

    async def join(self) -> None:
        """Hand the socket to the running event loop."""
        self.client.socket.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=self.client.socket)

    def begin(self) -> None:
        """Send what starts the work."""

    def stop(self) -> None:
        """Close the socket."""
        if self._transport is not None:
            self._transport.abort()
        else:
            self.client.drop()

    def flush(self) -> None:
        """Write what is in `out`."""
        if self.out and self._transport is not None:
            self._transport.write(b"".join(self.out))
            self.out.clear()

    # -- what a role overrides ------------------------------------------------------------------

    def confirmed(self, tag: int, multiple: bool) -> None:
        """Handle basic.ack."""

    def delivered(self, tag: int, body: bytes) -> None:
        """Handle a delivery or the reply to basic.get; `body` is its last frame's payload."""

    def returned(self) -> None:
        """Handle basic.return."""

    def replied(self, method: bytes) -> None:
        """Handle any other method."""

    # -- called by the event loop ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self.failure = f"the connection broke: {error}"

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at, size = 0, len(data)
        while size - at >= 8:
            after = at + int.from_bytes(data[at + 3 : at + 7], "big") + 8
            if after > size:
                break
            kind = data[at]
            if kind == _METHOD:
                self._method(data, at + 7, after - 1)
            elif kind == _HEADER:
                self._missing_bytes = int.from_bytes(data[at + 11 : at + 19], "big")
                if not self._missing_bytes:
                    self._complete(b"")
            elif kind == _BODY:
                self._missing_bytes -= after - at - 8
                if not self._missing_bytes:
                    self._complete(data[at + 7 : after - 1])
            at = after
        self._rest = data[at:]
        self.flush()

    def _method(self, data: bytes, at: int, end: int) -> None:
        method = data[at : at + 4]
        if method == _DELIVER:
            behind = at + 5 + data[at + 4]
            self._content, self._tag = method, int.from_bytes(data[behind : behind + 8], "big")
        elif method == _ACK:
            self.confirmed(int.from_bytes(data[at + 4 : at + 12], "big"), data[at + 12] & 1 == 1)
        elif method == _GET_OK:
            self._content, self._tag = method, int.from_bytes(data[at + 4 : at + 12], "big")
        elif method == _RETURN:
            self._content = method
        elif method in (_CONNECTION_CLOSE, _CHANNEL_CLOSE, _NACK):
            self.failure = f"{methods.decode_method(data[at:end])}"
        else:
            self.replied(method)

    def _complete(self, body: bytes) -> None:
        if self._content == _RETURN:
            self.returned()
        else:
            self.delivered(self._tag, body)


class Publisher(RawLink):
    """Publisher with confirms; `count` is the number of confirmed messages."""

    def __init__(
        self, uri: str, chunks: list[bytes], chunk_messages: int, window: int, start: int = 0
    ) -> None:
        super().__init__(uri, methods.encode_confirm_select())
        self._chunks, self._chunk_messages = chunks, chunk_messages
        self._window = window
        self._next = start % len(chunks)
        self._published = self._floor = 0
        self._early: set[int] = set()
        """Single confirms ahead of an unconfirmed message."""
        self.limit = 0
        """Messages to publish; 0: no end."""

    def begin(self) -> None:
        self._refill()
        self.flush()

    def push(self) -> None:
        """Publish one chunk now, whatever the window says: a paced publisher."""
        self._append()
        self.flush()

    def _append(self) -> None:
        self.out.append(self._chunks[self._next])
        self._next = (self._next + 1) % len(self._chunks)
        self._published += self._chunk_messages

    def _refill(self) -> None:
        while self._published - self.count + self._chunk_messages <= self._window:
            if self.limit and self._published >= self.limit:
                return
            self._append()

    def confirmed(self, tag: int, multiple: bool) -> None:
        if multiple:
            early = {each for each in self._early if each > tag}
            self.count += max(0, tag - self._floor) - (len(self._early) - len(early))
            self._early, self._floor = early, max(tag, self._floor)
        else:
            self.count += 1
            self._early.add(tag)
        while self._floor + 1 in self._early:
            self._floor += 1
            self._early.remove(self._floor)
        self._refill()


class PacedPublisher(Publisher):
    """Publisher that publishes only when it is told to."""

    def _refill(self) -> None:
        return


class Consumer(RawLink):
    """Consumer that acknowledges each delivery, or none; `count` is the number of deliveries."""

    def __init__(self, uri: str, *queues: str, prefetch: int, no_ack: bool = False) -> None:
        super().__init__(uri, methods.encode_basic_qos(0, prefetch))
        self._queues, self._acks = queues, not no_ack

    def begin(self) -> None:
        for queue in self._queues:
            payload = methods.encode_basic_consume(queue, no_ack=not self._acks)
            self.out.append(method_frame(1, payload))
        self.flush()

    def delivered(self, tag: int, body: bytes) -> None:
        self.count += 1
        if self._acks:
            self.out.append(ack(tag))


class Getter(RawLink):
    """Client that gets and acknowledges one message after the other."""

    def __init__(self, uri: str, queue: str) -> None:
        super().__init__(uri)
        self._get = method_frame(1, methods.encode_basic_get(queue))

    def begin(self) -> None:
        self.out.append(self._get)
        self.flush()

    def delivered(self, tag: int, body: bytes) -> None:
        self.count += 1
        self.out += (ack(tag), self._get)


class Transactor(RawLink):
    """Publisher that commits each chunk as a transaction; `count` is the number of committed messages."""

    _COMMIT_OK = methods.TX_COMMIT_OK.to_bytes(4, "big")

    def __init__(self, uri: str, chunks: list[bytes], chunk_messages: int) -> None:
        super().__init__(uri, methods.encode_tx_select())
        commit = method_frame(1, methods.encode_tx_commit())
        self._chunks = [chunk + commit for chunk in chunks]
        self._chunk_messages = chunk_messages

    def begin(self) -> None:
        self.out.append(self._chunks[0])
        self.flush()

    def replied(self, method: bytes) -> None:
        if method == self._COMMIT_OK:
            self.count += self._chunk_messages
            self.out.append(self._chunks[self.count // self._chunk_messages % len(self._chunks)])


class ReturnCounter(Publisher):
    """Publisher of mandatory messages that reach no queue; `returned_count` counts basic.return."""

    returned_count = 0

    def returned(self) -> None:
        self.returned_count += 1


class RpcServer(Consumer):
    """Server that sends a prepared reply, chosen by the first two octets of a request."""

    def __init__(self, uri: str, queue: str, replies: list[bytes]) -> None:
        super().__init__(uri, queue, prefetch=0, no_ack=True)
        self._replies = replies

    def delivered(self, tag: int, body: bytes) -> None:
        self.count += 1
        self.out.append(self._replies[int.from_bytes(body[:2], "big")])


class RpcClient(Consumer):
    """Client with one request in flight; `count` is the number of replies."""

    def __init__(self, uri: str, reply_queue: str, request: bytes) -> None:
        super().__init__(uri, prefetch=0, no_ack=True)
        self.client.call(methods.encode_queue_declare(reply_queue, exclusive=True))
        self._queues = (reply_queue,)
        self._request = request
        self.latencies_s: list[float] = []
        self._sent_s = 0.0

    def begin(self) -> None:
        super().begin()
        self._ask()
        self.flush()

    def _ask(self) -> None:
        self._sent_s = time.perf_counter()
        self.out.append(self._request)

    def delivered(self, tag: int, body: bytes) -> None:
        self.count += 1
        self.latencies_s.append(time.perf_counter() - self._sent_s)
        self._ask()


class Requester(RawLink):
    """Client that sends one request after the reply to the one before; `count` is the number of replies."""

    def __init__(self, uri: str, payloads: list[bytes]) -> None:
        super().__init__(uri)
        self._frames = [method_frame(1, payload) for payload in payloads]

    def begin(self) -> None:
        self.out.append(self._frames[0])
        self.flush()

    def replied(self, method: bytes) -> None:
        self.count += 1
        if self.count < len(self._frames):
            self.out.append(self._frames[self.count])

"""Publishers and consumers that remember what the node told them, until its socket breaks.

A message's body is its number, a colon and padding. Publishers keep a window of unconfirmed messages;
consumers acknowledge some of what they get. Both run in threads and end when the connection does.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from mirrormq.client_io.blocking_client import BlockingClient
from mirrormq.perf.publish_frames import ack_frame, publish_frames
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.frames import BODY, METHOD
from tests.durability.node import DEADLINE_S, Node

WINDOW = 200
BODY_BYTES_MAX = 8_000


class Delivery(NamedTuple):
    tag: int
    redelivered: bool
    body: bytes

    @property
    def number(self) -> int:
        return int(self.body.partition(b":")[0])


class Wire:
    """Frames off a socket that may break at any moment; what it breaks with ends the iteration."""

    def __init__(self, client: BlockingClient) -> None:
        self.socket = client.socket
        self._buffer = bytearray()

    def send(self, data: bytes) -> None:
        self.socket.settimeout(DEADLINE_S)
        self.socket.sendall(data)

    def read(self, timeout_s: float) -> list[tuple[int, bytes]]:
        """Whole frames that have come, possibly none; raises ConnectionError at the end."""
        self.socket.settimeout(timeout_s)
        try:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionResetError("closed")
            self._buffer += data
        except (TimeoutError, BlockingIOError):
            pass
        return list(self._frames())

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        buffer = self._buffer
        while len(buffer) >= 7:
            size = int.from_bytes(buffer[3:7], "big")
            if len(buffer) < size + 8:
                return
            yield buffer[0], bytes(buffer[7 : 7 + size])
            del buffer[: size + 8]


class Publisher(threading.Thread):
    """Publishes numbers from `first` on, with confirms, until the connection breaks or `limit`."""

    def __init__(
        self, node: Node, exchange: str, key: str, first: int, seed: int, limit: int = 1 << 60,
        size: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(daemon=True)
        self.exchange, self.key = exchange, key
        self.next = first
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()
        self._first = first
        self._limit = first + limit
        self._size = size
        self._dice = random.Random(seed)
        self._unconfirmed: dict[int, int] = {}
        client = node.dial()
        client.call(methods.encode_confirm_select())
        self._wire = Wire(client)

    def run(self) -> None:
        try:
            while self.next < self._limit or self._unconfirmed:
                self._send()
                self._hear(self._wire.read(0.0 if self._has_room else DEADLINE_S))
        except OSError:
            return
        finally:
            self._wire.socket.close()

    @property
    def _has_room(self) -> bool:
        return len(self._unconfirmed) < WINDOW and self.next < self._limit

    def _send(self) -> None:
        if not self._has_room:
            return
        data = b""
        for _ in range(min(self._dice.randint(1, 20), self._limit - self.next)):
            size = self._dice.randrange(BODY_BYTES_MAX) if self._size is None else self._size
            body = b"%d:" % self.next + b"." * size
            data += publish_frames(1, self.exchange, self.key, body, persistent=True, frame_max=131072)
            self._unconfirmed[self.next - self._first + 1] = self.next
            self.next += 1
        self._wire.send(data)

    def _hear(self, frames: list[tuple[int, bytes]]) -> None:
        for kind, payload in frames:
            method = int.from_bytes(payload[:4], "big") if kind == METHOD else 0
            if method == methods.BASIC_ACK:
                self._settle(payload, self.confirmed)
            elif method == methods.BASIC_NACK:
                self._settle(payload, self.refused)

    def _settle(self, payload: bytes, where: set[int]) -> None:
        tag, multiple = int.from_bytes(payload[4:12], "big"), payload[12] & 1
        tags = [known for known in self._unconfirmed if known <= tag] if multiple else [tag]
        where.update(self._unconfirmed.pop(known) for known in tags)


class Consumer(threading.Thread):
    """Takes messages of one queue and acknowledges some, until the connection breaks."""

    def __init__(self, node: Node, queue: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.queue = queue
        self.received: set[int] = set()
        self.acknowledged: set[int] = set()
        self._dice = random.Random(seed)
        client = node.dial()
        client.call(methods.encode_basic_qos(prefetch_count=50))
        self._wire = Wire(client)
        self._wire.send(method_frame(1, methods.encode_basic_consume(queue, "c", nowait=True)))

    def run(self) -> None:
        reader = Deliveries()
        held: dict[int, int] = {}
        try:
            while True:
                for delivery in reader.feed(self._wire.read(DEADLINE_S)):
                    self.received.add(delivery.number)
                    held[delivery.tag] = delivery.number
                    if self._dice.random() < 0.3:
                        self._acknowledge(delivery.tag, held)
        except OSError:
            return
        finally:
            self._wire.socket.close()

    def _acknowledge(self, tag: int, held: dict[int, int]) -> None:
        multiple = self._dice.random() < 0.5
        tags = [known for known in held if known <= tag] if multiple else [tag]
        self.acknowledged.update(held.pop(known) for known in tags)
        self._wire.send(ack_frame(1, tag, multiple))


class Deliveries:
    """Puts method, header and body frames together."""

    def __init__(self) -> None:
        self._head: tuple[int, bool] | None = None
        self._missing = 0
        self._body = b""

    def feed(self, frames: list[tuple[int, bytes]]) -> Iterator[Delivery]:
        for kind, payload in frames:
            if kind == METHOD:
                if int.from_bytes(payload[:4], "big") == methods.BASIC_DELIVER:
                    method = methods.decode_basic_deliver(payload)
                    self._head, self._body = (method.delivery_tag, method.redelivered), b""
                continue
            if self._head is None:
                continue
            if kind == BODY:
                self._body += payload
                self._missing -= len(payload)
            else:
                self._missing = int.from_bytes(payload[4:12], "big")
            if not self._missing:
                yield Delivery(*self._head, self._body)
                self._head = None


def browse(node: Node, queue: str, *, take: bool = False, less: int = 0) -> list[Delivery]:
    """Everything that is ready in a queue, in the order in which it is given; left there unless `take`.
    `less` than the queue says if some are damaged, which is noticed when they are due."""
    client = node.dial()
    count = client.declare_queue(queue, durable=True, passive=True) - less
    wire, reader = Wire(client), Deliveries()
    wire.send(method_frame(1, methods.encode_basic_consume(queue, "browse", no_ack=take, nowait=True)))
    found: list[Delivery] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages came\n{node.output[-2000:]}"
        found += reader.feed(wire.read(0.1))
    client.close()
    return found


def ready(node: Node, queue: str) -> int:
    """Return the number of ready messages of a queue."""
    client = node.dial()
    try:
        return client.declare_queue(queue, durable=True, passive=True)
    finally:
        client.close()


def publish_all(node: Node, queue: str, count: int, size: int = 100) -> None:
    """Publish so many numbered messages and wait for their confirms."""
    publisher = Publisher(node, "", queue, 0, seed=1, limit=count, size=size)
    publisher.start()
    publisher.join(DEADLINE_S)
    assert len(publisher.confirmed) == count, f"{len(publisher.confirmed)} of {count} confirmed"

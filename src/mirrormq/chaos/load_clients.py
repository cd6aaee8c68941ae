"""Publishers and consumers, each in a thread with its own history file.

A client never stops: when its node fails it connects to the next one, and returns when its own node is back.
A publisher does not resend a message without a confirm: it may or may not arrive, and both are correct.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from mirrormq.client.amqp_uri import parse_amqp_uri
from mirrormq.client.client_events import Confirm, ConsumerCancelled, Delivery
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client.publisher_confirms import UnconfirmedMessages
from mirrormq.client_io.blocking_client import BlockingClient
from mirrormq.client_io.client_socket import ClientError
from mirrormq.history import HistoryWriter, SteadyClock
from mirrormq.wire import methods
from mirrormq.wire.properties import PERSISTENT, BasicProperties, encode_properties

BODY_BYTES = 100
BATCH = 20
"""Messages per send: enough to fill operation batches with more than one, few enough to spread faults between
them."""
PAUSE_S = 0.2
"""Pause before a client tries the next node."""
WAIT_S = 0.05
PREFETCH = 100

ANSWER_TIMEOUT_S = 5.0
HEARTBEAT_S = 10
"""Heartbeat interval. A frozen node keeps its connections open: the client closes after two silent intervals.
"""

_PERSISTENT = encode_properties(BasicProperties(delivery_mode=PERSISTENT))


class LoadNode:
    """Node to which a client may connect."""

    def __init__(self, name: str, uri: str) -> None:
        self.name = name
        self.uri = uri

    def connect(self) -> BlockingClient:
        """Open a connection with a channel; raises ClientError."""
        uri = parse_amqp_uri(self.uri).for_socket()
        options = ClientOptions.of_uri(uri, "mirrormq chaos", heartbeat_s=HEARTBEAT_S)
        return BlockingClient(uri, options, ANSWER_TIMEOUT_S)


class LoadClient:
    """Thread that works on one node or, while that is down, on another."""

    role = ""

    def __init__(
        self, number: int, queue: str, nodes: Sequence[LoadNode], history: Path, clock: SteadyClock
    ) -> None:
        self.number = number
        self.queue = queue
        self._nodes = [*nodes[number % len(nodes) :], *nodes[: number % len(nodes)]]
        self.history = HistoryWriter(history, f"{self.role}-{number}", clock=clock)
        self.node = self._nodes[0]
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"{self.role} {number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish open work and close the history."""
        self.stopping.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            turn = 0
            while not self.stopping.is_set():
                self.node = self._nodes[turn % len(self._nodes)]
                turn = 0 if self._visit() else turn + 1
                self.stopping.wait(PAUSE_S)
        except BaseException as error:
            self.failure = error
        finally:
            self.history.close()

    def _visit(self) -> bool:
        """Serve one connection until it ends; return False if it could not be opened."""
        try:
            client = self.node.connect()
        except ClientError:
            return False
        try:
            self._work(client)
        except ClientError as error:
            self._disconnected(str(error))
        finally:
            client.drop()
        return True

    def _work(self, client: BlockingClient) -> None:
        raise NotImplementedError

    def _disconnected(self, why: str) -> None:
        raise NotImplementedError


class PublishingClient(LoadClient):
    """Publisher at a steady rate with a window of unconfirmed messages."""

    role = "publisher"

    def __init__(
        self, number: int, queue: str, nodes: Sequence[LoadNode], history: Path, clock: SteadyClock, *,
        rate: float, window: int,
    ) -> None:  # fmt: skip
        super().__init__(number, queue, nodes, history, clock)
        self._rate, self._window = rate, window
        self._next = 0
        self._open = UnconfirmedMessages[int]()
        self.confirmed = 0

    def _work(self, client: BlockingClient) -> None:
        client.call(methods.encode_confirm_select())
        self._open.clear()
        due_s = time.monotonic()
        while not self.stopping.is_set() or (len(self._open) and time.monotonic() < due_s + 10):
            now = time.monotonic()
            if not self.stopping.is_set() and now >= due_s and len(self._open) + BATCH <= self._window:
                self._send(client)
                due_s = max(due_s + BATCH / self._rate, now - 1)
            for event in client.events(max(0.001, min(WAIT_S, due_s - time.monotonic()))):
                if isinstance(event, Confirm):
                    self._settle(event)

    def _send(self, client: BlockingClient) -> None:
        for _ in range(BATCH):
            self._open.add(self._next)
            self.history.attempted(self.queue, self.number, self._next, self.node.name)
            body = f"{self.number} {self._next} ".encode().ljust(BODY_BYTES, b".")
            client.channel.publish("", self.queue, _PERSISTENT, body, mandatory=True)
            self._next += 1
        client.flush()

    def _settle(self, event: Confirm) -> None:
        numbers = self._open.settle(event.delivery_tag, event.multiple)
        if event.accepted:
            self.confirmed += len(numbers)
            self.history.confirmed(self.queue, self.number, numbers, self.node.name)
        else:
            self.history.nacked(self.queue, self.number, numbers, self.node.name)

    def _disconnected(self, why: str) -> None:
        self._open.clear()
        self.history.disconnected(self.node.name, publisher=self.number, detail=why)


class ConsumingClient(LoadClient):
    """Consumer of one queue that acknowledges its deliveries late and in batches."""

    role = "consumer"
    delivered = 0

    def _work(self, client: BlockingClient) -> None:
        client.call(methods.encode_basic_qos(prefetch_count=PREFETCH))
        client.call(methods.encode_basic_consume(self.queue, "chaos"))
        unacknowledged: list[tuple[int, int]] = []
        while not self.stopping.is_set():
            last_tag = 0
            for event in client.events(WAIT_S):
                if isinstance(event, Delivery):
                    last_tag = event.delivery_tag
                    unacknowledged.append(self._on_delivery(event))
                elif isinstance(event, ConsumerCancelled):
                    self.history.cancelled(self.queue, self.node.name, self.number)
                    client.channel.request(methods.encode_basic_consume(self.queue, "chaos"))
            if last_tag:
                client.channel.ack(last_tag, multiple=True)
                client.flush()
                for publisher, number in unacknowledged:
                    self.history.acknowledged(self.queue, publisher, number, self.node.name, self.number)
                unacknowledged.clear()

    def _on_delivery(self, event: Delivery) -> tuple[int, int]:
        self.delivered += 1
        publisher, number = (int(word) for word in event.body.split(b" ", 2)[:2])
        self.history.delivered(
            self.queue, publisher, number, self.node.name, self.number, redelivered=event.redelivered
        )
        return publisher, number

    def _disconnected(self, why: str) -> None:
        self.history.disconnected(self.node.name, consumer=self.number, detail=why)

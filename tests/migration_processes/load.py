"""Publishers and consumers that stay active while a migration moves them, and the judgement of what they saw.

Each message has its publisher and number in the body. A publisher whose connection breaks sends its
unconfirmed messages again, marked with the header `resent`.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import NamedTuple

from mirrormq.client.amqp_uri import parse_amqp_uri
from mirrormq.client.client_events import Confirm, Delivery
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client.publisher_confirms import UnconfirmedMessages
from mirrormq.client_io.blocking_client import BlockingClient
from mirrormq.client_io.client_socket import ClientError
from mirrormq.wire import methods
from mirrormq.wire.fields import table_of
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

WINDOW = 200
BATCH = 20
PREFETCH = 50
PAUSE_S = 0.1
FIRST = encode_properties(BasicProperties(delivery_mode=2))
AGAIN = encode_properties(BasicProperties(delivery_mode=2, headers=table_of({"resent": True})))


def connect(port: int, vhost: str) -> BlockingClient:
    uri = parse_amqp_uri(f"amqp://guest:guest@127.0.0.1:{port}/{vhost}").for_socket()
    return BlockingClient(uri, ClientOptions.of_uri(uri, "load", heartbeat_s=None), 20.0)


class Worker:
    """Thread that connects again whenever its connection ends."""

    def __init__(self, port: int, vhost: str) -> None:
        self._port, self._vhost = port, vhost
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.connections = 0
        self.refused = 0
        """Attempts to connect that failed."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, patience_s: float = 120.0) -> None:
        """Wait for the end of the thread."""
        self._thread.join(patience_s)
        assert not self._thread.is_alive(), "a client did not finish"
        assert self.failure is None, self.failure

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    client = connect(self._port, self._vhost)
                except ClientError:
                    self.refused += 1
                    self.stopping.wait(PAUSE_S)
                    continue
                self.connections += 1
                try:
                    with client:
                        self._work(client)
                except ClientError:
                    self.stopping.wait(PAUSE_S)
        except BaseException as error:
            self.failure = error

    def _work(self, client: BlockingClient) -> None:
        raise NotImplementedError


class LoadPublisher(Worker):
    """Publisher of at most `rate` messages a second, until it has published enough and is told so."""

    def __init__(self, port: int, vhost: str, number: int, rate: float) -> None:
        super().__init__(port, vhost)
        self.number, self._rate = number, rate
        self.enough = threading.Event()
        self.published = 0
        self._open = UnconfirmedMessages[int]()
        self.confirmed = 0
        self.resent = 0

    def _work(self, client: BlockingClient) -> None:
        client.call(methods.encode_confirm_select())
        for number in self._open.restart():
            self._publish(client, number, AGAIN)
            self.resent += 1
        client.flush()
        due_s = time.monotonic()
        while len(self._open) or not self.enough.is_set():
            if not self.enough.is_set() and len(self._open) < WINDOW and time.monotonic() >= due_s:
                for number in range(self.published, self.published + BATCH):
                    self._open.add(number)
                    self._publish(client, number, FIRST)
                self.published += BATCH
                client.flush()
                due_s += BATCH / self._rate
            for event in client.events(max(0.0005, min(0.02, due_s - time.monotonic()))):
                if isinstance(event, Confirm):
                    assert event.accepted
                    self.confirmed += len(self._open.settle(event.delivery_tag, event.multiple))
        self.stopping.set()

    def _publish(self, client: BlockingClient, number: int, properties: bytes) -> None:
        body = f"{self.number} {number} ".encode().ljust(100, b".")
        client.channel.publish("orders", f"eu.{self.number}", properties, body, mandatory=True)


class Seen(NamedTuple):
    """Delivery of a message."""

    publisher: int
    number: int
    flagged: bool
    exchange: str
    routing_key: str


class LoadConsumer(Worker):
    """Consumer of one queue."""

    def __init__(self, port: int, vhost: str, queue: str) -> None:
        super().__init__(port, vhost)
        self.queue = queue
        self.seen: list[Seen] = []

    def _work(self, client: BlockingClient) -> None:
        client.call(methods.encode_basic_qos(prefetch_count=PREFETCH))
        client.call(methods.encode_basic_consume(self.queue, "load"))
        while not self.stopping.is_set():
            last = 0
            for event in client.events(0.05):
                if isinstance(event, Delivery):
                    last = event.delivery_tag
                    self.seen.append(seen(event))
            if last:
                client.channel.ack(last, multiple=True)
                client.flush()


def seen(event: Delivery) -> Seen:
    """Return what a consumer learns from a delivery."""
    publisher, number = map(int, event.body.split(b" ", 2)[:2])
    headers = decode_properties(event.properties, 0).headers or {}
    moved = headers.get("x-migrated-from")
    flagged = event.redelivered or "resent" in headers or (moved is not None and "redelivered" in moved.value)
    return Seen(publisher, number, flagged, event.exchange, event.routing_key)


class Judgement(NamedTuple):
    """Faults and counts of one queue."""

    lost: list[tuple[int, int]]
    duplicates: int
    unflagged: list[tuple[int, int]]
    reordered: list[tuple[int, int]]
    wrong_address: int


def judge(deliveries: list[Seen], published: dict[int, int]) -> Judgement:
    """Compare the deliveries of a queue with what each publisher has published."""
    times: dict[tuple[int, int], int] = defaultdict(int)
    unflagged, reordered = [], []
    highest: dict[int, int] = defaultdict(lambda: -1)
    for each in deliveries:
        key = each.publisher, each.number
        times[key] += 1
        if times[key] > 1 and not each.flagged:
            unflagged.append(key)
        if times[key] == 1:
            if each.number < highest[each.publisher]:
                reordered.append(key)
            highest[each.publisher] = each.number
    lost = [(name, n) for name, count in published.items() for n in range(count) if not times[name, n]]
    wrong = sum(
        (each.exchange, each.routing_key) != ("orders", f"eu.{each.publisher}") for each in deliveries
    )
    return Judgement(lost, sum(times.values()) - len(times), unflagged, reordered, wrong)

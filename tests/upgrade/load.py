"""Load during an upgrade: publishers with confirms, and consumers. They move on when their node ends."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import pika
from pika.exceptions import AMQPError

QUEUE = "orders"
PERSISTENT = pika.BasicProperties(delivery_mode=2)
RETRY_S = 0.1


class Client(threading.Thread):
    """Client that connects to the nodes in turn until it is told to end."""

    def __init__(self, ports: Sequence[int], first: int) -> None:
        super().__init__(daemon=True)
        self._ports = itertools.cycle([*ports[first:], *ports[:first]])
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                parameters = pika.ConnectionParameters("127.0.0.1", next(self._ports))
                with pika.BlockingConnection(parameters) as connection:
                    self.work(connection.channel())
            except (AMQPError, OSError):
                self._ended.wait(RETRY_S)

    def end(self) -> None:
        self._ended.set()
        self.join()

    def work(self, channel: Any) -> None:
        """Use a channel until it breaks or the client ends."""
        raise NotImplementedError


class Publisher(Client):
    """Publisher of numbered messages; `confirmed` are those that the broker has confirmed."""

    def __init__(self, ports: Sequence[int], first: int, name: str) -> None:
        super().__init__(ports, first)
        self._bodies = (f"{name} {number}".encode() for number in itertools.count())
        self.confirmed: set[bytes] = set()

    def work(self, channel: Any) -> None:
        channel.confirm_delivery()
        while not self._ended.is_set():
            body = next(self._bodies)
            channel.basic_publish("", QUEUE, body, PERSISTENT, mandatory=True)
            self.confirmed.add(body)


class Consumer(Client):
    """Consumer that acknowledges; `seen` are the bodies that it received."""

    def __init__(self, ports: Sequence[int], first: int) -> None:
        super().__init__(ports, first)
        self.seen: set[bytes] = set()

    def work(self, channel: Any) -> None:
        channel.basic_qos(prefetch_count=50)
        for method, _, body in channel.consume(QUEUE, inactivity_timeout=RETRY_S):
            if self._ended.is_set():
                return
            if method is not None:
                self.seen.add(body)
                channel.basic_ack(method.delivery_tag)

"""Consumers and helpers for tests that talk to a cluster the way its users do: with pika, from threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from mirrormq.testing import Cluster

PATIENCE_S = 40.0
"""Longest wait for an expected event, far more than it takes."""


def parameters(cluster: Cluster, index: int, vhost: str = "%2F") -> pika.URLParameters:
    chosen = pika.URLParameters(cluster.uri(index, vhost))
    chosen.socket_timeout = PATIENCE_S
    chosen.blocked_connection_timeout = PATIENCE_S
    return chosen


@contextmanager
def channel(cluster: Cluster, index: int, vhost: str = "%2F") -> Iterator[BlockingChannel]:
    """A channel with confirms on one node."""
    connection = pika.BlockingConnection(parameters(cluster, index, vhost))
    try:
        opened = connection.channel()
        opened.confirm_delivery()
        yield opened
    finally:
        if connection.is_open:
            connection.close()


class Delivered:
    """One delivery as a consumer saw it."""

    def __init__(self, body: bytes, redelivered: bool) -> None:
        self.body = body
        self.redelivered = redelivered

    def __repr__(self) -> str:
        return f"{self.body!r}{' again' if self.redelivered else ''}"


class Consumer:
    """A consumer on one node, in a thread of its own: what it `got`, and if it was `cancelled` or `lost`."""

    def __init__(
        self, cluster: Cluster, index: int, queue: str, vhost: str = "%2F", *, ack_after_s: float = 0.0,
        arguments: dict[str, Any] | None = None, auto_ack: bool = False,
    ) -> None:  # fmt: skip
        self.got: list[Delivered] = []
        self.cancelled = False
        self.lost = False
        self._parameters = parameters(cluster, index, vhost)
        self._queue, self._arguments, self._auto_ack = queue, arguments, auto_ack
        self._ack_after_s = ack_after_s
        self._started = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Consumer:
        self._thread.start()
        assert self._started.wait(PATIENCE_S), f"no consumer on {self._queue}"
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join(PATIENCE_S)

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.body for delivery in self.got]

    def _run(self) -> None:
        try:
            connection = pika.BlockingConnection(self._parameters)
            opened = connection.channel()
            opened.basic_qos(prefetch_count=100)
            opened.add_on_cancel_callback(self._on_cancel)
            opened.basic_consume(
                self._queue, self._on_message, auto_ack=self._auto_ack, arguments=self._arguments
            )
            self._started.set()
            while not self._stopping and not self.cancelled:
                connection.process_data_events(0.05)
            connection.close()
        except (pika.exceptions.AMQPError, OSError):
            self.lost = True

    def _on_cancel(self, method: Any) -> None:
        self.cancelled = True

    def _on_message(self, opened: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        self.got.append(Delivered(body, method.redelivered))
        if self._auto_ack:
            return
        if self._ack_after_s:
            opened.connection.call_later(self._ack_after_s, lambda: opened.basic_ack(method.delivery_tag))
        else:
            opened.basic_ack(method.delivery_tag)

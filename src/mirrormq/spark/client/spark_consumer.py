"""Plain consumer for brokers without leases: deliveries stay unacked until the caller acknowledges them."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from mirrormq.client.client_events import ConsumerCancelled, Delivery, Event
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.spark_connection import CHANNEL, SparkConnection
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame

PREFETCH_MAX = 65_535
"""Largest prefetch: basic.qos has 16 bits."""


class SparkDelivery(NamedTuple):
    """Delivery from the broker; `tag` acknowledges it."""

    tag: int
    queue: str
    exchange: str
    routing_key: str
    redelivered: bool
    properties: bytes
    body: bytes | bytearray


class SparkConsumer:
    """Consumer of several queues over one connection. It does not reconnect: its unacked deliveries are back
    in the queues, and the caller must know."""

    def __init__(self, nodes: Nodes, queues: list[str], prefetch: int) -> None:
        self._connection: SparkConnection = nodes.connect()
        self._prefetch = min(prefetch, PREFETCH_MAX)
        self._received: deque[Event] = deque()
        """Events that `take` has not used yet; the prefetch limits them."""
        connection = self._connection
        try:
            # One limit for all consumers of the channel.
            qos = methods.encode_basic_qos(0, self._prefetch, True)
            connection.call(qos)
            self._queues = {}
            for number, queue in enumerate(queues):
                tag = f"spark-{number}"
                consume = methods.encode_basic_consume(queue, tag, nowait=True)
                connection.send(method_frame(CHANNEL, consume))
                self._queues[tag] = queue
        except BaseException:
            connection.drop()
            raise

    def take(
        self, messages_max: int, bytes_max: int, first_wait_s: float, wait_s: float
    ) -> list[SparkDelivery]:
        """Receive deliveries: waits `first_wait_s` for the first and `wait_s` for each further one."""
        taken: list[SparkDelivery] = []
        size = 0
        while len(taken) < messages_max and size < bytes_max:
            if not self._received:
                if not self._connection.receives_within(wait_s if taken else first_wait_s):
                    break
                self._received.extend(self._connection.events())
                continue
            event = self._received.popleft()
            if isinstance(event, ConsumerCancelled):
                tag = event.consumer_tag
                raise RequestRefused(404, f"queue '{self._queues.get(tag, tag)}' was deleted")
            if not isinstance(event, Delivery):
                continue
            size += len(event.body)
            taken.append(
                SparkDelivery(
                    event.delivery_tag, self._queues[event.consumer_tag], event.exchange,
                    event.routing_key, event.redelivered, event.properties, event.body,
                )
            )  # fmt: skip
        return taken

    def acknowledge(self, tag: int) -> None:
        """Acknowledge all deliveries up to and including this one."""
        self._connection.send(method_frame(CHANNEL, methods.encode_basic_ack(tag, True)))

    def close(self) -> None:
        """Close the connection: unacked deliveries return to their queue, acknowledgements have been
        handled."""
        self._connection.close()

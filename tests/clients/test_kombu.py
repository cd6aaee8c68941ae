"""kombu, through py-amqp: simple queues, producers and consumers, priorities, requeueing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kombu
import pytest

from tests.clients.support import uri
from tests.waiting import until


@pytest.fixture
def kombu_connection(broker: Any) -> Iterator[kombu.Connection]:
    """A connection through py-amqp, closed after the test."""
    with kombu.Connection(uri(broker), transport_options={"confirm_publish": True}) as connection:
        yield connection


def drain_until(connection: kombu.Connection, condition: Any, what: str) -> None:
    def drained() -> Any:
        try:
            connection.drain_events(timeout=0.05)
        except TimeoutError:
            pass
        return condition()

    until(drained, what)


def test_kombu_takes_the_broker_for_a_rabbitmq(kombu_connection: kombu.Connection) -> None:
    """py-amqp and celery decide by these what they may ask for."""
    properties = kombu_connection.connection.server_properties
    assert properties["product"] == "RabbitMQ"
    assert properties["capabilities"]["publisher_confirms"] is True
    assert kombu_connection.qos_semantics_matches_spec is False


def test_a_simple_queue_is_first_in_first_out(kombu_connection: kombu.Connection, name: str) -> None:
    queue = kombu_connection.SimpleQueue(name, queue_opts={"durable": False, "auto_delete": True})
    for number in range(10):
        queue.put({"number": number, "text": "ключ"}, serializer="json")
    assert queue.qsize() == 10
    received = []
    for _ in range(10):
        message = queue.get(timeout=5)
        received.append(message.payload)
        message.ack()
    assert received == [{"number": number, "text": "ключ"} for number in range(10)]
    queue.close()


def test_priorities_expiry_and_compression(kombu_connection: kombu.Connection, name: str) -> None:
    exchange = kombu.Exchange(name, "direct", durable=False, auto_delete=True)
    queue = kombu.Queue(name, exchange, "key", max_priority=9, exclusive=True)
    producer = kombu_connection.Producer(exchange=exchange, routing_key="key", serializer="json")
    bound = queue(kombu_connection.default_channel)
    bound.declare()
    for priority in (1, 9, 5):
        producer.publish({"p": priority}, priority=priority, compression="zlib", expiration=60)
    payloads: list[Any] = []

    def take(body: Any, message: Any) -> None:
        payloads.append(body)
        message.ack()

    with kombu_connection.Consumer(queue, callbacks=[take]):
        drain_until(kombu_connection, lambda: len(payloads) == 3, "three messages")
    assert payloads == [{"p": 9}, {"p": 5}, {"p": 1}]


def test_requeue_and_reject(kombu_connection: kombu.Connection, name: str) -> None:
    queue = kombu.Queue(name, durable=False)
    producer = kombu_connection.Producer()
    producer.publish("again", routing_key=name, declare=[queue])
    seen: list[bool] = []

    def handle(_body: Any, message: Any) -> None:
        seen.append(message.delivery_info["redelivered"])
        if len(seen) < 3:
            message.requeue()
        else:
            message.reject()

    with kombu_connection.Consumer(queue, callbacks=[handle], prefetch_count=1):
        drain_until(kombu_connection, lambda: len(seen) == 3, "three deliveries of one message")
    assert seen == [False, True, True]
    bound = queue(kombu_connection.default_channel)
    assert bound.get() is None
    bound.delete()

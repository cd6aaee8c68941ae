"""State that a client finds after `kill -9` of the node and a start on the same data."""

from __future__ import annotations

import pika
import pytest
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker

from tests.brokers.mirrormq import MirrorMQ
from tests.clients.support import uri

PERSISTENT = pika.BasicProperties(delivery_mode=2, headers={"kept": True}, priority=3)
TRANSIENT = pika.BasicProperties(delivery_mode=1)


def test_only_durable_objects_survive(mortal_broker: MirrorMQ, name: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(uri(mortal_broker)))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare(f"{name}-durable", "topic", durable=True)
    channel.exchange_declare(f"{name}-transient", "topic")
    channel.queue_declare(name, durable=True, arguments={"x-max-priority": 5})
    channel.queue_declare(f"{name}-transient")
    channel.queue_bind(name, f"{name}-durable", "a.#")
    for number in range(20):
        properties = PERSISTENT if number % 2 else TRANSIENT
        channel.basic_publish(f"{name}-durable", "a.b", b"%d" % number, properties, mandatory=True)
    channel.basic_get(name, auto_ack=True)
    mortal_broker.kill()
    with pytest.raises(AMQPConnectionError):
        connection.process_data_events(5)
        channel.queue_declare(name, passive=True)
    mortal_broker.boot()
    with pika.BlockingConnection(pika.URLParameters(uri(mortal_broker))) as again:
        _find_what_was_durable(again, name)


def _find_what_was_durable(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    declared = channel.queue_declare(name, durable=True, arguments={"x-max-priority": 5})
    left = declared.method.message_count
    assert left in (9, 10), "the acknowledgement of the one that was taken may not have reached the disk"
    received = [channel.basic_get(name, auto_ack=True) for _ in range(left)]
    assert [int(body) for _, _, body in received] == list(range(1, 20, 2))[-left:]
    assert {(p.priority, p.delivery_mode, p.headers["kept"]) for _, p, _ in received} == {(3, 2, True)}
    channel.confirm_delivery()
    channel.basic_publish(f"{name}-durable", "a.c", b"routed by the old binding", mandatory=True)
    for declare in ("queue_declare", "exchange_declare"):
        with pytest.raises(ChannelClosedByBroker) as raised:
            getattr(connection.channel(), declare)(f"{name}-transient", passive=True)
        assert raised.value.reply_code == 404

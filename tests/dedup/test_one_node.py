"""A message published twice with one producer name and publish id is confirmed twice and kept once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pika
import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.dedup.publisher import Numbered


def uri(broker: MirrorMQ) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/%2F"


@pytest.fixture
def publisher(mirrormq: MirrorMQ) -> Iterator[Numbered]:
    publisher = Numbered(uri(mirrormq))
    yield publisher
    publisher.close()


@pytest.fixture
def queue(publisher: Numbered, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name
    publisher.channel.queue_declare(name, durable=True)
    yield name
    publisher.channel.queue_delete(name)


@pytest.mark.parametrize("mode", [1, 2])
def test_a_repeated_publish_is_confirmed_and_not_kept(publisher: Numbered, queue: str, mode: int) -> None:
    publisher.publish(queue, range(1, 11), mode=mode)
    publisher.publish(queue, range(1, 11), mode=mode)
    publisher.publish(queue, range(8, 15), mode=mode)
    assert publisher.drain(queue) == list(range(1, 15))
    publisher.publish(queue, range(1, 16), mode=mode)
    assert publisher.drain(queue) == [15], "also what has been consumed meanwhile"


def test_names_are_apart_and_connections_are_not(mirrormq: MirrorMQ, publisher: Numbered, queue: str) -> None:
    other, again = Numbered(uri(mirrormq), "job-2"), Numbered(uri(mirrormq))
    for each in (publisher, other, again):
        each.publish(queue, range(3))
    assert publisher.drain(queue) == [0, 1, 2, 0, 1, 2]
    other.close()
    again.close()


def test_each_queue_remembers_for_itself(publisher: Numbered, queue: str) -> None:
    channel = publisher.channel
    channel.queue_bind(queue, "amq.fanout")
    publisher.publish("", range(5), exchange="amq.fanout")
    later = queue + "-later"
    channel.queue_declare(later)
    channel.queue_bind(later, "amq.fanout")
    publisher.publish("", range(7), exchange="amq.fanout")
    assert publisher.drain(queue) == list(range(7))
    assert publisher.drain(later) == list(range(7))
    channel.queue_delete(later)


def test_many_at_once_some_of_them_known(publisher: Numbered, queue: str) -> None:
    publisher.publish(queue, [3])
    channel = publisher.connection.channel()
    for number in (1, 2, 4, 3, 4, 5, None, None, 6, 2):
        headers = {"x-producer": "job-1", "x-publish-id": number} if number else {"x-producer": "job-1"}
        body = b"%d" % (number or 0)
        channel.basic_publish("", queue, body, pika.BasicProperties(headers=headers, delivery_mode=2))
    channel.close()
    assert publisher.drain(queue) == [3, 4, 5, 0, 0, 6]


def test_a_dead_letter_is_nobodys_publish(publisher: Numbered, queue: str) -> None:
    """Messages die in another order than they were published in; none is taken for a repeated one."""
    source, channel = queue + "-source", publisher.channel
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.queue_declare(source, arguments=arguments)
    publisher.publish(source, range(1, 4))
    tags = [channel.basic_get(source)[0].delivery_tag for _ in range(3)]
    for tag in reversed(tags):
        channel.basic_nack(tag, requeue=False)
    channel.queue_delete(source)
    assert publisher.drain(queue) == [3, 2, 1]


def test_a_full_queue_that_refused_takes_it_later(publisher: Numbered, queue: str) -> None:
    name, channel = queue + "-full", publisher.channel
    channel.queue_declare(name, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    publisher.publish(name, [1, 2])
    with pytest.raises(pika.exceptions.NackError):
        publisher.publish(name, [3])
    publisher.publish(name, [1, 2])
    assert publisher.drain(name) == [1, 2]
    with pytest.raises(pika.exceptions.NackError):
        publisher.publish(name, [4])  # or 3 could never come
    publisher.publish(name, [1, 2, 3, 4])
    assert publisher.drain(name) == [3, 4]
    channel.queue_delete(name)


@pytest.mark.parametrize("way", ["kill", "stop"])
def test_the_memory_outlives_the_node(way: str) -> None:
    with MirrorMQ() as node:
        publisher = Numbered(uri(node))
        publisher.channel.queue_declare("q", durable=True)
        publisher.publish("q", range(1, 21))
        assert publisher.drain("q") == list(range(1, 21))
        publisher.publish("q", range(21, 26))
        if way == "stop":
            os.kill(node.process_id, signal.SIGTERM)
            os.waitid(os.P_PID, node.process_id, os.WEXITED | os.WNOWAIT)
        node.kill()
        node.boot()
        publisher = Numbered(uri(node))
        publisher.publish("q", range(1, 28))
        assert publisher.drain("q") == list(range(21, 28))

"""Links of a RabbitMQ from and to a three-node cluster: the node that a link is connected to is killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from mirrormq.testing import Cluster
from tests.bridge_processes.broker_messages import PERSISTENT, connected
from tests.brokers.ports import accepts
from tests.brokers.rabbitmq import START_DEADLINE_S, RabbitMQ
from tests.management.http import Client
from tests.needs import need_rabbitmq
from tests.waiting import until

PLUGINS = (
    "rabbitmq_federation",
    "rabbitmq_federation_management",
    "rabbitmq_shovel",
    "rabbitmq_shovel_management",
)
BEFORE, AFTER = 200, 1_000
"""Messages that are confirmed before the node is killed, and in all at least."""

pytestmark = [pytest.mark.slow, pytest.mark.rabbitmq]


class Brokers(NamedTuple):
    """RabbitMQ and cluster."""

    rabbit: RabbitMQ
    cluster: Cluster

    @property
    def client(self) -> Client:
        return Client(self.rabbit.management_port)

    @property
    def uris(self) -> list[str]:
        return [f"amqp://guest:guest@127.0.0.1:{self.cluster.port(index)}/%2F" for index in range(3)]

    def index_of(self, connection: str) -> int | None:
        """Return the node to which RabbitMQ has opened a connection with this name."""
        for index in range(3):
            rows = Client(self.cluster.management_port(index)).get("connections")
            for row in rows:
                if row.get("client_properties", {}).get("connection_name", "").startswith(connection):
                    return [self.cluster.name(each) for each in range(3)].index(row["node"])
        return None


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    need_rabbitmq()
    with RabbitMQ(more_plugins=PLUGINS) as rabbit, Cluster(nodes=3, mirror_all=True) as cluster:
        until(lambda: accepts(rabbit.management_port), patience_s=START_DEADLINE_S)
        yield Brokers(rabbit, cluster)


@contextmanager
def publishing(port: int, exchange: str, key: str) -> Iterator[list[str]]:
    """Publish numbered messages with confirms meanwhile; yield the confirmed ones."""
    confirmed: list[str] = []
    stop = threading.Event()

    def publish() -> None:
        connection = connected(port)
        channel = connection.channel()
        channel.confirm_delivery()
        number = 0
        while not stop.is_set() or number < AFTER:
            channel.basic_publish(exchange, key, str(number).encode(), PERSISTENT, mandatory=True)
            confirmed.append(str(number))
            number += 1
        connection.close()

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        yield confirmed
    finally:
        stop.set()
        publisher.join()


@contextmanager
def consuming(port: int, queue: str) -> Iterator[list[str]]:
    """Consume and acknowledge the messages of a queue meanwhile; yield them."""
    taken: list[str] = []
    stop = threading.Event()

    def consume() -> None:
        connection = connected(port)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=50)
        for method, _, body in channel.consume(queue, inactivity_timeout=0.5):
            if method is not None:
                taken.append(body.decode())
                channel.basic_ack(method.delivery_tag)
            elif stop.is_set():
                break
        connection.close()

    consumer = threading.Thread(target=consume)
    consumer.start()
    try:
        yield taken
    finally:
        stop.set()
        consumer.join()


def declare(port: int, *queues: str) -> None:
    connection = connected(port)
    channel = connection.channel()
    for queue in queues:
        channel.queue_declare(queue, durable=True)
    connection.close()


def kill_and_compare(
    brokers: Brokers, connection: str, inwards: bool, source: tuple[str, str], destination: str
) -> None:
    """Kill the node that the link is connected to; expect every confirmed message at the destination."""
    index = until(lambda: None if (found := brokers.index_of(connection)) is None else (found,))[0]
    cluster_port = brokers.cluster.port((index + 1) % 3)
    ports = (brokers.rabbit.amqp_port, cluster_port) if inwards else (cluster_port, brokers.rabbit.amqp_port)
    with consuming(ports[1], destination) as taken:
        with publishing(ports[0], *source) as confirmed:
            until(lambda: len(confirmed) > BEFORE and taken, lambda: f"{len(confirmed)} {len(taken)}")
            brokers.cluster.kill(index)
        until(
            lambda: set(taken) >= set(confirmed),
            lambda: f"{len(set(confirmed) - set(taken))} of {len(confirmed)} are missing",
        )


@pytest.mark.parametrize("inwards", [True, False], ids=["into the cluster", "out of the cluster"])
def test_a_shovel_of_rabbitmq_survives_the_death_of_a_node(brokers: Brokers, inwards: bool) -> None:
    declare(brokers.rabbit.amqp_port, "from", "to")
    declare(brokers.cluster.port(0), "from", "to")
    value: dict[str, Any] = {"src-queue": "from", "dest-queue": "to", "src-prefetch-count": 50}
    ends = ("amqp://", brokers.uris) if inwards else (brokers.uris, "amqp://")
    value |= {"src-uri": ends[0], "dest-uri": ends[1], "reconnect-delay": 1}
    assert brokers.client.put("parameters/shovel/%2F/s", {"value": value}).status == 201
    kill_and_compare(brokers, "Shovel s", inwards, ("", "from"), "to")


@pytest.mark.parametrize("kind", ["exchange", "queue"])
def test_a_rabbitmq_federates_from_a_cluster_whose_node_dies(brokers: Brokers, kind: str) -> None:
    declare(brokers.rabbit.amqp_port, "fed.q")
    declare(brokers.cluster.port(0), "fed.q")
    client = brokers.client
    client.put("exchanges/%2F/fed.x", {"type": "topic", "durable": True})
    client.post("bindings/%2F/e/fed.x/q/fed.q", {"routing_key": "#"})
    value = {"uri": brokers.uris, "reconnect-delay": 1, "prefetch-count": 50}
    client.put("parameters/federation-upstream/%2F/u", {"value": value})
    pattern = "^fed\\.x" if kind == "exchange" else "^fed\\.q"
    policy = {"pattern": pattern, "definition": {"federation-upstream": "u"}}
    assert client.put("policies/%2F/p", policy).status == 201
    until(lambda: [row["status"] for row in client.get("federation-links")] == ["running"])
    source = ("fed.x", "k") if kind == "exchange" else ("", "fed.q")
    kill_and_compare(brokers, "Federation link", False, source, "fed.q")

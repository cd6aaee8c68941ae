"""Shovel of a three-node cluster from and to another broker: the node that runs it is killed under load."""

from __future__ import annotations

import threading
import time

import pytest

from mirrormq.testing import Cluster
from tests.bridge_processes.broker_messages import PERSISTENT, connected, drain, publish
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.management.http import Client
from tests.needs import need_rabbitmq
from tests.waiting import until

MESSAGES = 3_000
RESTART_S = 30.0
"""Bound of the restart on another node. It takes a second or two; a busy machine may take ten times that."""


def publish_to(port: int, stop: threading.Event, published: list[int]) -> None:
    """Publish numbered messages with confirms until told to stop."""
    connection = connected(port)
    channel = connection.channel()
    channel.confirm_delivery()
    number = 0
    while not stop.is_set() or number < MESSAGES:
        channel.basic_publish("", "from", str(number).encode(), PERSISTENT, mandatory=True)
        published.append(number)
        number += 1
    connection.close()


DIRECTIONS = pytest.mark.parametrize("inwards", [True, False], ids=["into the cluster", "out of the cluster"])


@pytest.mark.slow
@DIRECTIONS
def test_a_shovel_survives_the_death_of_its_node(inwards: bool) -> None:
    with MirrorMQ() as other:
        survive(other, inwards)


@pytest.mark.slow
@pytest.mark.rabbitmq
@DIRECTIONS
def test_a_shovel_with_a_rabbitmq_survives_the_death_of_its_node(inwards: bool) -> None:
    need_rabbitmq()
    with RabbitMQ() as other:
        survive(other, inwards)


def survive(other: MirrorMQ | RabbitMQ, inwards: bool) -> None:
    """Publish while the shovel's node is killed; expect every confirmed message at the destination."""
    with Cluster(nodes=3, mirror_all=True) as cluster:
        clients = [Client(cluster.management_port(index)) for index in range(3)]
        remote = f"amqp://guest:guest@127.0.0.1:{other.amqp_port}"
        source_port = other.amqp_port if inwards else cluster.port(0)
        publish(source_port, "from", [])
        value = {
            "src-uri": remote if inwards else "amqp://", "src-queue": "from",
            "dest-uri": "amqp://" if inwards else remote, "dest-queue": "to", "src-prefetch-count": 50,
        }  # fmt: skip
        assert clients[0].put("parameters/shovel/%2F/s", {"value": value}).status == 201

        def row(client: Client) -> dict[str, object]:
            found = client.get("shovels")
            return found[0] if found else {}

        until(lambda: row(clients[0]).get("state") == "running", lambda: str(row(clients[0])))
        home = str(row(clients[0])["node"])
        assert all(row(client)["node"] == home for client in clients), "every node shows the same"
        index = [cluster.name(each) for each in range(3)].index(home)
        survivors = [clients[each] for each in range(3) if each != index]
        port = next(cluster.port(each) for each in range(3) if each != index)
        published: list[int] = []
        stop = threading.Event()
        where = other.amqp_port if inwards else port
        publisher = threading.Thread(target=publish_to, args=(where, stop, published))
        publisher.start()
        until(lambda: len(published) > 200)
        cluster.kill(index)
        killed = time.monotonic()
        until(
            lambda: row(survivors[0]).get("state") == "running" and row(survivors[0])["node"] != home,
            lambda: str(row(survivors[0])),
        )
        assert time.monotonic() - killed < RESTART_S
        stop.set()
        publisher.join()
        received: list[int] = []

        def all_received() -> bool:
            received.extend(int(body) for body, _ in drain(port if inwards else other.amqp_port, "to"))
            return set(received) >= set(published)

        until(all_received, lambda: f"{len(set(published) - set(received))} of {len(published)} are missing")
        first = list(dict.fromkeys(received))
        assert first == sorted(first), "first arrivals keep their order"

"""A client hears that something was declared; whoever it tells finds it, at whatever node."""

from __future__ import annotations

import pika

from mirrormq.testing import Cluster
from tests.seeds.people import parameters

ROUNDS = 60


def test_what_one_client_declared_another_finds_at_once_on_any_node() -> None:
    with Cluster(nodes=3) as cluster:
        connections = [pika.BlockingConnection(parameters(cluster, index)) for index in range(3)]
        channels = [connection.channel() for connection in connections]
        for channel in channels:
            channel.confirm_delivery()
        for number in range(ROUNDS):
            first, second, third = (channels[(number + step) % 3] for step in range(3))
            name = f"thing {number}"
            first.queue_declare(name)
            second.exchange_declare(name, "fanout")
            third.queue_bind(name, name)
            first.basic_publish(name, "", b"found", mandatory=True)
            assert second.basic_get(name, auto_ack=True)[2] == b"found"
            third.queue_delete(name)
            first.queue_declare(name, auto_delete=True)
        for connection in connections:
            connection.close()

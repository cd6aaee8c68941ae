"""A client receives declare-ok; from then on every client finds the object, at any node."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pika

from mirrormq.testing import Cluster
from tests.seeds.seed_clients import parameters

ROUNDS = 60


def test_a_declaration_is_visible_to_other_clients_at_once_on_any_node() -> None:
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


def _declare_and_delete(cluster: Cluster, index: int) -> int:
    connection = pika.BlockingConnection(parameters(cluster, index))
    channel = connection.channel()
    for _ in range(2 * ROUNDS):
        channel.queue_declare("contended", durable=True)
        channel.queue_delete("contended")
    connection.close()
    return 2 * ROUNDS


def test_a_declaration_is_no_error_because_another_client_deletes_the_queue_meanwhile() -> None:
    with Cluster(nodes=2) as cluster, ThreadPoolExecutor(2) as clients:
        done = [clients.submit(_declare_and_delete, cluster, index) for index in range(2)]
        assert [work.result(60) for work in done] == [2 * ROUNDS] * 2

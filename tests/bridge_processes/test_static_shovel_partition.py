"""Static shovel of a three-node cluster while the node that runs it is cut off from the others."""

from __future__ import annotations

from http.client import HTTPException

import pytest

from mirrormq.testing.network_namespaces import NetworkNamespaces
from mirrormq.testing.partitioned_cluster import PartitionedCluster
from mirrormq.wire import methods
from tests.bridge_processes.broker_messages import drain, publish
from tests.bridge_processes.test_static_shovel_nodes import in_state, row_of
from tests.management.http import Client
from tests.migration_processes.load import LoadPublisher, connect
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NetworkNamespaces.obstacle() is not None, reason=str(NetworkNamespaces.obstacle())),
]

SHOVEL = """
shovel.s.src-uri = amqp://
shovel.s.src-queue = from
shovel.s.src-prefetch-count = 50
shovel.s.dest-uri = amqp://
shovel.s.dest-queue = to
"""
RATE = 200.0
"""Messages per second."""


def shown_node(client: Client) -> str:
    """Return the node of the shovel; empty while the asked node starts again."""
    try:
        reply = client.request("GET", "shovels")
        return str(reply.json[0]["node"]) if reply.status == 200 else ""
    except (OSError, HTTPException):
        return ""


def test_a_static_shovel_leaves_a_node_that_is_cut_off() -> None:
    with PartitionedCluster(3, conf=SHOVEL, mirror_all=True) as cluster:
        clients = [Client(cluster.management_port(index)) for index in range(3)]
        home = str(in_state(clients[0], "s", "running")["node"])
        index = [cluster.name(each) for each in range(3)].index(home)
        others = [each for each in range(3) if each != index]
        publish(cluster.port(index), "to", [])
        with connect(cluster.port(index), "%2F") as client:
            client.call(methods.encode_exchange_declare("orders", "topic", durable=True))
            client.call(methods.encode_queue_bind("from", "orders", "#"))
        publisher = LoadPublisher(cluster.port(others[0]), "%2F", 0, RATE)
        publisher.start()
        until(lambda: publisher.confirmed > 200)
        cluster.part([index], others)
        watched = clients[others[0]]
        until(
            lambda: (row := row_of(watched, "s")).get("forwarded", 0) > 100 and row["node"] != home,
            lambda: str(row_of(watched, "s")),
        )
        second = row_of(watched, "s")["node"]
        cluster.heal()
        until(
            lambda: [shown_node(client) for client in clients] == [second] * 3,
            lambda: str([shown_node(client) for client in clients]),
        )
        assert [row["consumer_tag"] for row in watched.get("consumers")] == ["mirrormq-link"]
        publisher.enough.set()
        publisher.join()
        received: list[int] = []

        def all_received() -> bool:
            received.extend(int(body.split()[1]) for body, _ in drain(cluster.port(others[0]), "to"))
            return set(received) >= set(range(publisher.published))

        until(all_received, lambda: f"{publisher.published - len(set(received))} messages are missing")
        first = list(dict.fromkeys(received))
        assert first == sorted(first), "first arrivals keep their order"

"""The third document: copies of queues that have names, and exchanges that make their queues mirrored.

Its commands never existed in RabbitMQ; what they were meant to do is done here, on three nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from mirrormq.testing import Cluster
from tests.seeds.seed_clients import channel
from tests.waiting import until

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as started:
        yield started


def drain(cluster: Cluster, node: int, queue: str) -> list[bytes]:
    found: list[bytes] = []
    with channel(cluster, node) as opened:
        while (got := opened.basic_get(queue, auto_ack=True))[0] is not None:
            found.append(got[2])
    return found


def publish(opened: BlockingChannel, queue: str, *bodies: bytes) -> None:
    """With confirms; raises if one is returned or refused."""
    for body in bodies:
        opened.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def mirrors(cluster: Cluster, queue: str, node: int = 0) -> list[str]:
    """The nodes of a queue's mirrors, as the HTTP API and the control program tell."""
    rows = json.loads(
        cluster.ctl("-q", "list_queues", "name", "slave_pids", "--formatter", "json", node=node)
    )
    return next(row["slave_pids"] or [] for row in rows if row["name"] == queue)


def test_the_command_of_the_document_makes_a_queue_and_its_copy(cluster: Cluster) -> None:
    said = cluster.ctl(
        "add_queue", "myqueue", 'mirroring={"copies": [{"src_name": "otherq", "dst_tag": ""}]}', node=1
    )
    assert said.endswith("Queue 'myqueue' is declared, copied to otherq\n")
    bodies = [b"%d" % number for number in range(50)]
    with channel(cluster, 0) as opened:
        publish(opened, "myqueue", *bodies)
    assert drain(cluster, 2, "otherq") == bodies
    assert drain(cluster, 0, "myqueue") == bodies


def test_a_copy_gets_what_its_source_gets_whatever_node_either_is_on(cluster: Cluster) -> None:
    with channel(cluster, 0) as one, channel(cluster, 1) as two, channel(cluster, 2) as three:
        two.queue_declare("backup", durable=True, arguments={"x-copy-from": "orders"})
        three.queue_declare(
            "urgent", durable=True, arguments={"x-copy-from": "orders", "x-copy-routing-key": "*.urgent"}
        )
        three.queue_declare("further", durable=True, arguments={"x-copy-from": "backup"})
        one.queue_declare("orders", durable=True)
        one.queue_bind("orders", "amq.topic", "#")
        until(lambda: all("amq.topic" in cluster.ctl("-q", "list_bindings", node=n) for n in (1, 2)))
        for opened, key in ((one, "a.urgent"), (two, "b.slow"), (three, "c.urgent")):
            opened.basic_publish("amq.topic", key, key.encode(), PERSISTENT, mandatory=True)
    everything = {b"a.urgent", b"b.slow", b"c.urgent"}
    for node, queue in enumerate(("orders", "backup", "further")):
        assert set(drain(cluster, node, queue)) == everything
    assert set(drain(cluster, 0, "urgent")) == {b"a.urgent", b"c.urgent"}


def test_copying_ends_with_the_source_on_every_node(cluster: Cluster) -> None:
    with channel(cluster, 0) as one, channel(cluster, 2) as three:
        one.queue_declare("brief", durable=True)
        three.queue_declare("of brief", durable=True, arguments={"x-copy-from": "brief"})
        publish(three, "brief", b"copied")
        one.queue_delete("brief")
        until(lambda: "brief" not in cluster.ctl("-q", "list_queues", "name", node=2).splitlines())
        three.basic_publish("", "brief", b"to nobody", PERSISTENT)
        one.queue_declare("brief", durable=True)
        publish(one, "brief", b"again")
    assert drain(cluster, 1, "of brief") == [b"copied", b"again"]


def test_queues_bound_to_a_mirrored_exchange_are_mirrored_and_survive_their_master() -> None:
    with Cluster(nodes=3) as cluster:
        with channel(cluster, 0) as opened:
            opened.exchange_declare("mirrored", "fanout", durable=True, arguments={"x-mirrored": True})
            for name in ("kept", "loose"):
                opened.queue_declare(name, durable=True)
                opened.queue_bind(name, "mirrored")
            assert len(until(lambda: mirrors(cluster, "kept"))) == 2
            opened.queue_unbind("loose", "mirrored")
            until(lambda: mirrors(cluster, "loose") == [])
            for number in range(20):
                opened.basic_publish("mirrored", "", b"%d" % number, PERSISTENT, mandatory=True)
        until(lambda: len(synchronised(cluster, "kept")) == 2)
        cluster.kill(0)
        until(lambda: len(mirrors(cluster, "kept", node=1)) == 1)
        assert drain(cluster, 2, "kept") == [b"%d" % number for number in range(20)]


def synchronised(cluster: Cluster, queue: str) -> list[str]:
    rows = json.loads(
        cluster.ctl("-q", "list_queues", "name", "synchronised_slave_pids", "--formatter", "json")
    )
    return next(row["synchronised_slave_pids"] or [] for row in rows if row["name"] == queue)

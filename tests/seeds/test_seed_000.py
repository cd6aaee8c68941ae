"""Two nodes, four queues, five consumers: the experiments of the first document, one after the other.

Everything is mirrored by one policy. The steps build on each other as they do there: later ones kill the
second node, so each test has a cluster of its own unless it only looks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pika
import pytest

from mirrormq.testing import Cluster
from tests.seeds.seed_clients import Consumer, channel
from tests.waiting import until

VHOST = "cluster"
QUEUES = {
    "clusterRabbit1Queue1": (0, "clusterRabbit1key"),
    "clusterRabbit1Queue2": (0, "clusterRabbitCommonKey"),
    "clusterRabbit2Queue1": (1, "clusterRabbit2key"),
    "clusterRabbit2Queue2": (1, "clusterRabbitCommonKey"),
}
CONSUMERS = {
    "one": (0, "clusterRabbit1Queue1"),
    "two": (0, "clusterRabbit1Queue2"),
    "three": (1, "clusterRabbit2Queue1"),
    "four": (0, "clusterRabbit2Queue1"),
    "five": (1, "clusterRabbit2Queue2"),
}


def prepare(cluster: Cluster) -> None:
    """User, vhost, policy, exchange and queues as the document sets them up."""
    cluster.ctl("add_user", "api_management", "secret")
    cluster.ctl("set_user_tags", "api_management", "administrator")
    cluster.ctl("add_vhost", VHOST)
    cluster.ctl("set_permissions", "-p", VHOST, "api_management", ".*", ".*", ".*")
    cluster.ctl("set_permissions", "-p", VHOST, "guest", ".*", ".*", ".*")
    cluster.ctl("set_policy", "-p", VHOST, "ha-all", "^", '{"ha-mode":"all"}')
    for name, (node, key) in QUEUES.items():
        with channel(cluster, node, VHOST) as opened:
            opened.exchange_declare("cluster", "direct", durable=True)
            opened.queue_declare(name, durable=True)
            opened.queue_bind(name, "cluster", key)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as started:
        prepare(started)
        yield started


@pytest.fixture(scope="module")
def quiet_cluster() -> Iterator[Cluster]:
    """A cluster for the tests that hurt nobody."""
    with Cluster(nodes=2) as started:
        prepare(started)
        yield started


def consumers(cluster: Cluster, stack: ExitStack) -> dict[str, Consumer]:
    return {
        name: stack.enter_context(Consumer(cluster, node, queue, VHOST))
        for name, (node, queue) in CONSUMERS.items()
    }


def publish(cluster: Cluster, node: int, key: str, body: bytes) -> None:
    with channel(cluster, node, VHOST) as opened:
        opened.basic_publish("cluster", key, body, pika.BasicProperties(delivery_mode=2))


def listed(cluster: Cluster, node: int = 0) -> dict[str, dict[str, object]]:
    columns = ("name", "pid", "slave_pids", "synchronised_slave_pids", "messages")
    rows = json.loads(
        cluster.ctl("-q", "list_queues", "-p", VHOST, *columns, "--formatter", "json", node=node)
    )
    return {row["name"]: row for row in rows}


def test_1_the_queues_are_where_they_were_declared_and_mirrored_on_the_other_node(
    quiet_cluster: Cluster,
) -> None:
    found = listed(quiet_cluster)
    assert set(found) == set(QUEUES)
    for name, (node, _) in QUEUES.items():
        assert quiet_cluster.name(node) in str(found[name]["pid"])
        mirrors = found[name]["slave_pids"]
        assert isinstance(mirrors, list)
        assert len(mirrors) == 1
        assert quiet_cluster.name(1 - node) in str(mirrors[0])


def test_2_a_queue_declared_again_on_the_other_node_is_the_same_queue(quiet_cluster: Cluster) -> None:
    with channel(quiet_cluster, 1, VHOST) as opened:
        opened.queue_declare("clusterRabbit1Queue1", durable=True)
        opened.queue_bind("clusterRabbit1Queue1", "cluster", "clusterRabbit2key")
        assert quiet_cluster.name(0) in str(listed(quiet_cluster, 1)["clusterRabbit1Queue1"]["pid"])
        bindings = quiet_cluster.ctl("-q", "list_bindings", "-p", VHOST, "destination_name", "routing_key")
        assert "clusterRabbit1Queue1\tclusterRabbit2key" in bindings
        opened.queue_unbind("clusterRabbit1Queue1", "cluster", "clusterRabbit2key")


def test_3_published_on_its_own_node(quiet_cluster: Cluster) -> None:
    with Consumer(quiet_cluster, 0, "clusterRabbit1Queue1", VHOST) as one:
        publish(quiet_cluster, 0, "clusterRabbit1key", b"here")
        until(lambda: one.bodies == [b"here"])


def test_4_published_on_another_node(quiet_cluster: Cluster) -> None:
    with Consumer(quiet_cluster, 0, "clusterRabbit1Queue1", VHOST) as one:
        publish(quiet_cluster, 1, "clusterRabbit1key", b"there")
        until(lambda: one.bodies == [b"there"])


def test_5_queues_of_several_nodes_bound_with_one_key_each_get_the_message(quiet_cluster: Cluster) -> None:
    with ExitStack() as stack:
        load_clients = consumers(quiet_cluster, stack)
        publish(quiet_cluster, 0, "clusterRabbitCommonKey", b"common")
        until(
            lambda: load_clients["two"].bodies == [b"common"] and load_clients["five"].bodies == [b"common"]
        )


def test_6_consumers_on_two_nodes_take_turns(quiet_cluster: Cluster) -> None:
    with ExitStack() as stack:
        load_clients = consumers(quiet_cluster, stack)
        for number in range(10):
            publish(quiet_cluster, 0, "clusterRabbit2key", b"%d" % number)
        three, four = load_clients["three"], load_clients["four"]
        until(lambda: len(three.got) + len(four.got) == 10)
        assert sorted(three.bodies + four.bodies) == [b"%d" % number for number in range(10)]
        assert len(three.got) == len(four.got) == 5


def test_7_the_node_of_a_queue_goes_and_comes_back(cluster: Cluster) -> None:
    with ExitStack() as stack:
        load_clients = consumers(cluster, stack)
        cluster.kill(1)
        until(lambda: load_clients["three"].lost and load_clients["five"].lost)
        publish(cluster, 0, "clusterRabbit2key", b"after the fall")
        until(lambda: load_clients["four"].bodies == [b"after the fall"])
        assert not load_clients["four"].lost
        assert not load_clients["four"].cancelled
        for name in ("clusterRabbit2Queue1", "clusterRabbit2Queue2"):
            assert cluster.name(0) in str(listed(cluster)[name]["pid"])
        cluster.start(1)

        def rejoined() -> bool:
            found = listed(cluster)["clusterRabbit2Queue1"]
            return cluster.name(1) in str(found["slave_pids"])

        until(rejoined)
        for name in ("clusterRabbit2Queue1", "clusterRabbit2Queue2"):
            assert cluster.name(0) in str(listed(cluster)[name]["pid"]), "it does not become master again"


def test_8_a_message_that_was_not_acknowledged_in_time_comes_twice(cluster: Cluster) -> None:
    with Consumer(cluster, 0, "clusterRabbit2Queue1", VHOST, ack_after_s=8.0) as four:
        publish(cluster, 0, "clusterRabbit2key", b"slow")
        until(lambda: four.bodies == [b"slow"])
        cluster.kill(1)
        until(lambda: four.bodies == [b"slow", b"slow"])
        assert [delivery.redelivered for delivery in four.got] == [False, True]
        assert not four.lost
        until(lambda: listed(cluster)["clusterRabbit2Queue1"]["messages"] == 0)

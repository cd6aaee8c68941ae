"""A master is gone and no mirror may take its place: the queue is down, says for whom it waits, and keeps
what it has; its node comes back, or an operator decides otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pika.exceptions
import pytest

from mirrormq.testing import Cluster
from tests.mirrored_processes.range_requests import PERSISTENT, drain, mirror, publish, queue
from tests.seeds.seed_clients import channel
from tests.waiting import until

REDELIVERY = [b"%d" % number for number in range(20)]
HELD = [b"held by all, %d" % number for number in range(5)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def down(cluster: Cluster) -> Iterator[str]:
    """A queue whose mirror lacks what was there before it joined, and whose master was killed."""
    name = "down"
    publish(cluster, name, *REDELIVERY)
    members = [cluster.name(0), cluster.name(1)]
    mirror(cluster, ha_mode="nodes", ha_params=members, ha_promote_on_failure="when-synced")
    until(lambda: queue(cluster, name).get("slave_nodes") == [cluster.name(1)])
    publish(cluster, name, *HELD)
    cluster.kill(0)
    until(lambda: queue(cluster, name, node=2)["state"] == "down")
    yield name
    cluster.ctl("clear_policy", "ha", node=1)
    cluster.ctl("delete_queue", name, node=1)


def test_a_queue_that_is_down_names_its_node_and_is_complete_when_that_node_is_back(
    cluster: Cluster, down: str
) -> None:
    until(lambda: queue(cluster, down, node=1)["mirrormq"]["waits_for"] == [cluster.name(0)])
    listed = cluster.ctl("-q", "list_queues", "name", "state", node=2)
    assert f"{down}\tdown" in listed
    with pytest.raises(RuntimeError, match=f"it waits for {cluster.name(0)}. Start that node, or"):
        cluster.ctl("sync_queue", down, node=2)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="is down or inaccessible") as refused:
        publish(cluster, down, node=2)
    assert refused.value.reply_code == 404
    with channel(cluster, 1) as opened, pytest.raises(pika.exceptions.NackError):
        opened.basic_publish("", down, b"not now", PERSISTENT)
    cluster.start(0)
    until(lambda: queue(cluster, down, node=2)["state"] == "running")
    assert drain(cluster, down, node=2) == REDELIVERY + HELD


def test_an_operator_may_go_on_with_what_a_mirror_has(cluster: Cluster, down: str) -> None:
    cluster.ctl("recover_queue", down, cluster.name(1), node=2)
    until(lambda: queue(cluster, down, node=2)["state"] == "running")
    publish(cluster, down, b"after", node=2)
    cluster.start(0)
    bodies: list[bytes] = []

    def all_are_back() -> bool:
        bodies.extend(drain(cluster, down, node=0))
        return len(bodies) >= len(HELD) + 1 + len(REDELIVERY)

    until(all_are_back)
    # The former master was in sync, so the messages that only it has come back as orphans.
    assert bodies[:6] == [*HELD, b"after"]
    assert sorted(bodies[6:]) == sorted(REDELIVERY)
    with pytest.raises(RuntimeError, match="is not down"):
        cluster.ctl("recover_queue", down, cluster.name(0))


def test_a_client_may_delete_it_but_not_as_empty_and_declare_it_again(cluster: Cluster, down: str) -> None:
    with (
        channel(cluster, 2) as opened,
        pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"406.*not empty"),
    ):
        opened.queue_delete(down, if_empty=True)
    with channel(cluster, 2) as opened:
        opened.queue_delete(down)
    publish(cluster, down, b"new", node=2)
    cluster.start(0)
    assert drain(cluster, down, node=0) == [b"new"]


def test_an_operator_may_delete_it_but_not_as_empty(cluster: Cluster, down: str) -> None:
    with pytest.raises(RuntimeError, match=f"waits for {cluster.name(0)}"):
        cluster.ctl("delete_queue", down, "--if-empty", node=2)
    said = cluster.ctl("delete_queue", down, node=2)
    assert f"deleted while it was down, waiting for {cluster.name(0)}" in said
    cluster.start(0)
    publish(cluster, down, b"new", node=2)
    assert drain(cluster, down, node=0) == [b"new"]

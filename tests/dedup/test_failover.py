"""Three real mirrored nodes: a publisher that is never sure, and masters that die while it publishes."""

from __future__ import annotations

import time

import pika.exceptions

from mirrormq.testing import Cluster
from tests.dedup.publisher import Numbered
from tests.ranges.range_requests import Asker

DEADLINE_S = 60


def until_confirmed(cluster: Cluster, node: int, queue: str, ids: range) -> None:
    """Publish all of it, and all of it again whenever anything went wrong."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            publisher = Numbered(cluster.uri(node))
            publisher.publish(queue, ids)
            publisher.close()
            return
        except (pika.exceptions.AMQPError, OSError) as error:
            assert time.monotonic() < deadline, error
            time.sleep(0.1)


def copies(cluster: Cluster, node: int, queue: str, count: int) -> list[str]:
    """Until so many nodes have everything; says which, the master first."""
    range_client = Asker(cluster.uri(node))
    cluster.ctl("sync_queue", queue, node=node)
    deadline = time.monotonic() + DEADLINE_S
    while len(found := range_client.extent(queue).synchronised) != count:
        assert time.monotonic() < deadline, found
        range_client.connection.sleep(0.1)
    range_client.close()
    return list(found)


def test_each_message_is_kept_once_for_any_failing_node_and_publishing_node() -> None:
    with Cluster(nodes=3, mirror_all=True) as cluster:
        index = {cluster.name(number): number for number in range(3)}
        first = Numbered(cluster.uri(0))
        first.channel.queue_declare("q", durable=True)
        first.publish("q", range(1, 101))
        cut_short = Numbered(cluster.uri(2))
        for number in range(101, 301):
            headers = {"x-producer": "job-1", "x-publish-id": number}
            properties = pika.BasicProperties(headers=headers, delivery_mode=2)
            cut_short.channel._impl.basic_publish("", "q", b"%d" % number, properties)
        cut_short.connection.process_data_events(time_limit=0)
        cluster.kill(0)  # the master, with publishes of another node's client under way
        until_confirmed(cluster, 1, "q", range(1, 301))
        until_confirmed(cluster, 2, "q", range(1, 302))
        cluster.start(0)
        second = index[copies(cluster, 2, "q", 3)[0]]
        assert second != 0
        cluster.kill(second)
        until_confirmed(cluster, 0, "q", range(200, 401))
        cluster.start(second)
        copies(cluster, 0, "q", 3)
        for number in range(3):  # all at once: only disks remember
            cluster.kill(number)
        cluster.local.start_all()
        copies(cluster, 1, "q", 3)
        until_confirmed(cluster, 0, "q", range(300, 411))
        found = Numbered(cluster.uri(0)).drain("q")
        assert sorted(found) == list(range(1, 411))

"""Range requests find the queues and continue on another node after a failure; reads follow the preferred
replica."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest

from mirrormq.ranges import range_protocol
from mirrormq.sequences.spans import Span
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.node_address import parse_uris
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.range_client import RangeClient
from mirrormq.spark.client.range_reader import QueueRange, read
from mirrormq.spark.data_source_options import source_options
from mirrormq.spark.source.queue_extents import QueueExtents
from mirrormq.testing import Cluster
from tests.brokers.rabbitmq import RabbitMQ

QUEUE = "asked"
MESSAGES = 40_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, mirror_all=True) as brokers:
        connection = pika.BlockingConnection(pika.URLParameters(brokers.uri(1)))
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        channel.queue_declare("other")
        for number in range(MESSAGES):
            channel.basic_publish("", QUEUE, b"%d" % number, pika.BasicProperties(delivery_mode=2))
        channel.queue_declare(QUEUE, passive=True)
        connection.close()
        yield brokers


def queues(cluster: Cluster, **options: str) -> QueueExtents:
    uri = ",".join((cluster.uri(0), cluster.uri(1)))
    return QueueExtents(source_options({"uri": uri, "queue": QUEUE, **options}, streaming=True))


def test_queues_are_found(cluster: Cluster) -> None:
    asked = queues(cluster, queue="", queuePattern="ask.*|o")
    assert asked.names() == [QUEUE]
    extent = asked.extents()[QUEUE]
    assert (extent.ready, extent.master) == (MESSAGES, cluster.name(1))
    assert asked.extent("missing") is None
    asked.close()


def test_nodes_are_preferred_by_what_they_are_to_the_queue(cluster: Cluster) -> None:
    for replica, order in (("master", (1, 0)), ("mirror", (0, 1)), ("any", ())):
        asked = queues(cluster, preferReplica=replica)
        assert asked.order(QUEUE) == order
        asked.close()


def test_the_reader_gets_the_reason_of_an_error(cluster: Cluster, rabbitmq: RabbitMQ) -> None:
    with RangeClient(Nodes(parse_uris(cluster.uri()))) as range_client:
        with pytest.raises(RequestRefused, match="no queue 'missing' in vhost '/'") as caught:
            range_client.ask(range_protocol.extent("missing"))
        assert caught.value.code == 404
        # The connection is as good as before.
        assert range_client.ask(range_protocol.extent(QUEUE)).headers["ready"] == MESSAGES
    with (
        RangeClient(Nodes(parse_uris(f"amqp://127.0.0.1:{rabbitmq.amqp_port}"))) as range_client,
        pytest.raises(RequestRefused, match="knows no range reads: is it a MirrorMQ"),
    ):
        range_client.ask(range_protocol.extent(QUEUE))


def test_takes_follow_each_other_on_a_mirrored_queue_where_nothing_else_happens(cluster: Cluster) -> None:
    with RangeClient(Nodes(parse_uris(cluster.uri(1)), patience_s=0)) as range_client:
        counts = [
            range_client.ask(range_protocol.take(QUEUE, "idle", take, 100)).headers["count"]
            for take in (1, 2, 3)
        ]
        assert counts == [100, 100, 100]
        assert range_client.ask(range_protocol.release(QUEUE, "idle")).headers["count"] == 300


def test_a_read_goes_on_at_another_node(cluster: Cluster) -> None:
    """Kill the queue's master in the middle of a read; the last test of this cluster."""
    nodes = Nodes(parse_uris(",".join((cluster.uri(1), cluster.uri(0)))))
    with RangeClient(nodes) as range_client:
        extent = range_protocol.read_extent(range_client.ask(range_protocol.extent(QUEUE)).headers)
        spans = [Span(extent.first, MESSAGES)]
        bodies: list[bytes] = []
        for number, batch in enumerate(read(range_client, QueueRange(QUEUE, spans, 200.0))):
            bodies += [row.body for row in batch]
            if number == 0:
                assert 0 < len(bodies) < MESSAGES
                cluster.kill(1)
        assert bodies == [b"%d" % number for number in range(MESSAGES)]
        assert range_client.ask(range_protocol.extent(QUEUE)).headers["master"] == cluster.name(0)

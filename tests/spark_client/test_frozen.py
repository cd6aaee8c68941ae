"""A frozen node: it accepts connections and answers nothing. Another one is used within seconds."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pika
import pytest

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.ranges import range_protocol
from mirrormq.spark.client import node_names, node_selection
from mirrormq.spark.client.client_errors import ConnectionLost
from mirrormq.spark.client.node_address import parse_uri, parse_uris
from mirrormq.spark.client.node_selection import Nodes, Timeouts, is_suspect, trusted_first
from mirrormq.spark.client.range_client import RangeClient
from mirrormq.spark.client.spark_publisher import SparkPublisher
from mirrormq.spark.data_source_options import sink_options, source_options
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.sink.row_encoder import RowEncoder
from mirrormq.spark.source.queue_extents import QueueExtents
from mirrormq.testing import Cluster
from tests.brokers.mirrormq import MirrorMQ

QUEUE = "frozen"


@pytest.fixture(autouse=True)
def no_suspects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_selection, "_suspects", {})


@pytest.fixture
def silent() -> Iterator[AmqpUri]:
    """A port whose kernel takes connections for a process that does nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield parse_uri(f"amqp://127.0.0.1:{server.getsockname()[1]}")


def test_a_silent_node_costs_half_a_second_once(silent: AmqpUri, mirrormq: MirrorMQ) -> None:
    healthy = parse_uri(f"amqp://127.0.0.1:{mirrormq.amqp_port}")
    both = Nodes((silent, healthy))
    began_s = time.monotonic()
    both.connect().close()
    assert time.monotonic() - began_s < 3, "it was not waited for until its handshake's limit"
    assert is_suspect(silent) and not is_suspect(healthy)
    assert trusted_first((silent, healthy)) == [healthy, silent]
    began_s = time.monotonic()
    Nodes((silent, healthy)).connect().close()
    assert time.monotonic() - began_s < node_selection.STAGGER_S, "it is remembered"


def test_the_handshake_has_a_limit_of_its_own(silent: AmqpUri) -> None:
    began_s = time.monotonic()
    with pytest.raises(ConnectionLost, match="did not answer in time"):
        Nodes((silent,), patience_s=0, timeouts=Timeouts(handshake_s=0.3)).connect()
    assert time.monotonic() - began_s < 3


def test_limits_are_options() -> None:
    given = {"uri": "amqp://h", "handshakeTimeoutMs": "700", "requestTimeoutMs": "2500"}
    assert source_options({**given, "queue": "q"}, streaming=True).timeouts == Timeouts(0.7, 2.5)
    assert sink_options(given).timeouts == Timeouts(0.7, 2.5)
    assert sink_options({"uri": "amqp://h"}).timeouts == Timeouts(5.0, 10.0)
    with pytest.raises(OptionError, match="requestTimeoutMs is a whole number"):
        sink_options({**given, "requestTimeoutMs": "soon"})


def test_frozen_nodes_are_not_waited_for_to_learn_their_names(mirrormq: MirrorMQ) -> None:
    """Planning with preferReplica waited for one frozen node after the other, for 10 s each."""
    name = mirrormq.node_name
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        silent = ",".join(f"amqp://127.0.0.1:{server.getsockname()[1]}" for server in servers)
        given = {"uri": f"{silent},amqp://127.0.0.1:{mirrormq.amqp_port}", "queue": QUEUE}
        options = source_options({**given, "preferReplica": "master"}, streaming=False)
        began_s = time.monotonic()
        assert node_names.node_names(options.addresses, options.timeouts) == [None] * 3 + [name]
        assert time.monotonic() - began_s < 2 * node_selection.PROBE_S, "all are asked at the same time"
        with pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", mirrormq.amqp_port)
        ) as connection:
            connection.channel().queue_declare(QUEUE)
            queues = QueueExtents(options)
            assert queues.order(QUEUE) == (3, 0, 1, 2)
            queues.close()
            connection.channel().queue_delete(QUEUE)
        began_s = time.monotonic()
        assert node_names.node_names(options.addresses, options.timeouts)[3] == name
        assert time.monotonic() - began_s < node_selection.STAGGER_S, "none is asked again so soon"


@pytest.mark.timeout(180)
def test_requests_and_publishes_go_on_within_seconds_of_a_freeze() -> None:
    """The frozen node is the one that is asked, and the master of the queue."""
    with Cluster(nodes=3, mirror_all=True) as cluster:
        connection = pika.BlockingConnection(pika.URLParameters(cluster.uri(0)))
        connection.channel().queue_declare(QUEUE, durable=True)
        connection.close()
        addresses = parse_uris(",".join(cluster.uri(index) for index in range(3)))
        options = sink_options({"uri": "amqp://h", "routingKey": QUEUE})
        made = RowEncoder(options, "job", 1, 131072)

        def message() -> bytes:
            import pyarrow as pa

            (found,) = made.messages(pa.RecordBatch.from_pydict({"body": ["x"]}))
            return found

        try:
            with RangeClient(Nodes(addresses)) as range_client, SparkPublisher(Nodes(addresses)) as publisher:
                publisher.publish(message())
                publisher.flush()
                assert range_client.ask(range_protocol.extent(QUEUE)).headers["master"] == cluster.name(0)
                cluster.freeze(0)
                began_s = time.monotonic()
                headers = range_client.ask(range_protocol.extent(QUEUE)).headers
                asked_s = time.monotonic() - began_s
                assert headers["master"] != cluster.name(0)
                assert headers["ready"] == 1
                publisher.publish(message())
                publisher.flush()
                published_s = time.monotonic() - began_s
                assert range_client.ask(range_protocol.extent(QUEUE)).headers["ready"] == 2
            print(f"asked after {asked_s:.1f} s, published after {published_s:.1f} s")
            assert asked_s < 6
            assert published_s < asked_s + 6
        finally:
            cluster.thaw(0)

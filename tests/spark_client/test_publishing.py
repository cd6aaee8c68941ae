"""The client publishes with confirms, to MirrorMQ and to RabbitMQ, and survives the death of a node."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence

import pika
import pyarrow as pa
import pytest

from mirrormq.spark.client.client_errors import ConnectionLost, RequestRefused
from mirrormq.spark.client.node_address import parse_uri, parse_uris
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.spark_connection import SparkConnection
from mirrormq.spark.client.spark_consumer import SparkConsumer
from mirrormq.spark.client.spark_publisher import NotRouted, SparkPublisher
from mirrormq.spark.data_source_options import sink_options
from mirrormq.spark.sink.row_encoder import RowEncoder
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_port
from tests.brokers.rabbitmq import RabbitMQ

FRAME_MAX = 131072


@pytest.fixture(params=["mirrormq", "rabbitmq"])
def port(request: pytest.FixtureRequest) -> int:
    broker: MirrorMQ | RabbitMQ = request.getfixturevalue(request.param)
    return broker.amqp_port


@pytest.fixture
def uri(port: int) -> str:
    return f"amqp://127.0.0.1:{port}"


@pytest.fixture
def channel(port: int) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    yield connection.channel()
    connection.close()


def publish(
    uri: str, rows: Mapping[str, Sequence[object]], producer: str | None = "w/0", **options: str
) -> SparkPublisher:
    asked = sink_options({"uri": uri, **options})
    made = RowEncoder(asked, producer, 1, FRAME_MAX)
    with SparkPublisher(Nodes(asked.addresses, patience_s=5)) as publisher:
        for message in made.messages(pa.RecordBatch.from_pydict(rows)):
            publisher.publish(message)
    assert publisher.confirmed == made.count == len(rows["body"])
    return publisher


def test_bodies_of_every_size_arrive(
    uri: str, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    bodies = [b"x" * size for size in (1, 0, FRAME_MAX - 8, FRAME_MAX - 7, 3 * FRAME_MAX)]
    publish(uri, {"body": bodies}, routingKey=queue)
    for number, body in enumerate(bodies, 1):
        _, properties, got = channel.basic_get(queue, auto_ack=True)
        assert got == body
        assert properties.headers == {"x-producer": b"w/0".decode(), "x-publish-id": number}
        assert properties.delivery_mode == 2


def test_columns_become_properties(
    uri: str, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.direct", "key")
    rows: Mapping[str, Sequence[object]] = {
        "body": ["text", "second"],
        "exchange": ["amq.direct", None],
        "routing_key": ["key", queue],
        "headers": pa.array([[("a", "1"), ("x-publish-id", "7")], None], pa.map_(pa.string(), pa.string())),
        "properties": [{"priority": 3, "correlation_id": "c", "type": "t"}, None],
        "content_type": ["text/plain", None],
        "message_id": ["m", None],
        "sequence": [1, 2],
    }
    publish(uri, rows, persistent="false")
    _, first, body = channel.basic_get(queue, auto_ack=True)
    assert (body, first.content_type, first.message_id) == (b"text", "text/plain", "m")
    assert (first.priority, first.correlation_id, first.type, first.delivery_mode) == (3, "c", "t", 1)
    assert first.headers == {"a": "1", "x-producer": "w/0", "x-publish-id": 1}
    _, second, body = channel.basic_get(queue, auto_ack=True)
    assert (body, second.content_type, second.priority) == (b"second", None, None)
    assert second.headers == {"x-producer": "w/0", "x-publish-id": 2}


def test_a_message_without_a_queue_fails_with_its_place(uri: str) -> None:
    rows: Mapping[str, Sequence[object]] = {"body": [b"x"]}
    with pytest.raises(NotRouted, match=r"exchange 'amq.direct' is bound for routing key 'no' \(NO_ROUTE\)"):
        publish(uri, rows, exchange="amq.direct", routingKey="no")
    publish(uri, rows, exchange="amq.direct", routingKey="no", mandatory="false")
    with pytest.raises(RequestRefused, match="no exchange 'missing' in vhost '/'"):
        publish(uri, rows, exchange="missing", routingKey="no")


def test_a_dead_node_is_skipped(
    port: int, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    uris = f"amqp://127.0.0.1:{free_port()},amqp://127.0.0.1:{port}"
    publish(uris, {"body": [b"x"]}, routingKey=queue)
    assert channel.basic_get(queue, auto_ack=True)[2] == b"x"


def test_no_node_answers() -> None:
    ports = free_port(), free_port()
    addresses = parse_uris(",".join(f"amqp://127.0.0.1:{port}" for port in ports))
    with pytest.raises(
        ConnectionLost, match=r"no broker answers at any of .*; the last error is: no broker answers at"
    ):
        Nodes(addresses, patience_s=0).connect()


def test_a_wrong_password_is_final_and_not_repeated(port: int) -> None:
    address = parse_uri(f"amqp://guest:secret-word@127.0.0.1:{port}")
    with pytest.raises(RequestRefused, match="ACCESS_REFUSED") as caught:
        SparkConnection(address)
    assert "secret-word" not in str(caught.value)


def test_something_else_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = parse_uri(f"amqp://127.0.0.1:{server.getsockname()[1]}")
        server.settimeout(5)
        import threading

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(8)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ConnectionLost, match="does not speak AMQP 0-9-1"):
            SparkConnection(address, 5)
        thread.join()


def test_a_consumer_holds_what_it_does_not_acknowledge(
    port: int, uri: str, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    queue = channel.queue_declare("").method.queue
    bodies = [b"%d" % number for number in range(10)]
    publish(uri, {"body": bodies}, routingKey=queue)
    nodes = Nodes((parse_uri(uri),))
    consumer = SparkConsumer(nodes, [queue], 4)
    taken = consumer.take(100, 1000, 5, 0.2)
    assert [(each.queue, each.body, each.redelivered) for each in taken] == [
        (queue, body, False) for body in bodies[:4]
    ]
    consumer.acknowledge(taken[1].tag)
    consumer.close()
    consumer = SparkConsumer(nodes, [queue], 100)
    taken = consumer.take(8, 1000, 5, 0.2)
    assert [each.body for each in taken] == bodies[2:]
    assert [each.redelivered for each in taken[:2]] == [True, True]
    channel.queue_delete(queue)
    with pytest.raises(RequestRefused, match=f"queue '{queue}' was deleted"):
        consumer.take(1, 1, 5, 1)
    consumer.close()

"""Dead letters of the sink: rows that reach no queue or cannot be published go where the options say."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pika
import pyarrow as pa
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel

from mirrormq.spark.client.spark_publisher import NotRouted
from mirrormq.spark.data_source_options import sink_options
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.sink.row_publishing import PublishedRows, SinkTask, publish
from tests.brokers.mirrormq import MirrorMQ


@pytest.fixture
def channel(mirrormq: MirrorMQ) -> Iterator[Channel]:
    # Without heartbeats: nobody reads from this connection while a test is at work elsewhere.
    parameters = pika.ConnectionParameters("127.0.0.1", mirrormq.amqp_port, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    connection.close()


def contents(channel: Channel, queue: str) -> list[tuple[bytes, dict[str, object]]]:
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        headers = got[1].headers
        found.append((got[2], {name: headers[name] for name in headers if not name.startswith("x-p")}))
    return found


def test_each_row_is_in_one_place_once_also_if_it_is_repeated(mirrormq: MirrorMQ, channel: Channel) -> None:
    queue, dead = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    options = sink_options(
        {
            "uri": f"amqp://127.0.0.1:{mirrormq.amqp_port}",
            "deadLetterExchange": "",
            "deadLetterRoutingKey": dead,
        }
    )
    long = "k" * 256
    rows = pa.RecordBatch.from_pydict(
        {
            "body": ["a", "b", None, "c", "d" * 300_000, "e"],
            "routing_key": [queue, "nowhere", queue, long, "nowhere", queue],
            "headers": pa.array([[("n", "1")]] * 6, pa.map_(pa.string(), pa.string())),
        }
    )
    unit = SinkTask(uuid.uuid4().hex, 3, 0)
    for _ in range(2):
        assert publish(options, iter([rows]), unit) == PublishedRows(6)
    assert [body for body, _ in contents(channel, queue)] == [b"a", b"e"]
    found = sorted(contents(channel, dead), key=lambda each: (len(each[0]), each[0]))

    def said(reason: str, key: str) -> dict[str, object]:
        headers = {"x-dead-letter-reason": reason, "x-original-exchange": "", "x-original-routing-key": key}
        return {"n": "1", **headers}

    assert found == [
        (b"", said("no_body", queue)), (b"b", said("unroutable", "nowhere")),
        (b"c", said("place_too_long", long[:255])), (b"d" * 300_000, said("unroutable", "nowhere")),
    ]  # fmt: skip


def test_a_dead_letter_exchange_that_leads_nowhere_fails_the_write(mirrormq: MirrorMQ) -> None:
    uri = f"amqp://127.0.0.1:{mirrormq.amqp_port}"
    options = sink_options({"uri": uri, "routingKey": "nowhere", "deadLetterExchange": "amq.fanout"})
    rows = pa.RecordBatch.from_pydict({"body": ["a"]})
    with pytest.raises(NotRouted, match=r"nothing at exchange 'amq\.fanout' is bound"):
        publish(options, iter([rows]), SinkTask(uuid.uuid4().hex, 0, 0))


def test_options_that_do_not_go_together_are_refused() -> None:
    for options, said in (
        ({"deadLetterExchange": ""}, "set deadLetterRoutingKey to a queue"),
        ({"deadLetterExchange": "e", "mandatory": "false"}, "dead letters need mandatory"),
        ({"deadLetterRoutingKey": "k" * 256}, "have at most 255 bytes"),
    ):
        with pytest.raises(OptionError, match=said):
            sink_options({"uri": "amqp://h", **options})

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

    def said(reason: str, key: str, fault: str = "") -> dict[str, object]:
        headers = {"x-dead-letter-reason": reason, "x-original-exchange": "", "x-original-routing-key": key}
        return {"n": "1", **headers, **({"x-dead-letter-fault": fault} if fault else {})}

    assert found == [
        (b"", said("no_body", queue, "a row has no body: filter out rows whose body is null")),
        (b"b", said("unroutable", "nowhere")),
        (b"c", said("place_too_long", long[:255], "a row's routing key is too long: 256 bytes")),
        (b"d" * 300_000, said("unroutable", "nowhere")),
    ]


HEADERS = pa.map_(pa.string(), pa.string())
TYPED = pa.map_(pa.string(), pa.struct([("type", pa.string()), ("value", pa.string())]))
PROPERTIES = pa.struct(
    [
        ("delivery_mode", pa.int32()),
        ("priority", pa.int32()),
        ("correlation_id", pa.string()),
        ("expiration", pa.string()),
    ]
)


def not_utf8(text: bytes) -> pa.Array:
    return pa.StringArray.from_buffers(
        1, pa.array([0, len(text)], pa.int32()).buffers()[1], pa.py_buffer(text)
    )


def properties(**given: object) -> dict[str, pa.Array]:
    return {"properties": pa.array([given], PROPERTIES)}


def seconds(value: int) -> pa.Array:
    return pa.array([value * 1_000_000], pa.timestamp("us", "UTC"))


FAULTS = [
    ("invalid_properties", "property message_id: a short string", {"message_id": pa.array(["m" * 256])}),
    ("invalid_properties", "property correlation_id", properties(correlation_id="\u00e4" * 128)),
    ("invalid_properties", "property priority", properties(priority=256)),
    ("invalid_properties", "property priority", properties(priority=-1)),
    ("invalid_properties", "property delivery_mode: 3 is neither 1 nor 2", properties(delivery_mode=3)),
    ("invalid_properties", "property expiration: 'soon' is no number", properties(expiration="soon")),
    ("invalid_properties", "property expiration", properties(expiration="9" * 14)),
    ("invalid_properties", "property timestamp", {"timestamp": seconds(-1)}),
    ("invalid_properties", "header kkk", {"headers": pa.array([[("k" * 256, "v")]], HEADERS)}),
    ("invalid_properties", "header CC: it must be an array", {"headers": pa.array([[("CC", "q")]], HEADERS)}),
    (
        "invalid_properties",
        "column headers_typed: a header of type 'long' has the value 'many'",
        {"headers_typed": pa.array([[("n", {"type": "long", "value": "many"})]], TYPED)},
    ),
    ("properties_too_large", "and a frame 131072", {"headers": pa.array([[("h", "v" * 131_000)]], HEADERS)}),
    ("body_too_large", "maxBodyBytes is 1000", {"body": pa.array([b"x" * 1001], pa.binary())}),
    ("not_utf8", "a row's message_id is not UTF-8", {"message_id": not_utf8(b"\xff")}),
    ("not_utf8", "a row's routing key is not UTF-8", {"routing_key": not_utf8(b"\xff\xfe")}),
]


@pytest.mark.parametrize(("reason", "fault", "columns"), FAULTS)
def test_a_row_that_no_broker_takes_is_a_dead_letter_and_no_end(
    mirrormq: MirrorMQ, channel: Channel, reason: str, fault: str, columns: dict[str, pa.Array]
) -> None:
    queue, dead = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    given = {"uri": f"amqp://127.0.0.1:{mirrormq.amqp_port}", "maxBodyBytes": "1000"}
    rows = {"body": pa.array([b"faulty"], pa.binary()), "routing_key": pa.array([queue]), **columns}
    faulty = pa.RecordBatch.from_pydict(rows)
    nothing = {name: pa.nulls(1, column.type) for name, column in columns.items()}
    sound = pa.RecordBatch.from_pydict(rows | nothing | {"body": pa.array([b"sound"], pa.binary())})
    if "routing_key" in columns:
        sound = sound.set_column(1, "routing_key", pa.array([queue]))
    with pytest.raises(OptionError, match=fault):
        publish(sink_options(given), iter([faulty]), SinkTask(uuid.uuid4().hex, 0, 0))
    options = sink_options({**given, "deadLetterExchange": "", "deadLetterRoutingKey": dead})
    unit = SinkTask(uuid.uuid4().hex, 0, 0)
    for _ in range(2):
        assert publish(options, iter([sound, faulty, sound]), unit) == PublishedRows(3)
    assert [body for body, _ in contents(channel, queue)] == [b"sound", b"sound"]
    ((body, headers),) = contents(channel, dead)
    assert body == (b"" if reason == "body_too_large" else b"faulty")
    assert headers["x-dead-letter-reason"] == reason
    assert fault in str(headers["x-dead-letter-fault"])
    assert headers["x-original-routing-key"] == ("" if "routing_key" in columns else queue)


def test_a_dead_letter_keeps_the_sound_properties(mirrormq: MirrorMQ, channel: Channel) -> None:
    dead = channel.queue_declare("", exclusive=True).method.queue
    options = sink_options(
        {
            "uri": f"amqp://127.0.0.1:{mirrormq.amqp_port}",
            "routingKey": "q",
            "deadLetterExchange": "",
            "deadLetterRoutingKey": dead,
        }
    )
    rows = pa.RecordBatch.from_pydict(
        {
            "body": ["a"],
            "message_id": ["kept"],
            "headers": pa.array([[("kept", "1"), ("k" * 256, "2")]], HEADERS),
            **properties(priority=7, expiration="never"),
        }
    )
    assert publish(options, iter([rows]), SinkTask(uuid.uuid4().hex, 0, 0)) == PublishedRows(1)
    _, found, body = channel.basic_get(dead, auto_ack=True)
    assert (body, found.message_id, found.priority, found.expiration) == (b"a", "kept", 7, None)
    assert found.headers["kept"] == "1" and len(found.headers) == 7


def test_rows_fit_the_frames_of_the_node() -> None:
    with MirrorMQ(configuration="frame_max = 8192\n") as node:
        uri = f"amqp://guest:guest@127.0.0.1:{node.amqp_port}/%2F"
        with pika.BlockingConnection(pika.URLParameters(uri)) as connection:
            channel = connection.channel()
            for queue in ("q", "dead"):
                channel.queue_declare(queue)
            options = sink_options({"uri": uri, "deadLetterExchange": "", "deadLetterRoutingKey": "dead"})
            texts = ["v" * 5000, "v" * 9000, "v" * 7900]
            rows = pa.RecordBatch.from_pydict(
                {
                    "body": ["a" * 20_000, "b", "c"],
                    "routing_key": ["q", "q", "nowhere"],
                    "headers": pa.array([[("h", text)] for text in texts], HEADERS),
                }
            )
            assert publish(options, iter([rows]), SinkTask("w", 0, 0)) == PublishedRows(3)
            assert [body for body, _ in contents(channel, "q")] == [b"a" * 20_000]
            dead = {body: headers["x-dead-letter-reason"] for body, headers in contents(channel, "dead")}
            assert dead == {b"b": "properties_too_large", b"c": "unroutable"}


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

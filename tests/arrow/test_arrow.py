"""Queues as Arrow data without Spark: streamed reads, and writes that are recognised when repeated."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pika
import polars
import pyarrow as pa
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.sql.pandas.types import to_arrow_schema

from mirrormq import arrow
from mirrormq.spark.client.client_errors import BrokerError
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.source.queue_extents import QueueExtents
from mirrormq.spark.source.row_schema import COLUMNS
from tests.brokers.mirrormq import MirrorMQ

QUEUES = ("arrow.a", "arrow.b")
MESSAGES = 40_000


@pytest.fixture(scope="module")
def uri(mirrormq: MirrorMQ) -> str:
    return f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"


@pytest.fixture
def channel(uri: str) -> Iterator[Channel]:
    connection = pika.BlockingConnection(pika.URLParameters(f"{uri}?heartbeat=0"))
    opened = connection.channel()
    for queue in QUEUES:
        opened.queue_declare(queue, durable=True)
    yield opened
    for queue in QUEUES:
        opened.queue_delete(queue)
    connection.close()


def count(channel: Channel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def test_the_schema_is_that_of_the_spark_source() -> None:
    assert to_arrow_schema(COLUMNS, timezone="UTC") == arrow.SCHEMA


def test_a_queue_is_read_in_bounded_pieces_and_stays(uri: str, channel: Channel) -> None:
    began = datetime.now(UTC) - timedelta(milliseconds=20)
    for number in range(MESSAGES):
        channel.basic_publish("", QUEUES[0], b"%d" % number)
    channel.basic_publish("", QUEUES[1], b"other", pika.BasicProperties(headers={"a": 1}, message_id="m"))
    assert count(channel, QUEUES[0]) == MESSAGES
    sizes, bodies = [], []
    for batch in arrow.read(uri, queue=QUEUES[0]):
        batch.validate(full=True)
        sizes.append(batch.num_rows)
        bodies += batch.column("body").to_pylist()
    assert bodies == [b"%d" % number for number in range(MESSAGES)]
    assert len(sizes) > 2 and max(sizes) <= 16_384
    assert count(channel, QUEUES[0]) == MESSAGES

    both = arrow.read(uri, queues=QUEUES, columns=["headers", "message_id", "queue"]).read_all()
    assert both.num_rows == MESSAGES + 1
    assert both.slice(MESSAGES).to_pylist(maps_as_pydicts="strict") == [
        {"headers": {"a": "1"}, "message_id": "m", "queue": QUEUES[1]}
    ]
    times = arrow.read(uri, queue=QUEUES[0], columns=["ingestion_time"]).read_all().column(0).to_pylist()
    assert began <= times[0] and times == sorted(times) and times[-1] <= datetime.now(UTC)
    middle = times[MESSAGES // 2]
    later = arrow.read(uri, queue=QUEUES[0], columns=["body"], startingTimestamp=middle.isoformat())
    earlier = arrow.read(uri, queue=QUEUES[0], endingTimestamp=str(round(middle.timestamp() * 1000)))
    split = times.index(middle)
    assert later.read_all().column("body").to_pylist() == bodies[split:]
    assert earlier.read_all().column("body").to_pylist() == bodies[:split]
    some = arrow.read(uri, queue=QUEUES[0], startingOffsets='{"arrow.a": 5}', endingOffsets='{"arrow.a": 7}')
    assert some.read_all().column("body").to_pylist() == [b"4", b"5"]
    assert arrow.read(uri, queue=QUEUES[0], startingOffsets="latest").read_all().num_rows == 0


def test_a_reader_that_is_given_up_closes_its_connection(
    uri: str, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[QueueExtents] = []
    monkeypatch.setattr(QueueExtents, "close", lambda self: closed.append(self))
    for _ in range(3):
        channel.basic_publish("", QUEUES[0], b"x" * 1_500_000)
    assert count(channel, QUEUES[0]) == 3
    reader = arrow.read(uri, queue=QUEUES[0])
    assert reader.read_next_batch().num_rows == 1
    assert not closed
    del reader
    assert len(closed) == 1
    closed[0].range_client.close()
    with pytest.raises(BrokerError, match="ACCESS_REFUSED"):
        arrow.read(uri.replace("guest:guest", "guest:wrong"), queue=QUEUES[0])
    assert len(closed) == 2


def test_rows_are_published_once(uri: str, channel: Channel) -> None:
    time = datetime(2026, 1, 2, tzinfo=UTC)
    rows = pa.table(
        {
            "body": pa.array([b"a", b"b"], pa.large_binary()),
            "message_id": pa.array(["1", "2"], pa.large_string()),
            "headers": pa.array([[("k", "v")], None], pa.map_(pa.large_string(), pa.large_string())),
            "timestamp": pa.array([time, None], pa.timestamp("ms")),
            "properties": pa.array([{"priority": 3}, None], pa.struct([("priority", pa.int64())])),
        }
    )
    for _ in range(2):
        assert arrow.write(uri, rows, routing_key=QUEUES[0], write_id="test-arrow") == 2
    found = arrow.read(uri, queue=QUEUES[0]).read_all().to_pylist(maps_as_pydicts="strict")
    assert [(row["body"], row["message_id"], row["timestamp"]) for row in found] == [
        (b"a", "1", time), (b"b", "2", None),
    ]  # fmt: skip
    assert found[0]["headers"]["k"] == "v" and found[0]["properties"]["priority"] == 3
    # A reader is a stream too: a queue is copied in bounded memory.
    source = arrow.read(uri, queue=QUEUES[0], columns=["body", "message_id"])
    assert arrow.write(uri, source, exchange="", routing_key=QUEUES[1]) == 2
    assert count(channel, QUEUES[1]) == 2


def test_polars_and_duckdb_take_streams_and_give_them(uri: str, channel: Channel) -> None:
    for number in range(3):
        properties = pika.BasicProperties(headers={"n": number}, timestamp=number, priority=number)
        channel.basic_publish("", QUEUES[0], b"%d" % number, properties)
    assert count(channel, QUEUES[0]) == 3
    frame = polars.from_arrow(arrow.read(uri, queue=QUEUES[0]))
    assert isinstance(frame, polars.DataFrame) and frame.columns == arrow.SCHEMA.names
    assert frame["body"].to_list() == [b"0", b"1", b"2"]
    assert arrow.write(uri, frame.select("body", "message_id"), routing_key=QUEUES[1]) == 3
    messages = arrow.read(uri, queues=QUEUES)  # noqa: F841 - DuckDB finds it by its name
    found = duckdb.sql("SELECT queue, count(*), max(headers['n']) FROM messages GROUP BY ALL ORDER BY ALL")
    assert found.fetchall() == [(QUEUES[0], 3, "2"), (QUEUES[1], 3, None)]
    last = duckdb.sql("SELECT 'x'::BLOB AS body, 'm' AS message_id UNION ALL SELECT 'y', 'n'")
    assert arrow.write(uri, last, routing_key=QUEUES[1]) == 2
    assert count(channel, QUEUES[1]) == 5


def test_a_copy_with_typed_headers_has_the_original_ones(uri: str, channel: Channel) -> None:
    headers: dict[str, Any] = {
        "text": "x", "int": 7, "long": 1 << 40, "truth": True, "none": None,
        "time": datetime(2026, 1, 2, tzinfo=UTC).replace(tzinfo=None), "decimal": Decimal("1.25"),
        "bytes": b"\xff\x00", "table": {"a": [1, "b", {"c": None}]},
    }  # fmt: skip
    channel.basic_publish("", QUEUES[0], b"x", pika.BasicProperties(headers=headers, delivery_mode=2))
    original = channel.basic_get(QUEUES[0])[1].headers
    columns = ["body", "headers", "headers_typed"]
    source = arrow.read(uri, queue=QUEUES[0], columns=columns)
    assert arrow.write(uri, source, exchange="", routing_key=QUEUES[1]) == 1
    copy = channel.basic_get(QUEUES[1])[1].headers
    assert {name: value for name, value in copy.items() if not name.startswith("x-p")} == original
    (row,) = arrow.read(uri, queue=QUEUES[0], columns=columns).read_all().to_pylist(maps_as_pydicts="strict")
    assert row["headers_typed"]["long"] == {"type": "long", "value": str(1 << 40)}
    wrong = pa.array([[("n", {"type": "long", "value": "five"})]], arrow.HEADERS_TYPED.type)
    typed = pa.table({"body": ["x"], "headers_typed": wrong})
    with pytest.raises(OptionError, match="a header of type 'long' has the value 'five', which is none"):
        arrow.write(uri, typed, routing_key=QUEUES[1])


def test_mistakes_are_one_sentence(uri: str, channel: Channel) -> None:
    with pytest.raises(OptionError, match=r"there is no queue 'arrow\.missing': declare it"):
        arrow.read(uri, queue="arrow.missing")
    with pytest.raises(OptionError, match="no column: did you mean body"):
        arrow.read(uri, queue=QUEUES[0], columns=["bodi"])
    with pytest.raises(OptionError, match="column body must be binary or string"):
        arrow.write(uri, pa.table({"body": [1]}), routing_key=QUEUES[0])
    with pytest.raises(OptionError, match=r"properties\.size is no property"):
        properties = pa.array([{"size": "x"}])
        arrow.write(uri, pa.table({"body": ["x"], "properties": properties}), routing_key=QUEUES[0])
    with pytest.raises(OptionError, match="the target is missing"):
        arrow.write(uri, pa.table({"body": ["x"]}))


def test_spark_is_not_needed(uri: str, channel: Channel) -> None:
    script = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "import pyarrow as pa\n"
        "from mirrormq import arrow\n"
        "assert arrow.write(sys.argv[1], pa.table({'body': ['x']}), routing_key='arrow.a') == 1\n"
        "print(arrow.read(sys.argv[1], queue='arrow.a').read_all().num_rows)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, uri], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("1\n", "")

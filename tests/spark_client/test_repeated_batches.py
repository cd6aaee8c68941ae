"""Repeated batches: the sink loses no row, whatever split and order the rows come in the second time."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator

import pika
import pyarrow as pa
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.sql.types import StringType, StructField, StructType

from mirrormq import arrow
from mirrormq.ranges import range_protocol
from mirrormq.ranges.range_limits import PRODUCER_EPOCHS_MAX, PRODUCERS_PER_VHOST_MAX
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.range_client import RangeClient
from mirrormq.spark.data_source_options import SinkOptions, sink_options
from mirrormq.spark.sink import row_publishing, writers
from mirrormq.spark.sink.digest import RowsDigest
from mirrormq.spark.sink.row_publishing import ChangedRows, PublishedRows, SinkTask, publish
from mirrormq.spark.sink.spool import Spool
from mirrormq.spark.sink.writers import Published
from tests.brokers.mirrormq import MirrorMQ

SPLITS = 1000


@pytest.fixture
def channel(mirrormq: MirrorMQ) -> Iterator[Channel]:
    # Without heartbeats: nobody reads from this connection while a test is at work elsewhere.
    parameters = pika.ConnectionParameters("127.0.0.1", mirrormq.amqp_port, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    connection.close()


@pytest.fixture
def queue(channel: Channel) -> str:
    return str(channel.queue_declare("", exclusive=True).method.queue)


@pytest.fixture
def options(mirrormq: MirrorMQ, queue: str) -> SinkOptions:
    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    return sink_options({"uri": uri, "routingKey": queue})


def record_batches(rows: list[str], sizes: random.Random | None = None) -> Iterator[pa.RecordBatch]:
    """The rows as Spark hands them over, in pieces of any size."""
    while rows:
        count = sizes.randint(1, len(rows)) if sizes else len(rows)
        yield pa.RecordBatch.from_pydict({"body": pa.array(rows[:count], pa.string())})
        rows = rows[count:]


def contents(channel: Channel, queue: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for method, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=0.5):
        if method is None:
            break
        found[body.decode()] += 1
    channel.cancel()
    return found


def split(rows: list[str], chance: random.Random) -> list[list[str]]:
    """The rows in some order, cut into some partitions."""
    rows = list(rows)
    if chance.random() < 0.5:
        chance.shuffle(rows)
    cuts = sorted(chance.randint(0, len(rows)) for _ in range(chance.randint(0, 3)))
    return [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def interrupted(options: SinkOptions, rows: list[str], unit: SinkTask, count: int) -> None:
    """A task that dies when so many of its messages have been confirmed."""
    digest = RowsDigest(f"{options.exchange}\0{options.routing_key}\0{options.persistent}")
    for batch in record_batches(rows):
        digest.update(batch)
    producer, _ = row_publishing._announce(options, unit, digest.hexdigest())
    first = (unit.batch << row_publishing.ROWS_BITS) + 1
    assert producer is not None
    row_publishing._publish(options, record_batches(rows[:count]), producer, first)


@pytest.mark.timeout(300)
def test_a_thousand_random_splits_and_orders_lose_nothing(
    options: SinkOptions, channel: Channel, queue: str
) -> None:
    chance = random.Random(19)
    splits, trial = 0, 0
    expected: Counter[str] = Counter()
    while splits < SPLITS:
        trial += 1
        write, batch = f"{uuid.uuid4().hex}", chance.randint(0, 3)
        rows = [f"{trial}/{chance.randint(0, 9)}" for _ in range(chance.randint(1, 12))]
        published: dict[tuple[int, tuple[str, ...]], int] = {}
        same = chance.random() < 0.3
        parts = split(rows, chance)
        for _ in range(chance.randint(1, 3)):  # tries that do not come to their end
            splits += 1
            for place in chance.sample(range(len(parts)), chance.randint(0, len(parts))):
                if parts[place]:
                    count = chance.randint(0, len(parts[place]))
                    interrupted(options, parts[place], SinkTask(write, batch, place), count)
                    key = (place, tuple(parts[place]))
                    published[key] = max(count, published.get(key, 0))
            parts = parts if same else split(rows, chance)
        splits += 1
        known = {place for place, _ in published}
        for place, part in enumerate(parts):
            again = (place, tuple(part)) in published
            done = publish(options, record_batches(part, chance), SinkTask(write, batch, place))
            assert done.messages == len(part)
            if part and place in known:
                assert done.changed or again, "rows may be there twice, and nobody was told"
            if same:
                assert not done.changed
            published[place, tuple(part)] = len(part)
        for (_, unit_rows), count in published.items():
            expected.update(unit_rows[:count])
        if same:
            assert sum(published.values()) == len(rows)
    found = contents(channel, queue)
    assert found == expected


def test_a_changed_batch_is_refused_if_so_wished(mirrormq: MirrorMQ, queue: str) -> None:
    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    strict = sink_options({"uri": uri, "routingKey": queue, "failOnChangedRows": "true"})
    unit = SinkTask(uuid.uuid4().hex, 4, 0)
    assert publish(strict, record_batches(["a", "b"]), unit) == PublishedRows(2, False)
    assert publish(strict, record_batches(["a", "b"]), unit) == PublishedRows(2, False)
    with pytest.raises(ChangedRows, match=r"partition 0 of write .* its batch 4 was published before"):
        publish(strict, record_batches(["b", "a"]), unit)
    with pytest.raises(ChangedRows, match=r"batch 3 of write .* set another writeId"):
        publish(strict, record_batches(["c"]), unit._replace(batch=3))
    assert publish(strict, record_batches(["c"]), unit._replace(batch=5)) == PublishedRows(1, False)


def test_a_batch_of_more_than_1024_partitions_is_recognised(
    options: SinkOptions, channel: Channel, queue: str
) -> None:
    """The queue remembers all their names. Task 0 is repeated after 1,500 others have published."""
    write = uuid.uuid4().hex
    publish(options, record_batches(["first"]), SinkTask(write, 0, 0))
    names = [f"other-{number}" for number in range(1500)]
    channel.confirm_delivery()
    for name in names:
        headers = {"x-producer": name, "x-publish-id": 1}
        channel.basic_publish("", queue, name.encode(), pika.BasicProperties(headers=headers))
    publish(options, record_batches(["first"]), SinkTask(write, 0, 0))
    assert contents(channel, queue) == Counter(["first", *names])


def test_the_driver_warns_of_changed_rows_and_of_too_many_partitions(
    options: SinkOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = writers.StreamWriter(options, StructType([StructField("body", StringType())]), False)
    writer.commit([Published(2), None], 7)
    assert not capsys.readouterr().err
    writer.commit([Published(2, True), Published(3)], 7)
    said = capsys.readouterr().err
    assert said.startswith(
        "WARN mirrormq: 1 of the 2 partitions had other rows, or another order of rows, when"
    )
    assert "when batch 7 was published before" in said
    writer.commit([Published(1)] * (row_publishing.PARTITIONS_MAX + 1), 8)
    assert "batch 8 has 16385 partitions, and a queue remembers 16384" in capsys.readouterr().err


def test_the_digest_is_of_the_rows_and_their_order() -> None:
    columns = {
        "body": pa.array([b"a", None, b"", b"ccc"], pa.binary()),
        "routing_key": pa.array(["x", "y", None, "z"]),
        "headers": pa.array(
            [[("a", "1")], None, [], [("a", None), ("b", "2")]], pa.map_(pa.string(), pa.string())
        ),
        "properties": pa.array([{"priority": 1}, None, {"priority": None}, {"priority": 4}]),
        "timestamp": pa.array([1, None, 3, 4], pa.timestamp("us", "UTC")),
    }
    whole = pa.RecordBatch.from_pydict(columns)

    def digest(*batches: pa.RecordBatch) -> str:
        found = RowsDigest("")
        for batch in batches:
            found.update(batch)
        return found.hexdigest()

    for cut in range(5):
        assert digest(whole.slice(0, cut), whole.slice(cut)) == digest(whole)
    others = [
        whole.take(pa.array(order)) for order in ([1, 0, 2, 3], [0, 1, 2], [0, 1, 2, 3, 3], [3, 1, 2, 0])
    ]
    assert len({digest(whole), *map(digest, others)}) == 5
    assert RowsDigest("a").hexdigest() != RowsDigest("b").hexdigest()


def test_a_spool_beyond_its_memory_gives_the_rows_back_in_order() -> None:
    rows = [f"{number}" * 100 for number in range(500)]
    with Spool(memory_bytes=2000) as spool:
        for batch in record_batches(rows, random.Random(1)):
            spool.add(batch)
        found = [body for batch in spool.batches() for body in batch.column("body").to_pylist()]
    assert found == rows


def test_a_batch_with_too_many_contents_is_refused_and_its_contents_stay_known(
    options: SinkOptions, channel: Channel, queue: str
) -> None:
    unit = SinkTask(uuid.uuid4().hex, 4, 0)
    for number in range(PRODUCER_EPOCHS_MAX):
        assert publish(options, record_batches([str(number)]), unit).changed == (number > 0)
    with pytest.raises(ChangedRows, match="with 64 different rows or orders of rows, the maximum"):
        publish(options, record_batches(["one more"]), unit)
    publish(options, record_batches(["0"]), unit)
    assert contents(channel, queue) == Counter(map(str, range(PRODUCER_EPOCHS_MAX)))
    assert publish(options, record_batches(["next"]), unit._replace(batch=5)) == PublishedRows(1, False)


def announced(options: SinkOptions, write: str, count: int) -> None:
    """Announce the batches of so many partitions."""
    requests = [range_protocol.batch(f"{write}/{number}", 0, "digest", "g") for number in range(count)]
    with RangeClient(Nodes(options.addresses)) as range_client:
        assert not any(isinstance(found, Exception) for found in range_client.ask_all(requests))


@pytest.mark.timeout(120)
def test_a_full_record_of_producers_forgets_none_that_may_repeat_a_batch() -> None:
    with MirrorMQ() as node:
        uri = f"amqp://guest:guest@127.0.0.1:{node.amqp_port}/%2F"
        with pika.BlockingConnection(pika.URLParameters(uri)) as connection:
            channel = connection.channel()
            channel.queue_declare("q")
            options = sink_options({"uri": uri, "routingKey": "q"})
            first = SinkTask("first", 0, 0)
            publish(options, record_batches(["a"]), first)
            half = PRODUCERS_PER_VHOST_MAX // 2
            announced(options, "named", half)
            announced(options, "random", half - 3)
            writer = writers.BatchWriter(options, StructType([StructField("body", StringType())]), False)
            publish(options, record_batches(["w"]), SinkTask(writer._write, 0, 0))
            writer.commit([Published(1)])
            arrow.write(uri, pa.table({"body": ["t"]}), routing_key="q")
            for name in ("of the ended writer", "of the ended table"):
                publish(options, record_batches([name]), SinkTask(name, 0, 0))
            with pytest.raises(
                RequestRefused, match="vhost '/' has the maximum of 16384 producers, and none"
            ):
                publish(options, record_batches(["b"]), SinkTask("second", 0, 0))
            publish(options, record_batches(["a"]), first)
            row_publishing.end_write(options, "random")
            publish(options, record_batches(["b"]), SinkTask("second", 0, 0))
            publish(options, record_batches(["a"]), first)
            once = ["w", "t", "of the ended writer", "of the ended table", "a", "b"]
            assert contents(channel, "q") == Counter(once)
        log = (node.directory / "output").read_text()
        assert "forgot 2 producers that were idle for a week or whose writes are complete" in log
        assert "forgot 1024 producers that were idle for a week or whose writes are complete" in log

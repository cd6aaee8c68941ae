"""Batches become Arrow without a loop over the rows, whatever clients put into properties."""

from __future__ import annotations

import datetime
import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from mirrormq.ranges.batch_builder import BatchBuilder
from mirrormq.ranges.range_batch import BatchEnvelope, RangeBatch
from mirrormq.ranges.time_range import TimeRange
from mirrormq.sequences.spans import Span, count_of
from mirrormq.spark.client.client_errors import BrokerError
from mirrormq.spark.client.range_reader import pieces
from mirrormq.spark.data_source_options import COLUMNS
from mirrormq.spark.source.arrow import ArrowColumns
from mirrormq.spark.source.plan import PartitionPart, RangePartition, partitions, shares
from mirrormq.spark.source.row_schema import columns
from mirrormq.wire.fields import Field, ScaledDecimal, table_of
from mirrormq.wire.properties import BasicProperties, encode_properties


def table(
    envelopes: list[BatchEnvelope], indexes: list[int], names: tuple[str, ...] = COLUMNS
) -> list[dict[str, object]]:
    rows = len(indexes)
    builder = BatchBuilder()
    builder.add(
        range(100, 100 + rows),
        [(envelopes[index], 1) for index in indexes],
        bytes(row % 2 for row in range(rows)),
        [b"body %d" % row for row in range(rows)],
    )
    maker = ArrowColumns(to_arrow_schema(columns(names), timezone="UTC"))
    made = maker.record_batch("q", RangeBatch(builder.finish()))
    made.validate(full=True)
    found: list[dict[str, object]] = pa.Table.from_batches([made]).to_pylist(maps_as_pydicts="strict")
    return found


def test_a_task_needs_no_pandas() -> None:
    """To import it takes longer than the work of many a task."""
    script = (
        "import sys\n"
        "from mirrormq.ranges.range_batch import BatchEnvelope, RangeBatch\n"
        "from mirrormq.ranges.batch_builder import BatchBuilder\n"
        "from mirrormq.spark.source.tasks import ArrowColumns, columns, to_arrow_schema\n"
        "builder = BatchBuilder()\n"
        "envelopes = [(BatchEnvelope(b'', key, b'\\x10\\0\\2'), 1) for key in (b'a', b'b')]\n"
        "builder.add([1, 2], envelopes, bytes(2), [b'x', b'y'])\n"
        "names = ['queue', 'sequence', 'routing_key', 'timestamp', 'headers', 'properties', 'body']\n"
        "maker = ArrowColumns(to_arrow_schema(columns(names), timezone='UTC'))\n"
        "assert maker.record_batch('q', RangeBatch(builder.finish())).num_rows == 2\n"
        "assert 'pyarrow' in sys.modules and 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_one_envelope_for_all() -> None:
    properties = BasicProperties(
        content_type="text/plain", headers=table_of({"a": "b"}), delivery_mode=2, timestamp=86_400,
        message_id="m", type_="t",
    )  # fmt: skip
    rows = table([BatchEnvelope(b"x", b"k", encode_properties(properties))], [0, 0, 0])
    assert [row["sequence"] for row in rows] == [100, 101, 102]
    assert [row["body"] for row in rows] == [b"body 0", b"body 1", b"body 2"]
    assert [row["redelivered"] for row in rows] == [False, True, False]
    others = {
        "queue": "q", "exchange": "x", "routing_key": "k", "message_id": "m", "content_type": "text/plain",
        "timestamp": datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC), "headers": {"a": "b"},
        "properties": {
            "content_encoding": None, "delivery_mode": 2, "priority": None, "correlation_id": None,
            "reply_to": None, "expiration": None, "type": "t", "user_id": None, "app_id": None,
            "cluster_id": None,
        },
    }  # fmt: skip
    for row in rows:
        assert {name: row[name] for name in others} == others


def test_ingestion_times_have_milliseconds_and_unknown_ones_are_null() -> None:
    schema = to_arrow_schema(columns(("ingestion_time",)), timezone="UTC")
    for with_times in (True, False):
        builder = BatchBuilder(with_ingestion_times=with_times)
        envelope = BatchEnvelope(b"", b"k", b"\x00\x00")
        times = [1_700_000_000_123, 0, (1 << 64) - 1]
        builder.add([1, 2, 3], [(envelope, 3)], bytes(3), [b""] * 3, times)
        made = ArrowColumns(schema).record_batch("q", RangeBatch(builder.finish()))
        made.validate(full=True)
        known = datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=datetime.UTC)
        assert made.column(0).to_pylist() == [known if with_times else None, None, None]


def test_rows_of_a_node_that_ignores_the_time_range_are_left_out() -> None:
    schema = to_arrow_schema(columns(("sequence",)), timezone="UTC")
    envelope = BatchEnvelope(b"", b"k", b"\x00\x00")
    for times, expected in (
        (TimeRange(10, 12), [3, 4]),
        (TimeRange(to_ms=11), [1, 2, 3]),
        (TimeRange(12), [5]),
    ):
        builder = BatchBuilder(with_ingestion_times=True)
        builder.add(range(1, 6), [(envelope, 5)], bytes(5), [b""] * 5, [0, 9, 10, 11, 12])
        made = ArrowColumns(schema, times).record_batch("q", RangeBatch(builder.finish()))
        assert made.column(0).to_pylist() == expected
    builder = BatchBuilder()
    builder.add([1], [(envelope, 1)], bytes(1), [b""])
    with pytest.raises(BrokerError, match="gives no ingestion times: upgrade it"):
        ArrowColumns(schema, TimeRange(5)).record_batch("q", RangeBatch(builder.finish()))


def test_rows_have_their_own_envelopes() -> None:
    plain = BatchEnvelope(b"", b"k1", b"\x00\x00")
    other = BatchEnvelope(b"e", b"k2", encode_properties(BasicProperties(message_id="m", priority=0)))
    rows = table([plain, other], [1, 0, 1])
    assert [row["routing_key"] for row in rows] == ["k2", "k1", "k2"]
    assert [row["message_id"] for row in rows] == ["m", None, "m"]
    assert [row["headers"] for row in rows] == [None, None, None]
    assert [row["properties"]["priority"] for row in rows] == [0, None, 0]  # type: ignore[index]
    assert table([], []) == []
    names = ("body", "sequence", "message_id")
    assert table([plain, other], [0, 1], names) == [
        {"body": b"body 0", "sequence": 100, "message_id": None},
        {"body": b"body 1", "sequence": 101, "message_id": "m"},
    ]


def test_headers_of_every_type_become_text() -> None:
    headers = table_of(
        {"text": "ü", "number": 7, "yes": True, "nothing": None, "half": 0.5, "list": [1, "a"]}
    ) | {
        "bytes": Field("x", b"\xff\x00"), "text too": Field("S", b"\xff"), "time": Field("T", 5),
        "price": Field("D", ScaledDecimal(2, 150)), "in": Field("F", table_of({"b": 2})),
    }  # fmt: skip
    row = table(
        [BatchEnvelope(b"\xff", b"\xc3\xa4", encode_properties(BasicProperties(headers=headers)))], [0]
    )[0]
    assert row["headers"] == {
        "text": "ü", "number": "7", "yes": "true", "nothing": None, "half": "0.5", "list": '[1, "a"]',
        "in": '{"b": 2}', "bytes": "\ufffd\x00", "text too": "\ufffd", "price": '"1.50"', "time": "5",
    }  # fmt: skip
    assert (row["exchange"], row["routing_key"]) == ("\ufffd", "ä")


def test_a_time_stamp_that_is_no_time_is_left_out() -> None:
    properties = encode_properties(BasicProperties(timestamp=(1 << 64) - 1))
    assert table([BatchEnvelope(b"", b"", properties)], [0])[0]["timestamp"] is None


def tasks(parts: list[PartitionPart], at_least: int) -> list[tuple[PartitionPart, ...]]:
    return [each.parts for each in partitions(parts, at_least) if isinstance(each, RangePartition)]


def test_a_batch_is_cut_into_partitions() -> None:
    part = PartitionPart("q", (Span(0, 10), Span(50, 5)), 1500, True)
    assert tasks([part], 1) == [(part,)]
    cut = [each for (each,) in tasks([part], 4)]
    assert [each.spans for each in cut] == [
        ((0, 3),), ((3, 4),), ((7, 3), (50, 1)), ((51, 4),),
    ]  # fmt: skip
    assert sum(each.bytes for each in cut) == 1500
    large = tasks([PartitionPart("q", (Span(0, 1_000_000),), 0, True), PartitionPart("r", (), 0, True)], 1)
    assert [each.messages for (each,) in large] == [250_000] * 4
    assert len(tasks([PartitionPart("q", (Span(0, 2),), 0, True)], 10)) == 2


def test_small_queues_share_a_task() -> None:
    small = [PartitionPart(f"q{number}", (Span(0, 10),), 1000, True) for number in range(100)]
    assert tasks(small, 1) == [tuple(small)]
    assert [len(each) for each in tasks(small, 4)] == [25] * 4
    assert [len(each) for each in tasks(small, 200)] == [1] * 200
    large = PartitionPart("large", (Span(0, 40_000),), 0, True)
    assert tasks([*small[:3], large, *small[3:5]], 1) == [tuple(small[:3]), (large,), tuple(small[3:5])]
    heavy = [PartitionPart(f"q{number}", (Span(0, 1),), 20 * 1024 * 1024, True) for number in range(3)]
    assert tasks(heavy, 1) == [(each,) for each in heavy]
    assert tasks([], 3) == []


def test_preferred_nodes_do_not_change_the_tasks() -> None:
    small = [PartitionPart(f"q{number}", (Span(0, 10),), 0, True) for number in range(4)]
    [task] = partitions(small, 1, lambda queue: {"q0": (1, 0), "q2": (0, 1)}.get(queue, ()))
    assert isinstance(task, RangePartition)
    assert (task.parts, task.orders) == (tuple(small), {"q0": (1, 0), "q2": (0, 1)})


@pytest.mark.parametrize(
    ("wanted", "limit", "given"),
    [([5, 5], 10, [5, 5]), ([30, 10, 0], 20, [15, 5, 0]), ([1000, 1], 10, [9, 1]), ([], 5, [])],
)
def test_a_limit_is_divided(wanted: list[int], limit: int, given: list[int]) -> None:
    assert shares(wanted, limit) == given


def test_a_read_is_asked_for_in_pieces() -> None:
    spans = [Span(0, 5), Span(10, 1), Span(20, 4)]
    cut = list(pieces(spans, 4))
    assert [(piece.from_, piece.to) for piece in cut] == [(0, 4), (4, 22), (22, 24)]
    assert [bool(piece.spans) for piece in cut] == [False, True, False]
    assert count_of(spans) == 10

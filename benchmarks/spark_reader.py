"""CPU time of a range read per message, on both sides: the reader up to Arrow, and the node.

    python -m benchmarks.spark_reader [MESSAGES]

One fresh node, one durable queue for each kind of messages; the same process reads each queue five times and
converts it to Arrow record batches with all columns. The figures are the least of the five.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import spark_lines
from benchmarks.brokers import MirrorMQ
from benchmarks.spark_lines import KINDS, MessageKind
from mirrormq.ranges import range_protocol
from mirrormq.sequences.spans import Span
from mirrormq.spark.client.node_address import parse_uris
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.range_client import RangeClient
from mirrormq.spark.client.range_reader import QueueRange, read
from mirrormq.spark.source.arrow import ArrowColumns
from mirrormq.spark.source.row_schema import COLUMNS

MESSAGES = 200_000
ROUNDS = 5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ReadCost(NamedTuple):
    """Microseconds per message."""

    kind: str
    reader_us: float
    node_us: float
    elapsed_us: float


def measure(messages: int = MESSAGES) -> list[ReadCost]:
    """Measure each kind of messages."""
    broker = MirrorMQ()
    broker.start()
    try:
        return [_measure(broker, kind, messages) for kind in KINDS]
    finally:
        broker.stop()


def _measure(broker: MirrorMQ, kind: MessageKind, messages: int) -> ReadCost:
    from pyspark.sql.pandas.types import to_arrow_schema

    queue = kind.name
    spark_lines.fill(broker.uri, queue, messages, kind)
    maker = ArrowColumns(to_arrow_schema(COLUMNS, timezone="UTC"))
    found = []
    with RangeClient(Nodes(parse_uris(broker.uri))) as range_client:
        extent = range_protocol.read_extent(range_client.ask(range_protocol.extent(queue)).headers)
        for _ in range(ROUNDS):
            cpu_s, node_s, began_s, rows = time.process_time(), _cpu_s(broker.pid), time.monotonic(), 0
            spans = [Span(extent.first, messages)]
            wanted = QueueRange(queue, spans, spark_lines.BODY_BYTES, with_ingestion_times=True)
            for batch in read(range_client, wanted):
                rows += maker.record_batch(queue, batch).num_rows
            if rows != messages:
                raise RuntimeError(f"{rows} of {messages} messages were read")
            spent = time.process_time() - cpu_s, _cpu_s(broker.pid) - node_s, time.monotonic() - began_s
            found.append([seconds / messages * 1e6 for seconds in spent])
    return ReadCost(kind.name, *(min(values) for values in zip(*found, strict=True)))


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process: user and system, fields 14 and 15 of its stat file."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def main() -> None:
    for kind, reader_us, node_us, elapsed_us in measure(int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES):
        print(f"{kind}: reader {reader_us:.2f}, node {node_us:.2f}, elapsed {elapsed_us:.2f} us per message")


if __name__ == "__main__":
    main()

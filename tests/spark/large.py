"""Makes histories of any size, and measures how the audit's time and memory grow with them.

    python -m tests.spark.large make DIRECTORY --rows 50000000     # a sound history with faults
    python -m tests.spark.large measure --rows 1000000 5000000     # the table of docs/audit.md

The load: three nodes, three queues, six publishers and six consumers, 20,000 messages a second. Each
minute the master of one queue is killed for four seconds: its clients wait, its queue gets a new master,
and some messages come again, flagged.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mirrormq.history import SCHEMA, HistoryWriter

START_NS = 1_760_000_000_000_000_000
NODES = ["mirror1@localhost", "mirror2@localhost", "mirror3@localhost"]
QUEUES = ["orders", "parcels", "invoices"]
PUBLISHERS = 6
RATE = 20_000
CHUNK_MESSAGES = 250_000
ROWS_PER_MESSAGE = 4
FAULT_EVERY_S, FAULT_LASTS_S, FAULT_AT_S = 60, 4, 20
REDELIVERED_PART = 0.002
KINDS = np.array(["attempted", "confirmed", "delivered", "acknowledged"])


def make(directory: Path, rows: int, seed: int = 1, rate: int = RATE) -> None:
    """Write a sound history with about so many rows."""
    rng = np.random.default_rng(seed)
    count = rows // ROWS_PER_MESSAGE
    last = np.zeros(PUBLISHERS, np.int64)
    directory.mkdir(parents=True, exist_ok=True)
    for index, first in enumerate(range(0, count, CHUNK_MESSAGES)):
        table = _chunk(rng, first, min(CHUNK_MESSAGES, count - first), rate, last)
        pq.write_table(
            table, directory / f"load-{index:05d}.parquet", compression="zstd", row_group_size=1 << 17
        )
    _cluster(directory, count / rate)


def faults(seconds: float) -> Iterator[tuple[int, int, int, int]]:
    """(node, begin, end, how many before it) of each fault within the time of the load."""
    for index, second in enumerate(range(FAULT_AT_S, int(seconds), FAULT_EVERY_S)):
        begin = START_NS + second * 10**9
        yield index % len(NODES), begin, begin + FAULT_LASTS_S * 10**9, index


def _chunk(rng: np.random.Generator, first: int, count: int, rate: int, last: np.ndarray) -> pa.Table:
    """The rows of some messages in the order of time; `last` is each publisher's last delivery so far."""
    message = np.arange(first, first + count)
    publisher = message % PUBLISHERS
    attempt = START_NS + message * (10**9 // rate)
    # While a node is down its publishers wait: what they would have sent goes out when it is back.
    for node, begin, end, _ in faults((first + count) / rate):
        held = (publisher % len(NODES) == node) & (attempt >= begin) & (attempt < end)
        attempt = np.where(held, end + (attempt - begin) // 100, attempt)
    confirm = attempt + (rng.gamma(2.0, 1.2e6, count)).astype(np.int64)
    # Deliveries of one publisher keep its order, however long each one takes.
    delivery = attempt + (rng.gamma(2.0, 0.8e6, count)).astype(np.int64)
    for one in range(PUBLISHERS):
        mine = publisher == one
        delivery[mine] = np.maximum(np.maximum.accumulate(delivery[mine]), last[one] + 1) + np.arange(
            mine.sum()
        )
        last[one] = delivery[mine].max(initial=last[one])
    acknowledgement = delivery + 50_000
    again = rng.random(count) < REDELIVERED_PART
    times = np.concatenate([attempt, confirm, delivery, acknowledgement, delivery[again] + 10**9])
    kind = np.concatenate([np.repeat(KINDS, count), np.repeat("delivered", again.sum())])
    which = np.concatenate([np.tile(np.arange(count), ROWS_PER_MESSAGE), np.flatnonzero(again)])
    flagged = np.arange(len(times)) >= ROWS_PER_MESSAGE * count
    order = np.argsort(times, kind="stable")
    return _table(
        times[order],
        kind[order],
        publisher[which[order]],
        (message // PUBLISHERS)[which[order]],
        flagged[order],
    )


def _table(
    times: np.ndarray, kind: np.ndarray, publisher: np.ndarray, number: np.ndarray, flagged: np.ndarray
) -> pa.Table:
    """Arrow columns; who a publisher's queue, node and consumer are follows from its number."""
    delivered = kind == "delivered"
    consuming = delivered | (kind == "acknowledged")
    columns = {
        "run": pa.array(np.zeros(len(times), np.int32)),
        "time_ns": pa.array(times),
        "kind": pa.array(kind),
        "queue": pa.array(np.array(QUEUES)[publisher % len(QUEUES)]),
        "node": pa.array(np.array(NODES)[publisher % len(NODES)]),
        "publisher": pa.array(publisher.astype(np.int32)),
        "number": pa.array(number),
        "attempt": pa.array(np.ones(len(times), np.int16), mask=consuming & ~delivered),
        "consumer": pa.array(publisher.astype(np.int32), mask=~consuming),
        "redelivered": pa.array(flagged, mask=~delivered),
    }
    nulls = {field.name: pa.nulls(len(times), field.type) for field in SCHEMA if field.name not in columns}
    return pa.table({**columns, **nulls}).select(SCHEMA.names).cast(SCHEMA)


def _cluster(directory: Path, seconds: float) -> None:
    """Faults, masters, lost connections, replicas and the end."""
    end_ns = START_NS + int((seconds + 5) * 1e9)
    with HistoryWriter(directory, "cluster") as history:
        epochs = dict.fromkeys(QUEUES, 1)
        for queue, first in zip(QUEUES, NODES, strict=True):
            history.master(queue, first, 1, time_ns=START_NS)
            history.master_confirmed(queue, first, 1, count=1000, time_ns=START_NS + 10**9)
        for node, begin, end, index in faults(seconds):
            number = history.fault_began("kill", NODES[node], time_ns=begin)
            history.fault_ended(number, time_ns=end)
            queue = QUEUES[index % len(QUEUES)]
            epochs[queue] += 1
            master = NODES[(node + 1 + index // 3) % len(NODES)]
            history.master(queue, master, epochs[queue], time_ns=begin + 300_000_000)
            history.master_confirmed(queue, master, epochs[queue], time_ns=begin + 400_000_000)
            for client in (node, node + 3):
                history.disconnected(NODES[node], publisher=client, time_ns=begin)
                history.disconnected(NODES[node], consumer=client, time_ns=begin)
        for queue in QUEUES:
            history.drained(queue, time_ns=end_ns)
            for name in NODES:
                history.replica(queue, name, epochs[queue], 123456, 0xFEEDBEEF, 0, time_ns=end_ns)


def measure(rows: list[int], master: str, settings: list[str]) -> None:
    """Make, audit and forget one history after the other; print a row of the table for each."""
    print("| rows | history | audit | processor time | rows per processor second | largest memory of Java |")
    print("|---|---|---|---|---|---|", flush=True)
    for count in rows:
        with tempfile.TemporaryDirectory() as scratch:
            history = Path(scratch, "history")
            make(history, count)
            size = sum(file.stat().st_size for file in history.iterdir())
            command = [sys.executable, "-m", "mirrormq.cli.main", "pipeline", "audit", "--json"]
            command += ["--history", str(history), "--report", str(Path(scratch, "audit.html"))]
            command += ["--master", master, *(part for pair in settings for part in ("--conf", pair))]
            began = time.monotonic()
            with Path(scratch, "findings.json").open("w+") as output:
                process = subprocess.Popen(command, stdout=output)
                cpu_s, peak_mb = _watch(process)
                took = time.monotonic() - began
                output.seek(0)
                found = json.loads(output.read() or "null")
        assert found and found["passed"], found and found["verdict"]
        total = sum(found["kinds"].values())
        print(
            f"| {total:,} | {size / 1e6:,.0f} MB | {took:.0f} s | {cpu_s:.0f} s | {total / cpu_s:,.0f} "
            f"| {peak_mb:,.0f} MB |",
            flush=True,
        )


def _watch(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Processor time and largest memory of the Java that a process starts, looked at until it ends."""
    cpu_s = peak_mb = 0.0
    while process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        with contextlib.suppress(OSError, IndexError, StopIteration):
            child = Path("/proc", children.read_text().split()[0])
            fields = (child / "stat").read_text().rsplit(")", 1)[1].split()
            cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            status = (child / "status").read_text().splitlines()
            peak = next(line for line in status if line.startswith("VmHWM"))
            peak_mb = max(peak_mb, int(peak.split()[1]) / 1024)
        time.sleep(0.2)
    return cpu_s, peak_mb


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    maker = commands.add_parser("make")
    maker.add_argument("directory", type=Path)
    maker.add_argument("--rows", type=int, default=1_000_000)
    maker.add_argument("--rate", type=int, default=RATE, help="messages per second")
    meter = commands.add_parser("measure")
    meter.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 5_000_000])
    meter.add_argument("--master", default="local[2]")
    meter.add_argument("--conf", action="append", default=[])
    options = parser.parse_args()
    if options.command == "make":
        make(options.directory, options.rows, rate=options.rate)
    else:
        measure(options.rows, options.master, options.conf)


if __name__ == "__main__":
    main()

"""Scale benchmark: a backlog larger than memory, many queues, many connections.

    python -m benchmarks.scale [--messages 5000000] [--queues 10000] [--connections 2000] [--only PATTERN]

One MirrorMQ node on loopback. During load a thread samples its resident memory and the disk blocks of its
journal several times a second. The table compares measurements with targets, and the exit code is 1 if a
target was missed. The full run takes some five minutes and 2 GB of disk.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.brokers import STOP_DEADLINE_S, MirrorMQ
from mirrormq.client_io.blocking_client import BlockingClient, connect
from mirrormq.control.control_client import call
from mirrormq.control.control_protocol import Request
from mirrormq.perf.load_run import LoadRun
from mirrormq.perf.perf_options import PerfOptions
from mirrormq.perf.perf_report import PerfReport
from mirrormq.perf.publish_frames import publish_frames
from mirrormq.wire import methods

QUEUE = "scale"
BODY_BYTES = 100
MEMORY_MAX_BYTES = 600 << 20
"""Memory limit of a node with five million messages."""
SHORT_BACKLOG = 200_000
SHORT_ROUNDS = 3
LOOK_INTERVAL_S = 0.2
DRAIN_SLOWDOWN_MAX = 0.7
"""Lowest drain rate of a long backlog, as a fraction of that of a short one. They are equal; rounds of a
second on a busy machine differ by more than this, hence several before and after are taken."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """Line of the table; without a target if `kept` is None."""

    work: str
    seen: str
    promise: str = ""
    kept: bool | None = None


class Node(MirrorMQ):
    """Node that can be stopped and killed without losing its directory."""

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def end(self, number: int) -> float:
        """Send a signal and wait for the end of the process; return the time that took."""
        assert self._process is not None
        begin = time.monotonic()
        os.kill(self._process.pid, number)
        self._process.wait(STOP_DEADLINE_S)
        return time.monotonic() - begin

    def memory_bytes(self) -> tuple[int, int]:
        """Return the resident memory now, and its peak."""
        values = {}
        for line in Path(f"/proc/{self.process_id}/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in ("VmRSS", "VmHWM"):
                values[name] = int(rest.split()[0]) * 1024
        return values["VmRSS"], values["VmHWM"]

    def reset_peak(self) -> None:
        """Reset the peak of the resident memory."""
        Path(f"/proc/{self.process_id}/clear_refs").write_text("5")

    def journal_bytes(self) -> int:
        """Return the disk space of the journal, in allocated blocks."""
        total = 0
        for path in (self.directory / "data" / "journal").glob("*"):
            try:
                total += path.stat().st_blocks * 512
            except FileNotFoundError:
                continue
        return total


class Watch:
    """Sampler of a node's memory and disk."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.memory: list[int] = []
        self.disk: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Watch:
        self._node.reset_peak()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.memory.append(self._node.memory_bytes()[1])

    def _sample(self) -> None:
        while not self._over.wait(LOOK_INTERVAL_S):
            self.memory.append(self._node.memory_bytes()[0])
            self.disk.append(self._node.journal_bytes())

    @property
    def peak_bytes(self) -> int:
        return max(self.memory)


class Scale:
    """Measurements, one method each; each adds its rows."""

    def __init__(self, options: argparse.Namespace, report: Callable[[str], None]) -> None:
        self._options = options
        self._report = report
        self.rows: list[Row] = []

    @contextmanager
    def node(self) -> Iterator[Node]:
        """Start a new node with an empty directory."""
        node = Node()
        node.start()
        try:
            yield node
        finally:
            node.stop()

    def _load(self, node: Node, what: str, **values: object) -> PerfReport:
        def show(part: float, published: int, consumed: int) -> None:
            rss, _ = node.memory_bytes()
            self._report(f"{what}: {part:.0%}, {rss / MIB:.0f} MiB resident")

        options = PerfOptions(
            uris=[node.uri], queue=QUEUE, size=BODY_BYTES, durable=True, persistent=True, timeout=120
        )
        for name, value in values.items():
            setattr(options, name, value)
        return LoadRun(options, show).run()

    def _memory_row(self, work: str, watch: Watch) -> None:
        peak = watch.peak_bytes
        limit = f"< {MEMORY_MAX_BYTES / MIB:.0f} MiB"
        self.rows.append(Row(f"{work}: most memory", f"{peak / MIB:.0f} MiB", limit, peak < MEMORY_MAX_BYTES))

    def backlog(self) -> None:
        """Fill, restart in both ways, drain."""
        count = self._options.messages
        with self.node() as node:
            short_rates = self._short_drains(node)
            with Watch(node) as watch:
                filled = self._load(node, "fill", mode="publish", messages=count)
            self.rows.append(Row(f"fill {count:,}", f"{filled.rate(filled.published):,.0f} msg/s"))
            self._memory_row("fill", watch)
            full_bytes = node.journal_bytes()
            self.rows.append(Row("journal when full", f"{full_bytes / MIB:,.0f} MiB"))
            self._restart(node, count, signal.SIGKILL, "kill -9")
            self._restart(node, count, signal.SIGTERM, "clean stop")
            with Watch(node) as watch:
                drained = self._load(node, "drain", mode="consume", messages=count)
            rate = drained.rate(drained.consumed)
            short_rate = statistics.median(short_rates + self._short_drains(node))
            promise = f"≥ {DRAIN_SLOWDOWN_MAX:.0%} of {SHORT_BACKLOG:,}'s {short_rate:,.0f} msg/s"
            self.rows.append(
                Row(
                    f"drain {count:,}", f"{rate:,.0f} msg/s", promise, rate >= DRAIN_SLOWDOWN_MAX * short_rate
                )
            )
            self._memory_row("drain", watch)
            self._freed(watch, full_bytes)

    def _short_drains(self, node: Node) -> list[float]:
        rates = []
        for _ in range(SHORT_ROUNDS):
            self._load(node, "short fill", mode="publish", messages=SHORT_BACKLOG)
            report = self._load(node, "short drain", mode="consume", messages=SHORT_BACKLOG)
            rates.append(report.rate(report.consumed))
        return rates

    def _freed(self, watch: Watch, full_bytes: int) -> None:
        """Check that the journal shrank while the consumer was still active, not only afterwards."""
        if not watch.disk:
            return
        middle, last = watch.disk[len(watch.disk) // 2], watch.disk[-1]
        seen = " → ".join(f"{size / MIB:,.0f}" for size in (full_bytes, middle, last)) + " MiB"
        self.rows.append(
            Row("journal: full, half drained, drained", seen, "shrinks", last < middle < full_bytes)
        )

    def _restart(self, node: Node, count: int, number: int, how: str) -> None:
        self._report(f"restart after {how}")
        stop_s = node.end(number)
        node.start()
        rss, peak = node.memory_bytes()
        ready = self._ready(node)
        self.rows.append(
            Row(
                f"restart after {how}, {count:,} messages",
                f"stop {stop_s:.2f} s, serves after {node.start_s:.2f} s, {rss / MIB:.0f} MiB "
                f"(peak {peak / MIB:.0f}), {ready:,} ready",
                f"all there, < {MEMORY_MAX_BYTES / MIB:.0f} MiB",
                ready == count and peak < MEMORY_MAX_BYTES,
            )
        )

    def _ready(self, node: Node, queue: str = QUEUE) -> int:
        client = connect(node.uri, 60)
        try:
            return client.declare_queue(queue, durable=True, passive=True)
        finally:
            client.close()

    def unacknowledged(self) -> None:
        """Measure a consumer without prefetch that acknowledges nothing until it has everything."""
        count = self._options.unacknowledged
        with self.node() as node:
            self._load(node, "fill", mode="publish", messages=count)
            before = node.memory_bytes()[0]
            with Watch(node) as watch:
                report = self._load(
                    node, "take", mode="consume", messages=count, prefetch=0, ack_every=count + 1
                )
            each = (watch.peak_bytes - before) / count
            self.rows.append(
                Row(
                    f"{count:,} delivered, none acknowledged",
                    f"{watch.peak_bytes / MIB:.0f} MiB, {each:.0f} bytes each, "
                    f"{report.rate(report.consumed):,.0f} msg/s",
                )
            )

    def queues(self) -> None:
        """Declare, publish to each, list, restart."""
        count = self._options.queues
        with self.node() as node:
            client = connect(node.uri, 120)
            self._timed(
                "declare {:,} durable queues", count, lambda n: client.declare_queue(f"q{n}", durable=True)
            )
            client.call(methods.encode_tx_select())
            self._timed(
                "publish to each of {:,}, one transaction each",
                count,
                lambda n: publish(client, f"q{n}"),
            )
            self._list_queues(node, count)
            rss = node.memory_bytes()[0]
            self.rows.append(Row(f"memory with {count:,} queues", f"{rss / MIB:.0f} MiB"))
            client.close()
            for number, how in ((signal.SIGTERM, "clean stop"), (signal.SIGKILL, "kill -9")):
                self._report(f"restart after {how}")
                stop_s = node.end(number)
                node.start()
                rss = node.memory_bytes()[0]
                seen = f"stop {stop_s:.2f} s, serves after {node.start_s:.2f} s, {rss / MIB:.0f} MiB"
                there = all(self._ready(node, f"q{n}") == 1 for n in range(0, count, max(1, count // 20)))
                self.rows.append(Row(f"restart after {how}, {count:,} queues", seen, "all there", there))

    def _timed(self, work: str, count: int, step: Callable[[int], object]) -> None:
        begin = time.monotonic()
        slowest = 0.0
        for number in range(count):
            started = time.monotonic()
            step(number)
            slowest = max(slowest, time.monotonic() - started)
            if number % 200 == 0:
                self._report(f"{work.format(count)}: {number:,}")
        took = time.monotonic() - begin
        self.rows.append(
            Row(
                work.format(count),
                f"{took:.1f} s, {took / count * 1e3:.2f} ms each, slowest {slowest * 1e3:.0f} ms",
            )
        )

    def _list_queues(self, node: Node, count: int) -> None:
        begin = time.monotonic()
        found = call(node.directory / "runtime", f"bench{node.port}@localhost", Request("list_queues"), 60)
        took = time.monotonic() - begin
        self.rows.append(
            Row(f"list {len(found):,} queues", f"{took * 1e3:.0f} ms", "all", len(found) == count)
        )

    def connections(self) -> None:
        """Measure many connections, each with a consumer on its own queue and one message in flight."""
        count = self._options.connections
        with self.node() as node:
            begin = time.monotonic()
            report = self._load(
                node,
                "echo",
                mode="latency",
                connections=count,
                duration=10.0,
                persistent=False,
                durable=False,
            )
            took = time.monotonic() - begin - report.seconds
            peak = node.memory_bytes()[1]
            latency = ", ".join(f"{name} {value:.0f}" for name, value in report.deliver_latency_ms.items())
            rate = report.rate(report.consumed)
            seen = f"connected in {took:.1f} s, {rate:,.0f} msg/s, {latency} ms, peak {peak / MIB:.0f} MiB"
            self.rows.append(
                Row(
                    f"{count:,} connections with a consumer",
                    seen,
                    "every one served",
                    report.consumed >= count,
                )
            )


def publish(client: BlockingClient, queue: str) -> None:
    """Publish one persistent message and commit."""
    body = b"x" * BODY_BYTES
    client.socket.sendall(publish_frames(1, "", queue, body, persistent=True, frame_max=client.frame_max))
    client.call(methods.encode_tx_commit())


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--messages", type=int, default=5_000_000, help="of the backlog")
    parser.add_argument("--unacknowledged", type=int, default=1_000_000, help="messages one consumer holds")
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=2_000)
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="backlog, unacknowledged, queues, connections"
    )
    return parser.parse_args()


def show(rows: list[Row], console: Console) -> None:
    """Print the table."""
    table = Table("work", "seen", "promise", "kept")
    for row in rows:
        kept = "" if row.kept is None else "yes" if row.kept else "NO"
        table.add_row(row.work, row.seen, row.promise, kept, style="red" if row.kept is False else None)
    console.print(table)


def main() -> int:
    """Run the selected measurements; return 1 if a target was missed."""
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops the node, too
    console = Console()
    with Progress(TextColumn("{task.description}"), TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("start", total=None)
        scale = Scale(options, lambda text: progress.update(task, description=text))
        for work in (scale.backlog, scale.unacknowledged, scale.queues, scale.connections):
            if fnmatch(work.__name__, options.only):
                done = len(scale.rows)
                work()
                if not console.is_terminal:
                    for row in scale.rows[done:]:
                        console.print(f"{row.work}: {row.seen}", soft_wrap=True)
    show(scale.rows, console)
    return int(any(row.kept is False for row in scale.rows))


if __name__ == "__main__":
    sys.exit(main())

"""The message path in process, without sockets and without fsync: CPU time per message of seven workloads.

    python -m benchmarks.core_path                    one measurement of each workload
    python -m benchmarks.core_path u t                only these
    python -m benchmarks.core_path --profile u        where the time goes (cProfile)
    python -m benchmarks.core_path --base DIRECTORY   interleaved rounds against another checkout
    python -m benchmarks.core_path --instructions     instructions per message (callgrind)

    u   unlike publishes: amq.topic, ten routing keys in turn, own message id and headers, 50-150 octets
    c   consume the same, acknowledge each delivery, prefetch 200
    l   like publishes: one routing key, equal properties, 100 octets
    t   one message per turn: publish, deliver and confirm, acknowledge; a read of its own for each
    k   unlike publishes with a new routing key for every message
    mu  mirrored unlike: u on a queue with two mirrors; CPU time of all three nodes
    mt  mirrored lone: t on the same queue (`benchmarks.mirrored_path`)

All messages are persistent, the queue is durable, the publisher uses confirms. Publishes arrive in reads of
at most 64 KiB, as uvloop hands them over, and a turn ends after each read. The journal is written once a
turn; fdatasync does nothing, because its time is the disk's and not the broker's.

`--base` compares two revisions: nine rounds in which both checkouts take turns. A change is a regression only
if the ranges do not overlap (`benchmarks/core_rounds.py`). A checkout runs its own copy of this file if it
has one, and its own build: the first lines name the build of each. Instruction counts come from callgrind;
compare them with each other only.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import os
import pstats
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.core_micro import connect, make_broker
from mirrormq import builds, limits
from mirrormq.broker.broker import Broker
from mirrormq.connections.connection import Connection
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import Field
from mirrormq.wire.properties import BasicProperties, encode_properties

WORKLOADS = {"u": 10_000, "c": 10_000, "l": 10_000, "t": 2_000, "k": 10_000, "mu": 5_000, "mt": 1_000}
"""Messages of one measurement."""

READ_BYTES = 64 * 1024
"""Bytes that uvloop reads at once."""

MIRRORED = "m"
"""First letter of workloads on a mirrored queue."""

PREFETCH = 200
QUEUE = "core"
KEYS = tuple(f"stock.region{number}.price" for number in range(10))
PATTERN = "stock.*.price"


class Path:
    """A broker with a publisher that uses confirms, a consumer's connection, and one durable queue."""

    def __init__(self, directory: str) -> None:
        self.broker = self.make_broker(directory)
        self.publisher, self.consumer = connect(self.broker), connect(self.broker)
        self.declare()
        self._published = 0
        self._steps: list[tuple[Connection, bytes]] = []
        self._awaited = ("", 0)
        self._first_tag = 0

    def make_broker(self, directory: str) -> Broker:
        """Return the broker that the clients are connected to."""
        return make_broker(directory)

    def declare(self) -> None:
        """Declare and bind the queue, and turn confirms on."""
        for payload in (
            methods.encode_queue_declare(QUEUE, durable=True),
            methods.encode_queue_bind(QUEUE, "amq.topic", PATTERN),
            methods.encode_confirm_select(),
        ):
            self.publisher.receive(method_frame(1, payload))
            self.end_turn()

    def end_turn(self) -> None:
        """Deliver, write the journal, confirm, and hand the output to nobody."""
        broker = self.broker
        broker.turn()
        while broker.writing:
            connection, _ = broker.writing.popitem()
            b"".join(connection.take_output())

    def reset(self) -> None:
        """End the consumer, empty the queue and the journal."""
        self.consumer.receive(method_frame(1, methods.encode_basic_cancel("consumer", True)))
        self.publisher.receive(method_frame(1, methods.encode_queue_purge(QUEUE)))
        self.end_turn()
        while self.broker.journal.housekeeping(1 << 30):
            self.end_turn()

    # -- what clients send ------------------------------------------------------------------------

    def unlike(self, count: int, *, new_keys: bool = False) -> Iterator[bytes]:
        """Publishes with properties of their own."""
        for number in range(count):
            self._published += 1
            key = f"stock.{self._published}.price" if new_keys else KEYS[number % len(KEYS)]
            properties = BasicProperties(
                content_type="application/json",
                headers={
                    "tenant": Field("S", f"tenant-{number % 7}".encode()),
                    "attempt": Field("I", number % 3),
                },
                delivery_mode=2,
                message_id=f"message-{self._published:09d}",
                timestamp=1_700_000_000 + number,
            )
            body = b"x" * (50 + number * 37 % 101)
            yield publish("amq.topic", key, properties, body)

    def like(self, count: int) -> Iterator[bytes]:
        """Publishes that differ in nothing."""
        one = publish("amq.topic", KEYS[0], BasicProperties(delivery_mode=2), b"x" * 100)
        for _ in range(count):
            yield one

    # -- workloads --------------------------------------------------------------------------------

    def prepare(self, workload: str, count: int) -> None:
        """Make everything that the clients of a workload will send; not measured."""
        self.reset()
        if workload == "c":
            self.prepare("u", count)
            self.run()
            self._begin_consuming()
            reads = [b"".join(acks) for acks in batched(self._acks(count), PREFETCH)]
            self._steps = [(self.consumer, read) for read in (b"", *reads)]
        elif workload == "t":
            self._begin_consuming()
            both = zip(self.unlike(count), self._acks(count), strict=True)
            self._steps = [
                step for message, ack in both for step in ((self.publisher, message), (self.consumer, ack))
            ]
        else:
            publishes = self.like(count) if workload == "l" else self.unlike(count, new_keys=workload == "k")
            self._steps = [(self.publisher, read) for read in in_reads(publishes)]
        self._awaited = (workload, count)
        gc.collect()

    def _begin_consuming(self) -> None:
        self.consumer.receive(method_frame(1, methods.encode_basic_qos(0, PREFETCH)))
        self.consumer.receive(method_frame(1, methods.encode_basic_consume(QUEUE, "consumer")))
        self._first_tag = self.consumer.channels[1].last_tag + 1

    def _acks(self, count: int) -> list[bytes]:
        tags = range(self._first_tag, self._first_tag + count)
        return [method_frame(1, methods.encode_basic_ack(tag, False)) for tag in tags]

    def run(self) -> float:
        """Let the broker do what was prepared; CPU seconds."""
        steps, end_turn = self._steps, self.end_turn
        began_s = time.process_time()
        for connection, data in steps:
            receive(connection, data)
            end_turn()
        spent_s = time.process_time() - began_s
        self._check()
        return spent_s

    def _check(self) -> None:
        """Everything must have happened."""
        workload, count = self._awaited
        queue = self.broker.vhosts["/"].local_queue(QUEUE)
        channel = self.publisher.channels[1]
        assert queue is not None and channel.counters.confirmed == channel.counters.published
        consumed = self.consumer.channels[1]
        if workload in "ct":
            assert consumed.last_tag == self._first_tag + count - 1 and not consumed.unacked
            assert queue.backing.ready_count == 0
        else:
            assert queue.backing.ready_count == count


def publish(exchange: str, key: str, properties: BasicProperties, body: bytes) -> bytes:
    """One publish as frames of channel 1."""
    method = method_frame(1, methods.encode_basic_publish(exchange, key))
    return method + build_frames(1, encode_properties(properties), body, 0)


def in_reads(publishes: Iterator[bytes]) -> list[bytes]:
    """Publishes as the socket hands them over: cut anywhere."""
    stream = b"".join(publishes)
    return [stream[at : at + READ_BYTES] for at in range(0, len(stream), READ_BYTES)]


def batched(items: list[bytes], size: int) -> list[list[bytes]]:
    """Lists of `size` items, the last one shorter."""
    return [items[at : at + size] for at in range(0, len(items), size)]


def receive(connection: Connection, data: bytes) -> None:
    """Let a connection take a read, in as many turns as its share of work per turn demands."""
    connection.receive(data)
    while connection.effort <= 0:
        connection.broker.turns += 1
        connection.resume()


def without_sync(fd: object) -> None:
    """Stand in for fdatasync."""


class Paths:
    """Path on one node and mirrored path, made when a workload needs them."""

    def __init__(self) -> None:
        os.fdatasync = without_sync
        gc.set_threshold(limits.COLLECTOR_THRESHOLD, 20, 100)
        memory = "/dev/shm"
        self._directory = tempfile.mkdtemp(prefix="core-", dir=memory if os.path.isdir(memory) else None)
        """Directory of the journals, in memory if the machine has a directory for that."""
        self._made: dict[bool, Path] = {}

    def path(self, workload: str) -> Path:
        """The path of a workload."""
        mirrored = workload.startswith(MIRRORED)
        if mirrored not in self._made:
            directory = os.path.join(self._directory, "mirrored" if mirrored else "single")
            os.mkdir(directory)
            self._made[mirrored] = mirrored_path(directory) if mirrored else Path(directory)
        return self._made[mirrored]

    def prepare(self, workload: str, count: int) -> Path:
        """Make everything that the clients of a workload will send; not measured."""
        path = self.path(workload)
        path.prepare(workload.removeprefix(MIRRORED), count)
        return path

    def measure(self, workload: str, count: int) -> float:
        """CPU microseconds per message."""
        return self.prepare(workload, count).run() / count * 1e6

    def clean(self) -> None:
        """Remove the journals."""
        shutil.rmtree(self._directory)


def mirrored_path(directory: str) -> Path:
    """A path over three nodes."""
    from benchmarks.mirrored_path import MirroredPath

    return MirroredPath(directory)


def serve(paths: Paths) -> None:
    """Measure on demand for `core_rounds`: a line "workload count" prepares, "run" gives CPU seconds."""
    path: Path | None = None
    for line in sys.stdin:
        if line == "run\n":
            assert path is not None
            print(path.run(), flush=True)
            continue
        workload, count = line.split()
        path = paths.prepare(workload, int(count))
        print("prepared", flush=True)


def show_profile(paths: Paths, workload: str, count: int) -> None:
    """Print the functions that cost most of a workload."""
    paths.measure(workload, count)
    profile = cProfile.Profile()
    profile.runcall(paths.prepare(workload, count).run)
    pstats.Stats(profile).sort_stats("tottime").print_stats(45)


def main() -> None:
    """Measure, profile or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", help="u, c, l, t, k, mu, mt; all if none is named")
    parser.add_argument("--base", metavar="DIRECTORY", help="checkout of the revision to compare with")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the usual number of messages")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.workloads) - WORKLOADS.keys()
    if unknown:
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    counts = {name: max(1, int(WORKLOADS[name] * options.scale)) for name in options.workloads or WORKLOADS}
    if options.base or options.instructions:
        from benchmarks import core_rounds

        core_rounds.run(counts, options.base, options.rounds, instructions=options.instructions)
        return
    if not options.serve:
        print(f"message core: {builds.choice.description}")
    paths = Paths()
    try:
        if options.serve:
            serve(paths)
        for workload, count in {} if options.serve else counts.items():
            if options.profile:
                show_profile(paths, workload, count)
            else:
                paths.measure(workload, count)
                print(f"{workload:2}  {paths.measure(workload, count):6.2f} µs of CPU per message")
    finally:
        paths.clean()


if __name__ == "__main__":
    main()

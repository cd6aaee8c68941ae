"""Microbenchmark of the journal: append, flush, load, acknowledge, recover, on a real disk.

    python benchmarks/storage_micro.py [--messages 500000] [--directory DIR]

100-byte bodies, one queue, batches of 500 as a busy publisher makes them. The numbers are per core
and without the broker: they show the cost of storage, not the rate of the broker.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence

from mirrormq.queues.message import Envelope, Message
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal import Journal

BATCH = 500
BODY = b"x" * 100
PUBLISH = b"\x00\x3c\x00\x28\x00\x00\x00\x05queue\x00"
PROPERTIES = b"\x10\x00\x02"
HEADER = b"\x00\x3c\x00\x00" + len(BODY).to_bytes(8, "big") + PROPERTIES
FRAMES = (
    b"\x02\x00\x01" + len(HEADER).to_bytes(4, "big") + HEADER + b"\xce"
    b"\x03\x00\x01" + len(BODY).to_bytes(4, "big") + BODY + b"\xce"
)


def make_envelope(publish: bytes, properties: bytes) -> Envelope:
    """Return a minimal envelope for the journal."""
    return Envelope(publish, "", "queue", False, properties, True, 0, None, b"")


def batch(first: int, envelope: Envelope) -> list[Message]:
    """Return consecutive messages with one envelope."""
    made = []
    for sequence in range(first, first + BATCH):
        message = Message(envelope, FRAMES)
        message.sequence = sequence
        made.append(message)
    return made


class Stopwatch:
    """Sum of the time spent in calls."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    def run(self, call: Callable[[], object]) -> None:
        started = time.perf_counter()
        call()
        self.spent_s += time.perf_counter() - started


def report(work: str, count: int, spent_s: float) -> None:
    """Print one line of the table."""
    print(f"| {work:<42} | {count / spent_s:>12,.0f} /s | {spent_s / count * 1e6:>8.2f} µs |")


def started(directory: str) -> Journal:
    """Return a journal on the real disk, not opened yet."""
    return Journal(LocalDisk(), directory, make_envelope)


def fill(journal: Journal, firsts: Sequence[int], sync: bool) -> tuple[float, float]:
    """Append batches; return the seconds spent appending and flushing."""
    envelope, store = make_envelope(PUBLISH, PROPERTIES), journal.queue(1)
    append, flush = Stopwatch(), Stopwatch()
    for first in firsts:
        messages = batch(first, envelope)
        append.run(lambda messages=messages: store.append(messages, durable=True))  # type: ignore[misc]
        flush.run(lambda: journal.flush(sync=sync))
    return append.spent_s, flush.spent_s


def timed(call: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    watch = Stopwatch()
    watch.run(call)
    return watch.spent_s


def run(count: int, directory: str) -> None:
    """Print the whole table."""
    firsts = range(1, count + 1, BATCH)
    print(f"| {'work':<42} | {'rate':>15} | {'each':>11} |\n|{'-' * 44}|{'-' * 17}|{'-' * 13}|")
    journal = started(directory)
    journal.open()
    append_s, flush_s = fill(journal, firsts, sync=True)
    report("append, 100-byte body, checksum included", count, append_s)
    report(f"flush with fdatasync, {BATCH} messages each", len(firsts), flush_s)
    report("append and flush together", count, append_s + flush_s)
    journal.segments.close()
    journal = started(directory)
    report("recover by scan", count, timed(journal.open))
    store = journal.queue(1)
    report("load, batches of a contiguous backlog", count, timed(lambda: read_all(journal, firsts)))
    journal.close()
    journal = started(directory)
    report("recover by the index of a clean shutdown", count, timed(journal.open))
    store = journal.queue(1)
    report("forget, 100 at a time", count, timed(lambda: forget_all(journal, count)))
    assert store.live_count == 0
    segments = len(journal.segments.by_number)
    report("free a segment", segments, timed(lambda: free_all(journal)))
    journal.close()


def read_all(journal: Journal, firsts: Sequence[int]) -> None:
    """Load the backlog, one batch in memory at a time."""
    store = journal.queue(1)
    for first in firsts:
        store.load(range(first, first + BATCH))


def forget_all(journal: Journal, count: int) -> None:
    """Acknowledge everything in order and flush."""
    store = journal.queue(1)
    for first in range(1, count + 1, 100):
        store.forget(range(first, first + 100))
    journal.flush(sync=True)


def free_all(journal: Journal) -> None:
    """Run housekeeping until nothing is left to do."""
    while journal.housekeeping(1 << 20):
        pass


def main() -> None:
    """Parse arguments and run in a directory that is removed afterwards."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=500_000, help="rounded up to batches of 500")
    parser.add_argument(
        "--directory", default=None, help="where to put the journal (default: a temporary one)"
    )
    arguments = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="mirrormq-journal-", dir=arguments.directory)
    gc.freeze()
    try:
        run(-(-arguments.messages // BATCH) * BATCH, directory)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()

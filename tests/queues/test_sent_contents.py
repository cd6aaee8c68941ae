"""Contents of unacknowledged messages: they leave memory and come back complete, or are reported as
damaged."""

from __future__ import annotations

import pytest

from mirrormq import limits
from mirrormq.queues.backing import BackingQueue
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.replication.queue_factory import make_backing_queue
from mirrormq.storage.journal import Journal
from mirrormq.storage.simulated_disk import SimulatedDisk
from tests.queues.support import TINY_LIMITS, body, make_disk, make_message, open_journal


class Bench:
    """Durable queue with messages `0` to `n - 1`, all delivered to a consumer."""

    def __init__(self, count: int) -> None:
        self.disk: SimulatedDisk = make_disk()
        self.journal: Journal = open_journal(self.disk, segment_bytes=1 << 20)
        self.budget = MemoryBudget(1 << 30, TINY_LIMITS)
        self.warnings: list[str] = []
        self.queue: BackingQueue = make_backing_queue(
            self.journal.queue(1), QueueSettings(durable=True), self.budget, self.warnings.append
        )
        for number in range(count):
            self.queue.publish([make_message(b"message %d" % number, persistent=True)])
        self.journal.flush(sync=True)
        self.held = [message for _ in range(count) for message in self.queue.fetch(1)]
        self.queue.release_contents(self.held)

    def damage(self, number: int) -> None:
        """Flip a bit of one message on disk."""
        for name in self.disk.list("data/journal"):
            path = f"data/journal/{name}"
            file = self.disk.open(path)
            at = file.read(file.size(), 0).find(b"message %d\xce" % number)
            if at >= 0:
                file.write(b"M", at)
                return
        raise AssertionError("not on disk")


def test_contents_of_sent_messages_are_not_in_memory() -> None:
    bench = Bench(20)
    assert all(not message.frames for message in bench.held)
    assert bench.budget.used_bytes == 20 * limits.MESSAGE_OVERHEAD_BYTES
    assert bench.queue.unacked_bytes == sum(message.body_size for message in bench.held)


def test_a_transient_message_that_is_nowhere_else_keeps_its_contents() -> None:
    bench = Bench(0)
    bench.queue.publish([make_message(b"only here")])
    [message] = bench.queue.fetch(1)
    bench.queue.release_contents([message])
    assert body(message) == b"only here"


def test_more_requeued_messages_than_the_head_holds_come_back_in_order_and_marked() -> None:
    bench = Bench(50)
    bench.queue.publish([make_message(b"message 50", persistent=True)])
    bench.queue.requeue(bench.held)
    assert bench.budget.used_bytes < 10 * (limits.MESSAGE_OVERHEAD_BYTES + 20), "only a few in memory"
    again = [message for _ in range(51) for message in bench.queue.fetch(1)]
    assert [body(message) for message in again] == [b"message %d" % number for number in range(51)]
    assert [message.redelivered for message in again] == [True] * 50 + [False]
    bench.queue.acknowledge(again)
    assert bench.budget.used_bytes == 0


def test_recall_leaves_out_what_the_disk_has_damaged() -> None:
    bench = Bench(5)
    bench.damage(2)
    found = bench.queue.load_contents(bench.held)
    assert [body(message) for message in found] == [b"message %d" % number for number in (0, 1, 3, 4)]
    assert len(bench.warnings) == 1
    bench.queue.acknowledge(bench.held)
    assert (bench.queue.unacked_count, bench.budget.used_bytes) == (0, 0)


@pytest.mark.parametrize("count", [3, 30])
def test_a_requeued_message_that_the_disk_has_damaged_is_kept_and_reported(count: int) -> None:
    bench = Bench(count)
    bench.damage(1)
    bench.queue.requeue(bench.held)
    again = []
    while messages := bench.queue.fetch(10):
        again += messages
    assert [body(message) for message in again] == [b"message %d" % n for n in range(count) if n != 1]
    assert len(bench.warnings) == 1
    bench.queue.acknowledge(again)
    assert (bench.queue.ready_count, bench.queue.ready_bytes, bench.budget.used_bytes) == (0, 0, 0)
    assert list(bench.journal.damage.pending()) == [1] and bench.journal.queue(1).live_count == 1
    bench.queue.purge()
    assert bench.journal.queue(1).live_count == 0

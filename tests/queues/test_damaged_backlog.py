"""Damaged backlog: a damaged message is not delivered and stays in the journal; all others are delivered
in order."""

from __future__ import annotations

import pytest

from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.replication.queue_factory import make_backing_queue
from tests.queues.support import TINY_LIMITS, body, make_disk, make_message, open_journal

COUNT = 12
DAMAGED = b"[7]"


@pytest.mark.parametrize("max_priority", [None, 3])
def test_the_rest_of_the_backlog_survives(max_priority: int | None) -> None:
    settings = QueueSettings(durable=True, max_priority=max_priority)
    disk, budget = make_disk(), MemoryBudget(1 << 30, TINY_LIMITS)
    journal = open_journal(disk, segment_bytes=1 << 20)
    backing_queue = make_backing_queue(journal.queue(1), settings, budget, lambda warning: None)
    backing_queue.publish([make_message(b"[%d]" % number, persistent=True) for number in range(1, COUNT + 1)])
    journal.close()
    budget.used_bytes = 0
    journal = open_journal(disk)
    (segment,) = [name for name in disk.list("data/journal") if name.endswith(".journal")]
    path = f"data/journal/{segment}"
    file = disk.open(path)
    disk.flip(path, file.read(file.size(), 0).index(DAMAGED) + 1, 3)

    warnings: list[str] = []
    backing_queue = make_backing_queue(journal.queue(1), settings, budget, warnings.append)
    found = []
    while messages := backing_queue.fetch(5):
        found += [body(message) for message in messages]
        backing_queue.acknowledge(messages)
    assert found == [b"[%d]" % number for number in range(1, COUNT + 1) if number != 7]
    assert len(warnings) == 1
    assert (backing_queue.ready_count, backing_queue.ready_bytes) == (0, 0)
    assert (backing_queue.unacked_count, backing_queue.unacked_bytes) == (0, 0)
    assert budget.used_bytes == 0
    assert journal.queue(1).live_count == 1
    assert journal.damage.pending() == {1: [7]}

    repaired = make_message(DAMAGED, persistent=True)
    repaired.sequence = 7
    assert journal.queue(1).rewrite(repaired)
    assert backing_queue.damaged_count == 1
    assert backing_queue.readmit([7]) == 1 and (backing_queue.ready_count, backing_queue.damaged_count) == (
        1,
        0,
    )
    assert [body(message) for message in backing_queue.fetch(5)] == [DAMAGED]

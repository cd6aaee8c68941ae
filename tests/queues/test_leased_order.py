"""Order of messages that a lease returns to their queue."""

from __future__ import annotations

import pytest

from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.replication.queue_factory import make_backing_queue
from mirrormq.sequences.spans import Span
from tests.queues.support import TINY_LIMITS, make_disk, make_message, open_journal


@pytest.mark.parametrize("messages", [3, 7, 12])
def test_messages_returned_in_two_parts_are_delivered_in_order(messages: int) -> None:
    journal = open_journal(make_disk(), segment_bytes=1 << 20)
    settings = QueueSettings(durable=True)
    queue = make_backing_queue(
        journal.queue(1), settings, MemoryBudget(1 << 30, TINY_LIMITS), lambda text: None
    )
    queue.publish([make_message(b"%d" % number, persistent=True) for number in range(messages)])
    queue.lease_out(messages, 1 << 20)
    queue.return_leased([Span(1, messages - 1)])
    queue.peek()  # pages a part of the returned messages in
    queue.return_leased([Span(messages, 1)])
    fetched = [message.sequence for _ in range(messages) for message in queue.fetch(1)]
    assert fetched == list(range(1, messages + 1))

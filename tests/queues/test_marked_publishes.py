"""Message published as redelivered: it stays so, also while its bytes are only on disk."""

from __future__ import annotations

import pytest

from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.paged_queue import PagedQueue
from tests.queues.support import TINY_LIMITS, make_disk, make_message, open_journal


@pytest.mark.parametrize("persistent", [False, True])
def test_a_mark_survives_paging(persistent: bool) -> None:
    queue = PagedQueue(open_journal(make_disk()).queue(1), MemoryBudget(1 << 20, TINY_LIMITS), durable=True)
    for number in range(60):
        message = make_message(b"%d" % number, persistent=persistent)
        message.redelivered = number == 50
        queue.publish([message])
    found = [message.redelivered for _ in range(60) for message in queue.fetch(1)]
    assert found[50], "it has been with somebody"
    assert not any(found[51:]), "these have not"

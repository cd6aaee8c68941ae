"""Factory of live queues: settings from arguments and policies, and the backing queue that they require."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirrormq.errors import DamageError
from mirrormq.metadata import records
from mirrormq.metadata.policy_matching import PolicyMatcher, effective_arguments
from mirrormq.queues.backing import BackingQueue
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.message import Message
from mirrormq.queues.paged_queue import PagedQueue
from mirrormq.queues.priority import PriorityQueue
from mirrormq.queues.publish_ids import SeenPublishIds
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.replication.replication_host import RoleVhost
from mirrormq.storage.queue_store import JournalQueue
from mirrormq.wire.fields import decode_entries, plain


def queue_settings(policies: PolicyMatcher, record: records.Queue) -> QueueSettings:
    """Return a queue's settings, merged from arguments and policies."""
    table = decode_entries(record.arguments)
    effective = policies.effective(record.vhost, record.name, "queues")
    merged = effective_arguments(table, effective)
    declared = plain(table)
    maximum = declared.get("x-max-priority")
    return QueueSettings(
        durable=record.durable,
        auto_delete=record.auto_delete,
        exclusive=record.exclusive,
        message_ttl_ms=_integer(merged.get("message-ttl")),
        expires_ms=_integer(merged.get("expires")),
        max_length=_integer(merged.get("max-length")),
        max_length_bytes=_integer(merged.get("max-length-bytes")),
        overflow=_text(merged.get("overflow")) or "drop-head",
        dead_letter_exchange=_text(merged.get("dead-letter-exchange")),
        dead_letter_routing_key=_text(merged.get("dead-letter-routing-key")),
        max_priority=_integer(maximum) or None,
        single_active_consumer=declared.get("x-single-active-consumer") is True,
        lazy=merged.get("queue-mode") == "lazy",
        redeliver_lost=effective.definition.get("ha-redeliver") == "lost",
    )


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def make_queue(vhost: RoleVhost, record: records.Queue) -> Queue:
    """Create a live queue with the messages that the journal holds for it."""
    settings = queue_settings(vhost.broker.policies, record)
    store = vhost.broker.journal.queue(record.queue_id)
    backing = make_backing_queue(store, settings, vhost.broker.hot_budget, vhost.broker.log_entries.warn)
    queue = make_queue_of(vhost, record, backing)
    queue.intake.begin(SeenPublishIds(store.producer_ids()))
    return queue


def make_queue_of(vhost: RoleVhost, record: records.Queue, backing: BackingQueue) -> Queue:
    """Create a live queue around an existing backing queue."""
    settings = queue_settings(vhost.broker.policies, record)
    queue = Queue(vhost.name, record.name, settings, backing, vhost)
    vhost.work.wake(queue)  # messages must expire before the first client uses the queue
    return queue


def make_backing_queue(
    store: JournalQueue, settings: QueueSettings, budget: MemoryBudget, warn: Callable[[str], None],
    redelivered_up_to: int | None = None,
) -> BackingQueue:  # fmt: skip
    """Create the backing queue that the settings require, with the backlog of the store. Messages up to
    `redelivered_up_to`, or up to the mark in the store, count as redelivered."""
    sequences = store.held()
    redelivered_up_to = store.delivered_up_to if redelivered_up_to is None else redelivered_up_to

    def make() -> PagedQueue:
        return PagedQueue(
            store, budget, durable=settings.durable, lazy=settings.lazy, next_sequence=store.next_sequence,
            redelivered_up_to=redelivered_up_to, warn=warn,
        )  # fmt: skip

    if settings.max_priority is None:
        backing = make()
        if sequences:
            backing.recover(sequences, store.live_bytes)
        return backing
    by_priority = PriorityQueue(settings.max_priority, make, store.next_sequence)
    by_priority.lazy = settings.lazy
    for start in range(0, len(sequences), budget.limits.page_messages):
        page = sequences[start : start + budget.limits.page_messages]
        read = _undamaged(store, page, warn)
        by_priority.recover(read)
        by_priority.leave_out(set(page) - {message.sequence for message in read})
    return by_priority


def _undamaged(store: JournalQueue, sequences: Sequence[int], warn: Callable[[str], None]) -> list[Message]:
    """Read messages without those that are damaged on disk; the damaged ones stay in the store."""
    try:
        return store.load(sequences)
    except DamageError as damage:
        warn(f"not served: {damage}")
        lost = set(damage.sequences)
        return store.load([sequence for sequence in sequences if sequence not in lost])

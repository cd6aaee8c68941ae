"""Limits of queues and mirrors: memory, pages, and the work of one turn, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits of every queue of a node; the node's memory budget carries them."""

    head_stored_messages: int = 16 * 1024
    head_stored_bytes: int = 16 * 1024 * 1024
    """Part of a queue that stays in memory although the journal holds it. Reading back is cheap (one large
    read per page): this only has to cover the jitter between publishers and consumers."""

    head_messages: int = 256 * 1024
    head_bytes: int = 128 * 1024 * 1024
    """Part of a queue that stays in memory if paging it out requires a write. Memory is cheaper than a write
    that may never be needed, hence larger than for stored messages. The node-wide budget bounds the sum over
    all queues."""

    mirror_memory_messages: int = 16 * 1024
    mirror_memory_bytes: int = 16 * 1024 * 1024
    """Transient messages that a mirror keeps in memory before it pages them to disk. Consumers read them only
    after promotion. Promotion writes them out first, which takes some 30 ms for this many."""

    lazy_head_messages: int = 256
    """Messages that a lazy queue keeps in memory; applies to any queue while the node is over its budget."""

    unacked_hot_messages: int = 16 * 1024
    """Unacked messages of a queue above which their contents leave memory if the journal holds them. Prefetch
    limits are far below it. It only affects consumers that receive a whole backlog at once: they hold 350
    bytes a message instead of 600."""

    page_messages: int = 4096
    page_in_bytes: int = 4 * 1024 * 1024
    """Size of one read from the journal: large enough for delivery, not reading, to bound a drain, and small
    compared with the memory of a node."""

    deliveries_per_pump: int = 2048
    """Messages that one queue delivers before other queues get their turn."""

    expired_batch_max: int = 256
    """Expired messages that one queue drops in a turn. As dead letters they take some 10 ms at 30 µs each;
    other clients wait for the turn to end."""

    dead_letters_under_way_max: int = 16 * 1024
    """Dead letters that a queue keeps until every target queue has confirmed them. More can accumulate if a
    target queue on another node is full or down. Expired messages then stay in the queue for now. Surplus
    (`max-length`) and rejected messages are dropped without becoming dead letters."""

    delivery_batch_bytes: int = 2 * 1024 * 1024
    """Bodies that one consumer receives at once, whatever its prefetch. It bounds one turn of the loop and
    the buffer of one socket for large messages."""


DEFAULT_LIMITS = QueueLimits()

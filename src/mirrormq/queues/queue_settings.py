"""What governs one queue: how it was declared, and what policies add to that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """A queue's declared nature and its limits after arguments and policies have been merged."""

    durable: bool = False
    auto_delete: bool = False
    exclusive: bool = False
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str = "drop-head"
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    max_priority: int | None = None
    single_active_consumer: bool = False
    lazy: bool = False
    redeliver_lost: bool = False
    """`ha-redeliver: lost`: a failover requeues only what lost clients held."""

    @property
    def limited(self) -> bool:
        """Is there a limit on the queue's length?"""
        return self.max_length is not None or self.max_length_bytes is not None

    def exceeded(self, count: int, size_bytes: int) -> bool:
        """Would so many messages with so many bytes be too many?"""
        return (self.max_length is not None and count > self.max_length) or (
            self.max_length_bytes is not None and size_bytes > self.max_length_bytes
        )

    @property
    def rejects_publishes(self) -> bool:
        """Does a full queue refuse new messages rather than drop old ones?"""
        return self.overflow != "drop-head"

"""Effective settings of one queue: declaration, arguments and policies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Declared properties and limits of a queue, after arguments and policies are merged."""

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
    """`ha-redeliver: lost`: a failover requeues only deliveries that clients of lost nodes held."""

    @property
    def limited(self) -> bool:
        """Queue has a length limit."""
        return self.max_length is not None or self.max_length_bytes is not None

    def exceeded(self, count: int, size_bytes: int) -> bool:
        """Return whether `count` messages of `size_bytes` in total exceed a limit."""
        return (self.max_length is not None and count > self.max_length) or (
            self.max_length_bytes is not None and size_bytes > self.max_length_bytes
        )

    @property
    def rejects_publishes(self) -> bool:
        """Full queue refuses new messages instead of dropping old ones."""
        return self.overflow != "drop-head"

"""Expiry of a queue's messages (`message-ttl`) and of an unused queue (`expires`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.queues.message import NEVER, Message
from mirrormq.queues.queue_host import QueueHost

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue


class ExpiryTimer:
    """Expiry timers of one queue."""

    def __init__(self, queue: Queue, host: QueueHost) -> None:
        self._queue = queue
        self._host = host
        self._clock = host.clock
        self.expiring = queue.settings.message_ttl_ms is not None or queue.backing.ready_count > 0
        """Messages of the queue may expire."""
        self._expiry_due = NEVER
        self._idle_due = NEVER
        self.last_used_ms = self._clock.now_ms

    # -- messages -------------------------------------------------------------------------------

    def begin(self, messages: list[Message], ttl_ms: int | None) -> None:
        """Set the expiry time of messages that are about to be published."""
        own = messages[0].envelope.expiration_ms
        lifetime = min(value for value in (ttl_ms, own) if value is not None)
        for message in messages:
            message.expires_at = self._clock.now_ms + lifetime
        if not lifetime:
            self.expire()
        self.expiring = True

    def expire(self) -> None:
        """Discard a batch of expired messages at the head, and set a timer for the next one. If too many dead
        letters are unconfirmed, the queue calls again after their confirms."""
        if self._queue.dead_letters.crowded or self._queue.kept.awaiting:
            return
        backing = self._queue.backing
        expired = backing.take_expired(self._clock.now_ms, self._host.limits.expired_batch_max)
        if expired:
            self._queue.discard(expired, "expired")
        due = backing.next_expiry()
        if due != NEVER and (self._expiry_due == NEVER or due < self._expiry_due):
            self._expiry_due = due
            self._clock.at(due, self._expiry_reached)

    def _expiry_reached(self) -> None:
        self._expiry_due = NEVER
        if not self._queue.deleted:
            self.expire()

    def without_expired(self, messages: list[Message]) -> list[Message]:
        """Discard fetched messages that expired behind an unexpired head, and return the others. Each would
        have been discarded on reaching the head."""
        now = self._clock.now_ms
        expired = [message for message in messages if NEVER < message.expires_at <= now]
        if not expired:
            return messages
        self._queue.discard(expired, "expired")
        return [message for message in messages if not NEVER < message.expires_at <= now]

    # -- unused queue ---------------------------------------------------------------------------

    def touch(self) -> None:
        """Reset the idle time of the queue."""
        self.last_used_ms = self._clock.now_ms

    def watch_idleness(self) -> None:
        """Delete the queue when it has been unused for the time of `expires`; otherwise set a timer."""
        queue = self._queue
        expires = queue.settings.expires_ms
        if expires is None or queue.deleted:
            return
        if queue.consumers.all:
            self.touch()
        idle_until = self.last_used_ms + expires
        if idle_until <= self._clock.now_ms:
            self._host.unused(queue)
        elif self._idle_due == NEVER or idle_until < self._idle_due:
            self._idle_due = idle_until
            self._clock.at(idle_until, self._idleness_reached)

    def _idleness_reached(self) -> None:
        if self._clock.now_ms >= self._idle_due:
            self._idle_due = NEVER
            self.watch_idleness()

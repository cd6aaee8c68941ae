"""Removal of unconsumed messages from a queue: rejected, over the length limit, or expired.

A queue with a dead-letter exchange keeps a dead letter as unacknowledged until every target queue has
confirmed it. If a node fails in between, the message is in one of the queues, or in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirrormq import limits
from mirrormq.queues.message import Message

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue


class DeadLettering:
    """Rejection, length limits and dead-lettering of Queue (mixin)."""

    dying = 0
    """Number of dead letters that are published and not yet confirmed; the queue still holds them."""

    def reject(self: Queue, messages: Sequence[Message]) -> None:  # type: ignore[misc]
        """Discard messages that consumers rejected without requeue."""
        if self.deleted:
            self.kept.forward("reject", messages)
        else:
            self.kept.given_back(messages)
            self.discard(messages, "rejected")

    def _is_over(self: Queue) -> bool:  # type: ignore[misc]
        return self.settings.exceeded(self.backing.ready_count, self.backing.ready_bytes)

    def _drop_surplus(self: Queue) -> None:  # type: ignore[misc]
        dropped: list[Message] = []
        if self.kept.awaiting:  # a client may hold any ready message
            return
        while self.backing.ready_count and self._is_over():
            dropped += self.backing.fetch(1)
        if dropped:
            self.discard(dropped, "maxlen")

    def discard(self: Queue, messages: Sequence[Message], reason: str) -> None:  # type: ignore[misc]
        """Remove fetched messages from the queue; send them to the dead-letter exchange, if there is one."""
        crowded = reason != "expired" and self.dying >= limits.DEAD_LETTERS_UNDER_WAY_MAX
        if self.settings.dead_letter_exchange is None or crowded:
            self.backing.acknowledge(messages)
            return
        whole = self.backing.load_contents(messages)
        if len(whole) < len(messages):
            self.backing.acknowledge([message for message in messages if not message.frames])
        self.dying += len(whole)
        self._host.dead_letter(self, whole, reason, self._dead_letter_confirmed)

    def _dead_letter_confirmed(self: Queue, messages: Sequence[Message]) -> None:  # type: ignore[misc]
        """Remove dead letters that every target queue has confirmed."""
        before = self.dying
        self.dying -= len(messages)
        if self.deleted:
            return
        self.backing.acknowledge(messages)
        if self.dying < limits.DEAD_LETTERS_UNDER_WAY_MAX <= before:
            self._host.wake(self)

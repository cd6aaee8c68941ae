"""The part of a Queue that lets messages go which nobody has consumed: rejected, surplus, expired.

Where there is a dead-letter exchange they stay, as if a consumer had them, until they are safe where that
sends them. Whoever dies meanwhile, the message is then in one of the queues, or in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirrormq import limits
from mirrormq.queues.message import Message

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue


class DeadLettering:
    """What a Queue does with messages that are not wanted here any more."""

    dying = 0
    """Dead letters that are under way and still kept here."""

    def reject(self: Queue, messages: Sequence[Message]) -> None:  # type: ignore[misc]
        """Consumers do not want these, and they are not to come back."""
        if self.deleted:
            self.kept.forward("reject", messages)
        else:
            self.kept.given_back(messages)
            self.discard(messages, "rejected")

    def _is_over(self: Queue) -> bool:  # type: ignore[misc]
        return self.settings.exceeded(self.backing.ready_count, self.backing.ready_bytes)

    def _drop_surplus(self: Queue) -> None:  # type: ignore[misc]
        dropped: list[Message] = []
        if self.kept.awaiting:
            return
        while self.backing.ready_count and self._is_over():
            dropped += self.backing.fetch(1)
        if dropped:
            self.discard(dropped, "maxlen")

    def discard(self: Queue, messages: Sequence[Message], reason: str) -> None:  # type: ignore[misc]
        """Fetched messages leave the queue, to the dead-letter exchange if there is one."""
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
        """These are safe elsewhere."""
        before = self.dying
        self.dying -= len(messages)
        if self.deleted:
            return
        self.backing.acknowledge(messages)
        if self.dying < limits.DEAD_LETTERS_UNDER_WAY_MAX <= before:
            self._host.wake(self)

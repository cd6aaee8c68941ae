"""Deduplication of publishes with a publish id (`queues.publish_ids`), and refusal of publishes by a full
queue."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import PublishOrigin, highest_of

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue
    from mirrormq.queues.queue_interface import Publisher


class Deduplication:
    """Part of a Queue that handles publishes that are not simply appended."""

    def _publish_deduplicated(  # type: ignore[misc]
        self: Queue,
        messages: list[Message],
        publisher: Publisher | None,
        first: int,
        origin: PublishOrigin | None,
    ) -> None:
        """Publish messages that all have a publish id. Known ones are confirmed and not stored."""
        offset = 0
        for is_new, group in groupby(_with_novelty(messages, self.producers), key=lambda pair: pair[0]):
            part = [message for _, message in group]
            its_origin = origin and PublishOrigin(origin.producer, origin.first_number + offset)
            if is_new:
                self._publish_new(part, publisher, first + offset, its_origin)
            else:
                self._confirm_repeated(part, publisher, first + offset, its_origin)
            offset += len(part)

    def _confirm_repeated(  # type: ignore[misc]
        self: Queue,
        messages: list[Message],
        publisher: Publisher | None,
        first: int,
        origin: PublishOrigin | None,
    ) -> None:
        """Confirm repeated messages as soon as the stored ones are safe. If clients of this node wait,
        keep the messages, so that they can be published to the next master again."""
        if publisher is None:
            return
        if self.mirrored is not None and origin is None:
            origin = PublishOrigin(self._producer, self._number(len(messages)))
            self.producers.seen(origin, len(messages))
        kept = messages if origin is not None and origin.producer == self._producer else []
        persistent = messages[0].envelope.persistent
        self._confirm_later(publisher, first, first + len(messages) - 1, persistent, origin, kept)

    def _remember(self: Queue, messages: list[Message]) -> None:  # type: ignore[misc]
        """Record the publish ids of stored messages."""
        forgotten = self.producers.heard(highest_of(messages), self._clock.now_ms)
        if forgotten:
            self.backing.forget_producers(forgotten)

    def _publish_each_if_room(  # type: ignore[misc]
        self: Queue,
        messages: list[Message],
        publisher: Publisher | None,
        first: int,
        origin: PublishOrigin | None,
    ) -> None:
        for offset, message in enumerate(messages):
            its_origin = origin and PublishOrigin(origin.producer, origin.first_number + offset)
            self._publish_if_room(message, publisher, first + offset, its_origin)

    def _publish_if_room(  # type: ignore[misc]
        self: Queue, message: Message, publisher: Publisher | None, number: int, origin: PublishOrigin | None
    ) -> None:
        producer_ids = message.envelope.producer_ids
        stopped = producer_ids is not None and self._gate.stops(producer_ids)
        # Deliver first: messages that a consumer can take at once do not count against the limit.
        while not stopped and self._is_full_for(message) and self.pump():
            pass
        if not stopped and not self._is_full_for(message):
            self._append([message], publisher, number, origin)
            return
        if producer_ids is not None:
            self._gate.close(producer_ids)
        self.counters.published += 1
        if self.settings.overflow == "reject-publish-dlx":
            self._host.dead_letter(self, [message], "maxlen", lambda messages: None)
        if publisher is not None:
            publisher.refused(number)

    def _is_full_for(self: Queue, message: Message) -> bool:  # type: ignore[misc]
        backing = self.backing
        return self.settings.exceeded(backing.ready_count + 1, backing.ready_bytes + message.body_size)


def _with_novelty(messages: list[Message], known: dict[str, int]) -> list[tuple[bool, Message]]:
    """Return each message with whether it is new."""
    highest: dict[str, int] = {}
    result = []
    for message in messages:
        assert message.envelope.producer_ids is not None
        name, number = message.envelope.producer_ids
        is_new = number > highest.get(name, known.get(name, -1))
        if is_new:
            highest[name] = number
        result.append((is_new, message))
    return result

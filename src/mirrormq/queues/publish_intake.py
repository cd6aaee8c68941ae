"""Intake of a queue: publishes that need more than an append.

A queue without mirrors, length limit and TTL appends ordinary publishes itself (`Queue.publish`). All
others come here: they are numbered for the ring, deduplicated by publish id, refused by a full queue, given
an expiry time, or passed to a successor. Publishes of this node's clients to a mirrored queue are numbered
like those of other nodes. They can be published to another master again without duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from mirrormq.queues.backing import MirroredBacking
from mirrormq.queues.confirm_tracker import NO_PUBLISHER, WaitingConfirms
from mirrormq.queues.deduplication import Deduplication
from mirrormq.queues.message import NEVER, Message
from mirrormq.queues.publish_ids import PublishOrigin, SeenPublishIds
from mirrormq.queues.queue_host import QueueHost
from mirrormq.queues.queue_interface import Publisher

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue


class PublishNumbers(Protocol):
    """Numbers of this node's publishes to mirrored queues."""

    producer: str
    """Name of this node in its incarnation."""

    def number_publishes(self, queue_id: int, count: int) -> int:
        """Reserve numbers for `count` publishes to a queue; return the first."""


class PublishIntake:
    """Intake of one queue."""

    __slots__ = ("_host", "_numbers", "_queue", "_queue_id", "_work", "deduplication", "producer")

    def __init__(self, queue: Queue, host: QueueHost) -> None:
        self._queue = queue
        self._host = host
        self._work = host.work
        self.deduplication = Deduplication(SeenPublishIds())
        self.producer = ""
        """This node as a producer, while the queue is mirrored."""
        self._numbers: PublishNumbers | None = None
        self._queue_id = 0

    @property
    def producers(self) -> SeenPublishIds:
        """Highest number of each producer, of nodes and clients."""
        return self.deduplication.producers

    def begin(self, producers: SeenPublishIds) -> None:
        """Start with the publish ids that the journal or an earlier master has recorded."""
        self.deduplication = Deduplication(producers)

    def number_with(self, numbers: PublishNumbers, queue_id: int) -> None:
        """Number publishes of this node from now on: the queue is mirrored."""
        self.producer, self._numbers, self._queue_id = numbers.producer, numbers, queue_id

    def forget_producers(self, gone: Callable[[str], bool]) -> None:
        """Forget producers whose incarnation has ended: they publish nothing more."""
        names = self.producers.forget(gone)
        if names:
            self._queue.backing.forget_producers(names)

    # -- publishing -----------------------------------------------------------------------------

    def publish(
        self, messages: list[Message], publisher: Publisher | None, first: int, origin: PublishOrigin | None
    ) -> None:
        """Append messages, or settle those that need not be stored."""
        if self._queue.deleted:
            self._publish_too_late(messages, publisher, first, origin)
            return
        if origin is not None:
            # A node numbers without gaps, and resends in order: known publishes are a prefix.
            seen = self.producers.seen(origin, len(messages))
            if seen:
                self._settle_again(publisher, first, messages[:seen], origin)
                messages, first = messages[seen:], first + seen
                origin = PublishOrigin(origin.producer, origin.first_number + seen)
                if not messages:
                    return
        if messages[0].envelope.producer_ids is not None:
            self._publish_deduplicated(messages, publisher, first, origin)
        else:
            self._publish_new(messages, publisher, first, origin)

    def restore(self, messages: list[Message]) -> None:
        """Append messages of a backup that share an envelope. They were in the queue before: no length limit
        refuses or drops them, and none counts as a repeated publish."""
        self._append(messages, None, 0, None)

    def _publish_too_late(
        self, messages: list[Message], publisher: Publisher | None, first: int, origin: PublishOrigin | None
    ) -> None:
        """Pass messages to the successor, or confirm them if the queue is deleted."""
        if self._queue.successor is not None:
            self._queue.successor.publish(messages, publisher, first, origin)
        elif publisher is not None:
            publisher.confirmed(first, first + len(messages) - 1)

    def _settle_again(
        self, publisher: Publisher | None, first: int, messages: list[Message], origin: PublishOrigin
    ) -> None:
        """Confirm messages that the last master already had. If full queues reject publishes, it may have
        refused them. This master cannot know, and refuses them, so that the publisher tries again."""
        last = first + len(messages) - 1
        settings = self._queue.settings
        if publisher is not None and settings.rejects_publishes and settings.limited:
            for number in range(first, last + 1):
                publisher.refused(number)
            return
        kept = messages if origin.producer == self.producer else []
        persistent = messages[0].envelope.persistent
        self.confirm_later(
            publisher or (NO_PUBLISHER if kept else None), first, last, persistent, origin, kept
        )

    def _publish_new(
        self, messages: list[Message], publisher: Publisher | None, first: int, origin: PublishOrigin | None
    ) -> None:
        queue = self._queue
        if queue.settings.rejects_publishes and queue.settings.limited:
            for offset, message in enumerate(messages):
                self._publish_if_room(message, publisher, first + offset, _shifted(origin, offset))
            return
        self._append(messages, publisher, first, origin)
        if queue.settings.limited:
            while queue.is_over() and queue.pump():
                pass
            queue.drop_surplus()

    def _publish_if_room(
        self, message: Message, publisher: Publisher | None, number: int, origin: PublishOrigin | None
    ) -> None:
        queue, guard = self._queue, self.deduplication.guard
        producer_ids = message.envelope.producer_ids
        stopped = producer_ids is not None and guard.stops(producer_ids)
        # Deliver first: messages that a consumer can take at once do not count against the limit.
        while not stopped and self._is_full_for(message) and queue.pump():
            pass
        if not stopped and not self._is_full_for(message):
            self._append([message], publisher, number, origin)
            return
        if producer_ids is not None:
            guard.close(producer_ids)
        queue.counters.published += 1
        if queue.settings.overflow == "reject-publish-dlx":
            self._host.dead_letter(queue, [message], "maxlen", _ignore)
        if publisher is not None:
            publisher.refused(number)

    def _is_full_for(self, message: Message) -> bool:
        backing = self._queue.backing
        return self._queue.settings.exceeded(backing.ready_count + 1, backing.ready_bytes + message.body_size)

    def _append(
        self, messages: list[Message], publisher: Publisher | None, first: int, origin: PublishOrigin | None
    ) -> None:
        queue = self._queue
        envelope = messages[0].envelope
        ttl = queue.settings.message_ttl_ms
        if ttl is not None or envelope.expiration_ms is not None:
            queue.lifetimes.begin(messages, ttl)
        if envelope.producer_ids is not None:
            forgotten = self.deduplication.remember(messages, queue.clock.now_ms)
            if forgotten:
                queue.backing.forget_producers(forgotten)
        if queue.mirrored is None:
            queue.backing.publish(messages)
        else:
            origin = self._publish_mirrored(queue.mirrored, messages, origin)
        if NEVER < messages[0].expires_at <= queue.clock.now_ms:
            queue.deliver_now_or_never(messages)
        queue.counters.published += len(messages)
        if publisher is not None:
            self.confirm_later(publisher, first, first + len(messages) - 1, envelope.persistent, origin)
        if not queue.awake:
            self._work.wake(queue)

    def _publish_mirrored(
        self, mirrored: MirroredBacking, messages: list[Message], origin: PublishOrigin | None
    ) -> PublishOrigin:
        if origin is None:
            origin = self._numbered(len(messages))
        mirrored.publish_from(messages, origin.producer, origin.first_number)
        if self._queue.kept.gated:
            self._queue.kept.published(messages[-1].sequence)
        return origin

    def _numbered(self, count: int) -> PublishOrigin:
        """Number publishes of this node's clients."""
        assert self._numbers is not None
        origin = PublishOrigin(self.producer, self._numbers.number_publishes(self._queue_id, count))
        self.producers.seen(origin, count)
        return origin

    # -- publish ids ----------------------------------------------------------------------------

    def _publish_deduplicated(
        self, messages: list[Message], publisher: Publisher | None, first: int, origin: PublishOrigin | None
    ) -> None:
        """Publish messages that all have a publish id. Known ones are confirmed and not stored."""
        offset = 0
        for is_new, part in self.deduplication.parts(messages):
            its_origin = _shifted(origin, offset)
            if is_new:
                self._publish_new(part, publisher, first + offset, its_origin)
            else:
                self._confirm_repeated(part, publisher, first + offset, its_origin)
            offset += len(part)

    def _confirm_repeated(
        self, messages: list[Message], publisher: Publisher | None, first: int, origin: PublishOrigin | None
    ) -> None:
        """Confirm repeated messages as soon as the stored ones are safe. If clients of this node wait,
        keep the messages, so that they can be published to the next master again."""
        if publisher is None:
            return
        if self._queue.mirrored is not None and origin is None:
            origin = self._numbered(len(messages))
        kept = messages if origin is not None and origin.producer == self.producer else []
        persistent = messages[0].envelope.persistent
        self.confirm_later(publisher, first, first + len(messages) - 1, persistent, origin, kept)

    # -- confirms -------------------------------------------------------------------------------

    def confirm_later(
        self, publisher: Publisher | None, first: int, last: int, persistent: bool,
        origin: PublishOrigin | None, messages: Sequence[Message] = (),
    ) -> None:  # fmt: skip
        """Confirm when everything appended so far is as safe as messages of this kind must be."""
        if publisher is None:
            return
        queue = self._queue
        durable = queue.settings.durable and persistent
        if queue.mirrored is not None:
            assert origin is not None
            waiting = WaitingConfirms(queue.mirrored.last_number, publisher, first, last, origin, messages)
            queue.confirms.after_replication(waiting, durable=durable)
            queue.mirrored.mark_dirty()
        elif not durable:
            publisher.confirmed(first, last)
        elif queue.confirms.after_flush(publisher, first, last):
            self._work.awaits_flush(queue)


def _shifted(origin: PublishOrigin | None, offset: int) -> PublishOrigin | None:
    """Return the origin of the messages from `offset` on."""
    return None if origin is None else PublishOrigin(origin.producer, origin.first_number + offset)


def _ignore(messages: Sequence[Message]) -> None:
    """Ignore that dead letters are safe: the queue does not hold them."""
